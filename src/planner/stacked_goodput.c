#include "planner/stacked_goodput.h"

#include "base/bug.h"
#include "base/random.h"
#include "base/real.h"
#include "planner/stacks.h"

#include <math.h>
#include <stdlib.h>

#define RUNS 40u
#define FAILURES 100.0 /* of one run, or as many as CYCLES restarts take */
#define CYCLES 6.0
#define QUANTILE 2.0227 /* of Student's t, 97.5 %, RUNS - 1 */

/* ---- which groups fail, one after the other ---- */

/* Until this failure the busiest group of the stacks computed `depth` shards.
 */
struct failure {
    uint32_t num_lost; /* groups, before it */
    uint16_t depth;
    uint16_t late; /* shards in addition in the step in flight */
};

/* The last failure loses a step. */
struct fate {
    struct failure *failures; /* owned */
    uint32_t count;
};

/* All groups, in the order in which they fail. */
static void shuffle(uint32_t *groups, uint32_t count, struct pen_random *random)
{
    for (uint32_t i = 0; i < count; i++)
        groups[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = pen_random_below(random, i);
        uint32_t group = groups[k];
        groups[k] = groups[i - 1];
        groups[i - 1] = group;
    }
}

/* Whether the groups that are lost leave every set of replicas a member. */
static bool fail_replica(struct pen_stacks *stacks, uint32_t group)
{
    uint32_t sets = stacks->num_groups / stacks->height;
    uint32_t set = group % sets;
    stacks->is_lost[group] = true;
    stacks->num_lost++;
    for (uint32_t member = set; member < stacks->num_groups; member += sets)
        if (!stacks->is_lost[member])
            return true;
    return false;
}

static bool fail(struct pen_stacks *stacks, bool is_replicated, uint32_t group,
                 uint32_t *late)
{
    uint32_t more = 0;
    if (stacks->is_lost[group])
        return true;
    if (is_replicated)
        return fail_replica(stacks, group);
    bool is_whole = pen_stacks_fail(stacks, group, &more);
    *late += more;
    return is_whole;
}

/* A share of failures takes the next group along: its node was the buddy. */
static void draw_fate(const struct pen_stacked_job *job,
                      struct pen_stacks *stacks, const uint32_t *order,
                      struct pen_random *random, struct fate *out)
{
    uint32_t count = job->num_groups;
    bool is_whole = true;
    out->count = 0;
    pen_stacks_reset(stacks);
    for (uint32_t i = 0; i < count && is_whole; i++) {
        uint32_t late = 0;
        if (stacks->is_lost[order[i]])
            continue;
        struct failure *failure = &out->failures[out->count++];
        failure->num_lost = stacks->num_lost;
        failure->depth = (uint16_t)stacks->depth;
        is_whole = fail(stacks, job->is_replicated, order[i], &late);
        if (is_whole && pen_random_unit(random) < job->job.pair_share)
            is_whole =
                fail(stacks, job->is_replicated, (order[i] + 1) % count, &late);
        failure->late = (uint16_t)late;
    }
}

static void free_fates(struct fate *fates)
{
    for (uint32_t i = 0; i < RUNS; i++)
        free(fates[i].failures);
}

static pen_status draw_fates(const struct pen_stacked_job *job,
                             struct pen_random *random, struct fate *fates)
{
    struct pen_stacks stacks;
    size_t count = job->num_groups;
    uint32_t *order = malloc(count * sizeof *order);
    pen_status status =
        order == NULL ? PEN_NOMEM
                      : pen_stacks_init(&stacks, job->num_groups, job->height);
    if (status != PEN_OK) {
        free(order);
        return status;
    }
    for (uint32_t i = 0; i < RUNS && status == PEN_OK; i++) {
        fates[i].failures = malloc(count * sizeof *fates[i].failures);
        if (fates[i].failures == NULL) {
            status = PEN_NOMEM;
            break;
        }
        shuffle(order, job->num_groups, random);
        draw_fate(job, &stacks, order, random, &fates[i]);
    }
    pen_stacks_release(&stacks);
    free(order);
    return status;
}

/* ---- time ---- */

struct run {
    const struct pen_stacked_job *job;
    struct pen_random random;
    double interval; /* steps between two saves */
    double horizon_sec;
    double wall_sec;
    double ready_sec; /* when it has recovered */
    double steps;     /* also parts of one, for survivors keep what they have */
    double on_disk;
};

static double draw_exponential(struct run *run, double mean_sec)
{
    return -mean_sec * pen_real_log(1 - pen_random_unit(&run->random));
}

/* Sets of replicas compute all of their shards all the time. */
static double depth_of(const struct pen_stacked_job *job,
                       const struct failure *failure)
{
    uint32_t sets = job->num_groups / job->height;
    return job->is_replicated ? (double)job->num_groups / sets : failure->depth;
}

static double step_sec(const struct pen_stacked_job *job, double depth)
{
    return job->job.step_sec + (depth - 1) * job->shard_sec;
}

/*
 * Works at this depth until `until_sec`. A save that is cut off begins again.
 */
static void work_until(struct run *run, double until_sec, double depth)
{
    double step = step_sec(run->job, depth);
    double save = run->job->job.save_sec;
    if (until_sec <= run->ready_sec) {
        run->wall_sec = until_sec;
        return;
    }
    run->wall_sec = fmax(run->wall_sec, run->ready_sec);
    for (;;) {
        if (run->steps == run->on_disk) {
            double cycle = run->interval * step + save;
            double whole = floor((until_sec - run->wall_sec) / cycle);
            run->on_disk += whole * run->interval;
            run->steps = run->on_disk;
            run->wall_sec += whole * cycle;
        }
        double left = run->on_disk + run->interval - run->steps;
        double saved_sec = run->wall_sec + left * step + save;
        if (saved_sec > until_sec) {
            double done = fmax(0, (until_sec - run->wall_sec) / step);
            run->steps += fmin(left, done);
            run->wall_sec = until_sec;
            return;
        }
        run->steps += left;
        run->on_disk = run->steps;
        run->wall_sec = saved_sec;
    }
}

static double recovery_sec(const struct pen_goodput_job *job)
{
    return job->detect_sec + job->restart_sec + job->disk_sec;
}

/* Runs a job from one restart to the next; what fails while it recovers is
 * missing when it works again. */
static void suffer(struct run *run, const struct fate *fate)
{
    const struct pen_stacked_job *job = run->job;
    for (uint32_t i = 0; i < fate->count; i++) {
        const struct failure *failure = &fate->failures[i];
        double left = (double)(job->num_groups - failure->num_lost);
        double at = run->wall_sec +
                    draw_exponential(run, job->job.mtbf_sec *
                                              (double)job->num_groups / left);
        work_until(run, fmin(at, run->horizon_sec), depth_of(job, failure));
        if (at >= run->horizon_sec)
            return;
        if (i + 1 < fate->count && at > run->ready_sec)
            run->wall_sec +=
                job->job.detect_sec + failure->late * job->shard_sec;
    }
    run->steps = run->on_disk;
    run->ready_sec = run->wall_sec + recovery_sec(&job->job);
}

static double simulate(const struct pen_stacked_job *job,
                       const struct fate *fates, uint32_t first,
                       double interval, double horizon_sec, uint64_t seed)
{
    struct run run = {.job = job,
                      .random = {seed},
                      .interval = interval,
                      .horizon_sec = horizon_sec};
    for (uint32_t at = first; run.wall_sec < horizon_sec;
         at = pen_random_below(&run.random, RUNS))
        suffer(&run, &fates[at]);
    return run.steps * job->job.step_sec / fmax(run.wall_sec, horizon_sec);
}

/* ---- many runs ---- */

/* Mean seconds between restarts, and what lies between them. */
static double mean_cycle(const struct pen_stacked_job *job,
                         const struct fate *fates,
                         struct pen_stacked_goodput *out)
{
    double seconds = 0;
    double weighted = 0;
    double failures = 0;
    for (uint32_t i = 0; i < RUNS; i++) {
        failures += fates[i].count - 1;
        for (uint32_t k = 0; k < fates[i].count; k++) {
            const struct failure *failure = &fates[i].failures[k];
            double sec = job->job.mtbf_sec * (double)job->num_groups /
                         (double)(job->num_groups - failure->num_lost);
            seconds += sec;
            weighted += sec * depth_of(job, failure);
        }
    }
    out->endured = failures / RUNS;
    out->depth = weighted / seconds;
    return seconds / RUNS;
}

pen_status pen_stacked_goodput_simulate(const struct pen_stacked_job *job,
                                        uint64_t seed,
                                        struct pen_stacked_goodput *out)
{
    struct fate fates[RUNS] = {{.count = 0}};
    struct pen_random random = {seed};
    double sum = 0;
    double squares = 0;
    PEN_BUG_UNLESS(job->height > 0 && job->height <= job->num_groups &&
                   job->job.step_sec > 0 && job->job.mtbf_sec > 0);
    pen_status status = draw_fates(job, &random, fates);
    if (status != PEN_OK) {
        free_fates(fates);
        return status;
    }
    double cycle = mean_cycle(job, fates, out);
    double step = step_sec(job, out->depth);
    double interval =
        fmax(1, round(pen_interval_young(cycle, job->job.save_sec) / step));
    double horizon = fmax(FAILURES * job->job.mtbf_sec,
                          CYCLES * (cycle + recovery_sec(&job->job)));
    out->interval_sec = interval * step;
    for (uint32_t i = 0; i < RUNS; i++) {
        double share = simulate(job, fates, i, interval, horizon,
                                pen_random_next(&random));
        sum += share;
        squares += share * share;
    }
    free_fates(fates);
    double mean = sum / RUNS;
    double variance = fmax(0, squares - sum * mean) / (RUNS - 1);
    out->goodput = (struct pen_goodput){mean, QUANTILE * sqrt(variance / RUNS)};
    return PEN_OK;
}
