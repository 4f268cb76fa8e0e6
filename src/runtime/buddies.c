#include "runtime/buddies.h"

#include "base/clock.h"

#include <stdlib.h>

#define FREE_NS INT64_C(2000000000)

enum { HEAD, BYTES, NUM_MESSAGES };

/* The header that is sent ahead of the bytes of a slot. */
struct head {
    uint64_t step;
    uint32_t check;
    uint32_t unused;
};

/* The copied memory of a rank of the previous node. */
struct copy {
    uint32_t from;
    struct pen_shard shard;
    uint64_t slot_bytes;
    uint32_t slot; /* that is written */
    struct head head;
    struct pen_request requests[NUM_MESSAGES];
};

struct pen_buddies {
    struct pen_buddies_options options;
    uint64_t slot_bytes;
    uint32_t to; /* rank of the next node */
    struct copy *copies;
    uint32_t num_copies;
    struct head head; /* of what this rank sends */
    struct pen_request requests[NUM_MESSAGES];
    bool is_under_way;
};

static struct pen_tag tag_of(int message)
{
    return (struct pen_tag){PEN_TAG_COPY, (uint32_t)message};
}

/* ---- making ---- */

static uint32_t next_node(const struct pen_node_map *nodes, uint32_t node)
{
    return (node + 1) % nodes->num_nodes;
}

/* Rank i of a node sends to rank i of the next one, modulo their number. */
static pen_status find_peers(struct pen_buddies *buddies)
{
    const struct pen_node_map *nodes = buddies->options.nodes;
    uint32_t self = pen_transport_rank(buddies->options.transport);
    uint32_t before = (nodes->own + nodes->num_nodes - 1) % nodes->num_nodes;
    uint32_t count = pen_node_map_count(nodes, before);
    buddies->copies = calloc(count, sizeof *buddies->copies);
    if (buddies->copies == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < pen_node_map_count(nodes, nodes->own); i++)
        if (pen_node_map_pick(nodes, nodes->own, i) == self)
            buddies->to =
                pen_node_map_pick(nodes, next_node(nodes, nodes->own), i);
    for (uint32_t i = 0; i < count; i++)
        if (pen_node_map_pick(nodes, nodes->own, i) == self)
            buddies->copies[buddies->num_copies++] =
                (struct copy){.from = pen_node_map_pick(nodes, before, i),
                              .shard = PEN_SHARD_NONE};
    return PEN_OK;
}

static pen_status make_copy(struct pen_buddies *buddies, struct copy *copy,
                            const struct pen_shard_about *about,
                            struct pen_text *why)
{
    pen_status status = pen_shard_create(about, &copy->shard, why);
    copy->slot_bytes = about->slot_bytes;
    if (status == PEN_OK)
        status =
            pen_holder_offer_copy(buddies->options.client, &copy->shard, why);
    return status;
}

/* Each rank describes its memory to the next node. */
static pen_status make_copies(struct pen_buddies *buddies, struct pen_text *why)
{
    struct pen_transport *transport = buddies->options.transport;
    struct pen_shard_about own, about;
    pen_status status = PEN_OK, made = PEN_OK;
    pen_shard_describe(buddies->options.shard, &own);
    buddies->slot_bytes = own.slot_bytes;
    pen_transport_send(transport, buddies->to, tag_of(HEAD), &own, sizeof own,
                       &buddies->requests[HEAD]);
    for (uint32_t i = 0; i < buddies->num_copies && status == PEN_OK; i++) {
        struct copy *copy = &buddies->copies[i];
        pen_transport_receive(transport, copy->from, tag_of(HEAD), &about,
                              sizeof about, &copy->requests[HEAD]);
        status = pen_transport_wait(transport, &copy->requests[HEAD]);
        if (status == PEN_OK && made == PEN_OK)
            made = make_copy(buddies, copy, &about, why);
    }
    pen_status sent = pen_transport_wait(transport, &buddies->requests[HEAD]);
    return status != PEN_OK ? status : sent != PEN_OK ? sent : made;
}

pen_status pen_buddies_create(const struct pen_buddies_options *options,
                              struct pen_buddies **out, struct pen_text *why)
{
    struct pen_buddies *buddies = calloc(1, sizeof *buddies);
    if (buddies == NULL)
        return PEN_NOMEM;
    buddies->options = *options;
    pen_status status = find_peers(buddies);
    if (status == PEN_OK)
        status = make_copies(buddies, why);
    if (status == PEN_OK)
        *out = buddies;
    else
        pen_buddies_free(buddies);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): messages may write to it */
    return status;
}

size_t pen_buddies_bytes(const struct pen_buddies *buddies)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < buddies->num_copies; i++)
        bytes += buddies->copies[i].shard.num_bytes;
    return bytes;
}

/* ---- a step ---- */

void pen_buddies_begin(struct pen_buddies *buddies, uint32_t slot)
{
    struct pen_transport *transport = buddies->options.transport;
    const struct pen_shard *shard = buddies->options.shard;
    for (uint32_t i = 0; i < buddies->num_copies; i++) {
        struct copy *copy = &buddies->copies[i];
        copy->slot = pen_shard_begin(&copy->shard);
        pen_transport_receive(transport, copy->from, tag_of(HEAD), &copy->head,
                              sizeof copy->head, &copy->requests[HEAD]);
        pen_transport_receive(transport, copy->from, tag_of(BYTES),
                              pen_shard_slot(&copy->shard, copy->slot),
                              (size_t)copy->slot_bytes, &copy->requests[BYTES]);
    }
    buddies->head = (struct head){.step = pen_shard_step(shard, slot),
                                  .check = pen_shard_check(shard, slot)};
    pen_transport_send(transport, buddies->to, tag_of(HEAD), &buddies->head,
                       sizeof buddies->head, &buddies->requests[HEAD]);
    pen_transport_send(transport, buddies->to, tag_of(BYTES),
                       pen_shard_slot(shard, slot), (size_t)buddies->slot_bytes,
                       &buddies->requests[BYTES]);
    buddies->is_under_way = true;
}

static pen_status wait_all(struct pen_buddies *buddies)
{
    struct pen_transport *transport = buddies->options.transport;
    pen_status status = PEN_OK;
    for (int k = 0; k < NUM_MESSAGES && status == PEN_OK; k++) {
        for (uint32_t i = 0; i < buddies->num_copies && status == PEN_OK; i++)
            status =
                pen_transport_wait(transport, &buddies->copies[i].requests[k]);
        if (status == PEN_OK)
            status = pen_transport_wait(transport, &buddies->requests[k]);
    }
    return status;
}

pen_status pen_buddies_finish(struct pen_buddies *buddies, bool is_missed,
                              uint64_t *step, uint32_t *num_missed)
{
    struct pen_request request = {.is_active = false};
    double missed = is_missed;
    *step = 0;
    if (buddies->is_under_way) {
        pen_status status = wait_all(buddies);
        if (status != PEN_OK)
            return status;
        *step = buddies->head.step;
        for (uint32_t i = 0; i < buddies->num_copies; i++) {
            struct copy *copy = &buddies->copies[i];
            if (copy->head.step == *step)
                pen_shard_commit_copy(&copy->shard, copy->slot, *step,
                                      copy->head.check);
            else
                missed = 1;
        }
        buddies->is_under_way = false;
    }
    pen_transport_sum(buddies->options.transport, &missed, 1, &request);
    pen_status status =
        pen_transport_wait(buddies->options.transport, &request);
    *num_missed = (uint32_t)missed;
    return status;
}

/* ---- the end ---- */

static bool is_done(struct pen_buddies *buddies, struct pen_request *request)
{
    return pen_transport_test(buddies->options.transport, request) == PEN_OK;
}

/* After an error some rank may not have sent, and the memory stays mapped. */
static bool is_quiet(struct pen_buddies *buddies)
{
    bool is_over = true;
    for (int k = 0; k < NUM_MESSAGES; k++) {
        is_over &= is_done(buddies, &buddies->requests[k]);
        for (uint32_t i = 0; i < buddies->num_copies; i++)
            is_over &= is_done(buddies, &buddies->copies[i].requests[k]);
    }
    return is_over;
}

bool pen_buddies_free(struct pen_buddies *buddies)
{
    if (buddies == NULL)
        return true;
    int64_t begin_ns = pen_clock_ns();
    bool is_over = false;
    while (!pen_transport_has_lost(buddies->options.transport) &&
           !(is_over = is_quiet(buddies)) &&
           pen_clock_ns() - begin_ns < FREE_NS)
        pen_transport_pause(buddies->options.transport,
                            pen_clock_ns() - begin_ns);
    if (!is_over)
        return false;
    for (uint32_t i = 0; i < buddies->num_copies; i++)
        pen_shard_close(&buddies->copies[i].shard);
    free(buddies->copies);
    free(buddies);
    return true;
}
