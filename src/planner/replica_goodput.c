#include "planner/replica_goodput.h"

#include "planner/recovery.h"
#include "sync/islands.h"

#include <math.h>

#define EFFORT 0.3 /* of a simulation: there is one for each method */

uint32_t pen_replica_most_islands(uint32_t num_replicas)
{
    uint32_t count = PEN_REPLICA_MOST_ISLANDS;
    while (num_replicas % count != 0)
        count--;
    return count;
}

void pen_replica_failures_init(const struct pen_replica_setting *setting,
                               double mtbf_sec, uint32_t islands,
                               struct pen_replica_failures *out)
{
    double state =
        setting->num_weights * (1 + setting->num_moments) * sizeof(float);
    *out = (struct pen_replica_failures){
        .job = {.mtbf_sec = mtbf_sec,
                .save_sec =
                    state / setting->num_replicas / PEN_RECOVERY_STORAGE_RATE,
                .detect_sec = PEN_RECOVERY_DETECT_SEC,
                .restart_sec = PEN_RECOVERY_RESTART_SEC,
                .disk_sec = state / PEN_RECOVERY_STORAGE_RATE,
                .pair_share = PEN_FAILURE_PAIR_SHARE,
                .node_share = PEN_FAILURE_NODE_SHARE,
                .num_nodes = setting->num_replicas,
                .spares = PEN_GOODPUT_NO_LIMIT,
                .repair_sec = PEN_RECOVERY_REPAIR_SEC,
                .grace_least_sec = PEN_RECOVERY_PATIENCE_SEC / 20,
                .grace_most_sec = PEN_RECOVERY_PATIENCE_SEC / 2,
                .patience_sec = PEN_RECOVERY_PATIENCE_SEC},
        .num_moments = setting->num_moments,
        .islands = islands,
        .seed = 1};
}

static bool runs_between_islands(const struct pen_replica_failures *failures,
                                 const struct pen_sync_choice *choice)
{
    return failures->islands > 1 &&
           pen_islands_check(choice, false, NULL) == PEN_OK;
}

/* The goodput of one job, with checkpoints as far apart as is best. */
static double goodput_of_job(const struct pen_replica_failures *failures,
                             struct pen_goodput_job *job)
{
    bool is_plain =
        job->memory_steps == 0 && job->spares == PEN_GOODPUT_NO_LIMIT;
    if (!is_plain)
        return pen_goodput_simulate(job, failures->seed, EFFORT).share;
    double apart = pen_interval_exact(job->mtbf_sec, job->save_sec);
    job->interval = (uint64_t)fmax(1, round(apart / job->step_sec));
    return pen_goodput_exact(job);
}

/*
 * The share of a checkpoint that an island keeps itself; it takes the rest from
 * other islands.
 */
static double kept_share(const struct pen_replica_failures *failures,
                         const struct pen_sync_choice *choice)
{
    return (failures->num_moments + choice->method->islands->keeps_weights) /
           (failures->num_moments + 1);
}

static double goodput_of_islands(const struct pen_replica_failures *failures,
                                 const struct pen_sync_choice *choice,
                                 struct pen_goodput_job *job)
{
    job->islands = failures->islands;
    job->memory_steps = 0;
    job->sync_steps = pen_islands_steps(choice);
    job->sync_sec = 0; /* a step has its share of waiting */
    job->interval = job->sync_steps;
    job->save_sec *= failures->islands * kept_share(failures, choice);
    return pen_goodput_simulate(job, failures->seed, EFFORT).share;
}

void pen_replica_fail(const struct pen_replica_setting *setting,
                      const struct pen_replica_failures *failures,
                      struct pen_replica_time *time)
{
    struct pen_goodput_job job = failures->job;
    bool is_ring = runs_between_islands(failures, &time->choice);
    if (is_ring)
        pen_replica_use_ring(setting, failures->islands, time);
    job.step_sec = time->step_sec;
    job.step_low_sec = job.step_high_sec = 0;
    job.islands = 0;
    time->goodput = is_ring ? goodput_of_islands(failures, &time->choice, &job)
                            : goodput_of_job(failures, &job);
}
