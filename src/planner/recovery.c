#include "planner/recovery.h"

#include "planner/optimizer.h"
#include "planner/stacks.h"

#include <math.h>

const char *const pen_recovery_names[PEN_RECOVERY_WAYS + 1] = {
#define WAY_NAME(name, word) word,
    PEN_RECOVERY_TABLE(WAY_NAME) NULL};

void pen_recovery_wish_init(struct pen_recovery_wish *wish)
{
    *wish = (struct pen_recovery_wish){.detect_sec = -1,
                                       .restart_sec = -1,
                                       .save_sec = -1,
                                       .reload_sec = -1,
                                       .pair_share = -1,
                                       .repair_sec = -1,
                                       .spares = PEN_GOODPUT_NO_LIMIT,
                                       .seed = 1};
}

/* ---- what a plan costs to save and to load ---- */

static double given_or(double given, double usual)
{
    return given >= 0 ? given : usual;
}

/* Bytes per second from a device to one of another node. */
static double network_rate(const struct pen_cluster *cluster)
{
    uint32_t last = cluster->num_levels;
    double rate = last > 0 ? cluster->levels[last - 1].bytes_per_sec : 0;
    double host = cluster->groups[0].device.constants[PEN_CONSTANT_HOST_RATE];
    if (cluster->group_bytes_per_sec != NULL)
        rate = cluster->group_bytes_per_sec[0];
    if (!(rate > 0) || (host > 0 && host < rate))
        rate = host;
    return rate > 0 ? rate : PEN_RECOVERY_STORAGE_RATE;
}

/* Weights, masters and moments, each once. */
static double state_bytes(const struct pen_setting *setting,
                          const struct pen_plan *plan)
{
    return (double)setting->model->num_parameters *
           (pen_number_bytes(setting->number) +
            pen__least_optimizer_bytes(setting, &plan->recipe));
}

/* The same bytes as the fullest device holds them. */
static double held_bytes(const struct pen_prediction *prediction)
{
    double most = 0;
    for (uint32_t i = 0; i < prediction->num_memory; i++) {
        const uint64_t *bytes = prediction->memory[i].bytes;
        most = fmax(most, (double)bytes[PEN_MEMORY_WEIGHTS] +
                              (double)bytes[PEN_MEMORY_OPTIMIZER]);
    }
    return most;
}

static struct pen_goodput_job make_job(const struct pen_setting *setting,
                                       const struct pen_plan *plan,
                                       const struct pen_prediction *prediction,
                                       const struct pen_failure_rate *rate,
                                       const struct pen_recovery_wish *wish)
{
    uint64_t ranks = pen_plan_num_ranks(plan);
    uint64_t host = pen_cluster_host_size(setting->cluster);
    uint64_t nodes = (ranks + host - 1) / host;
    double storage =
        wish->storage_rate > 0 ? wish->storage_rate : PEN_RECOVERY_STORAGE_RATE;
    double on_node = fmin((double)host, (double)ranks);
    return (struct pen_goodput_job){
        .mtbf_sec = pen_failure_mtbf(rate, ranks),
        .step_sec = prediction->step_sec,
        .step_low_sec = prediction->low_sec,
        .step_high_sec = prediction->high_sec,
        .interval = 1,
        .save_sec = given_or(wish->save_sec, state_bytes(setting, plan) /
                                                 (double)nodes / storage),
        .detect_sec = given_or(wish->detect_sec, PEN_RECOVERY_DETECT_SEC),
        .restart_sec = given_or(wish->restart_sec, PEN_RECOVERY_RESTART_SEC),
        .disk_sec = given_or(wish->reload_sec,
                             on_node * held_bytes(prediction) / storage),
        .memory_sec = held_bytes(prediction) / network_rate(setting->cluster),
        .pair_share = given_or(wish->pair_share, PEN_FAILURE_PAIR_SHARE),
        .node_share = PEN_FAILURE_NODE_SHARE,
        .num_nodes = nodes,
        .spares = wish->spares,
        .repair_sec = given_or(wish->repair_sec, PEN_RECOVERY_REPAIR_SEC),
        .sync_steps =
            wish->sync_steps > 0 ? wish->sync_steps : PEN_RECOVERY_SYNC_STEPS,
        .grace_least_sec = PEN_RECOVERY_PATIENCE_SEC / 20,
        .grace_most_sec = PEN_RECOVERY_PATIENCE_SEC / 2,
        .patience_sec = PEN_RECOVERY_PATIENCE_SEC};
}

/* ---- the ways ---- */

static void find_interval(const struct pen_recovery_wish *wish,
                          struct pen_goodput_job *job)
{
    job->interval =
        wish->interval_sec > 0
            ? (uint64_t)fmax(1, round(wish->interval_sec / job->step_sec))
            : pen_goodput_search_interval(job, wish->seed);
}

static void simulate_way(const struct pen_goodput_job *job,
                         const struct pen_recovery_wish *wish,
                         struct pen_recovery_result *out)
{
    *out = (struct pen_recovery_result){
        true, *job, pen_goodput_simulate(job, wish->seed, 1)};
}

/* Steps until a copy of the state has reached the buddies. */
static uint32_t commit_steps(const struct pen_setting *setting,
                             const struct pen_plan *plan,
                             const struct pen_goodput_job *job)
{
    double copy_sec = state_bytes(setting, plan) /
                      (double)pen_plan_num_ranks(plan) /
                      network_rate(setting->cluster);
    return (uint32_t)fmin(fmax(1, ceil(copy_sec / job->step_sec)), 1e6);
}

/* A round sums the weights of all islands, in 4 bytes each. */
static double sync_sec(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t islands)
{
    double share = (double)pen_plan_num_ranks(plan) / islands;
    return 2 * (1 - 1.0 / islands) * 4 *
           (double)setting->model->num_parameters / share /
           network_rate(setting->cluster);
}

#define MOST_ISLANDS 64u   /* that are considered */
#define ISLAND_WORTH 0.001 /* goodput for which there are more islands */

/* The fewest islands, of equal size, that are nearly as good as the best. */
static void find_islands(const struct pen_setting *setting,
                         const struct pen_plan *plan,
                         const struct pen_goodput_job *holders,
                         const struct pen_recovery_wish *wish,
                         struct pen_recovery_result *out)
{
    uint32_t replicas = plan->degrees[PEN_DEGREE_DP];
    uint32_t first = wish->islands > 0 ? wish->islands : 2;
    uint32_t last = wish->islands > 0 ? wish->islands : MOST_ISLANDS;
    uint32_t before = 0;
    for (uint32_t count = first; count <= last && count <= replicas; count++) {
        struct pen_recovery_result found;
        struct pen_goodput_job job = *holders;
        if (replicas % count != 0 || 2 * count < 3 * before)
            continue;
        before = count;
        job.islands = count;
        job.sync_sec = sync_sec(setting, plan, count);
        simulate_way(&job, wish, &found);
        if (!out->is_there ||
            found.goodput.share > out->goodput.share + ISLAND_WORTH)
            *out = found;
    }
}

void pen_recovery_compare(const struct pen_setting *setting,
                          const struct pen_plan *plan,
                          const struct pen_prediction *prediction,
                          const struct pen_failure_rate *rate,
                          const struct pen_recovery_wish *wish,
                          struct pen_recovery *out)
{
    struct pen_goodput_job job =
        make_job(setting, plan, prediction, rate, wish);
    double recovery = job.detect_sec + job.restart_sec + job.disk_sec;
    *out = (struct pen_recovery){
        .ranks = pen_plan_num_ranks(plan),
        .step_sec = job.step_sec,
        .mtbf_sec = job.mtbf_sec,
        .state_bytes = state_bytes(setting, plan),
        .young_sec = pen_interval_young(job.mtbf_sec, job.save_sec),
        .available_sec =
            pen_interval_available(job.mtbf_sec, job.save_sec, recovery),
        .exact_sec = pen_interval_exact(job.mtbf_sec, job.save_sec)};
    find_interval(wish, &job);
    simulate_way(&job, wish, &out->ways[PEN_RECOVERY_RESTART]);
    out->exact_share = pen_goodput_exact(&job);
    job.memory_steps = commit_steps(setting, plan, &job);
    find_interval(wish, &job);
    simulate_way(&job, wish, &out->ways[PEN_RECOVERY_HOLDERS]);
    find_islands(setting, plan, &job, wish, &out->ways[PEN_RECOVERY_ISLANDS]);
}

/* ---- stacks ---- */

/* Seconds that a further shard adds to a step. */
static double shard_sec(const struct pen_prediction *prediction)
{
    const double *spent = prediction->spent;
    return spent[PEN_SPENDING_FORWARD] + spent[PEN_SPENDING_BACKWARD] +
           spent[PEN_SPENDING_RECOMPUTE] + spent[PEN_SPENDING_TENSOR] +
           spent[PEN_SPENDING_CONTEXT] + spent[PEN_SPENDING_EXPERT] +
           spent[PEN_SPENDING_BUBBLE];
}

static pen_status find_height(const struct pen_stacked_job *job,
                              const struct pen_recovery_wish *wish,
                              struct pen_recovery_stacked *out)
{
    struct pen_stacked_job at = *job;
    uint32_t most =
        wish->stacks < job->num_groups ? wish->stacks : job->num_groups;
    for (at.height = 2; at.height <= most; at.height++) {
        struct pen_stacked_goodput found;
        pen_status status =
            pen_stacked_goodput_simulate(&at, wish->seed, &found);
        if (status != PEN_OK)
            return status;
        if (out->height == 0 || found.goodput.share > out->found.goodput.share)
            *out = (struct pen_recovery_stacked){at.height, found};
    }
    return PEN_OK;
}

pen_status pen_recovery_compare_stacks(const struct pen_plan *plan,
                                       const struct pen_prediction *prediction,
                                       const struct pen_recovery_wish *wish,
                                       struct pen_recovery *recovery)
{
    struct pen_stacked_job job = {.job =
                                      recovery->ways[PEN_RECOVERY_RESTART].job,
                                  .num_groups = plan->degrees[PEN_DEGREE_DP],
                                  .shard_sec = shard_sec(prediction)};
    recovery->num_groups = job.num_groups;
    if (job.num_groups > PEN_STACKS_MAX_GROUPS)
        return PEN_OK;
    pen_status status = find_height(&job, wish, &recovery->stacks);
    job.is_replicated = true;
    if (status == PEN_OK)
        status = find_height(&job, wish, &recovery->replication);
    return status;
}

/* ---- spares ---- */

static double value_of(const struct pen_goodput_job *job, uint64_t seed,
                       struct pen_goodput *out)
{
    double nodes = (double)job->num_nodes;
    *out = pen_goodput_simulate(job, seed, 1);
    return out->share * nodes / (nodes + job->spares);
}

uint32_t pen_recovery_search_spares(const struct pen_goodput_job *job,
                                    uint64_t seed, struct pen_goodput *out)
{
    struct pen_goodput_job at = *job;
    double away = job->node_share * job->repair_sec / job->mtbf_sec;
    double best = -1;
    uint32_t spares = 0;
    uint32_t before = PEN_GOODPUT_NO_LIMIT;
    for (int i = -1; i <= 12; i++) {
        struct pen_goodput found;
        double count = i < 0 ? 0 : ceil(away + i * sqrt(away) / 2);
        at.spares = (uint32_t)fmin(count, PEN_GOODPUT_MAX_SPARES);
        if (at.spares == before)
            continue;
        before = at.spares;
        double value = value_of(&at, seed, &found);
        if (value > best) {
            best = value;
            spares = at.spares;
            *out = found;
        }
    }
    return spares;
}
