/*
 * The verifier: V8, V1, V2, V3, V7 and V6 are scans over the rows in this
 * order (each relies on the ones before), V4 runs the machine of machine.h
 * with ops that take no time, V5 walks the memory. The first violation is
 * reported, or, to a hook, all of them.
 */
#include "schedule/verify.h"

#include "base/bug.h"
#include "base/room.h"
#include "schedule/channels.h"
#include "schedule/deadlock.h"
#include "schedule/machine.h"
#include "schedule/memory.h"
#include "schedule/time.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Below this, memory for every (stage, micro-batch, slice) is always available.
 */
#define ENOUGH_CELLS ((size_t)1 << 22)

struct verifier {
    const struct pen_schedule *schedule;
    const struct pen_shape *shape;
    const struct pen_verify_options *options;
    struct pen_finding *finding;
    struct pen_text *why;
    pen_mistake_hook *hook;  /* NULL: the first mistake ends it */
    void *context;           /* of the hook */
    uint64_t num_told;       /* to the hook */
    struct pen_finding last; /* reported to the hook */
    uint32_t per_copy;       /* micro-batches of one copy */
    uint32_t *counts;        /* two bits per kind and cell; see count_bits() */
    uint16_t *states;        /* what the row has done with the cell so far */
};

/* Reports one mistake of an op to the hook, and lets the scan continue. */
static pen_status report_mistake(struct verifier *verifier,
                                 struct pen_finding finding, const char *words)
{
    const struct pen_finding *last = &verifier->last;
    bool is_op =
        finding.position < verifier->schedule->rows[finding.rank].count;
    if (verifier->num_told > 0 && is_op && last->rank == finding.rank &&
        last->position == finding.position)
        return PEN_OK;
    verifier->hook(verifier->context, &finding, words);
    verifier->num_told++;
    verifier->last = finding;
    return PEN_OK;
}

static pen_status refuse(struct verifier *verifier, unsigned rule,
                         uint32_t rank, uint32_t position, const char *format,
                         ...) __attribute__((format(printf, 5, 6)));

static pen_status refuse(struct verifier *verifier, unsigned rule,
                         uint32_t rank, uint32_t position, const char *format,
                         ...)
{
    const struct pen_row *row = &verifier->schedule->rows[rank];
    struct pen_text text = PEN_TEXT_EMPTY;
    char words[256];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (verifier->hook != NULL)
        return report_mistake(
            verifier, (struct pen_finding){rule, rank, position}, words);
    pen_text_add(&text, "V%u: rank %u, ", rule, rank);
    if (position < row->count) {
        pen_text_add(&text, "position %u, ", position);
        pen_op_print(&row->ops[position], &text);
    } else {
        pen_text_add(&text, "end of the row");
    }
    pen_text_add(&text, ": %s\n", words);
    pen_schedule_print_around(verifier->schedule, rank, position, &text);
    while (text.length > 0 && text.bytes[text.length - 1] == '\n')
        text.bytes[--text.length] = '\0';
    pen_why(verifier->why, "%s", pen_text_string(&text));
    pen_text_release(&text);
    if (verifier->finding != NULL)
        *verifier->finding = (struct pen_finding){rule, rank, position};
    return PEN_INVALID;
}

static size_t cell_of(const struct verifier *verifier, const struct pen_op *op)
{
    size_t local = op->microbatch % verifier->per_copy;
    return ((size_t)op->stage * verifier->per_copy + local) *
               verifier->shape->num_slices +
           op->slice;
}

typedef pen_status check_op(struct verifier *verifier, uint32_t rank,
                            uint32_t position, const struct pen_op *op);

/* Inlined with its check, which every op of a large schedule passes. */
static inline __attribute__((always_inline)) pen_status
for_each_op(struct verifier *verifier, check_op *check)
{
    for (uint32_t rank = 0; rank < verifier->shape->num_ranks; rank++) {
        const struct pen_row *row = &verifier->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            pen_status status = check(verifier, rank, i, &row->ops[i]);
            if (status != PEN_OK)
                return status;
        }
    }
    return PEN_OK;
}

/* V8: the stage is on this rank and the micro-batch belongs to its copy. */
static pen_status check_place(struct verifier *verifier, uint32_t rank,
                              uint32_t position, const struct pen_op *op)
{
    const struct pen_shape *shape = verifier->shape;
    PEN_BUG_UNLESS(op->kind < PEN_OP_KINDS);
    PEN_BUG_UNLESS(op->stage < shape->num_stages);
    uint32_t home = pen_shape_rank_of(shape, op->stage);
    if (home != rank)
        return refuse(verifier, 8, rank, position,
                      "stage %u belongs to rank %u in placement %s", op->stage,
                      home, pen_placement_text(shape->placement));
    if (!pen_op_has_microbatch(op->kind)) {
        uint32_t keeper = pen_shape_keeper(shape, op->stage);
        if (keeper == op->stage)
            return PEN_OK;
        return refuse(verifier, 8, rank, position,
                      "stage %u has the weights of stage %u, whose SYNC and "
                      "STEP are for both",
                      op->stage, keeper);
    }
    PEN_BUG_UNLESS(op->microbatch < shape->num_microbatches);
    PEN_BUG_UNLESS(op->slice < shape->num_slices);
    uint32_t copy = pen_shape_copy_of_stage(shape, op->stage);
    if (pen_shape_copy_of_microbatch(shape, op->microbatch) != copy)
        return refuse(verifier, 8, rank, position,
                      "micro-batch %u belongs to copy %u, stage %u to copy %u",
                      op->microbatch,
                      pen_shape_copy_of_microbatch(shape, op->microbatch),
                      op->stage, copy);
    return PEN_OK;
}

/* Returns how often the kind occurs in the cell: 0, 1, or 2 for more. */
static unsigned count_of(const struct verifier *verifier, size_t cell,
                         unsigned kind)
{
    return (verifier->counts[cell] >> (2 * kind)) & 3u;
}

static bool is_counted(unsigned kind)
{
    return pen_op_has_microbatch(kind) && kind != PEN_OP_EVICT &&
           kind != PEN_OP_LOAD;
}

static bool has(const struct verifier *verifier, size_t cell, unsigned kind)
{
    return count_of(verifier, cell, kind) != 0;
}

/* V1, first half: nothing twice, and no B together with I or W. */
static inline __attribute__((always_inline)) pen_status
count_op(struct verifier *verifier, uint32_t rank, uint32_t position,
         const struct pen_op *op)
{
    if (!is_counted(op->kind))
        return PEN_OK;
    size_t cell = cell_of(verifier, op);
    bool is_message = !pen_op_is_compute(op->kind);
    if (has(verifier, cell, op->kind))
        return refuse(verifier, is_message ? 3 : 1, rank, position,
                      "the %s of micro-batch %u at stage %u occurs twice",
                      pen_op_info(op->kind)->words, op->microbatch, op->stage);
    verifier->counts[cell] |= 1u << (2 * op->kind);
    bool is_split = has(verifier, cell, PEN_OP_BACKWARD_INPUT) ||
                    has(verifier, cell, PEN_OP_BACKWARD_WEIGHT);
    if (has(verifier, cell, PEN_OP_BACKWARD) && is_split)
        return refuse(verifier, 1, rank, position,
                      "micro-batch %u at stage %u has a full backward and "
                      "also an input or weight gradient",
                      op->microbatch, op->stage);
    return PEN_OK;
}

/*
 * Refuses a missing op; `unit` counts the slices of all micro-batches of the
 * stage's copy.
 */
static pen_status refuse_missing(struct verifier *verifier, uint32_t stage,
                                 uint32_t unit, const char *what)
{
    const struct pen_shape *shape = verifier->shape;
    uint32_t rank = pen_shape_rank_of(shape, stage);
    uint32_t copy = pen_shape_copy_of_stage(shape, stage);
    char slice[24] = "";
    if (shape->num_slices > 1)
        snprintf(slice, sizeof slice, ", slice %u", unit % shape->num_slices);
    return refuse(verifier, 1, rank, verifier->schedule->rows[rank].count,
                  "micro-batch %u%s at stage %u has no %s",
                  copy * verifier->per_copy + unit / shape->num_slices, slice,
                  stage, what);
}

/* V1, second half: nothing missing. */
static pen_status check_complete(struct verifier *verifier)
{
    const struct pen_shape *shape = verifier->shape;
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        for (uint32_t i = 0; i < verifier->per_copy * shape->num_slices; i++) {
            size_t cell =
                (size_t)stage * verifier->per_copy * shape->num_slices + i;
            const char *missing = NULL;
            bool has_backward = has(verifier, cell, PEN_OP_BACKWARD);
            if (!has(verifier, cell, PEN_OP_FORWARD))
                missing = "forward";
            else if (!has_backward &&
                     !has(verifier, cell, PEN_OP_BACKWARD_INPUT))
                missing = has(verifier, cell, PEN_OP_BACKWARD_WEIGHT)
                              ? "input gradient"
                              : "backward";
            else if (!has_backward &&
                     !has(verifier, cell, PEN_OP_BACKWARD_WEIGHT))
                missing = "weight gradient";
            pen_status status =
                missing == NULL ? PEN_OK
                                : refuse_missing(verifier, stage, i, missing);
            if (status != PEN_OK)
                return status;
        }
    }
    return PEN_OK;
}

/*
 * The kinds that a cell of the row has seen, one bit each, and whether it is
 * away.
 */
#define SEEN(kind) (1u << (kind))
#define IS_AWAY (1u << 15)

/*
 * Refuses an op that comes before this kind of the same micro-batch. One that
 * is nowhere is missing (V1), not late.
 */
static pen_status refuse_unless_done(struct verifier *verifier, uint32_t rank,
                                     uint32_t position, uint16_t state,
                                     unsigned kind)
{
    const struct pen_op *op = &verifier->schedule->rows[rank].ops[position];
    if ((state & SEEN(kind)) || !has(verifier, cell_of(verifier, op), kind))
        return PEN_OK;
    return refuse(verifier, 2, rank, position,
                  "it comes before the %s of the same micro-batch",
                  pen_op_info(kind)->words);
}

/*
 * V2: the op that feeds this one comes before it: its receive, or a neighbour
 * stage on the same rank (the turn of a V).
 */
static pen_status check_fed(struct verifier *verifier, uint32_t rank,
                            uint32_t position, const struct pen_op *op)
{
    const struct pen_shape *shape = verifier->shape;
    enum pen_direction direction = pen_op_info(op->kind)->direction;
    if (!pen_op_is_compute(op->kind) || direction == PEN_DIRECTION_NONE)
        return PEN_OK;
    bool is_forward = direction == PEN_DIRECTION_ACT;
    uint32_t from = pen_op_feeder(shape, op);
    if (from == PEN_NO_STAGE)
        return PEN_OK;
    unsigned receive = is_forward ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD;
    if (pen_shape_is_remote(shape, op->stage, from)) {
        uint16_t state = verifier->states[cell_of(verifier, op)];
        if (state & SEEN(receive))
            return PEN_OK;
        return refuse(verifier, 2, rank, position,
                      "no receive of its %s comes before it",
                      is_forward ? "activation" : "gradient");
    }
    struct pen_op producer = *op;
    producer.stage = (uint16_t)from;
    size_t cell = cell_of(verifier, &producer);
    uint16_t state = verifier->states[cell];
    uint16_t wanted =
        is_forward
            ? (uint16_t)SEEN(PEN_OP_FORWARD)
            : (uint16_t)(SEEN(PEN_OP_BACKWARD) | SEEN(PEN_OP_BACKWARD_INPUT));
    bool is_missing = is_forward
                          ? !has(verifier, cell, PEN_OP_FORWARD)
                          : !has(verifier, cell, PEN_OP_BACKWARD) &&
                                !has(verifier, cell, PEN_OP_BACKWARD_INPUT);
    if ((state & wanted) || is_missing)
        return PEN_OK;
    return refuse(verifier, 2, rank, position,
                  "it comes before the %s of micro-batch %u at stage %u, which "
                  "is its input",
                  is_forward ? "forward" : "backward", op->microbatch, from);
}

static pen_status check_move(struct verifier *verifier, uint32_t rank,
                             uint32_t position, const struct pen_op *op,
                             uint16_t *state)
{
    bool is_evict = op->kind == PEN_OP_EVICT;
    bool is_away = (*state & IS_AWAY) != 0;
    if (has(verifier, cell_of(verifier, op), PEN_OP_RECOMPUTE))
        return refuse(verifier, 2, rank, position,
                      "a stash that is recomputed (R) is not evicted");
    if (is_evict == is_away)
        return refuse(verifier, 2, rank, position,
                      is_evict ? "the stash is already evicted"
                               : "the stash is not evicted");
    bool is_used =
        (*state & (SEEN(PEN_OP_BACKWARD) | SEEN(PEN_OP_BACKWARD_INPUT))) != 0;
    if (is_used)
        return refuse(verifier, 2, rank, position,
                      "it comes after the backward that needs the stash");
    *state = (uint16_t)(*state ^ IS_AWAY);
    return PEN_OK;
}

/* V2: order on the rank. */
static pen_status check_order(struct verifier *verifier, uint32_t rank,
                              uint32_t position, const struct pen_op *op)
{
    if (!pen_op_has_microbatch(op->kind))
        return PEN_OK;
    size_t cell = cell_of(verifier, op);
    uint16_t state = verifier->states[cell];
    bool is_backward =
        op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_INPUT;
    pen_status status = PEN_OK;
    if (is_backward || op->kind == PEN_OP_RECOMPUTE ||
        op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD ||
        op->kind == PEN_OP_SEND_ACT)
        status =
            refuse_unless_done(verifier, rank, position, state, PEN_OP_FORWARD);
    if (status == PEN_OK && is_backward &&
        has(verifier, cell, PEN_OP_RECOMPUTE))
        status = refuse_unless_done(verifier, rank, position, state,
                                    PEN_OP_RECOMPUTE);
    if (status == PEN_OK && op->kind == PEN_OP_BACKWARD_WEIGHT)
        status = refuse_unless_done(verifier, rank, position, state,
                                    PEN_OP_BACKWARD_INPUT);
    if (status == PEN_OK && op->kind == PEN_OP_SEND_GRAD)
        status = refuse_unless_done(verifier, rank, position, state,
                                    has(verifier, cell, PEN_OP_BACKWARD)
                                        ? PEN_OP_BACKWARD
                                        : PEN_OP_BACKWARD_INPUT);
    if (status == PEN_OK && is_backward && (state & IS_AWAY))
        status = refuse(verifier, 2, rank, position,
                        "its stash is evicted: a load is missing before it");
    if (status == PEN_OK)
        status = check_fed(verifier, rank, position, op);
    if (status == PEN_OK &&
        (op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD))
        status = check_move(verifier, rank, position, op, &state);
    verifier->states[cell] = (uint16_t)(state | SEEN(op->kind));
    return status;
}

/* V3, first half: a message has an end on another rank, and both ends exist. */
static pen_status check_message(struct verifier *verifier, uint32_t rank,
                                uint32_t position, const struct pen_op *op)
{
    static const struct {
        unsigned kind;
        unsigned other;
        bool is_out;
    } ends[] = {{PEN_OP_SEND_ACT, PEN_OP_RECV_ACT, true},
                {PEN_OP_RECV_ACT, PEN_OP_SEND_ACT, false},
                {PEN_OP_SEND_GRAD, PEN_OP_RECV_GRAD, true},
                {PEN_OP_RECV_GRAD, PEN_OP_SEND_GRAD, false}};
    enum pen_direction direction =
        (enum pen_direction)pen_op_info(op->kind)->direction;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (ends[i].kind != op->kind)
            continue;
        const struct pen_shape *shape = verifier->shape;
        uint32_t stage = ends[i].is_out
                             ? pen_shape_receiver(shape, op->stage, direction)
                             : pen_shape_sender(shape, op->stage, direction);
        if (direction == PEN_DIRECTION_GRAD && shape->is_local)
            return refuse(verifier, 3, rank, position,
                          "with rule local no gradient goes from stage to "
                          "stage");
        if (!pen_shape_is_remote(shape, op->stage, stage))
            return refuse(verifier, 3, rank, position,
                          "stage %u has no neighbour on another rank on that "
                          "side",
                          op->stage);
        struct pen_op other = *op;
        other.stage = (uint16_t)stage;
        if (!has(verifier, cell_of(verifier, &other), ends[i].other))
            return refuse(verifier, 3, rank, position,
                          "rank %u has no %s of micro-batch %u at stage %u",
                          pen_shape_rank_of(shape, stage),
                          pen_op_info(ends[i].other)->words, op->microbatch,
                          stage);
    }
    return PEN_OK;
}

/* A message on a channel, for comparing the two ends. */
struct message {
    uint32_t microbatch;
    uint16_t producer; /* stage */
    uint16_t slice;
};

struct channel {
    struct message *messages; /* in the order of the sends */
    uint64_t sends;
    uint64_t receives;
    uint64_t capacity;
    bool is_wrong; /* the order differs, told once */
};

struct channels {
    struct channel *all;
    struct pen__channel_index index;
};

static pen_status note_send(struct channel *channel, struct message message)
{
    if (channel->sends == channel->capacity) {
        uint64_t capacity = channel->capacity < 16 ? 16 : channel->capacity * 2;
        struct message *messages =
            pen_room_again(channel->messages, capacity, sizeof *messages);
        if (messages == NULL)
            return PEN_NOMEM;
        channel->messages = messages;
        channel->capacity = capacity;
    }
    channel->messages[channel->sends++] = message;
    return PEN_OK;
}

static pen_status note_sends(struct verifier *verifier,
                             struct channels *channels)
{
    for (uint32_t rank = 0; rank < verifier->shape->num_ranks; rank++) {
        const struct pen_row *row = &verifier->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (pen_op_info(op->kind)->op_class != PEN_OP_CLASS_SEND)
                continue;
            int32_t id = pen__channel_of(&channels->index, op);
            pen_status status = note_send(
                &channels->all[id],
                (struct message){op->microbatch, op->stage, op->slice});
            if (status != PEN_OK)
                return status;
        }
    }
    return PEN_OK;
}

static pen_status compare_receive(struct verifier *verifier,
                                  struct channels *channels, uint32_t rank,
                                  uint32_t position)
{
    const struct pen_shape *shape = verifier->shape;
    const struct pen_op *op = &verifier->schedule->rows[rank].ops[position];
    int32_t id = pen__channel_of(&channels->index, op);
    struct channel *channel = &channels->all[id];
    const struct message *sent = &channel->messages[channel->receives];
    uint32_t producer = pen_op_feeder(shape, op);
    PEN_BUG_UNLESS(channel->receives < channel->sends);
    channel->receives++;
    if (channel->is_wrong ||
        (sent->microbatch == op->microbatch && sent->slice == op->slice &&
         sent->producer == producer))
        return PEN_OK;
    channel->is_wrong = true;
    return refuse(verifier, 3, rank, position,
                  "rank %u sends micro-batch %u of stage %u here; both sides "
                  "of a channel must list their messages in the same order",
                  pen_shape_rank_of(shape, producer), sent->microbatch,
                  sent->producer);
}

/* V3, second half: both sides of a channel in the same order. */
static pen_status check_channels(struct verifier *verifier)
{
    struct channels channels;
    pen_status status =
        pen__channel_index_init(&channels.index, verifier->shape);
    if (status != PEN_OK)
        return status;
    uint32_t num = channels.index.num_channels;
    channels.all = calloc((size_t)num + 1, sizeof *channels.all);
    status = channels.all == NULL ? PEN_NOMEM : note_sends(verifier, &channels);
    for (uint32_t rank = 0;
         rank < verifier->shape->num_ranks && status == PEN_OK; rank++) {
        const struct pen_row *row = &verifier->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count && status == PEN_OK; i++) {
            if (pen_op_info(row->ops[i].kind)->op_class == PEN_OP_CLASS_RECV)
                status = compare_receive(verifier, &channels, rank, i);
        }
    }
    for (uint32_t i = 0; channels.all != NULL && i < num; i++)
        free(channels.all[i].messages);
    free(channels.all);
    pen__channel_index_release(&channels.index);
    return status;
}

struct stage_progress {
    uint32_t done;  /* weight gradients so far */
    uint32_t syncs; /* SYNC so far */
    uint32_t steps;
};

static pen_status check_sync(struct verifier *verifier, uint32_t rank,
                             uint32_t position,
                             const struct stage_progress *stage,
                             uint32_t period)
{
    if (stage->steps > stage->syncs)
        return refuse(verifier, 7, rank, position, "its STEP comes before it");
    if (verifier->schedule->rules.is_joint && stage->steps < stage->syncs)
        return refuse(verifier, 7, rank, position,
                      "the STEP of the SYNC before it comes after it");
    uint32_t due = (stage->syncs + 1) * period;
    if (stage->done != due)
        return refuse(verifier, 7, rank, position,
                      "%u of %u weight gradients of the stage are done before "
                      "it",
                      stage->done - stage->syncs * period, period);
    return PEN_OK;
}

static pen_status check_step(struct verifier *verifier, uint32_t rank,
                             uint32_t position,
                             const struct stage_progress *stage,
                             uint32_t period)
{
    bool is_joint = verifier->schedule->rules.is_joint;
    bool needs_sync = verifier->options->needs_sync || is_joint ||
                      verifier->shape->num_copies > 1;
    if (needs_sync && stage->syncs != stage->steps + 1)
        return refuse(verifier, 7, rank, position,
                      is_joint
                          ? "no SYNC comes before it although steps are joint"
                          : "no SYNC comes before it although the stage has "
                            "replicas");
    if (is_joint) /* gradients of the next step may be there already */
        return PEN_OK;
    if (stage->done != (stage->steps + 1) * period)
        return refuse(verifier, 7, rank, position,
                      "%u of %u weight gradients of the stage are done before "
                      "it",
                      stage->done - stage->steps * period, period);
    return PEN_OK;
}

/* Optimistic steps: a synchronous schedule, and no compute op after them. */
static pen_status check_optimistic(struct verifier *verifier, uint32_t rank)
{
    const struct pen_rules *rules = &verifier->schedule->rules;
    const struct pen_row *row = &verifier->schedule->rows[rank];
    bool has_stepped = false;
    pen_status status = PEN_OK;
    for (uint32_t i = 0;
         i < row->count && rules->is_optimistic && status == PEN_OK; i++) {
        const struct pen_op *op = &row->ops[i];
        has_stepped = has_stepped || op->kind == PEN_OP_STEP;
        if (op->kind == PEN_OP_STEP && (rules->period != 0 || rules->is_joint))
            status = refuse(verifier, 7, rank, i,
                            "it is optimistic although steps overlap");
        else if (has_stepped && pen_op_is_compute(op->kind))
            status = refuse(verifier, 7, rank, i,
                            "a STEP of this rank comes before it although "
                            "steps are optimistic");
    }
    return status;
}

/* V7: SYNC and STEP, once per period and after its last weight gradient. */
static pen_status check_steps(struct verifier *verifier)
{
    const struct pen_shape *shape = verifier->shape;
    uint32_t units = verifier->per_copy * shape->num_slices;
    uint64_t asked =
        (uint64_t)verifier->schedule->rules.period * shape->num_slices;
    uint32_t period = asked == 0           ? units
                      : asked < UINT32_MAX ? (uint32_t)asked
                                           : UINT32_MAX;
    struct stage_progress *stages = calloc(shape->num_stages, sizeof *stages);
    if (stages == NULL)
        return PEN_NOMEM;
    pen_status status = PEN_OK;
    for (uint32_t rank = 0; rank < shape->num_ranks && status == PEN_OK;
         rank++) {
        const struct pen_row *row = &verifier->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count && status == PEN_OK; i++) {
            const struct pen_op *op = &row->ops[i];
            struct stage_progress *stage =
                &stages[pen_shape_keeper(shape, op->stage)];
            if (op->kind == PEN_OP_SYNC_GRAD) {
                status = check_sync(verifier, rank, i, stage,
                                    period * pen_shape_users(shape, op->stage));
                stage->syncs++;
            } else if (op->kind == PEN_OP_STEP) {
                status = check_step(verifier, rank, i, stage,
                                    period * pen_shape_users(shape, op->stage));
                stage->steps++;
            } else if (op->kind == PEN_OP_BACKWARD ||
                       op->kind == PEN_OP_BACKWARD_WEIGHT) {
                stage->done++;
            }
        }
        if (status == PEN_OK)
            status = check_optimistic(verifier, rank);
    }
    for (uint32_t i = 0; i < shape->num_stages && status == PEN_OK; i++) {
        uint32_t rank = pen_shape_rank_of(shape, i);
        uint32_t due = units / period;
        if (stages[i].steps != due && pen_shape_keeper(shape, i) == i)
            status =
                refuse(verifier, 7, rank, verifier->schedule->rows[rank].count,
                       "stage %u has %u STEP, but must have %u", i,
                       stages[i].steps, due);
    }
    free(stages);
    return status;
}

static pen_status check_version(struct verifier *verifier, uint32_t rank,
                                uint32_t position, uint32_t current,
                                uint32_t *used)
{
    const struct pen_op *op = &verifier->schedule->rows[rank].ops[position];
    const struct pen_rules *rules = &verifier->schedule->rules;
    uint32_t kept = rules->versions == 0 ? 1 : rules->versions;
    uint32_t version = op->version == PEN_OP_CURRENT ? current : op->version;
    if (version > current)
        return refuse(verifier, 6, rank, position,
                      "version %u does not exist yet; the newest is %u",
                      version, current);
    if (current - version >= kept)
        return refuse(verifier, 6, rank, position,
                      "version %u is no longer held: the newest is %u and %u "
                      "%s kept",
                      version, current, kept, kept == 1 ? "is" : "are");
    if (op->kind == PEN_OP_FORWARD) {
        *used = version;
        return PEN_OK;
    }
    bool is_backward =
        op->kind == PEN_OP_BACKWARD || op->kind == PEN_OP_BACKWARD_INPUT;
    bool is_bound =
        op->kind == PEN_OP_RECOMPUTE || (is_backward && !rules->is_stale);
    if (is_bound && version != *used)
        return refuse(verifier, 6, rank, position,
                      "it uses version %u, but its forward used %u", version,
                      *used);
    return PEN_OK;
}

/* V6: replays the versions of every stage. */
static pen_status check_versions(struct verifier *verifier)
{
    const struct pen_shape *shape = verifier->shape;
    size_t cells =
        (size_t)shape->num_stages * verifier->per_copy * shape->num_slices;
    uint32_t *used = calloc(cells, sizeof *used);
    uint32_t *current = calloc(shape->num_stages, sizeof *current);
    pen_status status = used == NULL || current == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t rank = 0; rank < shape->num_ranks && status == PEN_OK;
         rank++) {
        const struct pen_row *row = &verifier->schedule->rows[rank];
        for (uint32_t i = 0; i < row->count && status == PEN_OK; i++) {
            const struct pen_op *op = &row->ops[i];
            uint32_t *newest = &current[pen_shape_keeper(shape, op->stage)];
            if (op->kind == PEN_OP_STEP) {
                ++*newest;
                if (op->version != PEN_OP_CURRENT && op->version != *newest)
                    status = refuse(verifier, 6, rank, i,
                                    "it creates version %u, not %u", *newest,
                                    op->version);
            } else if (pen_op_is_compute(op->kind)) {
                status = check_version(verifier, rank, i, *newest,
                                       &used[cell_of(verifier, op)]);
            }
        }
    }
    free(used);
    free(current);
    return status;
}

static pen_status refuse_deadlock(struct verifier *verifier, uint32_t window)
{
    struct pen_text cycle = PEN_TEXT_EMPTY;
    struct pen_text words = PEN_TEXT_EMPTY;
    struct pen_finding at = {.rule = 4};
    pen_status status =
        pen__explain_deadlock(verifier->schedule, window, &at, &cycle);
    if (status == PEN_OK) {
        pen_text_add(&words, "deadlock with a window of %u: %s", window,
                     pen_text_string(&cycle));
        status = PEN_INVALID;
    }
    if (status == PEN_INVALID && verifier->hook != NULL) {
        status = report_mistake(verifier, at, pen_text_string(&words));
    } else if (status == PEN_INVALID) {
        pen_text_clear(&cycle);
        pen_schedule_print_around(verifier->schedule, at.rank, at.position,
                                  &cycle);
        while (cycle.length > 0 && cycle.bytes[cycle.length - 1] == '\n')
            cycle.bytes[--cycle.length] = '\0';
        pen_why(verifier->why, "V4: %s\n%s", pen_text_string(&words),
                pen_text_string(&cycle));
        if (verifier->finding != NULL)
            *verifier->finding = at;
    }
    pen_text_release(&words);
    pen_text_release(&cycle);
    return status;
}

/* V4: the machine, with ops that take no time. */
static pen_status check_progress(struct verifier *verifier)
{
    struct pen__program *program = NULL;
    struct pen__ticks ticks = {.of = NULL};
    struct pen__run run = {.program = NULL};
    pen_status status =
        pen__program_create(verifier->schedule, verifier->options->send_window,
                            true, &program, verifier->why);
    if (status == PEN_OK)
        status = pen__ticks_init(&ticks, program, NULL);
    if (status == PEN_OK)
        status = pen__run_init(&run, program, &ticks, NULL);
    bool has_finished = status == PEN_OK && pen__run_all(&run);
    pen__run_release(&run);
    pen__ticks_release(&ticks);
    uint32_t window = program == NULL ? 0 : program->window;
    pen__program_free(program);
    if (status != PEN_OK || has_finished)
        return status;
    return refuse_deadlock(verifier, window);
}

/* Returns the first op at which the local level passes the limit. */
static uint32_t find_excess(const struct verifier *verifier,
                            const struct pen_cost_table *table, uint32_t rank,
                            double limit)
{
    const struct pen_row *row = &verifier->schedule->rows[rank];
    double level = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        level += pen_memory_of_op(table, &row->ops[i]);
        if (level > limit)
            return i;
    }
    return row->count;
}

/* V5: activations fit. */
static pen_status check_memory(struct verifier *verifier)
{
    double limit = verifier->options->memory_limit;
    if (limit <= 0)
        return PEN_OK;
    double slack = limit * 1e-9;
    struct pen_costs defaults;
    pen_costs_init(&defaults);
    const struct pen_costs *costs =
        verifier->options->costs != NULL ? verifier->options->costs : &defaults;
    struct pen_timing *timing = NULL;
    struct pen_cost_table table;
    pen_status status =
        pen_cost_table_init(&table, costs, verifier->shape, verifier->why);
    if (status != PEN_OK)
        return status;
    struct pen_time_options options = {.send_window =
                                           verifier->options->send_window};
    status = pen_schedule_time(verifier->schedule, costs, &options, &timing,
                               verifier->why);
    for (uint32_t rank = 0;
         rank < verifier->shape->num_ranks && status == PEN_OK; rank++) {
        double peak = timing->ranks[rank].peak;
        if (peak > limit + slack)
            status =
                refuse(verifier, 5, rank,
                       find_excess(verifier, &table, rank, limit + slack),
                       "the rank holds up to %g activations; the limit is %g",
                       peak, limit);
    }
    pen_timing_free(timing);
    pen_cost_table_release(&table);
    return status;
}

static pen_status count_compute(struct verifier *verifier, uint32_t rank,
                                uint32_t position, const struct pen_op *op)
{
    return pen_op_is_compute(op->kind) ? count_op(verifier, rank, position, op)
                                       : PEN_OK;
}

static pen_status count_message(struct verifier *verifier, uint32_t rank,
                                uint32_t position, const struct pen_op *op)
{
    return pen_op_is_compute(op->kind) ? PEN_OK
                                       : count_op(verifier, rank, position, op);
}

/*
 * Checks counts. With a hook messages come later: an op twice has its messages
 * twice.
 */
static pen_status check_counts(struct verifier *verifier)
{
    pen_status status = PEN_OK;
    if (verifier->hook == NULL)
        status = for_each_op(verifier, count_op);
    else
        status = for_each_op(verifier, count_compute);
    if (status == PEN_OK && verifier->hook != NULL && verifier->num_told == 0)
        status = for_each_op(verifier, count_message);
    return status == PEN_OK ? check_complete(verifier) : status;
}

static pen_status check_messages(struct verifier *verifier)
{
    return for_each_op(verifier, check_message);
}

static pen_status check_places(struct verifier *verifier)
{
    return for_each_op(verifier, check_place);
}

static pen_status check_orders(struct verifier *verifier)
{
    return for_each_op(verifier, check_order);
}

/*
 * Runs the checks in an order in which each relies on those before. A hook gets
 * the mistakes of one level, and of the next only when there are none. Messages
 * that V1 would explain are left out.
 */
static pen_status run_checks(struct verifier *verifier)
{
    static const struct {
        pen_status (*check)(struct verifier *verifier);
        unsigned level;
        bool needs_none; /* no mistake of its level before it */
    } checks[] = {{check_places, 0, false},   {check_counts, 1, false},
                  {check_messages, 1, true},  {check_orders, 1, false},
                  {check_channels, 2, false}, {check_steps, 2, false},
                  {check_versions, 2, false}, {check_progress, 3, false},
                  {check_memory, 4, false}};
    unsigned level = 0;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (checks[i].level != level && verifier->num_told > 0)
            return PEN_INVALID;
        level = checks[i].level;
        if (checks[i].needs_none && verifier->num_told > 0)
            continue;
        pen_status status = checks[i].check(verifier);
        if (status != PEN_OK)
            return status;
    }
    return verifier->num_told > 0 ? PEN_INVALID : PEN_OK;
}

static pen_status verify(struct verifier *verifier)
{
    static const struct pen_verify_options defaults = {.send_window = 0};
    const struct pen_schedule *schedule = verifier->schedule;
    const struct pen_shape *shape = &schedule->shape;
    verifier->shape = shape;
    if (verifier->options == NULL)
        verifier->options = &defaults;
    verifier->per_copy = shape->num_microbatches / shape->num_copies;
    size_t cells =
        (size_t)shape->num_stages * verifier->per_copy * shape->num_slices;
    if (cells > ENOUGH_CELLS && pen_schedule_count(schedule) < cells) {
        refuse(verifier, 1, 0, schedule->rows[0].count,
               "%llu ops are too few for %zu pairs of micro-batch and stage",
               (unsigned long long)pen_schedule_count(schedule), cells);
        return PEN_INVALID;
    }
    verifier->counts = calloc(cells, sizeof *verifier->counts);
    verifier->states = calloc(cells, sizeof *verifier->states);
    pen_status status = PEN_NOMEM;
    if (verifier->counts != NULL && verifier->states != NULL)
        status = run_checks(verifier);
    if (status == PEN_NOMEM)
        pen_why(verifier->why, "out of memory while verifying");
    free(verifier->counts);
    free(verifier->states);
    return status;
}

pen_status pen_schedule_verify(const struct pen_schedule *schedule,
                               const struct pen_verify_options *options,
                               struct pen_finding *finding,
                               struct pen_text *why)
{
    struct verifier verifier = {.schedule = schedule,
                                .options = options,
                                .finding = finding,
                                .why = why};
    if (finding != NULL)
        *finding = (struct pen_finding){.rule = 0};
    return verify(&verifier);
}

pen_status pen_schedule_verify_all(const struct pen_schedule *schedule,
                                   const struct pen_verify_options *options,
                                   pen_mistake_hook *hook, void *context,
                                   struct pen_text *why)
{
    struct verifier verifier = {.schedule = schedule,
                                .options = options,
                                .why = why,
                                .hook = hook,
                                .context = context};
    /* Most schedules are right, which takes fewer walks to see. */
    pen_status status = pen_schedule_verify(schedule, options, NULL, NULL);
    return status == PEN_OK ? PEN_OK : verify(&verifier);
}
