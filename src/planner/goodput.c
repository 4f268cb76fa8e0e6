#include "planner/goodput.h"

#include "base/bug.h"
#include "base/median.h"
#include "base/real.h"
#include "planner/goodput_run.h"

#include <math.h>
#include <string.h>

#define RUNS 40u
#define FAILURES 250.0  /* of one run; RUNS x FAILURES are 10,000 */
#define QUANTILE 2.0227 /* of Student's t, 97.5 %, RUNS - 1 */

/* ---- one run ---- */

static double steps_of(const struct pen__goodput_run *run)
{
    return (double)(run->on_disk + run->since);
}

static double simulate_single(const struct pen_goodput_job *job,
                              struct pen__spares *spares, uint64_t seed,
                              double horizon_sec)
{
    struct pen__goodput_run run;
    pen__goodput_run_init(&run, job, spares, seed, horizon_sec);
    pen__goodput_run_until(&run, horizon_sec);
    return steps_of(&run) * job->step_sec / fmax(run.wall_sec, horizon_sec);
}

static double first_failure(const struct pen__goodput_run *runs, uint32_t count)
{
    double first = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        first = fmin(first, runs[i].failure_sec);
    return first;
}

/*
 * The time when all islands have arrived that a round waits for; 0: it waits
 * for none.
 */
static double last_awaited(const struct pen_goodput_job *job,
                           const struct pen__goodput_run *runs,
                           const double *late_since, double close_sec)
{
    double last = 0;
    for (uint32_t i = 0; i < job->islands; i++)
        if (job->patience_sec <= 0 ||
            close_sec - late_since[i] < job->patience_sec)
            last = fmax(last, runs[i].wall_sec);
    return last;
}

static double last_wall(const struct pen__goodput_run *runs, uint32_t count)
{
    double last = 0;
    for (uint32_t i = 0; i < count; i++)
        last = fmax(last, runs[i].wall_sec);
    return last;
}

/* The smallest time by which more than half of the islands have arrived. */
static double quorum_sec(const struct pen__goodput_run *runs, uint32_t count)
{
    double walls[PEN_GOODPUT_MAX_ISLANDS];
    for (uint32_t i = 0; i < count; i++)
        walls[i] = runs[i].wall_sec;
    pen_sort(walls, count);
    return walls[count / 2];
}

/*
 * One round from now_sec on, which some islands begin late. Returns when it is
 * closed and the islands have exchanged their changes.
 */
static double simulate_round(const struct pen_goodput_job *job,
                             struct pen__goodput_run *runs, double *late_since,
                             double now_sec, double grace_sec)
{
    bool is_late[PEN_GOODPUT_MAX_ISLANDS];
    for (uint32_t i = 0; i < job->islands; i++) {
        is_late[i] = runs[i].wall_sec > now_sec;
        if (!is_late[i]) {
            late_since[i] = INFINITY;
            pen__goodput_run_steps(&runs[i], job->sync_steps);
        } else if (late_since[i] > now_sec) {
            late_since[i] = now_sec;
        }
    }
    double most_sec = quorum_sec(runs, job->islands);
    double close_sec =
        fmin(fmax(most_sec, last_awaited(job, runs, late_since, most_sec)),
             most_sec + grace_sec);
    for (uint32_t i = 0; i < job->islands; i++) {
        if (is_late[i])
            pen__goodput_run_until(&runs[i], close_sec);
        if (runs[i].wall_sec <= close_sec)
            pen__goodput_run_wait(&runs[i], close_sec + job->sync_sec);
    }
    return close_sec + job->sync_sec;
}

/* Rounds that no failure disturbs are taken together. */
static double skip_rounds(const struct pen_goodput_job *job,
                          struct pen__goodput_run *runs, double now_sec,
                          double round_sec, double horizon_sec)
{
    double until =
        fmin(first_failure(runs, job->islands), horizon_sec) - now_sec;
    double count = floor(until / (round_sec + job->sync_sec)) - 1;
    if (count < 1 || last_wall(runs, job->islands) > now_sec)
        return now_sec;
    for (uint32_t i = 0; i < job->islands; i++)
        pen__goodput_run_steps(&runs[i], (uint64_t)count * job->sync_steps);
    now_sec = last_wall(runs, job->islands) + count * job->sync_sec;
    for (uint32_t i = 0; i < job->islands; i++)
        pen__goodput_run_wait(&runs[i], now_sec);
    return now_sec;
}

static double simulate_islands(const struct pen_goodput_job *job,
                               struct pen__spares *spares, uint64_t seed,
                               double horizon_sec)
{
    struct pen__goodput_run runs[PEN_GOODPUT_MAX_ISLANDS];
    double late_since[PEN_GOODPUT_MAX_ISLANDS];
    struct pen_random seeds = {seed};
    double steps_sec = job->sync_steps * job->step_sec;
    double saves = ceil((double)job->sync_steps / (double)job->interval);
    double grace_sec =
        fmin(fmax(steps_sec / 4, job->grace_least_sec), job->grace_most_sec);
    double now_sec = 0;
    double steps = 0;
    for (uint32_t i = 0; i < job->islands; i++) {
        late_since[i] = INFINITY;
        pen__goodput_run_init(&runs[i], job, spares, pen_random_next(&seeds),
                              horizon_sec);
    }
    while (now_sec < horizon_sec) {
        now_sec = skip_rounds(job, runs, now_sec,
                              steps_sec + saves * job->save_sec, horizon_sec);
        now_sec = simulate_round(job, runs, late_since, now_sec, grace_sec);
    }
    for (uint32_t i = 0; i < job->islands; i++)
        steps += steps_of(&runs[i]);
    return steps * job->step_sec / job->islands / now_sec;
}

/* ---- many runs ---- */

static double simulate_run(const struct pen_goodput_job *job, uint64_t seed,
                           double failures)
{
    struct pen__spares spares;
    struct pen_goodput_job one = *job;
    struct pen_random random = {seed};
    if (job->step_high_sec > job->step_low_sec)
        one.step_sec =
            job->step_low_sec +
            (job->step_high_sec - job->step_low_sec) * pen_random_unit(&random);
    bool is_limited = job->spares != PEN_GOODPUT_NO_LIMIT;
    if (is_limited) {
        memset(&spares, 0, sizeof spares);
        spares.free = job->spares;
    }
    double cycle_sec = (double)job->interval * one.step_sec + job->save_sec;
    double horizon_sec = fmax(failures * job->mtbf_sec, cycle_sec);
    uint64_t draws = pen_random_next(&random);
    return job->islands > 1
               ? simulate_islands(&one, is_limited ? &spares : NULL, draws,
                                  horizon_sec)
               : simulate_single(&one, is_limited ? &spares : NULL, draws,
                                 horizon_sec);
}

struct pen_goodput pen_goodput_simulate(const struct pen_goodput_job *job,
                                        uint64_t seed, double effort)
{
    struct pen_random seeds = {seed};
    double sum = 0;
    double squares = 0;
    PEN_BUG_UNLESS(job->interval > 0 && job->step_sec > 0 &&
                   job->mtbf_sec > 0 &&
                   job->islands <= PEN_GOODPUT_MAX_ISLANDS &&
                   (job->islands <= 1 || job->sync_steps > 0));
    for (uint32_t i = 0; i < RUNS; i++) {
        double share =
            simulate_run(job, pen_random_next(&seeds), FAILURES * effort);
        sum += share;
        squares += share * share;
    }
    double mean = sum / RUNS;
    double variance = fmax(0, squares - sum * mean) / (RUNS - 1);
    return (struct pen_goodput){mean, QUANTILE * sqrt(variance / RUNS)};
}

/* ---- the interval ---- */

#define SEARCH_EFFORT 2
#define MOST_INTERVAL 1e9 /* steps */

static uint64_t steps_in(const struct pen_goodput_job *job, double sec)
{
    return (uint64_t)fmin(fmax(1, round(sec / job->step_sec)), MOST_INTERVAL);
}

/* Mean seconds between failures from which the disk is needed. */
static double disk_mtbf(const struct pen_goodput_job *job)
{
    double islands = job->islands > 1 ? job->islands : 1;
    double mtbf = job->mtbf_sec * islands;
    if (job->memory_steps == 0)
        return mtbf;
    double nodes = fmax(2, (double)job->num_nodes / islands);
    double recovery = job->detect_sec + job->restart_sec + job->memory_sec;
    return mtbf / (job->pair_share + recovery / mtbf / (nodes - 1));
}

uint64_t pen_goodput_search_interval(const struct pen_goodput_job *job,
                                     uint64_t seed)
{
    const double steps[] = {2, 1.4142135623730951, 1.189207115002721};
    struct pen_goodput_job at = *job;
    double best_sec =
        fmax(pen_interval_young(disk_mtbf(job), job->save_sec), job->step_sec);
    at.interval = steps_in(job, best_sec);
    double best = pen_goodput_simulate(&at, seed, SEARCH_EFFORT).share;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            double factor = sign < 0 ? 1 / steps[i] : steps[i];
            for (;;) {
                at.interval = steps_in(job, best_sec * factor);
                if (at.interval == steps_in(job, best_sec))
                    break;
                double share =
                    pen_goodput_simulate(&at, seed, SEARCH_EFFORT).share;
                if (share <= best)
                    break;
                best = share;
                best_sec *= factor;
            }
        }
    }
    return steps_in(job, best_sec);
}

/* ---- closed forms ---- */

double pen_goodput_exact(const struct pen_goodput_job *job)
{
    double mtbf = job->mtbf_sec;
    double work = (double)job->interval * job->step_sec;
    double recovery = job->detect_sec + job->restart_sec + job->disk_sec;
    double wall = mtbf * pen_real_exp(recovery / mtbf) *
                  (pen_real_exp((work + job->save_sec) / mtbf) - 1);
    return work / wall;
}

double pen_interval_young(double mtbf_sec, double save_sec)
{
    return sqrt(2 * mtbf_sec * save_sec);
}

double pen_interval_available(double mtbf_sec, double save_sec,
                              double recovery_sec)
{
    return save_sec +
           sqrt(2 * (mtbf_sec + recovery_sec) * save_sec + save_sec * save_sec);
}

/* The root of exp((work + save) / mtbf) (1 - work / mtbf) = 1. */
double pen_interval_exact(double mtbf_sec, double save_sec)
{
    double low = 0;
    double high = 1;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (pen_real_exp(middle + save_sec / mtbf_sec) * (1 - middle) > 1)
            low = middle;
        else
            high = middle;
    }
    return low * mtbf_sec;
}
