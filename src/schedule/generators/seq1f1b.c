/*
 * Seq1F1B: Sun et al., NAACL 2025, arXiv 2406.03488.
 *
 *   rank 0  F0.0 F0.1 F1.0 F1.1 F2.0 ... B0.1 F2.1 B0.0 ...     (n = 2)
 *   rank 3  ... F0.0 F0.1 B0.1 F1.0 B0.0 F1.1 ...
 *
 * 1F1B over units of (micro-batch, token slice). Causal attention lets slice j
 * go forward before slice j+1; backward the slices run from the last to the
 * first, because the gradient of the keys and values of slice j collects from
 * all later ones. The warm-up is n-1 units longer: the first backward is that
 * of the last slice.
 */
#include "schedule/generators/generator.h"

#define DEFAULT_SLICES 2u

struct units {
    struct pen__builder *builder;
    uint32_t rank;
    uint32_t slices;
};

static void put_unit(const struct units *units, enum pen_op_kind kind,
                     uint64_t unit)
{
    uint32_t slice = (uint32_t)(unit % units->slices);
    if (kind == PEN_OP_BACKWARD)
        slice = units->slices - 1 - slice;
    struct pen_op op =
        pen_op_make(kind, units->rank, (uint32_t)(unit / units->slices));
    op.slice = (uint16_t)slice;
    pen__put_op(units->builder, units->rank, op);
}

static void put_row(const struct units *units, uint32_t ranks,
                    uint32_t microbatches)
{
    uint64_t count = (uint64_t)units->slices * microbatches;
    uint64_t warmup = (uint64_t)ranks - 1 - units->rank + units->slices - 1;
    if (warmup > count)
        warmup = count;
    for (uint64_t i = 0; i < warmup; i++)
        put_unit(units, PEN_OP_FORWARD, i);
    for (uint64_t i = warmup; i < count; i++) {
        put_unit(units, PEN_OP_FORWARD, i);
        put_unit(units, PEN_OP_BACKWARD, i - warmup);
    }
    for (uint64_t i = count - warmup; i < count; i++)
        put_unit(units, PEN_OP_BACKWARD, i);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, args->ranks,
                                        args->ranks, args->microbatches);
    shape.num_slices = args->slices == 0 ? DEFAULT_SLICES : args->slices;
    struct pen__builder builder;
    pen__builder_init(&builder, "seq1f1b", &shape, why);
    for (uint32_t rank = 0; rank < args->ranks && builder.status == PEN_OK;
         rank++) {
        struct units units = {&builder, rank, shape.num_slices};
        put_row(&units, args->ranks, args->microbatches);
    }
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__seq1f1b = {
    .name = "seq1f1b",
    .title = "Seq1F1B: 1F1B over n token slices of each micro-batch",
    .paper = "Sun et al., NAACL 2025, arXiv 2406.03488",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "causal attention; slices that take equal time",
    .versions = "1",
    .bubble = "(p-1)T/n",
    .peak = "min((p-s-1+n)/n, m)",
    .is_synchronous = true,
    .has_slices = true,
    .generate = generate,
};
