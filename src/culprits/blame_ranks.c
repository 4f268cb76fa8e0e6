/* Finds the blame from the seconds of the ranks alone. */
#include "culprits/blame_internal.h"

#include <math.h>

#define LEAST_SHARE 0.05 /* a smaller share is not called a cause */

static void put(struct pen_blame *blame, enum pen_blame_kind kind,
                uint32_t rank, double share)
{
    blame->kind = kind;
    blame->rank = rank;
    blame->share = fmin(1, share);
    blame->seconds = blame->share * blame->longer_sec;
    blame->num_alike = 1;
    blame->alike_share = blame->share;
}

/* Blames the rank whose ops grew most over the undisturbed run. */
static bool blame_busy(const struct pen_run_figures *disturbed,
                       const struct pen_run_figures *plain, double longer_sec,
                       struct pen_blame *blame)
{
    uint32_t most = 0;
    double most_sec = 0;
    for (uint32_t i = 0; i < disturbed->num_ranks; i++) {
        double sec = disturbed->ranks[i].busy_sec - plain->ranks[i].busy_sec;
        if (sec > most_sec) {
            most = i;
            most_sec = sec;
        }
    }
    if (most_sec < LEAST_SHARE * longer_sec)
        return false;
    put(blame, PEN_BLAME_RANK, most, most_sec / longer_sec);
    double plain_sec = plain->ranks[most].busy_sec;
    blame->factor =
        plain_sec > 0 ? disturbed->ranks[most].busy_sec / plain_sec : 0;
    return true;
}

/*
 * Returns where a wait begins. Waiting spreads from neighbour to neighbour, so
 * this follows the rank that each waited for longest, until one does not wait
 * longer itself or waits for this one.
 */
static uint32_t root_of(const struct pen_run_figures *disturbed,
                        const struct pen_run_figures *plain, uint32_t rank)
{
    for (uint32_t i = 0; i < disturbed->num_ranks; i++) {
        uint32_t next = disturbed->ranks[rank].longest_for;
        double longer_sec = disturbed->ranks[next].pipeline_sec -
                            plain->ranks[next].pipeline_sec;
        uint32_t other = disturbed->ranks[next].longest_for;
        if (!(longer_sec > 0) || other == rank || other == UINT32_MAX)
            break;
        rank = next;
    }
    return rank;
}

/* Blames the link of the rank whose wait for a neighbour grew most. */
static bool blame_link(const struct pen_run_figures *disturbed,
                       const struct pen_run_figures *plain, double longer_sec,
                       struct pen_blame *blame)
{
    uint32_t most = 0;
    double most_sec = 0;
    for (uint32_t i = 0; i < disturbed->num_ranks; i++) {
        const struct pen_rank_seconds *rank = &disturbed->ranks[i];
        double sec = rank->pipeline_sec - plain->ranks[i].pipeline_sec;
        if (sec > most_sec && rank->longest_for != UINT32_MAX) {
            most = i;
            most_sec = sec;
        }
    }
    if (most_sec < LEAST_SHARE * longer_sec)
        return false;
    uint32_t to = root_of(disturbed, plain, most);
    put(blame, PEN_BLAME_LINK, disturbed->ranks[to].longest_for,
        most_sec / longer_sec);
    blame->to = to;
    return true;
}

uint32_t pen__slowest_sums(const struct pen_run_figures *disturbed,
                           const struct pen_run_figures *plain,
                           double *most_sec)
{
    uint32_t most = 0;
    *most_sec = 0;
    for (uint32_t i = 0; i < disturbed->num_ranks; i++) {
        double sec = disturbed->ranks[i].sums_sec - plain->ranks[i].sums_sec;
        if (sec > *most_sec) {
            most = i;
            *most_sec = sec;
        }
    }
    return most;
}

static void blame_sums(const struct pen_run_figures *disturbed,
                       const struct pen_run_figures *plain, double longer_sec,
                       struct pen_blame *blame)
{
    double sec = 0;
    uint32_t rank = pen__slowest_sums(disturbed, plain, &sec);
    if (sec >= LEAST_SHARE * longer_sec)
        put(blame, PEN_BLAME_SUMS, rank, sec / longer_sec);
}

/*
 * The order of these checks matters: a rank that computes longer makes others
 * wait, and a rank that waits longer for a neighbour comes late to sums; the
 * reverse does not happen.
 */
void pen__blame_ranks(const struct pen_run_figures *disturbed,
                      const struct pen_run_figures *plain,
                      struct pen_blame *blame)
{
    double longer_sec = blame->longer_sec * disturbed->num_steps;
    if (!blame_busy(disturbed, plain, longer_sec, blame) &&
        !blame_link(disturbed, plain, longer_sec, blame))
        blame_sums(disturbed, plain, longer_sec, blame);
}
