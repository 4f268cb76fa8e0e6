/*
 * BPipe on 1F1B: Kim et al., ICML 2023.
 *
 *   rank 0  F0 F1 F2 EV2 F3 B0 F4 B1 LD2 EV4 F5 B2 ...     (p = 4, bound 3)
 *   rank 3  F0 B0 F1 B1 F2 ...                     holds the guests of rank 0
 *
 * 1F1B holds p-s activations on rank s: much at the front, little at the end.
 * The ranks of the front half keep at most L = p/2 + 1 and move the others to
 * their mirror image and back in time.
 */
#include "base/bug.h"
#include "schedule/generators/generator.h"
#include "schedule/generators/require.h"

#include <stdlib.h>

enum where { NOT_HELD, LOCAL, AWAY };

struct balancer {
    struct pen__builder *builder;
    uint32_t rank;
    uint32_t bound;     /* L */
    uint32_t num_local; /* stashes on this rank that are its own */
    uint32_t newest;    /* no micro-batch above this one is held */
    uint8_t *where;     /* enum where, per micro-batch */
    uint32_t microbatches;
};

static void move(struct balancer *balancer, enum pen_op_kind kind,
                 uint32_t microbatch)
{
    if (kind == PEN_OP_LOAD) {
        balancer->where[microbatch] = LOCAL;
        balancer->num_local++;
    } else {
        balancer->where[microbatch] = AWAY;
        balancer->num_local--;
    }
    pen__put(balancer->builder, balancer->rank, kind, balancer->rank,
             microbatch);
}

/* Makes room before F by sending the newest local stash away. */
static void make_room(struct balancer *balancer)
{
    if (balancer->num_local < balancer->bound)
        return;
    uint32_t i = balancer->newest;
    while (balancer->where[i] != LOCAL) {
        PEN_BUG_UNLESS(i > 0);
        i--;
    }
    move(balancer, PEN_OP_EVICT, i);
}

static void run_forward(struct balancer *balancer, const struct pen_op *op)
{
    make_room(balancer);
    pen__put_op(balancer->builder, balancer->rank, *op);
    balancer->where[op->microbatch] = LOCAL;
    balancer->newest = op->microbatch;
    balancer->num_local++;
}

/* Runs the backward, and then loads the stash of the next one, if it fits. */
static void run_backward(struct balancer *balancer, const struct pen_op *op)
{
    uint32_t i = op->microbatch;
    if (balancer->where[i] == AWAY)
        move(balancer, PEN_OP_LOAD, i);
    pen__put_op(balancer->builder, balancer->rank, *op);
    balancer->where[i] = NOT_HELD;
    balancer->num_local--;
    if (i + 1 < balancer->microbatches && balancer->where[i + 1] == AWAY &&
        balancer->num_local < balancer->bound)
        move(balancer, PEN_OP_LOAD, i + 1);
}

/* Takes the row of 1F1B away from the schedule and writes it anew. */
static void balance_row(struct pen__builder *builder, uint32_t rank)
{
    const struct pen_shape *shape = &builder->schedule->shape;
    struct balancer balancer = {.builder = builder,
                                .rank = rank,
                                .bound = shape->num_ranks / 2 + 1,
                                .microbatches = shape->num_microbatches};
    balancer.where = calloc(balancer.microbatches, sizeof *balancer.where);
    if (balancer.where == NULL) {
        builder->status = PEN_NOMEM;
        return;
    }
    struct pen_row base = builder->schedule->rows[rank];
    builder->schedule->rows[rank] = (struct pen_row){0};
    for (uint32_t i = 0; i < base.count; i++) {
        if (base.ops[i].kind == PEN_OP_FORWARD)
            run_forward(&balancer, &base.ops[i]);
        else
            run_backward(&balancer, &base.ops[i]);
    }
    free(base.ops);
    free(balancer.where);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    pen_status status = pen__require_even_stages("bpipe", args, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, args->ranks,
                                        args->ranks, args->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, "bpipe", &shape, why);
    for (uint32_t rank = 0; rank < args->ranks; rank++) {
        pen__put_1f1b(&builder, rank, args->ranks, args->microbatches);
        /* The back half never reaches the bound. */
        if (builder.status == PEN_OK && rank < args->ranks / 2)
            balance_row(&builder, rank);
    }
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__bpipe = {
    .name = "bpipe",
    .title = "BPipe on 1F1B: activations balanced between mirror ranks",
    .paper = "Kim et al., ICML 2023",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "p even",
    .versions = "1",
    .bubble = "(p-1)T while the moves overlap with compute",
    .peak = "at most ceil((p+2)/2)",
    .is_synchronous = true,
    .moves_activations = true,
    .generate = generate,
};
