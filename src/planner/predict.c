#include "planner/predict.h"

#include "planner/energy.h"
#include "planner/interval.h"
#include "planner/predict_work.h"
#include "planner/rank_devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pen_spending_names[PEN_SPENDINGS + 1] = {
#define SPENDING_NAME(name, words) words,
    PEN_SPENDING_TABLE(SPENDING_NAME) NULL};

static pen_status check_plan(struct pen__work *work, struct pen_text *why)
{
    const struct pen_plan *plan = work->plan;
    const struct pen_layer_range *last = &plan->stages[plan->num_stages - 1];
    uint64_t ranks = pen_plan_num_ranks(plan);
    uint64_t devices = pen_cluster_num_devices(work->setting->cluster);
    if (last->first + last->count != work->setting->model->num_layers) {
        pen_why(why, "the stages have %u layers, but the model has %u",
                last->first + last->count, work->setting->model->num_layers);
        return PEN_INVALID;
    }
    if (ranks > devices) {
        pen_why(why,
                "the plan has %llu ranks, but the cluster has %llu devices",
                (unsigned long long)ranks, (unsigned long long)devices);
        return PEN_INVALID;
    }
    if (plan->schedule.name == NULL) {
        pen_why(why, "predict does not support a schedule file; use `penstock "
                     "schedule time`");
        return PEN_INVALID;
    }
    if (pen__needs_whole_gradients(plan) &&
        plan->sharding > PEN_SHARDING_ZERO1 &&
        work->setting->target != PEN_TARGET_PENSTOCK) { /* whole owners */
        pen_why(why, "muon steps whole matrices, so gradients and weights "
                     "cannot be sharded; use sharding none or zero1");
        return PEN_INVALID;
    }
    work->generator = pen_generator_find(plan->schedule.name);
    if (work->generator == NULL) {
        pen_why(why,
                "there is no schedule %s; `penstock schedule list` prints all "
                "names",
                plan->schedule.name);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* All ranks wait for the norm of the gradients before they step. */
static double measured_span(const struct pen__work *work,
                            const struct pen_timing *timing)
{
    double longest = 0;
    for (uint32_t i = 0; i < pen__degree(work->plan, PEN_DEGREE_PP); i++) {
        struct pen__stage rank;
        pen__sum_rank(work, i, &rank);
        longest = fmax(longest, rank.update_sec);
    }
    return timing->step_sec + longest;
}

static double compute_of(const struct pen__work *work,
                         const struct pen__stage *rank)
{
    const struct pen_layer_time *time = &rank->time;
    return work->plan->num_microbatches *
           (time->forward_sec + time->input_sec + time->weight_sec +
            time->recompute_sec);
}

double pen__busy_sec(const struct pen__work *work,
                     const struct pen__stage *rank)
{
    const struct pen_layer_time *time = &rank->time;
    double messages = time->tensor_sec + time->context_sec + time->expert_sec +
                      rank->wait_sec;
    return fmax(0, compute_of(work, rank) -
                       work->plan->num_microbatches * messages) +
           rank->update_sec;
}

/*
 * The rank that computes longest decides where a step's seconds go; all ranks
 * together, the energy.
 */
static void spend(const struct pen__work *work, double step_sec,
                  double other_sec, struct pen_prediction *out)
{
    struct pen__stage rank;
    struct pen__stage busiest = {.sync_sec = -1};
    double longest = -1;
    for (uint32_t i = 0; i < pen__degree(work->plan, PEN_DEGREE_PP); i++) {
        pen__sum_rank(work, i, &rank);
        pen__energy_add(work->setting, work->plan, i,
                        fmin(step_sec, pen__busy_sec(work, &rank)), out);
        double busy = compute_of(work, &rank) + rank.behind_sec;
        if (busy > longest) {
            longest = busy;
            busiest = rank;
        }
    }
    double left = fmax(0, step_sec - other_sec - compute_of(work, &busiest) -
                              busiest.gather_sec - busiest.update_sec);
    const struct pen_layer_time *time = &busiest.time;
    double count = work->plan->num_microbatches;
    double messages = time->tensor_sec + time->context_sec + time->expert_sec;
    double all = time->forward_sec + time->input_sec + time->weight_sec +
                 time->recompute_sec;
    double pure = all > 0 ? fmax(0, 1 - messages / all) : 0;
    double *spent = out->spent;
    spent[PEN_SPENDING_FORWARD] = count * time->forward_sec * pure;
    spent[PEN_SPENDING_BACKWARD] =
        count * (time->input_sec + time->weight_sec) * pure;
    spent[PEN_SPENDING_RECOMPUTE] = count * time->recompute_sec * pure;
    spent[PEN_SPENDING_TENSOR] = count * time->tensor_sec;
    spent[PEN_SPENDING_CONTEXT] = count * time->context_sec;
    spent[PEN_SPENDING_EXPERT] = count * time->expert_sec;
    spent[PEN_SPENDING_REDUCTION] = fmin(left, busiest.sync_sec);
    spent[PEN_SPENDING_GATHER] = busiest.gather_sec;
    spent[PEN_SPENDING_UPDATE] = busiest.update_sec;
    spent[PEN_SPENDING_OTHER] = other_sec;
    spent[PEN_SPENDING_BUBBLE] = left - spent[PEN_SPENDING_REDUCTION];
    out->bubble = spent[PEN_SPENDING_BUBBLE] / step_sec;
}

/* The constant was fitted to language models, and is not charged to images. */
double pen__other_sec(const struct pen__work *work)
{
    return work->measured != NULL || work->setting->model->images != NULL
               ? 0
               : work->device->constants[PEN_CONSTANT_STEP_SEC];
}

static void tell_time(const struct pen__work *work, double span_sec,
                      struct pen_prediction *out)
{
    const struct pen_setting *setting = work->setting;
    const struct pen_plan *plan = work->plan;
    double other = pen__other_sec(work);
    double peak = pen__devices_peak(setting, pen_plan_num_ranks(plan));
    double batch = (double)pen_plan_global_batch(plan);
    out->step_sec = span_sec + other;
    pen__energy_start(setting, plan, out);
    spend(work, out->step_sec, other, out);
    out->tokens_per_sec = batch * plan->sequence / out->step_sec;
    out->model_flops =
        pen_model_step_flops(setting->model, (uint64_t)batch, plan->sequence);
    out->utilisation = out->model_flops / (out->step_sec * peak);
    pen__interval_set(setting, plan, work->device, work->measured != NULL, out);
}

/* Seconds of the stages before a rank, on the way there and on the way back. */
struct way {
    double there_sec;
    double back_sec;
};

/* Makes the way longer by one stage. */
static void add_to_way(const struct pen__work *work, uint32_t stage,
                       struct way *way)
{
    const struct pen_layer_time *time = &work->stages[stage].time;
    if (work->generator->has_slices) /* a part of a micro-batch goes ahead */
        return;
    way->there_sec += time->forward_sec;
    way->back_sec += time->input_sec + time->recompute_sec;
    if (!work->generator->splits_backward)
        way->back_sec += time->weight_sec;
}

/*
 * A rank waits for the stages before its first one to begin, and they for it to
 * end. With two pipelines in opposite directions, it waits for the nearer end.
 */
static struct way nearer_way(const struct pen__work *work, uint32_t rank,
                             const struct way *way)
{
    uint32_t pp = pen__degree(work->plan, PEN_DEGREE_PP);
    if (!pen__has_two_copies(work) || rank <= pp - 1 - rank)
        return *way;
    struct way nearer = {0, 0};
    for (uint32_t i = 0; i < pp - 1 - rank; i++)
        add_to_way(work, i, &nearer);
    return nearer;
}

/* No rank ends before it has done its part and those before it theirs. */
static double bound_span(const struct pen__work *work)
{
    double most = 0;
    struct pen__stage first;
    struct way before = {0, 0};
    pen__sum_rank(work, 0, &first);
    for (uint32_t i = 0; i < pen__degree(work->plan, PEN_DEGREE_PP); i++) {
        struct pen__stage rank;
        pen__sum_rank(work, i, &rank);
        struct way way = nearer_way(work, i, &before);
        add_to_way(work, i, &before);
        double compute = compute_of(work, &rank);
        if (!work->generator->is_synchronous) { /* all the time */
            most = fmax(most, compute + rank.gather_sec + rank.update_sec);
            continue;
        }
        if (pen__is_optimistic(work)) { /* rows follow each other */
            most = fmax(most, compute + rank.behind_sec);
            continue;
        }
        double needed = compute; /* before the others can end */
        if (work->generator->splits_backward)
            needed -= work->plan->num_microbatches * rank.time.weight_sec;
        most = fmax(most, way.there_sec + compute + rank.behind_sec);
        most = fmax(most,
                    way.there_sec + needed + way.back_sec + first.behind_sec);
    }
    return most;
}

pen_status pen__work_open(const struct pen_setting *setting,
                          const struct pen_plan *plan, struct pen__work *work,
                          struct pen_text *why)
{
    *work = (struct pen__work){.setting = setting,
                               .plan = plan,
                               .device = &setting->cluster->groups[0].device};
    pen_costs_init(&work->costs);
    pen_status status = check_plan(work, why);
    if (status != PEN_OK)
        return status;
    uint32_t slowest =
        pen__devices_from(setting, 0, pen_plan_num_ranks(plan)).slowest;
    work->device = &setting->cluster->groups[slowest].device;
    work->stages = calloc(plan->num_stages, sizeof *work->stages);
    if (work->stages == NULL) {
        pen_why(why, "no memory for %u stages", plan->num_stages);
        return PEN_NOMEM;
    }
    if (!pen__is_measured(setting)) {
        pen__sum_stages(work);
        return PEN_OK;
    }
    status = pen__measured_create(setting, plan, work->generator,
                                  &work->measured, why);
    if (status == PEN_OK)
        pen__measure_stages(work);
    return status;
}

void pen__work_close(struct pen__work *work)
{
    free(work->stages);
    pen__measured_free(work->measured);
    pen_costs_release(&work->costs);
}

pen_status pen_predict(const struct pen_setting *setting,
                       const struct pen_plan *plan, struct pen_prediction *out,
                       struct pen_text *why)
{
    struct pen__work work;
    struct pen_timing *timing = NULL;
    struct pen_prediction found = {.step_sec = 0};
    double span_sec = 0;
    pen_status status = pen__work_open(setting, plan, &work, why);
    if (status == PEN_OK)
        status = pen__make_costs(&work, why);
    if (status == PEN_OK)
        status = pen__time_schedule(&work, &timing, &span_sec, why);
    if (status == PEN_OK)
        status = pen__tell_memory(&work, timing, &found, why);
    /* The ends of a short run may be a little shorter than its middle. */
    if (status == PEN_OK && !work.generator->is_synchronous)
        span_sec = fmax(span_sec, bound_span(&work));
    else if (status == PEN_OK && work.measured != NULL)
        span_sec = measured_span(&work, timing);
    if (status == PEN_OK) {
        tell_time(&work, span_sec, &found);
        *out = found;
    } else
        pen_prediction_release(&found);
    pen_timing_free(timing);
    pen__work_close(&work);
    return status;
}

pen_status pen_predict_bound(const struct pen_setting *setting,
                             const struct pen_plan *plan,
                             struct pen_prediction *out, struct pen_text *why)
{
    if (pen__is_measured(setting)) /* whose schedules are small */
        return pen_predict(setting, plan, out, why);
    struct pen__work work;
    struct pen_prediction found = {.step_sec = 0};
    pen_status status = pen__work_open(setting, plan, &work, why);
    if (status == PEN_OK)
        status = pen__tell_memory(&work, NULL, &found, why);
    if (status == PEN_OK) {
        tell_time(&work, bound_span(&work), &found);
        *out = found;
    } else
        pen_prediction_release(&found);
    pen__work_close(&work);
    return status;
}

pen_status pen_predict_costs(const struct pen_setting *setting,
                             const struct pen_plan *plan, struct pen_costs *out,
                             struct pen_text *why)
{
    struct pen__work work;
    pen_status status = pen__work_open(setting, plan, &work, why);
    if (status == PEN_OK)
        status = pen__make_costs(&work, why);
    if (status == PEN_OK) {
        *out = work.costs;
        pen_costs_init(&work.costs);
    }
    pen__work_close(&work);
    return status;
}

void pen_prediction_release(struct pen_prediction *prediction)
{
    free(prediction->memory);
    *prediction = (struct pen_prediction){.step_sec = 0};
}

bool pen_prediction_store(const struct pen_prediction *prediction,
                          struct pen_plan *plan)
{
    struct pen_plan_memory *memory =
        calloc(prediction->num_memory + 1, sizeof *memory);
    if (memory == NULL)
        return false;
    memcpy(memory, prediction->memory, prediction->num_memory * sizeof *memory);
    free(plan->predicted.memory);
    plan->predicted = (struct pen_plan_prediction){
        .is_there = true,
        .step_sec = prediction->step_sec,
        .step_error = prediction->step_error,
        .memory_error = prediction->memory_error,
        .bubble = prediction->bubble,
        .utilisation = prediction->utilisation,
        .tokens_per_sec = prediction->tokens_per_sec,
        .memory = memory,
        .num_memory = prediction->num_memory};
    return true;
}
