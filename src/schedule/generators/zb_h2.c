/*
 * ZB-H2: Qi et al., ICLR 2024, arXiv 2401.10241.
 *
 *   rank 0  F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 ...
 *   rank 3  .. .. .. F0 I0 F1 I1 F2 I2 ... I6 W0 F7 I7 W1 W2 ...
 *
 * Twice the warm-up of ZB-H1, and weight gradients that come 2s micro-batches
 * later: the rows become parallelograms that join from step to step without a
 * gap. That needs optimizer steps without a barrier before them
 * (post-validation).
 */
#include "schedule/generators/generator.h"

static void put_row(struct pen__builder *builder, uint32_t rank, uint32_t p,
                    uint32_t m)
{
    uint32_t warmup = pen__min(2 * (p - 1 - rank) + 1, m);
    uint32_t lag = 2 * rank;
    uint32_t weights = 0;
    for (uint32_t i = 0; i < warmup; i++)
        pen__put(builder, rank, PEN_OP_FORWARD, rank, i);
    for (uint32_t i = 0; i < m; i++) {
        pen__put(builder, rank, PEN_OP_BACKWARD_INPUT, rank, i);
        if (i >= lag)
            pen__put(builder, rank, PEN_OP_BACKWARD_WEIGHT, rank, weights++);
        if (i < m - warmup)
            pen__put(builder, rank, PEN_OP_FORWARD, rank, warmup + i);
    }
    while (weights < m)
        pen__put(builder, rank, PEN_OP_BACKWARD_WEIGHT, rank, weights++);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__generate_linear("zb-h2", args, put_row, out, why);
}

const struct pen_generator pen__zb_h2 = {
    .name = "zb-h2",
    .title = "ZB-H2: zero bubble at equal times, twice the memory of 1F1B",
    .paper = "Qi et al., ICLR 2024, arXiv 2401.10241",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none; the bubble as stated needs m >= 2p-1, tW <= tF, tB "
                   "and no barrier before the optimizer step",
    .versions = "1",
    .bubble = "(p-1)(tF+tB-2tW) in span",
    .peak = "2(p-s)-1 held to I, 2s more held to W; at most 2p-1",
    .is_synchronous = true,
    .splits_backward = true,
    .is_optimistic = true,
    .generate = generate,
};
