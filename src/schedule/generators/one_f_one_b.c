/*
 * 1F1B: PipeDream-Flush, Narayanan et al., ICML 2021, arXiv 2006.09503;
 * DAPPLE, Fan et al., PPoPP 2021, arXiv 2007.01045.
 *
 *   rank 0  F0 F1 F2 F3 .. .. .. B0 F4 B1 ...
 *   rank 3  .. .. .. F0 B0 F1 B1 F2 ...
 *
 * Rank s warms up with p-1-s forwards, then alternates.
 */
#include "schedule/generators/generator.h"

void pen__put_1f1b(struct pen__builder *builder, uint32_t rank, uint32_t ranks,
                   uint32_t microbatches)
{
    uint32_t m = microbatches;
    uint32_t warmup = pen__min(ranks - 1 - rank, m);
    for (uint32_t i = 0; i < warmup; i++)
        pen__put(builder, rank, PEN_OP_FORWARD, rank, i);
    for (uint32_t i = 0; i < m - warmup; i++) {
        pen__put(builder, rank, PEN_OP_FORWARD, rank, warmup + i);
        pen__put(builder, rank, PEN_OP_BACKWARD, rank, i);
    }
    for (uint32_t i = m - warmup; i < m; i++)
        pen__put(builder, rank, PEN_OP_BACKWARD, rank, i);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    return pen__generate_linear("1f1b", args, pen__put_1f1b, out, why);
}

const struct pen_generator pen__1f1b = {
    .name = "1f1b",
    .title = "1F1B: one forward, one backward, with a flush",
    .paper = "Narayanan et al., ICML 2021, arXiv 2006.09503; Fan et al., "
             "PPoPP 2021, arXiv 2007.01045",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1",
    .bubble = "(p-1)T",
    .peak = "min(p-s, m)",
    .is_synchronous = true,
    .generate = generate,
};
