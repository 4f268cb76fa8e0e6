/* A plan, its model and its cluster become a simulation. */
#include "cli/simulate/make.h"

#include "planner/collective.h"
#include "schedule/time.h"
#include "sim/mapping.h"

#include <stdlib.h>

/* ---- seconds ---- */

/*
 * Replaces the seconds of a stage: those of one micro-batch; the table has
 * those of one op, a slice.
 */
static void replace_stage(const struct pen_cost *cost, uint32_t num_slices,
                          struct pen_simulated_stage *stage,
                          struct pen_cost *timed)
{
    stage->forward_sec = timed->forward_sec = num_slices * cost->forward_sec;
    stage->input_sec = timed->input_sec = num_slices * cost->input_sec;
    stage->weight_sec = timed->weight_sec = num_slices * cost->weight_sec;
}

/* Seconds of a file instead of the planner's; sums and steps stay. */
static pen_status replace_costs(struct pen__simulate_job *job, const char *text,
                                struct pen_text *why)
{
    struct pen_simulated *simulated = &job->simulated;
    const struct pen_shape *shape = &simulated->schedule->shape;
    struct pen_costs costs;
    struct pen_cost_table table;
    pen_costs_init(&costs);
    pen_status status = pen_costs_read(text, &costs, why);
    if (status == PEN_OK)
        status = pen_cost_table_init(&table, &costs, shape, why);
    if (status == PEN_OK) {
        for (uint32_t i = 0; i < simulated->num_stages; i++)
            replace_stage(&table.stages[i], shape->num_slices,
                          &simulated->stages[i], &simulated->costs.items[i]);
        pen_cost_table_release(&table);
    }
    pen_costs_release(&costs);
    return status;
}

/* Times the schedule of a file with the planner. */
static pen_status time_schedule(struct pen__simulate_job *job,
                                struct pen_text *why)
{
    const struct pen_simulated *simulated = &job->simulated;
    struct pen_timing *timing;
    pen_status status = pen_schedule_time(
        simulated->schedule, &simulated->costs, NULL, &timing, why);
    if (status != PEN_OK)
        return status;
    job->predicted_sec = timing->step_sec + simulated->other_sec;
    pen_timing_free(timing);
    return PEN_OK;
}

static pen_status predict(struct pen__simulate_job *job, const char *costs,
                          struct pen_text *why)
{
    struct pen_prediction prediction;
    if (costs != NULL)
        return time_schedule(job, why);
    pen_status status =
        pen_predict(&job->planning.setting, job->plan, &prediction, why);
    if (status != PEN_OK)
        return status;
    job->predicted_sec = prediction.step_sec;
    pen_prediction_release(&prediction);
    return PEN_OK;
}

/* ---- ranks ---- */

/* Receivers join the parts of a message before they compute with it. */
static void add_gathers(const struct pen_simulated *simulated,
                        struct pen_sim_part *parts)
{
    const struct pen_shape *shape = &simulated->schedule->shape;
    for (uint32_t i = 0; i < simulated->num_stages; i++) {
        if (pen_shape_is_remote(shape, i, pen_shape_previous_stage(shape, i)))
            parts[i].forward_sec += simulated->gather_sec;
        if (pen_shape_is_remote(shape, i, pen_shape_next_stage(shape, i)))
            parts[i].input_sec += simulated->gather_sec;
    }
}

static pen_status make_parts(struct pen__simulate_job *job,
                             struct pen_text *why)
{
    const struct pen_simulated *simulated = &job->simulated;
    job->parts = calloc(simulated->num_stages, sizeof *job->parts);
    if (job->parts == NULL) {
        pen_why(why, "no memory for %u stages", simulated->num_stages);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < simulated->num_stages; i++) {
        const struct pen_simulated_stage *stage = &simulated->stages[i];
        job->parts[i] =
            (struct pen_sim_part){.forward_sec = stage->forward_sec,
                                  .input_sec = stage->input_sec,
                                  .weight_sec = stage->weight_sec,
                                  .step_sec = stage->update_sec,
                                  .num_layers = job->plan->stages[i].count,
                                  .num_parameters = stage->num_parameters,
                                  .num_experts = stage->num_experts};
    }
    add_gathers(simulated, job->parts);
    return PEN_OK;
}

/* A link that was measured is between all ranks, and nothing is lost on it. */
static void join_by_link(struct pen__simulate_job *job)
{
    const struct pen_cluster *cluster = job->planning.cluster;
    double *constants = job->group.device.constants;
    job->group = cluster->groups[0];
    job->group.count = pen_cluster_num_devices(cluster);
    constants[PEN_CONSTANT_LINK_SHARE] = 1;
    constants[PEN_CONSTANT_MESSAGE_SHARE] = 1;
    constants[PEN_CONSTANT_NETWORK_SHARE] = 1;
    constants[PEN_CONSTANT_LINK_SEC] = 0;
    constants[PEN_CONSTANT_NETWORK_SEC] = 0;
    job->level = (struct pen_link_level){
        .name = "link",
        .bytes_per_sec = job->simulated.costs.bytes_per_sec,
        .latency_sec = job->simulated.costs.latency_sec};
    job->measured = (struct pen_cluster){.groups = &job->group,
                                         .num_groups = 1,
                                         .levels = &job->level,
                                         .num_levels = 1};
}

static const struct pen_cluster *links_of(struct pen__simulate_job *job)
{
    const struct pen_profile *profile = job->planning.profile;
    bool is_measured = profile != NULL && profile->link.is_there &&
                       job->plan->target == PEN_TARGET_PENSTOCK;
    if (!is_measured || job->simulated.costs.bytes_per_sec <= 0)
        return job->planning.cluster;
    join_by_link(job);
    return &job->measured;
}

/* Ranks of a row that share layers and sequences. */
static uint32_t group_size(const struct pen__simulate_job *job)
{
    return job->simulated.tensor_ranks * job->simulated.context_ranks;
}

/* Gives the members of each group neighbouring devices. */
static void spread_groups(struct pen__simulate_job *job, uint32_t num_groups)
{
    uint32_t size = group_size(job);
    for (uint32_t group = num_groups; group-- > 0;)
        for (uint32_t i = size; i-- > 0;)
            job->devices[group * size + i] = job->devices[group] + i;
}

static pen_status place_ranks(struct pen__simulate_job *job,
                              const struct pen__simulate_args *args,
                              struct pen_text *why)
{
    const uint32_t *degrees = job->plan->degrees;
    uint32_t size = group_size(job);
    const struct pen_mapping mapping = {
        .kind = (enum pen_mapping_kind)args->mapping,
        .num_replicas = degrees[PEN_DEGREE_DP],
        .num_rows = degrees[PEN_DEGREE_PP],
        .lockstep = degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP],
        .node_size = pen_cluster_node_size(job->planning.cluster),
        .seed = args->seed};
    uint64_t groups = (uint64_t)mapping.num_replicas * mapping.num_rows;
    uint64_t count = groups * size;
    if (count <= UINT32_MAX)
        job->devices = calloc(count, sizeof *job->devices);
    if (job->devices == NULL) {
        pen_why(why, "no memory for %llu ranks", (unsigned long long)count);
        return PEN_NOMEM;
    }
    job->simulation.platform =
        (struct pen_platform_options){.cluster = links_of(job),
                                      .topology = args->topology,
                                      .is_uncontended = args->is_uncontended,
                                      .devices = job->devices,
                                      .num_ranks = (uint32_t)count,
                                      .lockstep = mapping.lockstep / size};
    pen_status status = pen_mapping_devices(&mapping, job->devices, why);
    if (status == PEN_OK)
        spread_groups(job, (uint32_t)groups);
    return status;
}

static void fill_simulation(struct pen__simulate_job *job)
{
    const struct pen_simulated *simulated = &job->simulated;
    struct pen_simulation *out = &job->simulation;
    job->model.decoder = job->planning.model;
    out->model = &job->model;
    out->schedule = simulated->schedule;
    out->parts = job->parts;
    out->layer_parameters = simulated->layer_parameters;
    out->mesh = pen_mesh_split(
        pen_mesh_of(PEN_MESH_PIPELINE_FIRST, job->plan->degrees[PEN_DEGREE_PP],
                    job->plan->degrees[PEN_DEGREE_DP] * group_size(job)),
        PEN_AXIS_TENSOR, simulated->tensor_ranks);
    out->mesh =
        pen_mesh_split(out->mesh, PEN_AXIS_CONTEXT, simulated->context_ranks);
    out->expert_ranks = simulated->expert_ranks;
    out->messages = simulated->messages;
    out->message_bytes = (size_t)simulated->message_bytes;
    out->is_blocking = simulated->is_blocking;
    out->gradient_size = simulated->gradient_bytes;
    out->value_size = simulated->weight_bytes;
    out->is_sharded = simulated->is_sharded;
    out->gathers_weights = simulated->gathers_weights;
    out->sharding_group = simulated->sharding_group;
    out->overlaps_sums = simulated->overlaps_gradients;
    out->other_sec = simulated->other_sec;
}

/* ---- all together ---- */

static pen_status open_plan(struct pen__simulate_job *job,
                            const struct pen__simulate_args *args,
                            struct pen_text *why)
{
    const struct pen__plan_args wanted = {.file = args->plan,
                                          .model = args->model,
                                          .cluster = args->cluster,
                                          .profile = args->profile};
    pen_status status = pen_plan_load(args->plan, &job->plan, why);
    if (status == PEN_OK)
        status =
            pen__planning_open_plan(&wanted, job->plan, &job->planning, why);
    if (status == PEN_OK)
        status = pen_plan_fits(job->plan, job->planning.model, why);
    return status;
}

pen_status pen__simulate_job_make(struct pen__simulate_job *job,
                                  const struct pen__simulate_args *args,
                                  struct pen_text *why)
{
    job->simulation.num_steps = (uint32_t)args->steps;
    pen_status status = pen_predict_simulated(&job->planning.setting, job->plan,
                                              &job->simulated, why);
    if (status == PEN_OK && args->costs != NULL)
        status = replace_costs(job, args->costs, why);
    if (status == PEN_OK)
        status = predict(job, args->costs, why);
    if (status == PEN_OK)
        status = make_parts(job, why);
    if (status == PEN_OK)
        status = place_ranks(job, args, why);
    if (status == PEN_OK)
        fill_simulation(job);
    return status;
}

pen_status pen__simulate_job_open(struct pen__simulate_job *job,
                                  const struct pen__simulate_args *args,
                                  struct pen_text *why)
{
    *job = (struct pen__simulate_job){.plan = NULL};
    pen_status status = open_plan(job, args, why);
    if (status == PEN_OK)
        status = pen__simulate_job_make(job, args, why);
    return status;
}

void pen__simulate_job_close(struct pen__simulate_job *job)
{
    free(job->parts);
    free(job->devices);
    pen_simulated_release(&job->simulated);
    pen__planning_close(&job->planning);
    pen_plan_free(job->plan);
}

double pen__simulate_step_sec(const struct pen_sim_result *result)
{
    uint32_t count = result->num_steps;
    uint32_t first = count > 1 ? 1 : 0;
    double sum = 0;
    for (uint32_t i = first; i < count; i++)
        sum += result->step_sec[i];
    return count == 0 ? 0 : sum / (count - first);
}
