/* The memory that every rank of a plan holds at its peak. */
#include "planner/predict_work.h"

#include "planner/rank_devices.h"

#include <math.h>
#include <stdlib.h>

/*
 * PyTorch's pipelines have FSDP reduce gradients only after the last
 * micro-batch (set_requires_gradient_sync), whatever is resharded when: FSDP
 * adds them up whole, in the type that they are reduced in.
 */
static bool keeps_gradients(const struct pen__work *work)
{
    return work->setting->practice.gathers_once &&
           pen__degree(work->plan, PEN_DEGREE_PP) > 1;
}

/*
 * Bytes of one weight: in 8 or 4 bits by rows and by columns, where both are
 * kept.
 */
static double weight_bytes(const struct pen__work *work)
{
    enum pen_number number = work->setting->number;
    double wide = pen_number_bytes(number);
    if (!pen_number_is_narrow(number) || !work->setting->practice.keeps_narrow)
        return wide;
    bool is_twice = number != PEN_NUMBER_FP8 ||
                    !(work->device->flops[PEN_NUMBER_MXFP8] > 0);
    double narrow = pen_number_product_bytes(number) * (is_twice ? 2 : 1);
    return work->plan->recipe.gathers_narrow ? narrow : wide + narrow;
}

/* The weights of a rank that stay there when replicas share them out. */
static double share_of(const struct pen__work *work,
                       const struct pen__stage *rank)
{
    double experts = (double)rank->bytes.num_experts;
    double others = (double)rank->bytes.num_parameters - experts;
    const struct pen_plan *plan = work->plan;
    return others /
               pen__num_owners(plan->degrees, plan->expert_tp, PEN__COMMON) +
           experts /
               pen__num_owners(plan->degrees, plan->expert_tp, PEN__OF_EXPERTS);
}

/* Elements of gradients, and of values, where replicas share them. */
static void count_shared(const struct pen__work *work,
                         const struct pen__stage *rank,
                         double counts[PEN_MEMORY_PARTS])
{
    const struct pen_plan *plan = work->plan;
    double experts = (double)rank->bytes.num_experts;
    double others = (double)rank->bytes.num_parameters - experts;
    double share = pen__keeps_experts(work)
                       ? others / pen__num_owners(plan->degrees,
                                                  plan->expert_tp, PEN__COMMON)
                       : share_of(work, rank);
    if (!pen__keeps_experts(work))
        experts = 0;
    if (plan->sharding >= PEN_SHARDING_ZERO2 && !keeps_gradients(work))
        counts[PEN_MEMORY_GRADIENTS] =
            share + experts * pen__degree(plan, PEN_DEGREE_EP);
    if (pen__passes_weights(work))
        counts[PEN_MEMORY_WEIGHTS] =
            experts + (plan->sharding_group > 0
                           ? ((double)rank->bytes.num_parameters - experts) /
                                 plan->sharding_group
                           : share);
}

static void fill_memory(const struct pen__work *work,
                        const struct pen__stage *rank, double stash_bytes,
                        bool has_head, struct pen_plan_memory *out)
{
    const struct pen_plan *plan = work->plan;
    const struct pen_practice *practice = &work->setting->practice;
    double all = (double)rank->bytes.num_parameters;
    double counts[PEN_MEMORY_PARTS] = {0};
    for (int i = PEN_MEMORY_WEIGHTS; i <= PEN_MEMORY_GRADIENTS; i++)
        counts[i] = all;
    if (pen__keeps_experts(work))
        counts[PEN_MEMORY_GRADIENTS] +=
            (double)rank->bytes.num_experts *
            (pen__degree(plan, PEN_DEGREE_EP) - 1.0);
    count_shared(work, rank, counts);
    double boundary = (double)rank->bytes.output_bytes;
    double bytes[PEN_MEMORY_PARTS] = {
        [PEN_MEMORY_WEIGHTS] = counts[PEN_MEMORY_WEIGHTS] * weight_bytes(work),
        [PEN_MEMORY_GRADIENTS] = counts[PEN_MEMORY_GRADIENTS] *
                                 pen__gradient_bytes(work->setting, plan),
        [PEN_MEMORY_OPTIMIZER] =
            plan->recipe.offloads_optimizer
                ? 0
                : pen__optimizer_bytes(work->setting, plan, &rank->bytes,
                                       &rank->matrices),
        [PEN_MEMORY_ACTIVATIONS] = stash_bytes *
                                   (1 - pen__offloaded_share(work)) *
                                   (1 + practice->memory_holes),
        [PEN_MEMORY_LOSS] = has_head ? (double)rank->bytes.working_bytes : 0,
        [PEN_MEMORY_BUFFERS] =
            4 * boundary + (has_head ? 0 : (double)rank->bytes.working_bytes),
        [PEN_MEMORY_OVERHEAD] = practice->overhead_bytes};
    for (int part = 0; part < PEN_MEMORY_PARTS; part++)
        out->bytes[part] = (uint64_t)bytes[part];
    out->count = pen_plan_num_ranks(plan) / pen__degree(plan, PEN_DEGREE_PP);
}

/* Micro-batches that a rank of the pipeline holds, where nothing is timed. */
static double guess_in_flight(const struct pen__work *work, uint32_t rank)
{
    double pp = pen__degree(work->plan, PEN_DEGREE_PP);
    double vpp = pen__degree(work->plan, PEN_DEGREE_VPP);
    double m = work->plan->num_microbatches;
    if (work->generator->stashes_all)
        return m;
    if (vpp > 1 && work->generator->placement != PEN_PLACEMENT_V)
        return fmin(m, pp + (pp - 1) / vpp - 2.0 * rank / vpp);
    return fmin(m, vpp > 1 ? pp : pp - rank);
}

/*
 * How far the bytes were off where they could be compared. A plan must fit all
 * the same: close to the brim, allocators slow down before they fail.
 */
#define MEMORY_ERROR 0.1

/* Segments that grow where they are leave no holes close to the brim. */
#define TIGHT_MARGIN 0.05

/*
 * MEMORY_ERROR for pipelines of FSDP: none was compared but those that the
 * constants were fitted to.
 */
#define UNPROVED_MEMORY_ERROR 0.3

/* MEMORY_ERROR with a profile of the machine. */
#define MEASURED_MEMORY_ERROR 0.02

/*
 * Copies of the weights that a rank keeps in addition to the newest, each as
 * large as a gradient: those of older steps, and those that a correction of
 * delays computes. Joint steps keep a second gradient.
 */
static uint64_t further_weights(const struct pen__work *work,
                                const struct pen_timing *timing, uint32_t index)
{
    uint32_t versions = timing == NULL ? 1 : timing->ranks[index].versions;
    bool is_corrected = work->generator->correction != PEN_CORRECTION_NONE;
    bool has_two_gradients = work->measured->schedule->rules.is_joint;
    return (versions > 1 ? versions - 1 : 0) + is_corrected + has_two_gradients;
}

/*
 * Bytes of the saved values and moments from which the trainer restores a step.
 */
static double saved_bytes(const struct pen__work *work,
                          const struct pen__stage *rank)
{
    const struct pen_plan *plan = work->plan;
    bool is_sharded = plan->sharding >= PEN_SHARDING_ZERO1;
    bool has_masters = pen_number_bytes(work->setting->number) < 4;
    if (!pen__is_optimistic(work))
        return 0;
    return pen__optimizer_bytes(work->setting, plan, &rank->bytes,
                                &rank->matrices) +
           (has_masters
                ? 0
                : 4 * (is_sharded ? share_of(work, rank)
                                  : (double)rank->bytes.num_parameters));
}

static void fill_rank(const struct pen__work *work,
                      const struct pen_timing *timing, uint32_t index,
                      bool has_head, struct pen_plan_memory *out)
{
    struct pen__stage rank;
    if (work->measured != NULL) {
        out->count = pen_plan_num_ranks(work->plan) /
                     pen__degree(work->plan, PEN_DEGREE_PP);
        pen__measured_memory(work->measured, work->plan, index, out);
        out->bytes[PEN_MEMORY_WEIGHTS] += further_weights(work, timing, index) *
                                          out->bytes[PEN_MEMORY_GRADIENTS];
        return;
    }
    pen__sum_rank(work, index, &rank);
    double stash =
        timing != NULL
            ? timing->ranks[index].peak * work->activation_bytes
            : guess_in_flight(work, index) * (double)rank.bytes.stash_bytes;
    /* A forward more is under way; alone, it takes the place of a backward. */
    if (work->plan->recipe.overlaps_experts &&
        pen__degree(work->plan, PEN_DEGREE_PP) > 1)
        stash += (double)rank.bytes.stash_bytes /
                 pen__degree(work->plan, PEN_DEGREE_VPP);
    fill_memory(work, &rank, stash, has_head, out);
    out->bytes[PEN_MEMORY_OPTIMIZER] += (uint64_t)saved_bytes(work, &rank);
    if (timing != NULL)
        out->bytes[PEN_MEMORY_WEIGHTS] *= timing->ranks[index].versions;
}

/* Keeps the rank that fills the largest share of its devices. */
static void note_room(uint64_t bytes, uint64_t offered,
                      struct pen_prediction *out)
{
    if (out->offered_bytes != 0 &&
        (double)bytes * (double)out->offered_bytes <=
            (double)out->tight_bytes * (double)offered)
        return;
    out->tight_bytes = bytes;
    out->offered_bytes = offered;
}

pen_status pen__tell_memory(const struct pen__work *work,
                            const struct pen_timing *timing,
                            struct pen_prediction *out, struct pen_text *why)
{
    uint32_t pp = pen__degree(work->plan, PEN_DEGREE_PP);
    uint32_t last = pen__rank_of(work, work->plan->num_stages - 1);
    double error =
        work->measured == NULL ? MEMORY_ERROR : MEASURED_MEMORY_ERROR;
    out->memory = calloc(pp, sizeof *out->memory);
    if (out->memory == NULL) {
        pen_why(why, "no memory for the classes of %u ranks", pp);
        return PEN_NOMEM;
    }
    out->num_memory = pp;
    for (uint32_t i = 0; i < pp; i++) {
        fill_rank(work, timing, i, i == last, &out->memory[i]);
        uint64_t bytes = pen_plan_memory_bytes(&out->memory[i]);
        if (bytes > out->peak_bytes) {
            out->peak_bytes = bytes;
            out->fullest = i;
        }
        note_room(bytes,
                  pen__devices_of(work->setting, work->plan, i).memory_bytes,
                  out);
    }
    double margin = work->measured == NULL && work->setting->practice.is_tight
                        ? TIGHT_MARGIN
                        : error;
    out->fits =
        (double)out->tight_bytes * (1 + margin) <= (double)out->offered_bytes;
    out->memory_margin = margin;
    out->memory_error = work->measured == NULL && keeps_gradients(work)
                            ? UNPROVED_MEMORY_ERROR
                            : error;
    return PEN_OK;
}
