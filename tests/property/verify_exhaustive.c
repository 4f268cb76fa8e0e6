/*
 * The verifier against brute force: on small random schedules, V4 is said
 * exactly when some interleaving of the waiting rules gets stuck, and V1, V2,
 * V3, V7 and V8 agree with rules written out again here as plain searches.
 *
 * Nothing here uses the machine, the channels or the placements of the
 * program, only the ops themselves.
 */
#include "base/random.h"
#include "support/support.h"

#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 3
#define MAX_ROW 128

/* A fixed sequence of numbers: splitmix64. */
static uint32_t parts_of(const struct pen_shape *shape)
{
    return shape->num_stages / shape->num_copies;
}

/* Placements as drawn in the papers, for the five that are tried here. */
static uint32_t home_of(const struct pen_shape *shape, uint32_t stage)
{
    uint32_t p = shape->num_ranks;
    switch (shape->placement) {
    case PEN_PLACEMENT_LOOP:
        return stage % p;
    case PEN_PLACEMENT_V:
        return stage < p ? stage : 2 * p - 1 - stage;
    case PEN_PLACEMENT_BIDIRECTIONAL:
        return stage < p ? stage : 2 * p - 1 - stage;
    case PEN_PLACEMENT_REPLICATED: {
        const uint16_t *first = &shape->first_ranks[stage % parts_of(shape)];
        return first[0] + stage / parts_of(shape) * (first[1] - first[0]) /
                              shape->num_copies;
    }
    default:
        return stage;
    }
}

/* Do two stages have one set of weights? */
static bool shares_weights(const struct pen_shape *shape, uint32_t a,
                           uint32_t b)
{
    return a == b || (shape->placement == PEN_PLACEMENT_REPLICATED &&
                      a % parts_of(shape) == b % parts_of(shape) &&
                      home_of(shape, a) == home_of(shape, b));
}

/* Is it the first of the stages that have its weights? */
static bool keeps_weights(const struct pen_shape *shape, uint32_t stage)
{
    for (uint32_t other = 0; other < stage; other++)
        if (shares_weights(shape, other, stage))
            return false;
    return true;
}

/* The stage that feeds this one in a direction, or -1 at the end. */
static int feeder(const struct pen_shape *shape, uint32_t stage, bool is_act)
{
    uint32_t part = stage % parts_of(shape);
    if (is_act)
        return part == 0 ? -1 : (int)stage - 1;
    if (shape->is_local)
        return -1;
    return part + 1 == parts_of(shape) ? -1 : (int)stage + 1;
}

static bool is_backward(unsigned kind)
{
    return kind == PEN_OP_BACKWARD || kind == PEN_OP_BACKWARD_INPUT;
}

static bool same_unit(const struct pen_op *a, const struct pen_op *b)
{
    return a->microbatch == b->microbatch && a->slice == b->slice;
}

/* The stage, if any, whose message this op needs, sends or receives. */
static int other_end(const struct pen_shape *shape, const struct pen_op *op)
{
    uint32_t part = op->stage % parts_of(shape);
    switch (op->kind) {
    case PEN_OP_FORWARD:
    case PEN_OP_RECV_ACT:
        return feeder(shape, op->stage, true);
    case PEN_OP_SEND_GRAD:
        return shape->is_local ? -1 : feeder(shape, op->stage, true);
    case PEN_OP_BACKWARD:
    case PEN_OP_BACKWARD_INPUT:
    case PEN_OP_RECV_GRAD:
        return feeder(shape, op->stage, false);
    case PEN_OP_SEND_ACT:
        return part + 1 == parts_of(shape) ? -1 : (int)op->stage + 1;
    default:
        return -1;
    }
}

/* ---- the waiting rules, every interleaving ---- */

struct explorer {
    const struct pen_schedule *schedule;
    uint32_t window;
    uint32_t at[MAX_RANKS]; /* ops done, per rank */
};

static bool is_done(const struct explorer *explorer, unsigned kind,
                    uint32_t stage, const struct pen_op *unit)
{
    uint32_t rank = home_of(&explorer->schedule->shape, stage);
    const struct pen_row *row = &explorer->schedule->rows[rank];
    for (uint32_t i = 0; i < explorer->at[rank]; i++) {
        if (row->ops[i].kind == kind && row->ops[i].stage == stage &&
            same_unit(&row->ops[i], unit))
            return true;
    }
    return false;
}

/* Rule 2: the message was sent and its receive was posted. */
static bool has_input(const struct explorer *explorer, const struct pen_op *op)
{
    const struct pen_shape *shape = &explorer->schedule->shape;
    int from = other_end(shape, op);
    if (from < 0 || home_of(shape, (uint32_t)from) == home_of(shape, op->stage))
        return true;
    bool is_act = op->kind == PEN_OP_FORWARD;
    return is_done(explorer, is_act ? PEN_OP_SEND_ACT : PEN_OP_SEND_GRAD,
                   (uint32_t)from, op) &&
           is_done(explorer, is_act ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD,
                   op->stage, op);
}

/* Rules 3 and 4: sends of this channel whose receive was not posted yet. */
static uint32_t outstanding(const struct explorer *explorer, uint32_t rank,
                            const struct pen_op *op)
{
    const struct pen_shape *shape = &explorer->schedule->shape;
    const struct pen_row *row = &explorer->schedule->rows[rank];
    uint32_t to = home_of(shape, (uint32_t)other_end(shape, op));
    unsigned receive =
        op->kind == PEN_OP_SEND_ACT ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD;
    uint32_t count = 0;
    for (uint32_t i = 0; i < explorer->at[rank]; i++) {
        const struct pen_op *sent = &row->ops[i];
        if (sent->kind != op->kind)
            continue;
        uint32_t consumer = (uint32_t)other_end(shape, sent);
        if (home_of(shape, consumer) == to &&
            !is_done(explorer, receive, consumer, sent))
            count++;
    }
    return count;
}

/* A STEP waits for the SYNC of every copy of its stage that has one. */
static bool has_synchronised(const struct explorer *explorer, uint32_t stage)
{
    const struct pen_shape *shape = &explorer->schedule->shape;
    uint32_t parts = parts_of(shape);
    for (uint32_t twin = stage % parts; twin < shape->num_stages;
         twin += parts) {
        uint32_t rank = home_of(shape, twin);
        const struct pen_row *row = &explorer->schedule->rows[rank];
        for (uint32_t i = explorer->at[rank]; i < row->count; i++) {
            if (row->ops[i].kind == PEN_OP_SYNC_GRAD &&
                row->ops[i].stage == twin)
                return false;
        }
    }
    return true;
}

static bool can_go(const struct explorer *explorer, uint32_t rank)
{
    const struct pen_row *row = &explorer->schedule->rows[rank];
    uint32_t at = explorer->at[rank];
    const struct pen_op *op = &row->ops[at];
    if (op->kind == PEN_OP_SEND_ACT || op->kind == PEN_OP_SEND_GRAD)
        return outstanding(explorer, rank, op) < explorer->window;
    if (op->kind == PEN_OP_STEP)
        return has_synchronised(explorer, op->stage);
    if (op->kind != PEN_OP_FORWARD && !is_backward(op->kind))
        return true;
    /* A group goes when all its members can. */
    if (op->group != 0 && at > 0 && row->ops[at - 1].group == op->group)
        return true;
    bool is_ready = has_input(explorer, op);
    for (uint32_t i = at + 1;
         op->group != 0 && i < row->count && row->ops[i].group == op->group;
         i++)
        is_ready = is_ready && has_input(explorer, &row->ops[i]);
    return is_ready;
}

struct verdict {
    bool can_finish;
    bool can_stick;
};

/* Breadth first over all states that some interleaving reaches. */
static struct verdict explore(const struct pen_schedule *schedule,
                              uint32_t window)
{
    struct explorer explorer = {.schedule = schedule, .window = window};
    uint32_t p = schedule->shape.num_ranks;
    size_t states = 1;
    for (uint32_t rank = 0; rank < p; rank++)
        states *= schedule->rows[rank].count + 1;
    uint8_t *has_seen = calloc(states, 1);
    size_t *queue = malloc(states * sizeof *queue);
    assert_non_null(has_seen);
    assert_non_null(queue);
    struct verdict verdict = {false, false};
    size_t head = 0;
    size_t tail = 0;
    queue[tail++] = 0;
    has_seen[0] = 1;
    while (head < tail) {
        size_t state = queue[head++];
        size_t rest = state;
        bool is_final = true;
        for (uint32_t rank = 0; rank < p; rank++) {
            uint32_t count = schedule->rows[rank].count;
            explorer.at[rank] = (uint32_t)(rest % (count + 1));
            rest /= count + 1;
            is_final = is_final && explorer.at[rank] == count;
        }
        bool has_moved = false;
        size_t unit = 1;
        for (uint32_t rank = 0; rank < p; rank++) {
            uint32_t count = schedule->rows[rank].count;
            if (explorer.at[rank] < count && can_go(&explorer, rank)) {
                has_moved = true;
                if (!has_seen[state + unit]) {
                    has_seen[state + unit] = 1;
                    queue[tail++] = state + unit;
                }
            }
            unit *= count + 1;
        }
        verdict.can_finish = verdict.can_finish || is_final;
        verdict.can_stick = verdict.can_stick || (!is_final && !has_moved);
    }
    free(has_seen);
    free(queue);
    return verdict;
}

/* ---- the other rules, as searches ---- */

struct place {
    uint32_t rank;
    uint32_t position;
};

/* How often the op occurs in all rows; *first is where it does so first. */
static unsigned occurrences(const struct pen_schedule *schedule, unsigned kind,
                            uint32_t stage, const struct pen_op *unit,
                            struct place *first)
{
    unsigned count = 0;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (op->kind != kind || op->stage != stage ||
                (unit != NULL && !same_unit(op, unit)))
                continue;
            if (count++ == 0 && first != NULL)
                *first = (struct place){rank, i};
        }
    }
    return count;
}

static unsigned broken(unsigned rule, bool is_broken)
{
    return is_broken ? 1u << rule : 0;
}

static unsigned naive_v8(const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    bool is_wrong = false;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            is_wrong = is_wrong || home_of(shape, op->stage) != rank;
            if (pen_op_has_microbatch(op->kind))
                is_wrong = is_wrong || op->stage / parts_of(shape) !=
                                           (uint64_t)op->microbatch *
                                               shape->num_copies /
                                               shape->num_microbatches;
            else
                is_wrong = is_wrong || !keeps_weights(shape, op->stage);
        }
    }
    return broken(8, is_wrong);
}

static unsigned naive_v1(const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    bool is_wrong = false;
    uint32_t each = shape->num_microbatches / shape->num_copies;
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        for (uint32_t i = 0; i < each; i++) {
            unsigned n[PEN_OP_KINDS] = {0};
            /* Whether the copy is the right one is the matter of V8. */
            for (uint32_t copy = 0; copy < shape->num_copies; copy++) {
                struct pen_op unit = {.microbatch = copy * each + i};
                for (unsigned kind = 0; kind <= PEN_OP_RECOMPUTE; kind++)
                    n[kind] += occurrences(schedule, kind, stage, &unit, NULL);
            }
            bool is_full = n[PEN_OP_BACKWARD] == 1 &&
                           n[PEN_OP_BACKWARD_INPUT] == 0 &&
                           n[PEN_OP_BACKWARD_WEIGHT] == 0;
            bool is_split = n[PEN_OP_BACKWARD] == 0 &&
                            n[PEN_OP_BACKWARD_INPUT] == 1 &&
                            n[PEN_OP_BACKWARD_WEIGHT] == 1;
            is_wrong = is_wrong || n[PEN_OP_FORWARD] != 1 ||
                       n[PEN_OP_RECOMPUTE] > 1 || (!is_full && !is_split);
        }
    }
    return broken(1, is_wrong);
}

/* Does an op of this kind and unit exist, but only behind the position? */
static bool is_behind(const struct pen_row *row, uint32_t position,
                      unsigned kind, uint32_t stage, const struct pen_op *unit)
{
    bool is_there = false;
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->ops[i].kind != kind || row->ops[i].stage != stage ||
            !same_unit(&row->ops[i], unit))
            continue;
        if (i < position)
            return false;
        is_there = true;
    }
    return is_there;
}

/* Is the stash away when the row reaches this position? */
static bool is_away(const struct pen_row *row, uint32_t position,
                    const struct pen_op *unit)
{
    bool is_out = false;
    for (uint32_t i = 0; i < position; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->stage != unit->stage || !same_unit(op, unit))
            continue;
        if (op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD)
            is_out = op->kind == PEN_OP_EVICT;
    }
    return is_out;
}

static bool breaks_v2(const struct pen_schedule *schedule, uint32_t rank,
                      uint32_t at)
{
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_row *row = &schedule->rows[rank];
    const struct pen_op *op = &row->ops[at];
    bool is_move = op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD;
    bool is_wrong = false;
    if (is_backward(op->kind) || is_move || op->kind == PEN_OP_RECOMPUTE ||
        op->kind == PEN_OP_SEND_ACT)
        is_wrong = is_behind(row, at, PEN_OP_FORWARD, op->stage, op);
    if (is_backward(op->kind))
        is_wrong = is_wrong || is_away(row, at, op) ||
                   is_behind(row, at, PEN_OP_RECOMPUTE, op->stage, op);
    if (op->kind == PEN_OP_BACKWARD_WEIGHT)
        is_wrong = is_behind(row, at, PEN_OP_BACKWARD_INPUT, op->stage, op);
    if (op->kind == PEN_OP_SEND_GRAD)
        is_wrong = is_behind(row, at, PEN_OP_BACKWARD, op->stage, op) ||
                   is_behind(row, at, PEN_OP_BACKWARD_INPUT, op->stage, op);
    if (is_move) {
        is_wrong =
            is_wrong || is_away(row, at, op) != (op->kind == PEN_OP_LOAD) ||
            occurrences(schedule, PEN_OP_RECOMPUTE, op->stage, op, NULL) > 0;
        for (uint32_t i = 0; i < at; i++)
            is_wrong = is_wrong || (is_backward(row->ops[i].kind) &&
                                    row->ops[i].stage == op->stage &&
                                    same_unit(&row->ops[i], op));
    }
    int from = other_end(shape, op);
    if (from < 0 || (op->kind != PEN_OP_FORWARD && !is_backward(op->kind)))
        return is_wrong;
    bool is_act = op->kind == PEN_OP_FORWARD;
    if (home_of(shape, (uint32_t)from) == rank) {
        uint32_t stage = (uint32_t)from;
        return is_wrong ||
               (is_act
                    ? is_behind(row, at, PEN_OP_FORWARD, stage, op)
                    : is_behind(row, at, PEN_OP_BACKWARD, stage, op) ||
                          is_behind(row, at, PEN_OP_BACKWARD_INPUT, stage, op));
    }
    unsigned receive = is_act ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD;
    unsigned send = is_act ? PEN_OP_SEND_ACT : PEN_OP_SEND_GRAD;
    bool has_neither =
        occurrences(schedule, receive, op->stage, op, NULL) == 0 &&
        occurrences(schedule, send, (uint32_t)from, op, NULL) == 0;
    return is_wrong || has_neither ||
           is_behind(row, at, receive, op->stage, op);
}

static unsigned naive_v2(const struct pen_schedule *schedule)
{
    bool is_wrong = false;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        for (uint32_t i = 0; i < schedule->rows[rank].count; i++)
            is_wrong = is_wrong || breaks_v2(schedule, rank, i);
    }
    return broken(2, is_wrong);
}

/* The n-th send from one rank to another, or receive at the other end. */
static const struct pen_op *nth_message(const struct pen_schedule *schedule,
                                        unsigned kind, uint32_t from,
                                        uint32_t to, uint32_t n)
{
    bool is_send = kind == PEN_OP_SEND_ACT || kind == PEN_OP_SEND_GRAD;
    const struct pen_row *row = &schedule->rows[is_send ? from : to];
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        int other = other_end(&schedule->shape, op);
        if (op->kind != kind || other < 0 ||
            home_of(&schedule->shape, (uint32_t)other) != (is_send ? to : from))
            continue;
        if (n-- == 0)
            return op;
    }
    return NULL;
}

static bool differs_in_order(const struct pen_schedule *schedule, unsigned send,
                             unsigned receive, uint32_t from, uint32_t to)
{
    for (uint32_t n = 0;; n++) {
        const struct pen_op *a = nth_message(schedule, send, from, to, n);
        const struct pen_op *b = nth_message(schedule, receive, from, to, n);
        if (a == NULL || b == NULL)
            return a != b;
        if (!same_unit(a, b) || other_end(&schedule->shape, a) != (int)b->stage)
            return true;
    }
}

static unsigned naive_v3(const struct pen_schedule *schedule)
{
    static const unsigned partner[PEN_OP_KINDS] = {
        [PEN_OP_SEND_ACT] = PEN_OP_RECV_ACT,
        [PEN_OP_RECV_ACT] = PEN_OP_SEND_ACT,
        [PEN_OP_SEND_GRAD] = PEN_OP_RECV_GRAD,
        [PEN_OP_RECV_GRAD] = PEN_OP_SEND_GRAD};
    const struct pen_shape *shape = &schedule->shape;
    uint32_t p = shape->num_ranks;
    bool is_wrong = false;
    for (uint32_t rank = 0; rank < p; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (partner[op->kind] == 0)
                continue;
            int other = other_end(shape, op);
            is_wrong =
                is_wrong || other < 0 ||
                home_of(shape, (uint32_t)other) == home_of(shape, op->stage) ||
                occurrences(schedule, op->kind, op->stage, op, NULL) != 1 ||
                occurrences(schedule, partner[op->kind], (uint32_t)other, op,
                            NULL) != 1;
        }
        for (uint32_t to = 0; to < p; to++)
            is_wrong = is_wrong ||
                       differs_in_order(schedule, PEN_OP_SEND_ACT,
                                        PEN_OP_RECV_ACT, rank, to) ||
                       differs_in_order(schedule, PEN_OP_SEND_GRAD,
                                        PEN_OP_RECV_GRAD, rank, to);
    }
    return broken(3, is_wrong);
}

static unsigned naive_v7(const struct pen_schedule *schedule, bool needs_sync)
{
    const struct pen_shape *shape = &schedule->shape;
    bool is_wrong = false;
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        if (!keeps_weights(shape, stage))
            continue;
        struct place sync = {0, 0};
        struct place step = {0, 0};
        unsigned syncs =
            occurrences(schedule, PEN_OP_SYNC_GRAD, stage, NULL, &sync);
        unsigned steps = occurrences(schedule, PEN_OP_STEP, stage, NULL, &step);
        bool is_late = false; /* a weight gradient behind SYNC or STEP */
        uint32_t rank = home_of(shape, stage);
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            bool is_gradient = row->ops[i].kind == PEN_OP_BACKWARD ||
                               row->ops[i].kind == PEN_OP_BACKWARD_WEIGHT;
            if (is_gradient && shares_weights(shape, row->ops[i].stage, stage))
                is_late = is_late || (syncs > 0 && i > sync.position) ||
                          (steps > 0 && i > step.position);
        }
        bool must_sync = needs_sync || shape->num_copies > 1;
        is_wrong = is_wrong || is_late || steps != 1 || syncs > 1 ||
                   (must_sync && syncs == 0) ||
                   (syncs == 1 && sync.position > step.position);
    }
    return broken(7, is_wrong);
}

/* One bit per rule that is broken, of the rules that need no run. */
static unsigned naive_rules(const struct pen_schedule *schedule,
                            bool needs_sync)
{
    return naive_v8(schedule) | naive_v1(schedule) | naive_v2(schedule) |
           naive_v3(schedule) | naive_v7(schedule, needs_sync);
}

/* ---- random schedules ---- */

/* Must `a` stand before `b` in its row? Order of messages included. */
static bool must_precede(const struct pen_shape *shape, const struct pen_op *a,
                         const struct pen_op *b)
{
    if (b->kind == PEN_OP_SYNC_GRAD)
        return shares_weights(shape, a->stage, b->stage) &&
               pen_op_is_compute(a->kind);
    if (b->kind == PEN_OP_STEP)
        return shares_weights(shape, a->stage, b->stage) &&
               a->kind != PEN_OP_STEP;
    bool is_message = !pen_op_is_compute(a->kind) && a->kind == b->kind &&
                      pen_op_has_microbatch(a->kind) &&
                      other_end(shape, a) >= 0 && other_end(shape, b) >= 0;
    if (is_message && home_of(shape, (uint32_t)other_end(shape, a)) ==
                          home_of(shape, (uint32_t)other_end(shape, b))) {
        /* One order for both ends: micro-batch, then the producer. */
        if (a->microbatch != b->microbatch)
            return a->microbatch < b->microbatch;
        return a->stage < b->stage;
    }
    if (!same_unit(a, b))
        return false;
    if (a->stage != b->stage) {
        if ((int)a->stage != other_end(shape, b))
            return false;
        return (a->kind == PEN_OP_FORWARD && b->kind == PEN_OP_FORWARD) ||
               (is_backward(a->kind) && is_backward(b->kind));
    }
    switch (b->kind) {
    case PEN_OP_FORWARD:
        return a->kind == PEN_OP_RECV_ACT;
    case PEN_OP_BACKWARD:
    case PEN_OP_BACKWARD_INPUT:
        return a->kind == PEN_OP_RECV_GRAD || a->kind == PEN_OP_FORWARD;
    case PEN_OP_BACKWARD_WEIGHT:
        return a->kind == PEN_OP_BACKWARD_INPUT;
    case PEN_OP_SEND_ACT:
        return a->kind == PEN_OP_FORWARD;
    case PEN_OP_SEND_GRAD:
        return is_backward(a->kind);
    default:
        return false;
    }
}

static void add(struct pen_schedule *schedule, uint32_t rank, struct pen_op op)
{
    assert_int_equal(PEN_OK, pen_schedule_add(schedule, rank, op));
}

static struct pen_shape random_shape(struct pen_random *random)
{
    struct pen_shape shape = {.placement = PEN_PLACEMENT_LINEAR,
                              .num_ranks = 2 + pen_random_below(random, 2),
                              .num_copies = 1,
                              .num_slices = 1};
    shape.num_microbatches = 1 + pen_random_below(random, 3);
    shape.num_stages = shape.num_ranks;
    if (shape.num_ranks > 2) {
        const uint32_t replicas[2][2] = {{2, 1}, {1, 2}};
        uint32_t which = pen_random_below(random, 4);
        if (which >= 2)
            return shape;
        assert_int_equal(PEN_OK,
                         pen_shape_replicate(&shape, replicas[which], 2, NULL));
        shape.num_microbatches = 2 * (1 + pen_random_below(random, 2));
        return shape;
    }
    static const enum pen_placement_kind kinds[] = {
        PEN_PLACEMENT_LINEAR, PEN_PLACEMENT_LOOP, PEN_PLACEMENT_V,
        PEN_PLACEMENT_BIDIRECTIONAL};
    shape.placement = kinds[pen_random_below(random, 4)];
    if (shape.placement != PEN_PLACEMENT_LINEAR)
        shape.num_stages = 4;
    if (shape.placement == PEN_PLACEMENT_BIDIRECTIONAL) {
        shape.num_copies = 2;
        shape.num_microbatches = 2 * (1 + pen_random_below(random, 2));
    }
    return shape;
}

/* All ops of a stage, in a first order that is always legal on its rank. */
static void add_stage(struct pen_schedule *schedule, uint32_t stage,
                      bool is_split)
{
    const struct pen_shape *shape = &schedule->shape;
    uint32_t rank = home_of(shape, stage);
    uint32_t each = shape->num_microbatches / shape->num_copies;
    uint32_t first = stage / parts_of(shape) * each;
    int before = feeder(shape, stage, true);
    int after = feeder(shape, stage, false);
    bool has_before = before >= 0 && home_of(shape, (uint32_t)before) != rank;
    bool has_after = after >= 0 && home_of(shape, (uint32_t)after) != rank;
    for (uint32_t i = first; i < first + each; i++) {
        if (has_before)
            add(schedule, rank, pen_op_make(PEN_OP_RECV_ACT, stage, i));
        add(schedule, rank, pen_op_make(PEN_OP_FORWARD, stage, i));
        if (has_after) {
            add(schedule, rank, pen_op_make(PEN_OP_SEND_ACT, stage, i));
            add(schedule, rank, pen_op_make(PEN_OP_RECV_GRAD, stage, i));
        }
        add(schedule, rank,
            pen_op_make(is_split ? PEN_OP_BACKWARD_INPUT : PEN_OP_BACKWARD,
                        stage, i));
        if (has_before)
            add(schedule, rank, pen_op_make(PEN_OP_SEND_GRAD, stage, i));
        if (is_split)
            add(schedule, rank, pen_op_make(PEN_OP_BACKWARD_WEIGHT, stage, i));
    }
    const uint32_t none = PEN_OP_NO_MICROBATCH;
    if (!keeps_weights(shape, stage))
        return;
    add(schedule, rank, pen_op_make(PEN_OP_SYNC_GRAD, stage, none));
    add(schedule, rank, pen_op_make(PEN_OP_STEP, stage, none));
}

/* How late an op comes in a sensible schedule, for the tame share. */
static uint32_t usual_slot(const struct pen_shape *shape,
                           const struct pen_op *op)
{
    uint32_t part = op->stage % parts_of(shape);
    uint32_t parts = parts_of(shape);
    switch (op->kind) {
    case PEN_OP_FORWARD:
    case PEN_OP_RECV_ACT:
    case PEN_OP_SEND_ACT:
        return 4 * (part + 2 * op->microbatch);
    case PEN_OP_BACKWARD_WEIGHT:
        return 4 * (2 * parts + 2 * op->microbatch);
    case PEN_OP_SYNC_GRAD:
        return 100000;
    case PEN_OP_STEP:
        return 100001;
    default:
        return 4 * (2 * parts - 1 - part + 2 * op->microbatch);
    }
}

/* A random order of the row in which must_precede() holds. */
static void shuffle_row(const struct pen_shape *shape, struct pen_row *row,
                        uint32_t wildness, struct pen_random *random)
{
    struct pen_op left[MAX_ROW];
    uint32_t count = row->count;
    assert_true(count <= MAX_ROW);
    memcpy(left, row->ops, count * sizeof *left);
    for (uint32_t done = 0; done < row->count; done++) {
        uint32_t chosen = UINT32_MAX;
        uint32_t seen = 0;
        bool is_wild = pen_random_below(random, 100) < wildness;
        for (uint32_t i = 0; i < count; i++) {
            bool is_free = true;
            for (uint32_t j = 0; j < count; j++)
                is_free = is_free && !must_precede(shape, &left[j], &left[i]);
            if (!is_free)
                continue;
            if (is_wild ? pen_random_below(random, ++seen) == 0
                        : chosen == UINT32_MAX ||
                              usual_slot(shape, &left[i]) <
                                  usual_slot(shape, &left[chosen]))
                chosen = i;
        }
        assert_true(chosen < count);
        row->ops[done] = left[chosen];
        memmove(&left[chosen], &left[chosen + 1],
                (--count - chosen) * sizeof *left);
    }
}

/* Joins some neighbouring compute ops into overlap groups. */
static void group_some(struct pen_row *row, struct pen_random *random)
{
    uint16_t group = 0;
    for (uint32_t i = 0; i + 1 < row->count; i++) {
        if (pen_op_is_compute(row->ops[i].kind) &&
            pen_op_is_compute(row->ops[i + 1].kind) &&
            pen_random_below(random, 3) == 0) {
            group++;
            row->ops[i].group = group;
            row->ops[++i].group = group;
        }
    }
}

static struct pen_schedule *random_schedule(struct pen_random *random)
{
    struct pen_shape shape = random_shape(random);
    struct pen_schedule *schedule = NULL;
    assert_int_equal(PEN_OK,
                     pen_schedule_create("random", &shape, &schedule, NULL));
    schedule->rules.send_window = 1 + pen_random_below(random, 3);
    for (uint32_t stage = 0; stage < shape.num_stages; stage++)
        add_stage(schedule, stage, pen_random_below(random, 4) == 0);
    uint32_t wildness = pen_random_below(random, 60);
    bool has_groups = pen_random_below(random, 4) == 0;
    for (uint32_t rank = 0; rank < shape.num_ranks; rank++) {
        shuffle_row(&shape, &schedule->rows[rank], wildness, random);
        if (has_groups)
            group_some(&schedule->rows[rank], random);
    }
    return schedule;
}

static void show(const struct pen_schedule *schedule, const char *what)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_schedule_print(schedule, &text);
    print_error("%s\n%s", what, pen_text_string(&text));
    pen_text_release(&text);
}

static unsigned found_rule(const struct pen_schedule *schedule, bool needs_sync)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_finding finding = {.rule = 99};
    const struct pen_verify_options options = {.needs_sync = needs_sync};
    pen_status status = pen_schedule_verify(schedule, &options, &finding, &why);
    assert_int_equal(status == PEN_OK, finding.rule == 0);
    assert_int_equal(status == PEN_OK, why.length == 0);
    pen_text_release(&why);
    return finding.rule;
}

static void v4_is_said_when_an_interleaving_gets_stuck(void **state)
{
    (void)state;
    struct pen_random random = {1};
    unsigned stuck = 0;
    unsigned free_of_it = 0;
    for (unsigned i = 0; i < 3000; i++) {
        struct pen_schedule *schedule = random_schedule(&random);
        unsigned rule = found_rule(schedule, false);
        struct verdict verdict = explore(schedule, schedule->rules.send_window);
        if (naive_rules(schedule, false) != 0 || (rule != 0 && rule != 4) ||
            verdict.can_stick != (rule == 4) ||
            verdict.can_finish == verdict.can_stick) {
            show(schedule, "verifier and interleavings disagree");
            fail_msg("rule %u, can get stuck %d, can finish %d", rule,
                     verdict.can_stick, verdict.can_finish);
        }
        stuck += rule == 4;
        free_of_it += rule == 0;
        pen_schedule_free(schedule);
    }
    print_message("%u schedules deadlock, %u do not\n", stuck, free_of_it);
    assert_true(stuck > 200);
    assert_true(free_of_it > 200);
}

/* Takes away, doubles, exchanges, moves or alters one op. */
static void corrupt(struct pen_schedule *schedule, struct pen_random *random)
{
    const struct pen_shape *shape = &schedule->shape;
    struct pen_row *row =
        &schedule->rows[pen_random_below(random, shape->num_ranks)];
    if (row->count < 2)
        return;
    uint32_t i = pen_random_below(random, row->count);
    uint32_t j = pen_random_below(random, row->count);
    struct pen_op op = row->ops[i];
    switch (pen_random_below(random, 8)) {
    case 0:
        memmove(&row->ops[i], &row->ops[i + 1],
                (--row->count - i) * sizeof *row->ops);
        return;
    case 1:
        add(schedule, pen_random_below(random, shape->num_ranks), op);
        return;
    case 2:
    case 3:
        row->ops[i] = row->ops[j];
        row->ops[j] = op;
        return;
    case 4:
        row->ops[i].stage =
            (uint16_t)pen_random_below(random, shape->num_stages);
        return;
    case 5:
        if (pen_op_has_microbatch(op.kind))
            row->ops[i].microbatch =
                pen_random_below(random, shape->num_microbatches);
        return;
    case 6:
        if (pen_op_has_microbatch(op.kind))
            do
                row->ops[i].kind =
                    (uint8_t)pen_random_below(random, PEN_OP_KINDS);
            while (!pen_op_has_microbatch(row->ops[i].kind));
        return;
    default:
        memmove(&row->ops[i], &row->ops[i + 1],
                (row->count - 1 - i) * sizeof *row->ops);
        j = pen_random_below(random, row->count);
        memmove(&row->ops[j + 1], &row->ops[j],
                (row->count - 1 - j) * sizeof *row->ops);
        row->ops[j] = op;
    }
}

static void the_verifier_agrees_with_plain_searches(void **state)
{
    (void)state;
    struct pen_random random = {2};
    unsigned counts[PEN_VERIFY_RULES + 1] = {0};
    for (unsigned i = 0; i < 20000; i++) {
        struct pen_schedule *schedule = random_schedule(&random);
        bool needs_sync = pen_random_below(&random, 2) == 0;
        for (uint32_t n = 1 + pen_random_below(&random, 2); n > 0; n--)
            corrupt(schedule, &random);
        unsigned naive = naive_rules(schedule, needs_sync);
        unsigned rule = found_rule(schedule, needs_sync);
        bool agrees =
            rule == 0 || rule == 4 ? naive == 0 : (naive & (1u << rule)) != 0;
        if (!agrees) {
            show(schedule, "verifier and plain searches disagree");
            fail_msg("verifier says V%u, the searches 0x%x (needs sync: %d)",
                     rule, naive, needs_sync);
        }
        counts[rule]++;
        pen_schedule_free(schedule);
    }
    print_message("kept all: %u, V1 %u, V2 %u, V3 %u, V4 %u, V7 %u, V8 %u\n",
                  counts[0], counts[1], counts[2], counts[3], counts[4],
                  counts[7], counts[8]);
    static const unsigned rules[] = {0, 1, 2, 3, 4, 7, 8};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        assert_true(counts[rules[i]] > 200);
}

/* ---- the files of tests/negative break one rule each ---- */

#define FOLDER PEN_SOURCE_DIR "/tests/negative/"

static void expect_one_rule(const char *name)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (pen_schedule_load(path, &schedule, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    unsigned rule = (unsigned)(name[1] - '0');
    bool needs_sync = strstr(name, "without_sync") != NULL;
    unsigned naive = 0;
    /* The searches know one STEP a run; V6 files have more. */
    if (schedule->rules.period == 0)
        naive = naive_rules(schedule, needs_sync);
    if (naive == 0 && schedule->shape.num_ranks > 1 &&
        explore(schedule, pen_schedule_window(schedule)).can_stick)
        naive |= 1u << 4;
    unsigned expected = rule == 5 || rule == 6 ? 0 : 1u << rule;
    if (naive != expected)
        fail_msg("%s breaks the rules 0x%x", name, naive);
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

static void each_negative_file_breaks_one_rule_and_no_other(void **state)
{
    (void)state;
    unsigned files = 0;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL;
         entry = readdir(folder)) {
        const char *ending = strrchr(entry->d_name, '.');
        if (ending == NULL || strcmp(ending, ".txt") != 0)
            continue;
        expect_one_rule(entry->d_name);
        files++;
    }
    closedir(folder);
    assert_true(files >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v4_is_said_when_an_interleaving_gets_stuck),
        cmocka_unit_test(the_verifier_agrees_with_plain_searches),
        cmocka_unit_test(each_negative_file_breaks_one_rule_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
