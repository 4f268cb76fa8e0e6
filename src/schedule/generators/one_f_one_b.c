/*
 * 1F1B: PipeDream-Flush, Narayanan et al., ICML 2021, arXiv 2006.09503;
 * DAPPLE, Fan et al., PPoPP 2021, arXiv 2007.01045.
 *
 *   rank 0  F0 F1 F2 F3 .. .. .. B0 F4 B1 ...
 *   rank 3  .. .. .. F0 B0 F1 B1 F2 ...
 *
 * Rank s warms up with p-1-s forwards, then alternates.
 *
 * A stage may have several ranks, which take micro-batches in turn: the
 * replicated stages of DAPPLE, and the round robin (1F1B-RR) of PipeDream,
 * Narayanan et al., SOSP 2019, arXiv 1806.03377, with a flush. A rank of stage
 * j then warms up with as many forwards as there are ranks after its stage,
 * divided by those of its stage and rounded up.
 *
 *   3,1   rank 0  F0 .. F3 B0 .. ..
 *         rank 1  F1 .. .. F4 B1 ..
 *         rank 2  F2 .. .. .. F5 B2
 *         rank 3  .. F0 B0 F1 B1 F2 B2 ...
 */
#include "base/bug.h"
#include "schedule/generators/generator.h"

#include <stdlib.h>

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

/* ---- stages with ranks of their own ---- */

/*
 * Returns how often the ranks of a copy were chosen, weighted by their share.
 */
static uint64_t weigh(const struct pen_shape *shape, const uint32_t *uses,
                      uint32_t copy)
{
    uint64_t sum = 0;
    uint32_t parts = pen_shape_parts(shape);
    for (uint32_t part = 0; part < parts; part++)
        sum += (uint64_t)pen_shape_members(shape, part) *
               uses[pen_shape_rank_of(shape, copy * parts + part)];
    return sum;
}

/* Takes the turns of the copies: next is one whose ranks were chosen least. */
static void take_turns(const struct pen_shape *shape, uint32_t *uses,
                       bool *is_taken, uint32_t *turns)
{
    uint32_t parts = pen_shape_parts(shape);
    for (uint32_t turn = 0; turn < shape->num_copies; turn++) {
        uint32_t best = shape->num_copies;
        for (uint32_t copy = 0; copy < shape->num_copies; copy++)
            if (!is_taken[copy] &&
                (best == shape->num_copies ||
                 weigh(shape, uses, copy) < weigh(shape, uses, best)))
                best = copy;
        is_taken[best] = true;
        turns[turn] = best;
        for (uint32_t part = 0; part < parts; part++)
            uses[pen_shape_rank_of(shape, best * parts + part)]++;
    }
}

/* The turns in which a rank is, and its stages then. */
struct own_turns {
    uint32_t count;
    uint32_t *turns;
    uint32_t *stages;
};

/*
 * Returns when the number-th micro-batch of a rank comes, counted over all
 * copies.
 */
static uint64_t time_of(const struct own_turns *own, uint32_t number,
                        uint32_t num_copies)
{
    return (uint64_t)(number / own->count) * num_copies +
           own->turns[number % own->count];
}

static void put_turn(struct pen__builder *builder, const struct own_turns *own,
                     uint32_t rank, enum pen_op_kind kind, uint32_t number)
{
    const struct pen_shape *shape = &builder->schedule->shape;
    uint32_t each = shape->num_microbatches / shape->num_copies;
    uint32_t stage = own->stages[number % own->count];
    pen__put(builder, rank, kind, stage,
             pen_shape_copy_of_stage(shape, stage) * each +
                 number / own->count);
}

/*
 * Puts the ops of a rank. Before a backward come the forwards of as many later
 * micro-batches as there are ranks from this stage on. Each further stage runs
 * fewer forwards ahead, so no stage waits for a forward that waits for it.
 */
static void put_replica(struct pen__builder *builder,
                        const struct own_turns *own, uint32_t rank)
{
    const struct pen_shape *shape = &builder->schedule->shape;
    uint32_t copies = shape->num_copies;
    uint32_t part = pen_shape_part_of_stage(shape, own->stages[0]);
    uint32_t count = own->count * (shape->num_microbatches / copies);
    uint32_t ahead = shape->num_ranks - shape->first_ranks[part];
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (next < count &&
               time_of(own, next, copies) < time_of(own, i, copies) + ahead)
            put_turn(builder, own, rank, PEN_OP_FORWARD, next++);
        put_turn(builder, own, rank, PEN_OP_BACKWARD, i);
    }
}

static void put_replicas(struct pen__builder *builder, const uint32_t *copies,
                         struct own_turns *own)
{
    const struct pen_shape *shape = &builder->schedule->shape;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        own->count = 0;
        for (uint32_t turn = 0; turn < shape->num_copies; turn++) {
            uint32_t stage = pen_shape_stage_at(shape, rank, copies[turn], 0);
            if (stage == PEN_NO_STAGE)
                continue;
            own->turns[own->count] = turn;
            own->stages[own->count++] = stage;
        }
        PEN_BUG_UNLESS(own->count > 0); /* a rank has a part of some copy */
        put_replica(builder, own, rank);
    }
}

static pen_status make_replicated(const struct pen_generator_args *args,
                                  struct pen_shape *shape, struct pen_text *why)
{
    *shape = pen__shape(PEN_PLACEMENT_REPLICATED, args->ranks, 0,
                        args->microbatches);
    pen_status status =
        pen_shape_replicate(shape, args->replicas, args->num_replicated, why);
    if (status != PEN_OK)
        return status;
    if (shape->num_ranks != args->ranks) {
        pen_why(why, "the replicas of the stages are %u ranks, not %u",
                shape->num_ranks, args->ranks);
        return PEN_INVALID;
    }
    uint32_t below =
        args->microbatches - args->microbatches % shape->num_copies;
    if (below == args->microbatches)
        return PEN_OK;
    pen_why(why,
            "stages with these replicas need a multiple of %u micro-batches, "
            "not %u: %u would work",
            shape->num_copies, args->microbatches,
            below == 0 ? shape->num_copies : below);
    return PEN_INVALID;
}

static pen_status generate_replicated(const struct pen_generator_args *args,
                                      struct pen_schedule **out,
                                      struct pen_text *why)
{
    struct pen_shape shape;
    pen_status status = make_replicated(args, &shape, why);
    if (status != PEN_OK)
        return status;
    struct pen__builder builder;
    uint32_t *uses = calloc(shape.num_ranks, sizeof *uses);
    uint32_t *turns = calloc(shape.num_copies, 3 * sizeof *turns);
    bool *is_taken = calloc(shape.num_copies, sizeof *is_taken);
    pen__builder_init(&builder, "1f1b", &shape, why);
    if (uses == NULL || turns == NULL || is_taken == NULL)
        builder.status = PEN_NOMEM;
    if (builder.status == PEN_OK) {
        take_turns(&shape, uses, is_taken, turns);
        struct own_turns own = {.turns = turns + shape.num_copies,
                                .stages = turns + 2 * (size_t)shape.num_copies};
        put_replicas(&builder, turns, &own);
    }
    free(uses);
    free(turns);
    free(is_taken);
    return pen__builder_finish(&builder, out, why);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    if (args->replicas != NULL)
        return generate_replicated(args, out, why);
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
    .has_replicas = true,
    .generate = generate,
};
