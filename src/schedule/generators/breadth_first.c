/*
 * Breadth-first: Lamy-Poirier, MLSys 2023, arXiv 2211.05953.
 *
 *   rank 0  0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 ... 4B0 .. 4B3 0B0 .. 0B3
 *   rank 3  ... 3F0 3F1 3F2 3F3 7F0 7F1 7F2 7F3 7B0 ...
 *
 * All micro-batches pass a chunk before the next chunk starts, so weights are
 * gathered and gradients reduced once per chunk and pass.
 *
 * The link from the last rank back to the first holds back a chunk: rank 0
 * reads its first message when all m forwards of a chunk are done, and by then
 * the last rank has m-p ready. A send window of m/p, rounded down, avoids a
 * deadlock; one of m-p also avoids that anybody waits.
 */
#include "schedule/generators/generator.h"
#include "schedule/generators/require.h"

#define DEFAULT_CHUNKS 2u

static void put_chunk(struct pen__builder *builder, uint32_t rank,
                      enum pen_op_kind kind, uint32_t stage,
                      uint32_t microbatches)
{
    for (uint32_t i = 0; i < microbatches; i++)
        pen__put(builder, rank, kind, stage, i);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t p = args->ranks;
    uint32_t m = args->microbatches;
    uint32_t v = args->chunks == 0 ? DEFAULT_CHUNKS : args->chunks;
    pen_status status =
        pen__require_microbatches("breadth-first", args, p, why);
    if (status == PEN_OK)
        status = pen__require_chunks("breadth-first", args, v, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LOOP, p, v * p, m);
    struct pen__builder builder;
    pen__builder_init(&builder, "breadth-first", &shape, why);
    for (uint32_t rank = 0; rank < p; rank++) {
        for (uint32_t c = 0; c < v; c++)
            put_chunk(&builder, rank, PEN_OP_FORWARD, c * p + rank, m);
        for (uint32_t c = v; c-- > 0;)
            put_chunk(&builder, rank, PEN_OP_BACKWARD, c * p + rank, m);
    }
    uint32_t window = m > p + 1 ? m - p : 2;
    if (builder.status == PEN_OK && window > PEN_DEFAULT_SEND_WINDOW)
        builder.schedule->rules.send_window = window;
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__breadth_first = {
    .name = "breadth-first",
    .title = "Breadth-first: chunk by chunk, all micro-batches",
    .paper = "Lamy-Poirier, MLSys 2023, arXiv 2211.05953",
    .placement = PEN_PLACEMENT_LOOP,
    .constraints = "m >= p; a send window of m-p, or it waits; below m/p it "
                   "deadlocks",
    .versions = "1",
    .bubble = "(p-1)T/v",
    .peak = "m",
    .is_synchronous = true,
    .stashes_all = true,
    .has_chunks = true,
    .least_rounds = 1,
    .generate = generate,
};
