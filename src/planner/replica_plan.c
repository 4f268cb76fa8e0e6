#include "planner/replica_plan.h"

#include "planner/collective.h"
#include "planner/predict_work.h"
#include "planner/rank_devices.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- weights of a rank ---- */

/* The stages of a rank of the pipeline, into out; returns how many. */
static size_t list_stages(const struct pen_plan *plan, uint32_t rank,
                          struct pen_layer_range *out)
{
    const struct pen__work work = {
        .plan = plan, .generator = pen_generator_find(plan->schedule.name)};
    size_t count = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        if (pen__rank_of(&work, i) == rank)
            out[count++] = plan->stages[i];
    return count;
}

/* The shapes of the rank with the most weights. */
static pen_status find_shapes(const struct pen_setting *setting,
                              const struct pen_plan *plan,
                              struct pen_replica_shapes *out,
                              struct pen_text *why)
{
    struct pen_replica_shapes most = {.num_weights = 0};
    struct pen_layer_range *stages = calloc(plan->num_stages, sizeof *stages);
    pen_status status = stages == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t rank = 0;
         rank < plan->degrees[PEN_DEGREE_PP] && status == PEN_OK; rank++) {
        struct pen_replica_shapes shapes;
        size_t count = list_stages(plan, rank, stages);
        status = pen_replica_shapes_of_layers(setting->model, stages, count,
                                              plan->degrees[PEN_DEGREE_TP],
                                              &shapes, why);
        if (status != PEN_OK)
            break;
        bool is_more = shapes.num_weights > most.num_weights;
        free(is_more ? most.at : shapes.at);
        if (is_more)
            most = shapes;
    }
    free(stages);
    if (status == PEN_OK)
        *out = most;
    else
        free(most.at);
    return status;
}

/* ---- links ---- */

/*
 * Finds the link of a replica as the prediction of a plan does: members in a
 * node share what leaves it.
 */
static void find_link(const struct pen_setting *setting,
                      const struct pen_device_set *set,
                      struct pen_replica_plan *out)
{
    const struct pen_cluster *cluster = setting->cluster;
    uint64_t reach = set->count * set->stride;
    uint32_t slowest = pen__devices_from(setting, 0, reach).slowest;
    const struct pen_device *device = &cluster->groups[slowest].device;
    uint64_t distance = (reach + 1) / 2;
    out->link = pen_cluster_level(cluster, reach)->name;
    out->setting.bytes_per_sec = pen_collective_bandwidth(cluster, device, set);
    out->setting.latency_sec = pen_message_latency(cluster, device, distance);
}

static pen_status open_found(const struct pen_setting *setting,
                             const struct pen_plan_found *found,
                             struct pen_replica_plan *out, struct pen_text *why)
{
    uint32_t slowest =
        pen__devices_from(setting, 0, pen_plan_num_ranks(found->plan)).slowest;
    pen_status status = find_shapes(setting, found->plan, &out->shapes, why);
    out->setting = (struct pen_replica_setting){
        .shapes = (const size_t(*)[2])out->shapes.at,
        .num_shapes = out->shapes.count,
        .num_weights = out->shapes.num_weights,
        .num_moments = PEN_REPLICA_NUM_MOMENTS,
        .last_share = out->shapes.last_share,
        .compute_sec = found->prediction.step_sec,
        .overlap_sec = found->prediction.spent[PEN_SPENDING_BACKWARD] /
                       found->plan->num_microbatches,
        .samples = (double)pen_plan_global_batch(found->plan),
        .encode_bytes_per_sec =
            pen_replica_device_rate(&setting->cluster->groups[slowest].device)};
    return status;
}

/* ---- replicas of a plan ---- */

/* Seconds of the plan's own reduction, and its gather, if nothing hid them. */
static double link_sec(const struct pen_setting *setting,
                       const struct pen_plan *plan, double num_weights)
{
    const struct pen_cluster *cluster = setting->cluster;
    const struct pen_device_set set = {(uint64_t)plan->degrees[PEN_DEGREE_DP] *
                                           plan->degrees[PEN_DEGREE_CP],
                                       plan->degrees[PEN_DEGREE_TP]};
    uint32_t slowest =
        pen__devices_from(setting, 0, pen_plan_num_ranks(plan)).slowest;
    const struct pen_device *device = &cluster->groups[slowest].device;
    double gradients = num_weights * setting->practice.reduction_bytes;
    if (plan->sharding == PEN_SHARDING_NONE)
        return pen_collective_time(cluster, device, PEN_COLLECTIVE_REDUCE, &set,
                                   gradients);
    return pen_collective_time(cluster, device, PEN_COLLECTIVE_GATHER, &set,
                               gradients) +
           pen_collective_time(cluster, device, PEN_COLLECTIVE_GATHER, &set,
                               num_weights * pen_number_bytes(setting->number));
}

static pen_status check(const struct pen_plan *plan, struct pen_text *why)
{
    if (plan->degrees[PEN_DEGREE_DP] < 2)
        pen_why(why, "the plan has only one replica");
    else if (plan->degrees[PEN_DEGREE_EP] > 1)
        pen_why(why,
                "replicas share their experts and must synchronise at every "
                "step");
    else if (plan->sharding > PEN_SHARDING_ZERO1)
        pen_why(why,
                "replicas share their gradients and must synchronise at every "
                "step");
    else
        return PEN_OK;
    return PEN_INVALID;
}

pen_status pen_replica_plan_init(const struct pen_setting *setting,
                                 const struct pen_plan_found *found,
                                 struct pen_replica_plan *out,
                                 struct pen_text *why)
{
    const struct pen_plan *plan = found->plan;
    const double *spent = found->prediction.spent;
    struct pen_replica_plan made = {.own = NULL};
    pen_status status = check(plan, why);
    if (status == PEN_OK)
        status = open_found(setting, found, &made, why);
    if (status != PEN_OK)
        return status;
    made.setting.num_replicas = plan->degrees[PEN_DEGREE_DP];
    made.setting.has_stall = true;
    made.setting.stall_sec =
        spent[PEN_SPENDING_REDUCTION] + spent[PEN_SPENDING_GATHER];
    made.setting.link_sec = link_sec(setting, plan, made.setting.num_weights);
    made.setting.compute_sec -= made.setting.stall_sec;
    const struct pen_device_set set = {plan->degrees[PEN_DEGREE_DP],
                                       (uint64_t)plan->degrees[PEN_DEGREE_TP] *
                                           plan->degrees[PEN_DEGREE_CP]};
    find_link(setting, &set, &made);
    *out = made;
    return PEN_OK;
}

/* ---- blocks ---- */

static uint64_t block_size(const struct pen_cluster *cluster)
{
    return cluster->num_levels < 2
               ? 1
               : cluster->levels[cluster->num_levels - 2].size;
}

pen_status pen_replica_plan_of_blocks(const struct pen_setting *setting,
                                      double seconds,
                                      struct pen_replica_plan *out,
                                      struct pen_text *why)
{
    uint64_t devices = pen_cluster_num_devices(setting->cluster);
    uint64_t size = block_size(setting->cluster);
    uint64_t count = devices / size;
    if (count < 2 || count > PEN_PLAN_MAX_DEGREE || devices % size != 0 ||
        setting->global_batch % count != 0) {
        pen_why(why,
                "%" PRIu64 " devices and a batch of %" PRIu64
                " do not make equal replicas of %" PRIu64,
                devices, setting->global_batch, size);
        return PEN_INVALID;
    }
    struct pen_replica_plan made = {.own = NULL};
    struct pen_setting one = *setting;
    struct pen_plan_search_options options = {.top = 1, .seconds = seconds};
    one.global_batch /= count;
    options.filter.max_devices = size;
    options.filter.degrees[PEN_DEGREE_DP] = 1;
    pen_status status = pen_plan_search(&one, &options, &made.own, why);
    if (status == PEN_OK)
        status = open_found(&one, &made.own->found[0], &made, why);
    if (status != PEN_OK) {
        pen_replica_plan_release(&made);
        return status;
    }
    made.setting.num_replicas = (uint32_t)count;
    made.setting.samples *= (double)count;
    const struct pen_device_set set = {count, size};
    find_link(setting, &set, &made);
    *out = made;
    return PEN_OK;
}

void pen_replica_plan_release(struct pen_replica_plan *plan)
{
    free(plan->shapes.at);
    pen_plan_ranking_free(plan->own);
    *plan = (struct pen_replica_plan){.own = NULL};
}
