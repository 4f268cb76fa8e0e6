/*
 * DualPipe: DeepSeek-V3 technical report, 2024, arXiv 2412.19437.
 *
 *   rank 0  0F0 0F1 0F2 7F4 7I4 7W4 7F5 (0F3 & 7B5) (7F6 & 0B0) ...   (p = 4)
 *   rank 1  1F0 6F4 1F1 6F5 1F2 6B4 (6F6 & 1B0) (1F3 & 6B5) ...
 *
 * Two copies of the model in opposite directions, as in Chimera, and in the
 * steady state a forward of one direction overlapped with a backward of the
 * other: each hides the communication of its partner. A rank and its mirror
 * image hold the same parts and do the same with directions exchanged.
 *
 * With H = p/2, h the distance to the nearer end and C micro-batches per
 * direction:
 *
 *   1  2(H-h-1) x  F0
 *   2  h+1      x  F0 F1
 *   3  H-h-1    x  I1 W F1
 *   4  C-2H+h+1 x  (F0 & B1) (F1 & B0)
 *   5  H-h-1    x  B1 (F1 & B0)
 *   6  h+1      x  B1 B0, the second half of them I1 I0
 *   7  H-h-1    x  W I0
 *   8  h+1      x  W
 */
#include "schedule/generators/dualpipe.h"

#include "base/bug.h"
#include "schedule/generators/require.h"

static struct pen_op forward(struct pen__dual *dual, unsigned direction)
{
    return pen_op_make(PEN_OP_FORWARD, dual->stage[direction],
                       dual->next_forward[direction]++);
}

static struct pen_op backward(struct pen__dual *dual, enum pen_op_kind kind,
                              unsigned direction)
{
    return pen_op_make(kind, dual->stage[direction],
                       dual->next_backward[direction]++);
}

static void put(struct pen__dual *dual, struct pen_op op)
{
    pen__put_op(dual->builder, dual->rank, op);
}

static void put_forward(struct pen__dual *dual, unsigned direction)
{
    put(dual, forward(dual, direction));
}

static void put_backward(struct pen__dual *dual, enum pen_op_kind kind,
                         unsigned direction)
{
    put(dual, backward(dual, kind, direction));
}

/*
 * Puts the forward of one direction overlapped with the backward of the other.
 */
static void put_pair(struct pen__dual *dual, unsigned direction)
{
    dual->group = dual->group == UINT16_MAX ? 1 : (uint16_t)(dual->group + 1);
    struct pen_op first = forward(dual, direction);
    struct pen_op second = backward(dual, PEN_OP_BACKWARD, 1 - direction);
    first.group = dual->group;
    second.group = dual->group;
    put(dual, first);
    put(dual, second);
}

/*
 * Puts the weight gradient that waits longest: its I is found in the row
 * itself.
 */
static void put_weight(struct pen__dual *dual)
{
    if (dual->builder->status != PEN_OK)
        return;
    const struct pen_row *row = &dual->builder->schedule->rows[dual->rank];
    while (dual->first_input < row->count &&
           row->ops[dual->first_input].kind != PEN_OP_BACKWARD_INPUT)
        dual->first_input++;
    PEN_BUG_UNLESS(dual->first_input < row->count);
    struct pen_op op = row->ops[dual->first_input++];
    op.kind = PEN_OP_BACKWARD_WEIGHT;
    put(dual, op);
}

/* Phases 1 to 3: fill both directions. */
static void put_fill(struct pen__dual *dual)
{
    uint32_t outer = dual->half - dual->depth - 1;
    for (uint32_t i = 0; i < 2 * outer; i++)
        put_forward(dual, 0);
    for (uint32_t i = 0; i < dual->depth + 1; i++) {
        put_forward(dual, 0);
        put_forward(dual, 1);
    }
    for (uint32_t i = 0; i < outer; i++) {
        put_backward(dual, PEN_OP_BACKWARD_INPUT, 1);
        put_weight(dual);
        put_forward(dual, 1);
    }
}

/* Phases 4 and 5: a pair at a time, until the forwards are used up. */
static void put_steady(struct pen__dual *dual)
{
    uint32_t outer = dual->half - dual->depth - 1;
    uint32_t rounds = dual->count - 2 * dual->half + dual->depth + 1;
    for (uint32_t i = 0; i < rounds; i++) {
        if (i == 0 && outer == 0) {
            /* The backward comes from the next rank's answer to this F. */
            put_forward(dual, 0);
            put_backward(dual, PEN_OP_BACKWARD, 1);
        } else {
            put_pair(dual, 0);
        }
        put_pair(dual, 1);
    }
    for (uint32_t i = 0; i < outer; i++) {
        put_backward(dual, PEN_OP_BACKWARD, 1);
        put_pair(dual, 1);
    }
}

/* Phases 6 to 8: drain, with the weight gradients in the gaps. */
static void put_drain(struct pen__dual *dual)
{
    uint32_t rounds = dual->depth + 1;
    for (uint32_t i = 0; i < 2 * rounds; i++) {
        enum pen_op_kind kind =
            i < rounds ? PEN_OP_BACKWARD : PEN_OP_BACKWARD_INPUT;
        put_backward(dual, kind, 1 - i % 2);
    }
    for (uint32_t i = 0; i < dual->half - dual->depth - 1; i++) {
        put_weight(dual);
        put_backward(dual, PEN_OP_BACKWARD_INPUT, 0);
    }
    for (uint32_t i = 0; i < rounds; i++)
        put_weight(dual);
}

void pen__put_dual(struct pen__dual *dual)
{
    put_fill(dual);
    put_steady(dual);
    put_drain(dual);
}

static void put_row(struct pen__builder *builder, uint32_t rank, uint32_t p,
                    uint32_t m)
{
    uint32_t mirror = p - 1 - rank;
    unsigned down = rank < p / 2 ? 0 : 1; /* direction of the down copy */
    struct pen__dual dual = {.builder = builder,
                             .rank = rank,
                             .count = m / 2,
                             .half = p / 2,
                             .depth = pen__min(rank, mirror)};
    dual.stage[down] = rank;
    dual.stage[1 - down] = p + mirror;
    dual.next_forward[1 - down] = m / 2;
    dual.next_backward[1 - down] = m / 2;
    pen__put_dual(&dual);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t p = args->ranks;
    uint32_t m = args->microbatches;
    pen_status status = pen__require_even_stages("dualpipe", args, why);
    if (status == PEN_OK)
        status =
            pen__require_microbatches("dualpipe", args, 2 * (uint64_t)p, why);
    if (status == PEN_OK)
        status = pen__require_multiple("dualpipe", args, 2, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape =
        pen__shape(PEN_PLACEMENT_BIDIRECTIONAL, p, 2 * p, m);
    shape.num_copies = 2;
    struct pen__builder builder;
    pen__builder_init(&builder, "dualpipe", &shape, why);
    for (uint32_t rank = 0; rank < p && builder.status == PEN_OK; rank++)
        put_row(&builder, rank, p, m);
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__dualpipe = {
    .name = "dualpipe",
    .title = "DualPipe: two directions, forward and backward overlapped",
    .paper = "DeepSeek-V3 technical report, 2024, arXiv 2412.19437",
    .placement = PEN_PLACEMENT_BIDIRECTIONAL,
    .constraints = "p even, m even, m >= 2p; two copies of the weights",
    .versions = "1, in 2 copies",
    .bubble = "(p/2-1)(F&B+tB'-3tW) at equal times; at most that while "
              "tF, tW <= tB",
    .peak = "p+1",
    .is_synchronous = true,
    .splits_backward = true,
    .least_rounds = 2,
    .generate = generate,
};
