/*
 * Local updates: Laskin et al., 2020, arXiv 2012.03837. Each stage has a loss
 * of its own (network/local.c), so that its backward follows its forward and
 * waits for nothing. Activations alone are sent.
 *
 *   rank 0  F0 B0 F1 B1 F2 B2 ...
 *   rank 1  .. F0 B0 F1 B1 F2 B2 ...
 *   rank 2  .. .. F0 B0 F1 B1 F2 B2 ...
 *
 * With all micro-batches in one step, as here, a step waits for the norm of
 * all gradients.
 */
#include "schedule/generators/generator.h"

static void put_row(struct pen__builder *builder, uint32_t rank, uint32_t p,
                    uint32_t m)
{
    (void)p;
    for (uint32_t i = 0; i < m; i++) {
        pen__put(builder, rank, PEN_OP_FORWARD, rank, i);
        pen__put(builder, rank, PEN_OP_BACKWARD, rank, i);
    }
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__generate_linear("local", args, put_row, out, why);
}

const struct pen_generator pen__local = {
    .name = "local",
    .title = "Local updates: each stage has a loss of its own",
    .paper = "Laskin et al., 2020, arXiv 2012.03837",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "a model with a head for each stage (--local-updates)",
    .versions = "1",
    .bubble = "0",
    .peak = "1",
    .is_synchronous = true,
    .is_local = true,
    .note = "heads are computed in F and B and are not in the costs; the "
            "publication steps each block by itself, here all step together",
    .generate = generate,
};
