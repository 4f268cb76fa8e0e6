/*
 * Where the time of a wait went. Between two looks the ranks of the chain were
 *
 *   on a core           a root that computes is slow. A rank that waits may
 *                       spend its time polling: for it this means nothing
 *   ready, no core      slow, for a root and for all ranks of the chain: a rank
 *                       may have been given what it waits for without having
 *                       seen it yet
 *   neither             idle. Only this time counts towards the early deadline
 *
 * The kernel adds the time that a thread was ready when it gets a core. A
 * thread that is ready ('R') and whose times have not grown is ready still.
 */
#include "watch/stall.h"

#include "watch/watchdog.h"

#include <math.h>

#define NS_PER_SEC 1e9

/* A hang of idle ranks is reported within max(2 s, 5 steps). */
#define WARN_SEC 2.0
#define WARN_STEPS 5.0
#define WAITING_SHARE 0.8 /* the rest of it is for noticing and reporting */

/*
 * A hang of idle ranks ends the job after max(30 s, 25 steps); an endless loop
 * ends it later.
 */
#define IDLE_SEC 30.0
#define IDLE_STEPS 25.0
#define BUSY_SEC 600.0
#define BUSY_STEPS 100.0

/* A timeout given by the user is warned of after this share of it. */
#define WARN_SHARE 0.1

static int64_t to_ns(double sec)
{
    double ns = sec * NS_PER_SEC;
    return ns < 1e18 ? (int64_t)ns : PEN__FOREVER;
}

struct pen__patience pen__patience_of(double hang_timeout_sec, double step_sec,
                                      double least_sec)
{
    double warn_sec = WAITING_SHARE * fmax(WARN_SEC, WARN_STEPS * step_sec);
    double stopped_sec = WAITING_SHARE * WARN_SEC;
    if (hang_timeout_sec == PEN_HANG_TIMEOUT_NEVER)
        return (struct pen__patience){PEN__FOREVER, PEN__FOREVER, PEN__FOREVER,
                                      PEN__FOREVER, PEN__FOREVER};
    if (hang_timeout_sec > PEN_HANG_TIMEOUT_NEVER)
        return (struct pen__patience){
            .warn_ns = to_ns(fmax(warn_sec, WARN_SHARE * hang_timeout_sec)),
            .idle_ns = PEN__FOREVER,
            .busy_ns = PEN__FOREVER,
            .either_ns = to_ns(hang_timeout_sec),
            .stopped_ns = to_ns(hang_timeout_sec)};
    return (struct pen__patience){
        .warn_ns = to_ns(fmax(warn_sec, WARN_SHARE * least_sec)),
        .idle_ns =
            to_ns(fmax(fmax(IDLE_SEC, IDLE_STEPS * step_sec), least_sec)),
        .busy_ns =
            to_ns(fmax(fmax(BUSY_SEC, BUSY_STEPS * step_sec), least_sec)),
        .either_ns = PEN__FOREVER,
        .stopped_ns = to_ns(stopped_sec)};
}

/* ---- where time went ---- */

/*
 * Clamps to the time that has passed: the sum over threads shrinks when one of
 * them ends.
 */
static int64_t within(int64_t ns, int64_t passed_ns)
{
    return ns < 0 ? 0 : ns < passed_ns ? ns : passed_ns;
}

/* Returns how long a rank that waits was ready and had no core. */
static int64_t ready_ns(const struct pen__rank_view *rank,
                        const struct pen__process_work *before,
                        int64_t passed_ns)
{
    const struct pen__process_work *now = &rank->work;
    if (!now->is_known || !before->is_known)
        return 0;
    if (rank->process.state == 'R' && now->cpu_ns == before->cpu_ns &&
        now->queue_ns == before->queue_ns)
        return passed_ns;
    return within(now->queue_ns - before->queue_ns, passed_ns);
}

/*
 * Returns how long a root that does not wait was not idle; `busy_ns` gets how
 * long it was on a core.
 */
static int64_t active_ns(const struct pen__rank_view *rank,
                         const struct pen__process_work *before,
                         int64_t passed_ns, int64_t *busy_ns)
{
    const struct pen__process_work *now = &rank->work;
    bool is_known = now->is_known && before->is_known;
    *busy_ns = 0;
    if (pen__process_is_halted(&rank->process))
        return 0;
    if (is_known)
        *busy_ns = within(now->cpu_ns - before->cpu_ns, passed_ns);
    else if (rank->process.state == 'R' || rank->process.state == '?')
        *busy_ns = passed_ns; /* the kernel or container shows no more */
    if (rank->process.state == 'R' || !is_known)
        return rank->process.state == 'R' ? passed_ns : *busy_ns;
    return within(*busy_ns +
                      within(now->queue_ns - before->queue_ns, passed_ns),
                  passed_ns);
}

static void keep_samples(struct pen__stall *stall,
                         const struct pen__node_view *view,
                         const struct pen__root *root)
{
    for (uint32_t i = 0; i < root->num_chain; i++)
        stall->samples[view->chain[i]] = view->ranks[view->chain[i]].work;
    stall->has_samples = true;
}

/*
 * Returns the time in which ranks of the chain were not idle, and that in which
 * the root was on a core.
 */
static int64_t chain_active_ns(const struct pen__stall *stall,
                               const struct pen__node_view *view,
                               const struct pen__root *root, int64_t passed_ns,
                               int64_t *busy_ns)
{
    int64_t sum_ns = 0;
    *busy_ns = 0;
    for (uint32_t i = 0; i < root->num_chain; i++) {
        uint32_t at = view->chain[i];
        const struct pen__rank_view *rank = &view->ranks[at];
        bool is_root = root->kind == PEN__ROOT_HERE && at == root->local_rank;
        int64_t ns =
            is_root ? active_ns(rank, &stall->samples[at], passed_ns, busy_ns)
                    : ready_ns(rank, &stall->samples[at], passed_ns);
        sum_ns = within(sum_ns + ns, passed_ns);
    }
    return sum_ns;
}

void pen__stall_reset(struct pen__stall *stall)
{
    struct pen__process_work *samples = stall->samples;
    *stall = (struct pen__stall){.samples = samples};
}

/*
 * A rank of another node cannot be seen: it may be slow, which only the
 * watchdogs of its node know. Its time counts as time on a core.
 */
void pen__stall_add(struct pen__stall *stall, const struct pen__node_view *view,
                    const struct pen__root *root, int64_t passed_ns)
{
    if (stall->moved_ns != root->moved_ns || stall->root != root->local_rank ||
        stall->kind != root->kind)
        pen__stall_reset(stall);
    stall->moved_ns = root->moved_ns;
    stall->root = root->local_rank;
    stall->kind = root->kind;
    if (stall->has_samples) {
        int64_t busy_ns;
        int64_t active =
            chain_active_ns(stall, view, root, passed_ns, &busy_ns);
        bool is_elsewhere = root->kind == PEN__ROOT_ELSEWHERE;
        stall->busy_ns += is_elsewhere ? passed_ns - active : busy_ns;
        stall->idle_ns += is_elsewhere ? 0 : passed_ns - active;
        if (root->kind == PEN__ROOT_HERE &&
            view->ranks[root->local_rank].process.state == 'T')
            stall->stopped_ns += passed_ns;
    }
    keep_samples(stall, view, root);
}

static bool is_over(int64_t ns, int64_t limit_ns, int64_t factor)
{
    return limit_ns != PEN__FOREVER && ns / factor >= limit_ns;
}

enum pen__verdict pen__stall_judge(const struct pen__stall *stall,
                                   const struct pen__patience *patience,
                                   int64_t factor)
{
    if (is_over(stall->stopped_ns, patience->stopped_ns, 1) ||
        is_over(stall->idle_ns, patience->idle_ns, factor) ||
        is_over(stall->busy_ns, patience->busy_ns, factor) ||
        is_over(stall->idle_ns + stall->busy_ns, patience->either_ns, factor))
        return PEN__HANGS;
    bool is_elsewhere = stall->kind == PEN__ROOT_ELSEWHERE;
    int64_t busy_warn_ns = is_elsewhere ? patience->warn_ns : patience->idle_ns;
    return is_over(stall->idle_ns, patience->warn_ns, factor) ||
                   is_over(stall->busy_ns, busy_warn_ns, factor)
               ? PEN__WARN
               : PEN__MOVES;
}
