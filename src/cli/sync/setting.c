/* The setting of `penstock sync compare`: the model, the link and the step. */
#include "cli/sync/sync.h"

#include "base/units.h"
#include "cli/plan/options.h"
#include "planner/compute.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Seconds of the search for the plan of a replica. */
#define SEARCH_SECONDS 3

/* ---- the link ---- */

static pen_status read_unit(enum pen_unit unit, const char *name,
                            const char *text, double least, double *out,
                            struct pen_text *why)
{
    if (text == NULL)
        return PEN_OK;
    if (pen_unit_parse(unit, text, out) && *out >= least)
        return PEN_OK;
    pen_why(why, "--%s %s: expected a number with a unit, as %s", name, text,
            pen_unit_example(unit));
    return PEN_INVALID;
}

static pen_status read_link(const struct pen__sync_args *args,
                            struct pen_replica_setting *out,
                            struct pen_text *why)
{
    out->latency_sec = PEN_REPLICA_LATENCY_SEC;
    out->encode_bytes_per_sec = PEN_REPLICA_CORE_RATE;
    out->eager_bytes = PEN_REPLICA_EAGER_BYTES;
    pen_status status = read_unit(PEN_UNIT_BYTES_PER_SEC, "link", args->link, 1,
                                  &out->bytes_per_sec, why);
    if (status == PEN_OK)
        status = read_unit(PEN_UNIT_SECONDS, "latency", args->latency, 0,
                           &out->latency_sec, why);
    if (status == PEN_OK)
        status =
            read_unit(PEN_UNIT_BYTES_PER_SEC, "encode-rate", args->encode_rate,
                      1, &out->encode_bytes_per_sec, why);
    return status;
}

/* ---- the step ---- */

/* Samples of one replica; 0 when they do not come out even. */
static uint64_t own_samples(const struct pen__sync_args *args,
                            uint64_t micro_batch, struct pen_text *why)
{
    uint64_t batch = args->global_batch;
    if (batch == 0)
        batch = args->replicas * micro_batch;
    if (batch % (args->replicas * micro_batch) == 0)
        return batch / args->replicas;
    pen_why(why,
            "a batch of %" PRIu64 " cannot be split among %" PRIu64
            " replicas in micro-batches of %" PRIu64,
            batch, args->replicas, micro_batch);
    return 0;
}

static pen_status take_given(const struct pen__sync_args *args,
                             struct pen_replica_setting *out,
                             struct pen_text *why)
{
    double count = args->microbatches == 0 ? 1 : (double)args->microbatches;
    out->samples =
        (double)(args->global_batch == 0 ? args->replicas : args->global_batch);
    pen_status status =
        read_unit(PEN_UNIT_SECONDS, "step-time", args->step_time, 1e-9,
                  &out->compute_sec, why);
    out->overlap_sec = PEN_REPLICA_BACKWARD_SHARE * out->compute_sec / count;
    return status;
}

static pen_status sum_profile(const struct pen__sync_args *args,
                              const struct pen_model *model,
                              const struct pen_profile *profile,
                              struct pen_replica_setting *out,
                              struct pen_text *why)
{
    const struct pen_compute compute = {.model = model,
                                        .profile = profile,
                                        .micro_batch = profile->micro_batch,
                                        .sequence = profile->sequence,
                                        .is_bf16 = profile->is_bf16,
                                        .optimizer = PEN_UPDATE_ADAM};
    const struct pen_layer_range all = {.count = model->num_layers};
    struct pen_cost cost;
    pen_status status = pen_compute_check(&compute, PEN_RECOMPUTE_NONE, why);
    if (status != PEN_OK)
        return status;
    uint64_t samples = own_samples(args, profile->micro_batch, why);
    if (samples == 0)
        return PEN_INVALID;
    uint64_t count = samples / profile->micro_batch;
    pen_compute_stage(&compute, &all, true, &cost);
    out->samples = (double)(samples * args->replicas);
    out->overlap_sec = cost.input_sec + cost.weight_sec;
    out->compute_sec =
        (double)count * (cost.forward_sec + out->overlap_sec) + cost.step_sec;
    return PEN_OK;
}

static pen_status take_profile(const struct pen__sync_args *args,
                               const struct pen_model *model,
                               struct pen_replica_setting *out,
                               struct pen_text *why)
{
    struct pen_profile *profile = NULL;
    pen_status status = pen_profile_load(args->profile, &profile, why);
    if (status == PEN_OK)
        status = sum_profile(args, model, profile, out, why);
    pen_profile_free(profile);
    return status;
}

/*
 * Returns the rate of a replica: each device encodes its part of the weights,
 * and the slowest kind counts.
 */
static double replica_rate(const struct pen_cluster *cluster,
                           const struct pen_plan *plan)
{
    double rate = pen_replica_device_rate(&cluster->groups[0].device);
    for (uint32_t i = 1; i < cluster->num_groups; i++)
        rate = fmin(rate, pen_replica_device_rate(&cluster->groups[i].device));
    return rate * plan->degrees[PEN_DEGREE_TP] * plan->degrees[PEN_DEGREE_PP];
}

static void take_plan(const struct pen_plan_found *found,
                      struct pen_replica_setting *out)
{
    const struct pen_prediction *it = &found->prediction;
    out->compute_sec = it->step_sec;
    out->overlap_sec =
        it->spent[PEN_SPENDING_BACKWARD] / found->plan->num_microbatches;
}

/* Takes the cluster, with the best plan of one replica. */
static pen_status take_cluster(const struct pen__sync_args *args,
                               struct pen_replica_setting *out,
                               struct pen_text *why)
{
    if (args->sequence == 0 || args->global_batch == 0) {
        pen_why(why, "--cluster needs --seq-length and --global-batch-size");
        return PEN_INVALID;
    }
    uint64_t samples = own_samples(args, 1, why);
    if (samples == 0)
        return PEN_INVALID;
    const struct pen__plan_args plan_args = {.model = args->model,
                                             .cluster = args->cluster,
                                             .profile = args->profile,
                                             .sequence = args->sequence,
                                             .global_batch = samples,
                                             .target = PEN_TARGETS,
                                             .number = PEN_NUMBERS};
    const struct pen_plan_search_options options = {.top = 1,
                                                    .seconds = SEARCH_SECONDS};
    struct pen__planning planning;
    struct pen_plan_ranking *ranking = NULL;
    pen_status status = pen__planning_open(&plan_args, NULL, &planning, why);
    if (status == PEN_OK)
        status = pen_plan_search(&planning.setting, &options, &ranking, why);
    if (status == PEN_OK)
        take_plan(&ranking->found[0], out);
    if (status == PEN_OK && args->encode_rate == NULL)
        out->encode_bytes_per_sec =
            replica_rate(planning.setting.cluster, ranking->found[0].plan);
    out->samples = (double)args->global_batch;
    pen_plan_ranking_free(ranking);
    pen__planning_close(&planning);
    return status;
}

static pen_status take_step(const struct pen__sync_args *args,
                            const struct pen_any_model *model,
                            struct pen_replica_setting *out,
                            struct pen_text *why)
{
    if (args->step_time != NULL)
        return take_given(args, out, why);
    if (args->cluster == NULL && args->profile == NULL) {
        pen_why(why, "the compute time of a step is unknown; give --step-time, "
                     "--profile or --cluster");
        return PEN_INVALID;
    }
    if (model->decoder == NULL) {
        pen_why(why,
                "penstock neither profiles nor plans models for images; give "
                "--step-time");
        return PEN_INVALID;
    }
    return args->cluster != NULL ? take_cluster(args, out, why)
                                 : take_profile(args, model->decoder, out, why);
}

/* ---- both, and the model ---- */

static pen_status open_model(const char *source, struct pen_any_model *out,
                             struct pen_text *why)
{
    return pen_image_model_is(source)
               ? pen_image_model_load(source, &out->images, why)
               : pen_model_load(source, &out->decoder, why);
}

pen_status pen__sync_setting_init(const struct pen__sync_args *args,
                                  struct pen__sync_setting *out,
                                  struct pen_text *why)
{
    struct pen_any_model model = {.decoder = NULL};
    struct pen_replica_setting *setting = &out->setting;
    *out = (struct pen__sync_setting){.setting.num_replicas =
                                          (uint32_t)args->replicas};
    pen_status status = read_link(args, setting, why);
    if (status == PEN_OK)
        status = open_model(args->model, &model, why);
    if (status == PEN_OK)
        status = take_step(args, &model, setting, why);
    if (status == PEN_OK)
        status = pen_replica_shapes_of(&model, &out->shapes, why);
    pen_any_model_release(&model);
    setting->shapes = (const size_t(*)[2])out->shapes.at;
    setting->num_shapes = out->shapes.count;
    setting->num_weights = out->shapes.num_weights;
    setting->num_moments = args->is_sgd ? 1 : PEN_REPLICA_NUM_MOMENTS;
    setting->last_share = out->shapes.last_share;
    return status;
}

void pen__sync_setting_release(struct pen__sync_setting *setting)
{
    free(setting->shapes.at);
}
