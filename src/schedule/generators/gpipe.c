/*
 * GPipe: Huang et al., NeurIPS 2019, arXiv 1811.06965.
 *
 *   rank 0  F0 F1 F2 F3 .. .. .. .. .. B0 .. B1
 *   rank 3  .. .. .. F0 F1 F2 F3 B0 .. B1 ..
 *
 * All forwards, then all backwards. Every rank holds all m activations.
 */
#include "schedule/generators/generator.h"

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, args->ranks,
                                        args->ranks, args->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, "gpipe", &shape, why);
    for (uint32_t rank = 0; rank < args->ranks; rank++) {
        for (uint32_t i = 0; i < args->microbatches; i++)
            pen__put(&builder, rank, PEN_OP_FORWARD, rank, i);
        for (uint32_t i = 0; i < args->microbatches; i++)
            pen__put(&builder, rank, PEN_OP_BACKWARD, rank, i);
    }
    return pen__builder_finish(&builder, out, why);
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
    .generate = generate,
};
