/*
 * Chimera: Li and Hoefler, SC 2021, arXiv 2107.06925.
 *
 *   rank 0  0F0 ...  0F1 7F2 7B2 7F3 7B3 0B0 ...  0B1       (p = m = 4)
 *   rank 1  ... 1F0 6F2 1F1 6F3 6B2 1B0 6B3 1B1 ...
 *
 * Two copies of the model run through the ranks in opposite directions, each
 * with half of the micro-batches. In a unit of p micro-batches, with i counting
 * those of one copy and o = 2 p unit + 2 i, rank d has the slots
 *
 *   down copy   F at d + o        B at 2p-1-d + o     stage d
 *   up copy     F at p-1-d + o    B at p+d + o        stage p + p-1-d
 *
 * All slots of a rank differ, also those of different units: they tile modulo
 * 2p. The schedule is the ops in the order of their slots.
 */
#include "base/bug.h"
#include "schedule/generators/generator.h"
#include "schedule/generators/require.h"

#include <stdlib.h>

/* A slot table: what one rank does at each time. */
struct slots {
    struct pen_op *ops;
    uint8_t *is_taken;
    size_t count;
};

static void take(struct slots *slots, size_t slot, enum pen_op_kind kind,
                 uint32_t stage, uint32_t microbatch)
{
    PEN_BUG_UNLESS(slot < slots->count && !slots->is_taken[slot]);
    slots->is_taken[slot] = 1;
    slots->ops[slot] = pen_op_make(kind, stage, microbatch);
}

static void fill(struct slots *slots, uint32_t rank, uint32_t p, uint32_t m)
{
    for (uint32_t i = 0; i < m / 2; i++) {
        uint32_t unit = i / (p / 2);
        size_t offset = 2 * (size_t)p * unit + 2 * (size_t)(i % (p / 2));
        uint32_t down = rank;
        uint32_t up = p + p - 1 - rank;
        take(slots, rank + offset, PEN_OP_FORWARD, down, i);
        take(slots, 2 * p - 1 - rank + offset, PEN_OP_BACKWARD, down, i);
        take(slots, p - 1 - rank + offset, PEN_OP_FORWARD, up, m / 2 + i);
        take(slots, p + rank + offset, PEN_OP_BACKWARD, up, m / 2 + i);
    }
}

static void drain(struct slots *slots, struct pen__builder *builder,
                  uint32_t rank)
{
    for (size_t slot = 0; slot < slots->count; slot++) {
        if (slots->is_taken[slot])
            pen__put_op(builder, rank, slots->ops[slot]);
        slots->is_taken[slot] = 0;
    }
}

static void put_rows(struct pen__builder *builder, uint32_t p, uint32_t m)
{
    struct slots slots = {.count = 2 * (size_t)m + 2 * (size_t)p};
    slots.ops = calloc(slots.count, sizeof *slots.ops);
    slots.is_taken = calloc(slots.count, sizeof *slots.is_taken);
    if (slots.ops == NULL || slots.is_taken == NULL)
        builder->status = PEN_NOMEM;
    for (uint32_t rank = 0; rank < p && builder->status == PEN_OK; rank++) {
        fill(&slots, rank, p, m);
        drain(&slots, builder, rank);
    }
    free(slots.ops);
    free(slots.is_taken);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t p = args->ranks;
    uint32_t m = args->microbatches;
    pen_status status = pen__require_even_stages("chimera", args, why);
    if (status == PEN_OK)
        status = pen__require_multiple("chimera", args, p, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape =
        pen__shape(PEN_PLACEMENT_BIDIRECTIONAL, p, 2 * p, m);
    shape.num_copies = 2;
    struct pen__builder builder;
    pen__builder_init(&builder, "chimera", &shape, why);
    if (builder.status == PEN_OK)
        put_rows(&builder, p, m);
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__chimera = {
    .name = "chimera",
    .title = "Chimera: two copies in opposite directions",
    .paper = "Li and Hoefler, SC 2021, arXiv 2107.06925",
    .placement = PEN_PLACEMENT_BIDIRECTIONAL,
    .constraints = "p even, p divides m; two copies of the weights",
    .versions = "1, in 2 copies",
    .bubble = "(p-2)tB' + (m/p-1)(p-2)(tB'-tF) for tB' >= tF",
    .peak = "p/2+1 at the ends to p in the middle",
    .is_synchronous = true,
    .divides = true,
    .generate = generate,
};
