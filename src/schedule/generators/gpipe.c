/*
 * GPipe: Huang et al., NeurIPS 2019, arXiv 1811.06965.
 *
 *   rank 0  F0 F1 F2 F3 .. .. .. .. .. B0 .. B1
 *   rank 3  .. .. .. F0 F1 F2 F3 B0 .. B1 ..
 *
 * All forwards, then all backwards. Every rank holds all m activations.
 */
#include "schedule/generators/generator.h"

static void put_row(struct pen__builder *builder, uint32_t rank, uint32_t p,
                    uint32_t m)
{
    (void)p;
    for (uint32_t i = 0; i < m; i++)
        pen__put(builder, rank, PEN_OP_FORWARD, rank, i);
    for (uint32_t i = 0; i < m; i++)
        pen__put(builder, rank, PEN_OP_BACKWARD, rank, i);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__generate_linear("gpipe", args, put_row, out, why);
}

const struct pen_generator pen__gpipe = {
    .name = "gpipe",
    .title = "GPipe: all forwards, then all backwards",
    .paper = "Huang et al., NeurIPS 2019, arXiv 1811.06965",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1",
    .bubble = "(p-1)T",
    .peak = "m",
    .is_synchronous = true,
    .stashes_all = true,
    .generate = generate,
};
