/*
 * PipeDream-2BW: Narayanan et al., ICML 2021, arXiv 2006.09503.
 *
 *   p=2, m=2:
 *   rank 0  F0@0 F1@0 B0@0 F2@0 B1@0 STEP@1 F3@0 B2@0 F4@1 B3@0 STEP@2 F5@1
 *   rank 1       F0@0 B0@0 F1@0 B1@0 STEP@1 F2@0 B2@0 F3@0 B3@0 STEP@2 F4@1
 *
 * 1F1B over all batches, a STEP after every m-th backward. Batch t reads
 * version t-1 everywhere, so two buffers do: W(t+1) = W(t) - nu grad f(W(t-1)).
 * The paper asks for m >= p. When batch t enters rank 0, version t-1 exists
 * as soon as m >= p-1, so that is what is asked for here.
 */
#include "schedule/generators/asynchronous.h"

#define DEFAULT_BATCHES 3

static uint32_t one_batch_late(const struct pen__async *run, uint32_t stage,
                               uint32_t microbatch)
{
    (void)stage;
    uint32_t batch = microbatch / run->period;
    return batch > 0 ? batch - 1 : 0;
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen__async run = {
        .name = "pipedream-2bw",
        .ranks = args->ranks,
        .period = args->microbatches,
        .versions = 2,
        .forward = one_batch_late,
        .backward = one_batch_late,
    };
    if (args->microbatches < args->ranks - 1) {
        pen_why(why,
                "pipedream-2bw on %u ranks needs at least %u micro-batches per "
                "batch, not %u: two versions would not be enough",
                args->ranks, args->ranks - 1, args->microbatches);
        return PEN_INVALID;
    }
    pen_status status =
        pen__async_total(args, DEFAULT_BATCHES, &run.microbatches, why);
    if (status != PEN_OK)
        return status;
    return pen__async_generate(&run, out, why);
}

const struct pen_generator pen__pipedream_2bw = {
    .name = "pipedream-2bw",
    .title = "PipeDream-2BW: 1F1B without a flush, two weight buffers",
    .paper = "Narayanan et al., ICML 2021, arXiv 2006.09503",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "m >= p-1",
    .versions = "2",
    .bubble = "0 in steady state",
    .peak = "p-s",
    .joins_steps = true,
    .finding = "in `penstock reproduce 2bw` a small GPT ended with a loss 7 % "
               "above that of synchronous steps; with --predict-weights 3 %, "
               "with --stale-after 4 %",
    .generate = generate,
};
