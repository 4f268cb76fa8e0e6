/*
 * PipeMare: Yang et al., MLSys 2021, arXiv 1910.05124.
 *
 *   p=2, m=2:
 *   rank 0  F0 F1 B0 F2 B1 STEP F3 B2 F4 B3 STEP F5 ...
 *   rank 1     F0 B0 F1 B1 STEP F2 B2 F3 B3 STEP F4 ...
 *
 * 1F1B over all batches, a STEP after every m-th backward, one stored version.
 * The forward reads the newest weights; the backward estimates what its
 * forward read from the newest weights and a running average of their change,
 * the only extra copy. Learning rates are smaller where the delay is longer.
 */
#include "schedule/generators/asynchronous.h"

#define DEFAULT_BATCHES 3

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen__async run = {.name = "pipemare",
                             .ranks = args->ranks,
                             .period = args->microbatches,
                             .versions = 1};
    pen_status status =
        pen__async_total(args, DEFAULT_BATCHES, &run.microbatches, why);
    if (status != PEN_OK)
        return status;
    return pen__async_generate(&run, out, why);
}

const struct pen_generator pen__pipemare = {
    .name = "pipemare",
    .title = "PipeMare: 1F1B without a flush, corrected backward",
    .paper = "Yang et al., MLSys 2021, arXiv 1910.05124",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1 stored, and the average of its changes",
    .bubble = "0 in steady state",
    .peak = "p-s",
    .is_stale = true,
    .correction = PEN_CORRECTION_AVERAGE,
    .note = "one op at a time, so the delay is p-1-s updates; the paper "
            "overlaps F and B of a stage",
    .generate = generate,
};
