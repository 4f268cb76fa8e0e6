/*
 * XPipe: Guan et al., 2019, arXiv 1911.04610; with the prediction of other
 * optimizers PipeOptim, Guan et al., 2023, arXiv 2312.00839.
 *
 *   p=2, m=2:
 *   rank 0  F0@0 F1@0 B0 F2@0 B1 STEP@1 F3@0 B2 F4@1 B3 STEP@2 F5@1 ...
 *   rank 1       F0@0 B0 F1@0 B1 STEP@1 F2@1 B2 F3@1 B3 STEP@2 F4@2 ...
 *
 * 1F1B over all mini-batches of m micro-batches, a STEP after each. The first
 * micro-batch of a mini-batch to reach a rank predicts the weights that its
 * STEP will see, and the others of the mini-batch use the same prediction: the
 * version of a forward is the one that this prediction starts from. Backwards
 * read the newest weights. How far ahead to predict is for the runtime.
 */
#include "schedule/generators/asynchronous.h"

#define DEFAULT_BATCHES 3

static uint32_t newest_at_first(const struct pen__async *run, uint32_t stage,
                                uint32_t microbatch)
{
    uint32_t first = microbatch - microbatch % run->period;
    uint32_t ahead = run->ranks - 1 - stage;
    return first > ahead ? (first - ahead) / run->period : 0;
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen__async run = {.name = "xpipe",
                             .ranks = args->ranks,
                             .period = args->microbatches,
                             .versions = 2,
                             .forward = newest_at_first};
    pen_status status =
        pen__async_total(args, DEFAULT_BATCHES, &run.microbatches, why);
    if (status != PEN_OK)
        return status;
    return pen__async_generate(&run, out, why);
}

const struct pen_generator pen__xpipe = {
    .name = "xpipe",
    .title = "XPipe: 1F1B without a flush, one prediction per mini-batch",
    .paper = "Guan et al., 2019, arXiv 1911.04610; PipeOptim, Guan et al., "
             "2023, arXiv 2312.00839",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1 stored, and the copy that a mini-batch predicted",
    .bubble = "0 in steady state",
    .peak = "p-s",
    .is_stale = true,
    .correction = PEN_CORRECTION_ADAM,
    .note = "order and versions only; the runtime chooses the distance of "
            "the prediction, which is unconfirmed",
    .generate = generate,
};
