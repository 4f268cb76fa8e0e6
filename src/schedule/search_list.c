/*
 * The list scheduler; search_list.h has the idea.
 *
 * A rank is asked at the moments when it is free. An op is ready when its input
 * has arrived, it fits in memory and its result may be sent; the rule's key
 * (offset + n * period) decides. W needs nothing but its I, so it fills the
 * gaps: with nothing else ready it starts if the next arrival is far enough
 * away.
 *
 * No deadlock for want of memory: F of chunk c starts only if F of the later
 * chunks of one micro-batch would still fit after it. Then the oldest
 * unfinished micro-batch always finds room, once pending W have run.
 */
#include "schedule/search_list.h"

#include "base/bug.h"
#include "base/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct channel {
    uint32_t sent;
    uint32_t received;
    int64_t wire_free;
};

struct message {
    int64_t arrival;
    uint32_t stage;
};

struct rank {
    int64_t free_at; /* end of its op */
    int64_t next;    /* when to ask it; INT64_MAX: when something happens */
    double level;    /* memory held */
    uint32_t length; /* ops chosen */
};

struct pen__lister {
    const struct pen__problem *problem; /* borrowed */
    struct rank *ranks;
    uint32_t *count; /* rank * num_types + type: ops chosen */
    double *need;    /* rank * num_types + type: free memory F asks for */
    struct channel *channels;
    struct message *messages;
};

void pen__lister_free(struct pen__lister *lister)
{
    if (lister == NULL)
        return;
    free(lister->ranks);
    free(lister->count);
    free(lister->need);
    free(lister->channels);
    free(lister->messages);
    free(lister);
}

static void fill_need(struct pen__lister *lister, uint32_t rank)
{
    const struct pen__problem *problem = lister->problem;
    double *need = lister->need + (size_t)rank * problem->num_types;
    double behind = 0;
    for (uint32_t type = problem->num_types; type-- > 0;) {
        const struct pen__task *task = pen__task_of(problem, rank, type);
        bool is_forward = type % PEN__ROLES == PEN__F;
        if (is_forward)
            behind += task->memory;
        need[type] = is_forward ? behind : task->memory;
    }
}

pen_status pen__lister_create(const struct pen__problem *problem,
                              struct pen__lister **out)
{
    size_t types = (size_t)problem->num_ranks * problem->num_types;
    size_t channels = problem->channels.num_channels;
    struct pen__lister *lister = calloc(1, sizeof *lister);
    if (lister == NULL)
        return PEN_NOMEM;
    lister->problem = problem;
    lister->ranks = calloc(problem->num_ranks, sizeof *lister->ranks);
    lister->count = calloc(types, sizeof *lister->count);
    lister->need = calloc(types, sizeof *lister->need);
    lister->channels = calloc(channels + 1, sizeof *lister->channels);
    lister->messages =
        pen_room_zero(problem->first[channels] + 1, sizeof *lister->messages);
    if (lister->ranks == NULL || lister->count == NULL ||
        lister->need == NULL || lister->channels == NULL ||
        lister->messages == NULL) {
        pen__lister_free(lister);
        return PEN_NOMEM;
    }
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++)
        fill_need(lister, rank);
    *out = lister;
    return PEN_OK;
}

/*
 * Returns when the input of the next op of this type arrives; INT64_MAX:
 * unknown.
 */
static int64_t ready_at(const struct pen__lister *lister, uint32_t rank,
                        uint32_t type)
{
    const struct pen__problem *problem = lister->problem;
    const struct pen__task *task = pen__task_of(problem, rank, type);
    const uint32_t *count = lister->count + (size_t)rank * problem->num_types;
    if (count[type] == problem->num_microbatches)
        return INT64_MAX;
    if (task->before != PEN__NONE && count[task->before] <= count[type])
        return INT64_MAX;
    if (task->recv == PEN__NONE)
        return 0;
    const struct channel *channel = &lister->channels[task->recv];
    if (channel->received == channel->sent)
        return INT64_MAX;
    const struct message *message =
        &lister->messages[problem->first[task->recv] + channel->received];
    return message->stage == task->expects ? message->arrival : INT64_MAX;
}

static bool may_start(const struct pen__lister *lister,
                      const struct pen__rule *rule, uint32_t rank,
                      uint32_t type)
{
    const struct pen__problem *problem = lister->problem;
    const struct pen__task *task = pen__task_of(problem, rank, type);
    const struct rank *state = &lister->ranks[rank];
    double need = lister->need[(size_t)rank * problem->num_types + type];
    if (type == 0 && state->level > 0)
        need += rule->reserve[rank];
    if (state->level + need > problem->limit)
        return false;
    if (task->send == PEN__NONE)
        return true;
    const struct channel *channel = &lister->channels[task->send];
    return channel->sent - channel->received <
           problem->window + rule->in_advance;
}

static void ask_at(struct pen__lister *lister, uint32_t rank, int64_t at)
{
    struct rank *state = &lister->ranks[rank];
    if (at < state->free_at)
        at = state->free_at;
    if (at < state->next)
        state->next = at;
}

static void start(struct pen__lister *lister, uint32_t rank, uint32_t type,
                  int64_t now, uint8_t *row)
{
    const struct pen__problem *problem = lister->problem;
    const struct pen__task *task = pen__task_of(problem, rank, type);
    struct rank *state = &lister->ranks[rank];
    row[state->length++] = (uint8_t)type;
    lister->count[(size_t)rank * problem->num_types + type]++;
    state->level += task->memory;
    state->free_at = now + task->ticks;
    if (task->recv != PEN__NONE) {
        lister->channels[task->recv].received++;
        ask_at(lister, problem->channels.channels[task->recv].source, now);
    }
    if (task->send != PEN__NONE) {
        struct channel *channel = &lister->channels[task->send];
        int64_t begin = state->free_at > channel->wire_free
                            ? state->free_at
                            : channel->wire_free;
        channel->wire_free = begin + problem->transfer[task->send];
        if (problem->is_blocking)
            state->free_at = channel->wire_free;
        struct message *message =
            &lister->messages[problem->first[task->send] + channel->sent++];
        message->arrival = channel->wire_free + problem->latency[task->send];
        message->stage = task->stage;
        ask_at(lister, problem->channels.channels[task->send].destination,
               message->arrival);
    }
    state->next = state->free_at;
}

/* Lets the rank start an op, or says when to ask it again. */
static void ask(struct pen__lister *lister, const struct pen__rule *rule,
                uint32_t rank, uint8_t *row)
{
    const struct pen__problem *problem = lister->problem;
    struct rank *state = &lister->ranks[rank];
    const uint32_t *count = lister->count + (size_t)rank * problem->num_types;
    const double *offset = rule->offset + (size_t)rank * problem->num_types;
    int64_t now = state->next;
    int64_t soon = INT64_MAX;
    uint32_t best = problem->num_types;
    double least = INFINITY;
    bool is_only_weight = true;
    for (uint32_t type = 0; type < problem->num_types; type++) {
        int64_t at = ready_at(lister, rank, type);
        if (at == INT64_MAX || !may_start(lister, rule, rank, type))
            continue;
        if (at > now) {
            soon = at < soon ? at : soon;
            continue;
        }
        is_only_weight = is_only_weight && type % PEN__ROLES == PEN__W;
        double key = offset[type] + count[type] * rule->period;
        if (key < least) {
            least = key;
            best = type;
        }
    }
    state->next = soon;
    if (best == problem->num_types)
        return;
    double gap = soon == INT64_MAX ? INFINITY : (double)(soon - now);
    double ticks = (double)pen__task_of(problem, rank, best)->ticks;
    if (is_only_weight && gap < rule->patience * ticks)
        return;
    start(lister, rank, best, now, row);
}

static void reset(struct pen__lister *lister)
{
    const struct pen__problem *problem = lister->problem;
    size_t types = (size_t)problem->num_ranks * problem->num_types;
    memset(lister->ranks, 0, problem->num_ranks * sizeof *lister->ranks);
    memset(lister->count, 0, types * sizeof *lister->count);
    memset(lister->channels, 0,
           problem->channels.num_channels * sizeof *lister->channels);
}

bool pen__list(struct pen__lister *lister, const struct pen__rule *rule,
               uint8_t *order)
{
    const struct pen__problem *problem = lister->problem;
    reset(lister);
    for (;;) {
        uint32_t rank = 0;
        for (uint32_t i = 1; i < problem->num_ranks; i++) {
            if (lister->ranks[i].next < lister->ranks[rank].next)
                rank = i;
        }
        if (lister->ranks[rank].next == INT64_MAX)
            break;
        ask(lister, rule, rank, order + (size_t)rank * problem->length);
    }
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        if (lister->ranks[rank].length < problem->length)
            return false;
    }
    return true;
}
