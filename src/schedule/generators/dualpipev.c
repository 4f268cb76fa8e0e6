/*
 * DualPipeV: DualPipe cut in half, from the repository of DualPipe
 * (DeepSeek-V3 technical report, 2024, arXiv 2412.19437).
 *
 *   rank 0  0F0 0F1 ... 0F6 7F0 7I0 7W0 7F1 ... (0F7 & 7B3) (7F4 & 0B0) ...
 *   rank 3  3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 3F4 4B0 (4F4 & 3B0) ...
 *
 * The two directions of DualPipe become the two chunks of a V, so one copy of
 * the weights suffices. The phases are those of dualpipe.c.
 */
#include "schedule/generators/dualpipe.h"
#include "schedule/generators/require.h"

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t p = args->ranks;
    uint32_t m = args->microbatches;
    pen_status status =
        pen__require_microbatches("dualpipev", args, 2 * (uint64_t)p, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_V, p, 2 * p, m);
    struct pen__builder builder;
    pen__builder_init(&builder, "dualpipev", &shape, why);
    for (uint32_t rank = 0; rank < p && builder.status == PEN_OK; rank++) {
        struct pen__dual dual = {.builder = &builder,
                                 .rank = rank,
                                 .stage = {rank, 2 * p - 1 - rank},
                                 .count = m,
                                 .half = p,
                                 .depth = rank};
        pen__put_dual(&dual);
    }
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__dualpipev = {
    .name = "dualpipev",
    .title = "DualPipeV: DualPipe on a V, one copy of the weights",
    .paper = "DualPipe repository; DeepSeek-V3 technical report, 2024, arXiv "
             "2412.19437",
    .placement = PEN_PLACEMENT_V,
    .constraints = "m >= 2p",
    .versions = "1",
    .bubble = "(p-1)(F&B+tB'-3tW)/2 at equal times; at most that while "
              "tF, tW <= tB",
    .peak = "(2p+1)/2",
    .is_synchronous = true,
    .splits_backward = true,
    .least_rounds = 2,
    .generate = generate,
};
