/*
 * SpecTrain: Chen, Yang, Cheng, 2018, arXiv 1809.02839.
 *
 *   rank 0  F0 F1 F2 F3 B0 STEP F4 B1 STEP F5 ...
 *   rank 3           F0 B0 STEP F1 B1 STEP F2 B2 STEP ...
 *
 * PipeDream's order with one stored version: the forward and the backward of a
 * micro-batch both read weights predicted, from the newest ones and their
 * momentum, for the moment at which it leaves the pipeline. From the forward
 * on rank k that is floor(k/2) + p-1-k updates away, from the backward
 * floor(k/2); this is the count of STEPs in the order below when forward and
 * backward take the same time.
 */
#include "schedule/generators/asynchronous.h"

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__async_newest("spectrain", args, out, why);
}

const struct pen_generator pen__spectrain = {
    .name = "spectrain",
    .title = "SpecTrain: 1F1B without a flush, predicted weights",
    .paper = "Chen et al., 2018, arXiv 1809.02839",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1 stored, and a copy predicted from its momentum",
    .bubble = "0 in steady state",
    .peak = "min(p-s, m)",
    .steps_each = true,
    .is_stale = true,
    .correction = PEN_CORRECTION_MOMENTUM,
    .note = "order only; the distance of the prediction follows from the "
            "order",
    .generate = generate,
};
