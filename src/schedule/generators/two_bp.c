/*
 * 2BP on 1F1B: Rae et al., 2024, arXiv 2405.18047.
 *
 *   rank 0  F0 F1 F2 F3 .. I0 F4 I1 ... I7 W0 W1 ... W7
 *   rank 3  .. .. .. F0 I0 F1 I1 ... F7 I7 W0 W1 ... W7
 *
 * The backward cut in two, with every weight gradient put off to the end,
 * where the products of one stage can be merged into one. Holds all m.
 */
#include "schedule/generators/generator.h"

/* Puts a row of 1F1B with its backwards turned into I, and all W after them. */
static void put_row(struct pen__builder *builder, uint32_t rank, uint32_t p,
                    uint32_t m)
{
    pen__put_1f1b(builder, rank, p, m);
    if (builder->status != PEN_OK)
        return;
    struct pen_row *row = &builder->schedule->rows[rank];
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->ops[i].kind == PEN_OP_BACKWARD)
            row->ops[i].kind = PEN_OP_BACKWARD_INPUT;
    }
    for (uint32_t i = 0; i < m; i++)
        pen__put(builder, rank, PEN_OP_BACKWARD_WEIGHT, rank, i);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__generate_linear("2bp", args, put_row, out, why);
}

const struct pen_generator pen__2bp = {
    .name = "2bp",
    .title = "2BP on 1F1B: all weight gradients at the end",
    .paper = "Rae et al., 2024, arXiv 2405.18047",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1",
    .bubble = "(p-1)(tF+tB)",
    .peak = "m held to W",
    .is_synchronous = true,
    .stashes_all = true,
    .splits_backward = true,
    .generate = generate,
};
