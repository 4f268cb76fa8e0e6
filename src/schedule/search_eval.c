/*
 * The waiting rules of machine.h, once more, for candidates of the search: rows
 * of types instead of instructions, one pass, no allocation, and an end as soon
 * as a rank can no longer keep its span within the cap. The search's answer is
 * timed by the real machine; a test holds the two together.
 */
#include "schedule/search_problem.h"

#include "base/bug.h"
#include "base/room.h"

#include <stdlib.h>
#include <string.h>

struct channel {
    uint32_t sent;
    uint32_t received;
    int64_t wire_free;
    bool is_sender_waiting;
    bool is_receiver_waiting;
};

struct message {
    int64_t arrival;
    int64_t posted;       /* of its receive */
    uint32_t stage;       /* that sent it */
    uint32_t sent_at;     /* position in the sender's row */
    uint32_t received_at; /* position in the receiver's row */
};

enum phase { PHASE_RECEIVE, PHASE_COMPUTE, PHASE_SEND };

struct rank {
    int64_t clock;
    int64_t left; /* ticks of its ops still to come */
    int64_t last;
    uint32_t position;
    enum phase phase;
    bool is_stacked;
};

/* The record of an op for the critical path. */
struct record {
    int64_t reached; /* the rank had nothing else to do from here on */
    int64_t start;
    uint64_t received; /* message it waited for */
    uint64_t sent;
};

struct pen__evaluator {
    const struct pen__problem *problem; /* borrowed */
    struct channel *channels;
    struct message *messages;
    struct rank *ranks;
    struct record *records;
    uint32_t *stack;
    uint32_t stacked;
    uint64_t steps;
    int64_t cap;
    uint32_t critical_rank; /* of the evaluation before */
};

void pen__evaluator_free(struct pen__evaluator *evaluator)
{
    if (evaluator == NULL)
        return;
    free(evaluator->channels);
    free(evaluator->messages);
    free(evaluator->ranks);
    free(evaluator->records);
    free(evaluator->stack);
    free(evaluator);
}

pen_status pen__evaluator_create(const struct pen__problem *problem,
                                 struct pen__evaluator **out)
{
    size_t channels = problem->channels.num_channels;
    size_t p = problem->num_ranks;
    struct pen__evaluator *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->problem = problem;
    it->channels = calloc(channels + 1, sizeof *it->channels);
    it->messages =
        pen_room_zero(problem->first[channels] + 1, sizeof *it->messages);
    it->ranks = calloc(p, sizeof *it->ranks);
    it->records = calloc(pen__order_size(problem), sizeof *it->records);
    it->stack = calloc(p, sizeof *it->stack);
    if (it->channels == NULL || it->messages == NULL || it->ranks == NULL ||
        it->records == NULL || it->stack == NULL) {
        pen__evaluator_free(it);
        return PEN_NOMEM;
    }
    *out = it;
    return PEN_OK;
}

uint64_t pen__evaluator_steps(const struct pen__evaluator *evaluator)
{
    return evaluator->steps;
}

static void wake(struct pen__evaluator *it, uint32_t rank)
{
    if (it->ranks[rank].is_stacked)
        return;
    it->ranks[rank].is_stacked = true;
    it->stack[it->stacked++] = rank;
}

static void post_receive(struct pen__evaluator *it, int32_t number,
                         const struct rank *rank)
{
    struct channel *channel = &it->channels[number];
    struct message *message =
        &it->messages[it->problem->first[number] + channel->received++];
    message->posted = rank->clock;
    message->received_at = rank->position;
    if (channel->is_sender_waiting) {
        channel->is_sender_waiting = false;
        wake(it, it->problem->channels.channels[number].source);
    }
}

/* Returns false while the window is full. */
static bool post_send(struct pen__evaluator *it, const struct pen__task *task,
                      struct rank *rank, uint64_t *sent)
{
    const struct pen__problem *problem = it->problem;
    struct channel *channel = &it->channels[task->send];
    uint64_t first = problem->first[task->send];
    if (channel->sent >= problem->window) {
        uint32_t before = channel->sent - problem->window;
        if (before >= channel->received) {
            channel->is_sender_waiting = true;
            return false;
        }
        int64_t free_at = it->messages[first + before].posted;
        if (free_at > rank->clock)
            rank->clock = free_at;
    }
    int64_t begin =
        rank->clock > channel->wire_free ? rank->clock : channel->wire_free;
    channel->wire_free = begin + problem->transfer[task->send];
    if (problem->is_blocking)
        rank->clock = channel->wire_free;
    *sent = first + channel->sent++;
    struct message *message = &it->messages[*sent];
    message->arrival = channel->wire_free + problem->latency[task->send];
    message->stage = task->stage;
    message->sent_at = rank->position;
    if (channel->is_receiver_waiting) {
        channel->is_receiver_waiting = false;
        wake(it, problem->channels.channels[task->send].destination);
    }
    return true;
}

enum progress { DONE, WAITS, REFUSED };

/* Computes, when the message has come. */
static enum progress compute(struct pen__evaluator *it, uint32_t number,
                             const struct pen__task *task,
                             struct record *record)
{
    struct rank *rank = &it->ranks[number];
    int64_t start = rank->clock;
    if (task->recv != PEN__NONE) {
        struct channel *channel = &it->channels[task->recv];
        uint32_t index = channel->received - 1;
        if (index >= channel->sent) {
            channel->is_receiver_waiting = true;
            return WAITS;
        }
        record->received = it->problem->first[task->recv] + index;
        const struct message *message = &it->messages[record->received];
        if (message->stage != task->expects)
            return REFUSED;
        if (message->arrival > start)
            start = message->arrival;
    }
    if (start > rank->clock &&
        start + rank->left - it->problem->head[number] > it->cap)
        return REFUSED;
    record->reached = rank->clock;
    record->start = start;
    rank->clock = start + task->ticks;
    rank->left -= task->ticks;
    if (task->ticks > 0)
        rank->last = rank->clock;
    it->steps++;
    return DONE;
}

static enum progress advance(struct pen__evaluator *it, uint32_t number,
                             const uint8_t *row)
{
    const struct pen__problem *problem = it->problem;
    struct rank *rank = &it->ranks[number];
    const struct pen__task *tasks = pen__task_of(problem, number, 0);
    struct record *records = it->records + (size_t)number * problem->length;
    for (; rank->position < problem->length; rank->position++) {
        const struct pen__task *task = &tasks[row[rank->position]];
        struct record *record = &records[rank->position];
        if (rank->phase == PHASE_RECEIVE) {
            if (task->recv != PEN__NONE)
                post_receive(it, task->recv, rank);
            rank->phase = PHASE_COMPUTE;
        }
        if (rank->phase == PHASE_COMPUTE) {
            enum progress progress = compute(it, number, task, record);
            if (progress != DONE)
                return progress;
            rank->phase = PHASE_SEND;
        }
        if (task->send != PEN__NONE &&
            !post_send(it, task, rank, &record->sent))
            return WAITS;
        rank->phase = PHASE_RECEIVE;
    }
    return DONE;
}

/*
 * Adds the time of steps: SYNC comes after the last W of a stage, all STEP at
 * the end of the row.
 */
static void add_steps(struct pen__evaluator *it, uint32_t number,
                      const uint8_t *row)
{
    const struct pen__problem *problem = it->problem;
    struct rank *rank = &it->ranks[number];
    const struct record *records =
        it->records + (size_t)number * problem->length;
    bool is_seen[UINT8_MAX + 1] = {false};
    int64_t synced = 0;
    int64_t steps = 0;
    for (uint32_t i = problem->length; i-- > 0;) {
        const struct pen__task *task = pen__task_of(problem, number, row[i]);
        if (row[i] % PEN__ROLES != PEN__W || is_seen[row[i]])
            continue;
        is_seen[row[i]] = true;
        /* Its STEP is followed by those already seen. */
        steps += problem->step[task->stage];
        int64_t end =
            records[i].start + task->ticks + problem->sync[task->stage] + steps;
        synced = end > synced ? end : synced;
    }
    if (steps == 0)
        return;
    int64_t end = rank->clock + steps;
    rank->last = end > synced ? end : synced;
}

static void reset(struct pen__evaluator *it)
{
    const struct pen__problem *problem = it->problem;
    memset(it->channels, 0,
           problem->channels.num_channels * sizeof *it->channels);
    it->stacked = 0;
    for (uint32_t rank = problem->num_ranks; rank-- > 0;) {
        it->ranks[rank] = (struct rank){.left = problem->work[rank]};
        wake(it, rank);
    }
}

bool pen__evaluate(struct pen__evaluator *it, const uint8_t *order, int64_t cap,
                   struct pen__score *score)
{
    const struct pen__problem *problem = it->problem;
    it->cap = cap;
    reset(it);
    uint32_t finished = 0;
    while (it->stacked > 0) {
        uint32_t rank = it->stack[--it->stacked];
        it->ranks[rank].is_stacked = false;
        enum progress progress =
            advance(it, rank, order + (size_t)rank * problem->length);
        if (progress == REFUSED)
            return false;
        finished += progress == DONE;
    }
    if (finished != problem->num_ranks)
        return false;
    struct pen__score sum = {.span = -1};
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        add_steps(it, rank, order + (size_t)rank * problem->length);
        int64_t last = it->ranks[rank].last;
        int64_t span = last - problem->head[rank];
        sum.sum += span;
        sum.makespan = last > sum.makespan ? last : sum.makespan;
        if (span > sum.span) {
            sum.span = span;
            it->critical_rank = rank;
        }
    }
    if (sum.span > cap)
        return false;
    *score = sum;
    return true;
}

uint32_t pen__critical_places(const struct pen__evaluator *it,
                              const uint8_t *order, struct pen__place *places)
{
    const struct pen__problem *problem = it->problem;
    const struct pen__channel *channels = problem->channels.channels;
    uint32_t count = 0;
    uint32_t rank = it->critical_rank;
    uint32_t at = problem->length - 1;
    while (at > 0) {
        size_t base = (size_t)rank * problem->length;
        const struct record *record = &it->records[base + at];
        const struct pen__task *task =
            pen__task_of(problem, rank, order[base + at]);
        if (record->start > record->reached) {
            /* The op waited for a message: continue with its sender. */
            rank = channels[task->recv].source;
            at = it->messages[record->received].sent_at;
            continue;
        }
        const struct record *before = &it->records[base + at - 1];
        const struct pen__task *previous =
            pen__task_of(problem, rank, order[base + at - 1]);
        if (record->reached > before->start + previous->ticks &&
            !problem->is_blocking) {
            /* The op before waited for its window: for the receiver. */
            const struct message *message =
                &it->messages[before->sent - problem->window];
            rank = channels[previous->send].destination;
            at = message->received_at;
            if (at == 0)
                break;
            places[count++] = (struct pen__place){rank, at};
            at--;
            continue;
        }
        places[count++] = (struct pen__place){rank, at};
        at--;
    }
    return count;
}
