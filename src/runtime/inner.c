#include "runtime/inner.h"

#include <stdlib.h>

struct pen_inner {
    struct pen_group *group;
    const struct pen_inner_messages *parts;
    char *room; /* what is sent, and after it what is received; or NULL */
    size_t room_bytes;
    struct pen_group_request *requests;
    size_t num_posted; /* of them, in this round */
    size_t num_places; /* of what is received in it */
};

/* Messages of a round with one member, at most, and both of their ends. */
enum { MOST_KINDS = 2, ENDS = 2 };

enum { CHUNKS = 2 }; /* that a rank of a context group has */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Rows of one member that choose the experts of another: an equal share. */
static size_t share_of(const struct pen_inner *inner,
                       const struct pen_inner_travel *travel, uint32_t member)
{
    uint64_t size = inner->group->size;
    return (size_t)(travel->num_rows * (member + 1) / size -
                    travel->num_rows * member / size);
}

static size_t most_bytes(const struct pen_inner *inner, uint32_t num_parts)
{
    size_t most = 1;
    for (uint32_t i = 0; i < num_parts; i++) {
        const struct pen_inner_messages *part = &inner->parts[i];
        const struct pen_inner_travel *travel = &part->travel;
        size_t rows = share_of(inner, travel, 0) + 1;
        size_t chunks = part->kind == PEN_INNER_CHUNKS ? CHUNKS : 1;
        most = larger(most, larger(chunks * part->bytes, part->loss_bytes));
        most = larger(most, travel->count_bytes);
        most =
            larger(most, rows * larger(travel->row_bytes, travel->gate_bytes));
        for (uint32_t k = 0; k < part->num_copies; k++)
            most = larger(most, (size_t)part->copies[k].part_bytes[0]);
    }
    return most;
}

pen_status pen_inner_create(struct pen_group *group,
                            const struct pen_inner_messages *parts,
                            uint32_t num_parts, struct pen_inner **out)
{
    struct pen_inner *inner = calloc(1, sizeof *inner);
    if (inner == NULL)
        return PEN_NOMEM;
    inner->group = group;
    inner->parts = parts;
    inner->room_bytes = most_bytes(inner, num_parts);
    if (parts != NULL)
        inner->room =
            calloc(1 + MOST_KINDS * (size_t)group->size, inner->room_bytes);
    inner->requests = calloc((size_t)ENDS * MOST_KINDS * group->size,
                             sizeof *inner->requests);
    if ((inner->room == NULL && parts != NULL) || inner->requests == NULL) {
        pen_inner_free(inner);
        return PEN_NOMEM;
    }
    *out = inner;
    return PEN_OK;
}

void pen_inner_free(struct pen_inner *inner)
{
    if (inner == NULL)
        return;
    free(inner->room);
    free(inner->requests);
    free(inner);
}

const struct pen_inner_messages *pen_inner_part(const struct pen_inner *inner,
                                                uint32_t part)
{
    return &inner->parts[part];
}

static bool is_done(void *context)
{
    struct pen_inner *inner = context;
    return pen_group_is_done(inner->group, inner->requests, inner->num_posted);
}

/*
 * Posts the messages of a round. Each receive has a place of its own; empty
 * messages are not sent.
 */
static void post(struct pen_inner *inner, uint32_t with, size_t sent,
                 size_t received)
{
    struct pen_group *group = inner->group;
    size_t place = received > 0 ? ++inner->num_places * inner->room_bytes : 0;
    if (received > 0)
        pen_group_receive(group, with, 0,
                          inner->room == NULL ? NULL : inner->room + place,
                          received, &inner->requests[inner->num_posted++]);
    if (sent > 0)
        pen_group_send(group, with, 0, inner->room, sent,
                       &inner->requests[inner->num_posted++]);
}

static void await(struct pen_inner *inner)
{
    pen_group_wait(inner->group, is_done, inner);
    inner->num_posted = inner->num_places = 0;
}

/* Bytes of a message of one member to another. */
static size_t bytes_of(const struct pen_inner *inner,
                       const struct pen_message_round *round, int message,
                       uint32_t from, uint32_t to)
{
    uint32_t whose = round->way == PEN_WAY_THERE ? to : from;
    if (round->way == PEN_WAY_CAUSAL && message > 0 && to < from)
        return 0;
    return (size_t)(round->part_bytes[message] *
                    pen_round_share(round, whose, inner->group->size));
}

static void post_shares(struct pen_inner *inner,
                        const struct pen_message_round *round, uint32_t with)
{
    uint32_t self = inner->group->self;
    for (int i = 0; i < PEN_ROUND_MESSAGES; i++)
        post(inner, with, bytes_of(inner, round, i, self, with),
             bytes_of(inner, round, i, with, self));
}

static void exchange_within(struct pen_inner *inner, size_t bytes,
                            uint32_t span)
{
    struct pen_group *group = inner->group;
    for (uint32_t apart = 1; apart < span; apart *= 2) {
        post(inner, group->self ^ apart, bytes, bytes);
        await(inner);
    }
}

void pen_inner_simulate(struct pen_inner *inner,
                        const struct pen_message_round *round)
{
    if (round->way == PEN_WAY_DISTANCES) {
        exchange_within(inner,
                        (size_t)(round->num_parts * round->part_bytes[0]),
                        round->span == 0 ? inner->group->size : round->span);
        return;
    }
    for (uint32_t with = 0; with < inner->group->size; with++)
        if (with != inner->group->self)
            post_shares(inner, round, with);
    await(inner);
}

void pen_inner_exchange(struct pen_inner *inner, size_t bytes)
{
    exchange_within(inner, bytes, inner->group->size);
}

static void exchange_parts(struct pen_inner *inner, size_t bytes)
{
    for (uint32_t with = 0; with < inner->group->size; with++)
        if (with != inner->group->self)
            post(inner, with, bytes, bytes);
    await(inner);
}

/* ---- context ---- */

/* Queries of a rank see both chunks of later ranks, and one of earlier ones. */
static uint32_t chunks_seen(uint32_t from, uint32_t of)
{
    return of > from ? CHUNKS : 1;
}

static void exchange_chunks(struct pen_inner *inner, size_t bytes, bool is_sum)
{
    uint32_t self = inner->group->self;
    for (uint32_t with = 0; with < inner->group->size; with++) {
        uint32_t sent = is_sum ? chunks_seen(self, with) : CHUNKS;
        uint32_t received = is_sum ? chunks_seen(with, self) : CHUNKS;
        if (with != self)
            post(inner, with, sent * bytes, received * bytes);
    }
    await(inner);
}

/* ---- experts ---- */

enum round { COUNTS, ROWS_WITH_GATES, ROWS, GATES_BACK, ROWS_BACK };

static enum round round_of(const struct pen_inner_travel *travel,
                           uint32_t number, bool is_forward)
{
    static const enum round forward[] = {COUNTS, ROWS_WITH_GATES, ROWS_BACK};
    static const enum round backward[] = {COUNTS, ROWS_WITH_GATES, ROWS,
                                          GATES_BACK, ROWS_BACK};
    enum { PLAIN = 3, AGAIN = 5 };
    uint32_t num_plain = PLAIN * travel->num_plain;
    if (is_forward)
        return forward[number % PLAIN];
    return number < num_plain ? backward[AGAIN - PLAIN + number % PLAIN]
                              : backward[(number - num_plain) % AGAIN];
}

static void post_rows(struct pen_inner *inner,
                      const struct pen_inner_travel *travel, uint32_t with,
                      size_t row_bytes, bool is_back)
{
    size_t there = row_bytes * share_of(inner, travel, with);
    size_t here = row_bytes * share_of(inner, travel, inner->group->self);
    post(inner, with, is_back ? here : there, is_back ? there : here);
}

static void travel_rows(struct pen_inner *inner,
                        const struct pen_inner_travel *travel, uint32_t number,
                        bool is_forward)
{
    enum round kind = round_of(travel, number, is_forward);
    bool is_back = kind == GATES_BACK || kind == ROWS_BACK;
    for (uint32_t with = 0; with < inner->group->size; with++) {
        if (with == inner->group->self)
            continue;
        if (kind == COUNTS)
            post(inner, with, travel->count_bytes, travel->count_bytes);
        if (kind != COUNTS && kind != GATES_BACK)
            post_rows(inner, travel, with, travel->row_bytes, is_back);
        if (kind == ROWS_WITH_GATES || kind == GATES_BACK)
            post_rows(inner, travel, with, travel->gate_bytes, is_back);
    }
    await(inner);
}

void pen_inner_round(struct pen_inner *inner, uint32_t part, bool is_forward,
                     uint32_t number)
{
    const struct pen_inner_messages *sent = &inner->parts[part];
    switch (sent->kind) {
    case PEN_INNER_SUMS:
        pen_inner_exchange(inner, sent->bytes);
        break;
    case PEN_INNER_PARTS:
        exchange_parts(inner, sent->bytes);
        break;
    case PEN_INNER_CHUNKS:
        exchange_chunks(inner, sent->bytes,
                        !is_forward && number >= sent->num_gathers);
        break;
    case PEN_INNER_ROWS:
        travel_rows(inner, &sent->travel, number, is_forward);
        break;
    }
}

void pen_inner_sum_copies(struct pen_inner *inner, uint32_t part)
{
    const struct pen_inner_messages *sent = &inner->parts[part];
    for (uint32_t i = 0; i < sent->num_copies; i++)
        pen_inner_simulate(inner, &sent->copies[i]);
}
