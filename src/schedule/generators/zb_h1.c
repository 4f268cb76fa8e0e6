/*
 * ZB-H1: Qi et al., ICLR 2024, arXiv 2401.10241.
 *
 *   rank 0  F0 F1 F2 F3 .. .. I0 W0 F4 I1 W1 ...
 *   rank 3  .. .. .. F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 ...
 *
 * 1F1B with the backward cut in two: the input gradient I is sent at once, the
 * weight gradient W comes s micro-batches later on rank s and fills the drain.
 */
#include "schedule/generators/generator.h"

static void put_row(struct pen__builder *builder, uint32_t rank, uint32_t p,
                    uint32_t m)
{
    uint32_t warmup = pen__min(p - 1 - rank, m);
    uint32_t weights = 0;
    for (uint32_t i = 0; i < warmup; i++)
        pen__put(builder, rank, PEN_OP_FORWARD, rank, i);
    for (uint32_t i = 0; i < m; i++) {
        if (i < m - warmup)
            pen__put(builder, rank, PEN_OP_FORWARD, rank, warmup + i);
        pen__put(builder, rank, PEN_OP_BACKWARD_INPUT, rank, i);
        if (i >= rank)
            pen__put(builder, rank, PEN_OP_BACKWARD_WEIGHT, rank, weights++);
    }
    while (weights < m)
        pen__put(builder, rank, PEN_OP_BACKWARD_WEIGHT, rank, weights++);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__generate_linear("zb-h1", args, put_row, out, why);
}

const struct pen_generator pen__zb_h1 = {
    .name = "zb-h1",
    .title = "ZB-H1: zero-bubble family, memory of 1F1B",
    .paper = "Qi et al., ICLR 2024, arXiv 2401.10241",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none; the bubble as stated needs m >= p and tW <= tF, tB",
    .versions = "1",
    .bubble = "(p-1)(tF+tB-tW)",
    .peak = "p-s held to I, s more held to W; at most p",
    .is_synchronous = true,
    .splits_backward = true,
    .generate = generate,
};
