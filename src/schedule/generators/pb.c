/*
 * PB, pipelined backpropagation of single samples: Kosson et al., MLSys 2021,
 * arXiv 2003.11666.
 *
 *   rank 0  F0 F1 F2 F3 B0 STEP F4 B1 STEP F5 ...
 *   rank 3           F0 B0 STEP F1 B1 STEP F2 B2 STEP ...
 *
 * A micro-batch is one sample and every backward is followed by a STEP.
 * Forward and backward read the newest weights; spike compensation (in the
 * STEP) and linear weight prediction (in the forward) make up for the delay.
 * The paper's stages run a forward and a backward at the same time and are
 * 2(p-1-s) updates late; a rank that alternates, as here, is p-1-s late.
 */
#include "schedule/generators/asynchronous.h"

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__async_newest("pb", args, out, why);
}

const struct pen_generator pen__pb = {
    .name = "pb",
    .title = "PB: pipelined backpropagation of single samples",
    .paper = "Kosson et al., MLSys 2021, arXiv 2003.11666",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1 stored, and a copy predicted linearly",
    .bubble = "0 in steady state",
    .peak = "min(p-s, m)",
    .steps_each = true,
    .is_stale = true,
    .correction = PEN_CORRECTION_SPIKE,
    .note = "one op at a time, so the delay is p-1-s updates; the paper "
            "overlaps F and B of a stage, about 2(p-1-s)",
    .generate = generate,
};
