/*
 * Interleaved 1F1B: Narayanan et al., SC 2021, arXiv 2104.04473.
 *
 *   rank 0  0F0 0F1 4F0 4F1 0F2 ... 4B0 0F3 4B1 ...     (p = 4, v = 2)
 *   rank 3  ... 3F0 3F1 7F0 7B0 7F1 7B1 ...
 *
 * Every rank holds v chunks of the model, p stages apart. The micro-batches go
 * in groups of p through all chunks: passes are numbered k = 0 .. v m - 1, and
 * a pass of number k is 1F1B's micro-batch k.
 *
 * v = 1 is allowed. It is not 1F1B row for row: the warm-up of 2(p-s-1)
 * forwards stays, so it holds more and hides the messages in both directions.
 */
#include "schedule/generators/generator.h"
#include "schedule/generators/require.h"

#define DEFAULT_CHUNKS 2u

struct passes {
    struct pen__builder *builder;
    uint32_t rank;
    uint32_t ranks;
    uint32_t chunks;
};

static void put_pass(const struct passes *passes, enum pen_op_kind kind,
                     uint64_t k)
{
    uint32_t p = passes->ranks;
    uint32_t v = passes->chunks;
    uint32_t chunk = (uint32_t)(k / p % v);
    if (kind == PEN_OP_BACKWARD)
        chunk = v - 1 - chunk;
    uint64_t group = k / ((uint64_t)p * v);
    pen__put(passes->builder, passes->rank, kind, chunk * p + passes->rank,
             (uint32_t)(group * p + k % p));
}

static void put_row(const struct passes *passes, uint32_t microbatches)
{
    uint64_t p = passes->ranks;
    uint64_t count = (uint64_t)passes->chunks * microbatches;
    uint64_t warmup = 2 * (p - passes->rank - 1) + (passes->chunks - 1) * p;
    if (warmup > count || microbatches == p)
        warmup = count;
    for (uint64_t k = 0; k < warmup; k++)
        put_pass(passes, PEN_OP_FORWARD, k);
    for (uint64_t k = warmup; k < count; k++) {
        put_pass(passes, PEN_OP_FORWARD, k);
        put_pass(passes, PEN_OP_BACKWARD, k - warmup);
    }
    for (uint64_t k = count - warmup; k < count; k++)
        put_pass(passes, PEN_OP_BACKWARD, k);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t p = args->ranks;
    uint32_t v = args->chunks == 0 ? DEFAULT_CHUNKS : args->chunks;
    pen_status status = pen__require_multiple("interleaved", args, p, why);
    if (status == PEN_OK)
        status = pen__require_chunks("interleaved", args, v, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape =
        pen__shape(PEN_PLACEMENT_LOOP, p, v * p, args->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, "interleaved", &shape, why);
    for (uint32_t rank = 0; rank < p; rank++) {
        struct passes passes = {&builder, rank, p, v};
        put_row(&passes, args->microbatches);
    }
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__interleaved = {
    .name = "interleaved",
    .title = "Interleaved 1F1B: v chunks per rank",
    .paper = "Narayanan et al., SC 2021, arXiv 2104.04473",
    .placement = PEN_PLACEMENT_LOOP,
    .constraints = "p divides m",
    .versions = "1",
    .bubble = "(p-1)T/v",
    .peak = "min((v-1)p+2(p-s-1)+1, v m)/v; m if m = p",
    .is_synchronous = true,
    .has_chunks = true,
    .divides = true,
    .generate = generate,
};
