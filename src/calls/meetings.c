#include "calls/meetings.h"

#include "base/room.h"

#include <stdlib.h>
#include <string.h>

/* A call with what it is paired by. */
struct key {
    uint64_t number;
    uint32_t group; /* or the sender */
    uint32_t to;    /* of messages */
    struct pen_call_ref ref;
    bool is_recv;
};

static int order_of(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a;
    const struct key *y = b;
    int order = order_of(x->group, y->group);
    if (order == 0)
        order = order_of(x->to, y->to);
    if (order == 0)
        order = order_of(x->number, y->number);
    if (order == 0)
        order = (int)x->is_recv - (int)y->is_recv;
    if (order == 0)
        order = order_of(x->ref.line, y->ref.line);
    return order == 0 ? order_of(x->ref.call, y->ref.call) : order;
}

static size_t count_calls(const struct pen_calls *calls, bool is_message)
{
    size_t count = 0;
    for (uint32_t line = 0; line < calls->num_ranks; line++) {
        const struct pen_call_rank *rank = &calls->ranks[line];
        for (size_t i = 0; i < rank->count; i++)
            count += pen_call_op_is_message(rank->calls[i].op) == is_message;
    }
    return count;
}

static struct key key_of(const struct pen_calls *calls, uint32_t line,
                         uint32_t index)
{
    const struct pen_call_rank *rank = &calls->ranks[line];
    const struct pen_call *call = &rank->calls[index];
    struct key key = {
        .number = call->number, .group = call->group, .ref = {line, index}};
    if (pen_call_op_is_message(call->op)) {
        key.is_recv = call->op == PEN_CALL_RECV;
        key.group = key.is_recv ? call->peer : rank->rank;
        key.to = key.is_recv ? rank->rank : call->peer;
    }
    return key;
}

static struct key *make_keys(const struct pen_calls *calls, bool is_message,
                             size_t count)
{
    struct key *keys = pen_room(count + 1, sizeof *keys);
    size_t made = 0;
    for (uint32_t line = 0; keys != NULL && line < calls->num_ranks; line++) {
        const struct pen_call_rank *rank = &calls->ranks[line];
        for (uint32_t i = 0; i < rank->count; i++) {
            if (pen_call_op_is_message(rank->calls[i].op) == is_message)
                keys[made++] = key_of(calls, line, i);
        }
    }
    return keys;
}

static bool is_same_meeting(const struct pen_meeting *meeting,
                            const struct key *key)
{
    return meeting->group == key->group && meeting->number == key->number;
}

/* Keys in order become meetings; a rank's second call of a number is left
 * out. */
static void fill_meetings(struct pen_meetings *out, const struct key *keys,
                          size_t count)
{
    size_t num_refs = 0;
    for (size_t i = 0; i < count; i++) {
        struct pen_meeting *last =
            out->count == 0 ? NULL : &out->list[out->count - 1];
        if (last == NULL || !is_same_meeting(last, &keys[i])) {
            last = &out->list[out->count++];
            *last = (struct pen_meeting){.group = keys[i].group,
                                         .number = keys[i].number,
                                         .first = num_refs};
        } else if (out->refs[num_refs - 1].line == keys[i].ref.line) {
            continue;
        }
        out->refs[num_refs++] = keys[i].ref;
        last->count++;
    }
}

static pen_status make_meetings(struct pen_meetings *out)
{
    size_t count = count_calls(out->calls, false);
    struct key *keys = make_keys(out->calls, false, count);
    out->list = pen_room(count + 1, sizeof *out->list);
    out->refs = pen_room(count + 1, sizeof *out->refs);
    if (keys == NULL || out->list == NULL || out->refs == NULL) {
        free(keys);
        return PEN_NOMEM;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    fill_meetings(out, keys, count);
    free(keys);
    return PEN_OK;
}

static bool is_same_side(const struct key *a, const struct key *b)
{
    return a->group == b->group && a->to == b->to && a->is_recv == b->is_recv;
}

/* Numbers the calls of each side of each link in their order. */
static void number_messages(struct key *keys, size_t count)
{
    /* While all numbers are 0, sides of a link are apart and in order. */
    for (size_t i = 0; i < count; i++)
        keys[i].number = 0;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        keys[i].number = i > 0 && is_same_side(&keys[i - 1], &keys[i])
                             ? keys[i - 1].number + 1
                             : 1;
    qsort(keys, count, sizeof *keys, compare_keys);
}

static void fill_messages(struct pen_meetings *out, const struct key *keys,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct key *key = &keys[i];
        const struct pen_call *call =
            &out->calls->ranks[key->ref.line].calls[key->ref.call];
        struct pen_message *last = out->num_messages == 0
                                       ? NULL
                                       : &out->messages[out->num_messages - 1];
        if (last == NULL || last->from != key->group || last->to != key->to ||
            last->number != key->number) {
            last = &out->messages[out->num_messages++];
            *last = (struct pen_message){
                .from = key->group,
                .to = key->to,
                .number = (uint32_t)key->number,
            };
        }
        *(key->is_recv ? &last->recv : &last->send) = call;
    }
}

static pen_status make_messages(struct pen_meetings *out)
{
    size_t count = count_calls(out->calls, true);
    struct key *keys = make_keys(out->calls, true, count);
    out->messages = pen_room(count + 1, sizeof *out->messages);
    if (keys == NULL || out->messages == NULL) {
        free(keys);
        return PEN_NOMEM;
    }
    number_messages(keys, count);
    fill_messages(out, keys, count);
    free(keys);
    return PEN_OK;
}

pen_status pen_meetings_init(const struct pen_calls *calls,
                             struct pen_meetings *out, struct pen_text *why)
{
    struct pen_meetings made = {.calls = calls};
    pen_status status = make_meetings(&made);
    if (status == PEN_OK)
        status = make_messages(&made);
    if (status == PEN_OK) {
        *out = made;
        return PEN_OK;
    }
    pen_why(why, "out of memory for the calls of %u ranks", calls->num_ranks);
    pen_meetings_release(&made);
    return status;
}

void pen_meetings_release(struct pen_meetings *meetings)
{
    free(meetings->list);
    free(meetings->refs);
    free(meetings->messages);
    *meetings = (struct pen_meetings){.calls = NULL};
}

const struct pen_call_rank *
pen_meeting_rank(const struct pen_meetings *meetings,
                 const struct pen_meeting *meeting, uint32_t i)
{
    const struct pen_call_ref *ref = &meetings->refs[meeting->first + i];
    return &meetings->calls->ranks[ref->line];
}

const struct pen_call *pen_meeting_call(const struct pen_meetings *meetings,
                                        const struct pen_meeting *meeting,
                                        uint32_t i)
{
    const struct pen_call_ref *ref = &meetings->refs[meeting->first + i];
    return &meetings->calls->ranks[ref->line].calls[ref->call];
}

const struct pen_call *pen_meeting_find(const struct pen_meetings *meetings,
                                        const struct pen_meeting *meeting,
                                        uint32_t rank)
{
    for (uint32_t i = 0; i < meeting->count; i++) {
        if (pen_meeting_rank(meetings, meeting, i)->rank == rank)
            return pen_meeting_call(meetings, meeting, i);
    }
    return NULL;
}
