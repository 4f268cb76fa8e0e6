/*
 *   gather   first rank of each node ── its list ──► rank 0
 *   spread   rank 0 ── the lists ──► all
 *            for each shard and each node without it:
 *                a rank that has it ── head ──► a rank of that node
 *                                   ◄─ ready ──  memory is there, or not
 *                                   ── bytes ──► verified, to its holder
 *
 * All ranks go through shards and nodes in the same order, so that no two of
 * them wait for each other.
 */
#include "runtime/kept_spread.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HEAD, BYTES, READY };

static struct pen_tag tag_of(int message)
{
    return (struct pen_tag){PEN_TAG_COPY, (uint32_t)message};
}

static pen_status send(struct pen_transport *transport, uint32_t to,
                       int message, const void *bytes, size_t length)
{
    struct pen_request request = {.is_active = false};
    pen_transport_send(transport, to, tag_of(message), bytes, length, &request);
    return pen_transport_wait(transport, &request);
}

static pen_status receive(struct pen_transport *transport, uint32_t from,
                          int message, void *bytes, size_t length)
{
    struct pen_request request = {.is_active = false};
    pen_transport_receive(transport, from, tag_of(message), bytes, length,
                          &request);
    return pen_transport_wait(transport, &request);
}

/* ---- lists ---- */

bool pen__kept_has(const struct pen__kept_entry *entry,
                   const struct pen__kept_proposal *wanted)
{
    return entry->epoch == wanted->epoch &&
           entry->num_ranks == wanted->num_ranks &&
           (entry->steps[0] == wanted->step || entry->steps[1] == wanted->step);
}

static pen_status list_own(const struct pen_kept_options *options,
                           struct pen__kept_list *out, struct pen_text *why)
{
    struct pen_holder_message entry;
    pen_status status = pen_holder_list(options->client, 0, &entry, why);
    if (status != PEN_OK)
        return status;
    uint32_t most = entry.count;
    out->entries = calloc((size_t)most + 1, sizeof *out->entries);
    if (out->entries == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < most && status == PEN_OK; i++) {
        status = pen_holder_list(options->client, i, &entry, why);
        if (status == PEN_OK && i < entry.count)
            out->entries[out->count++] = (struct pen__kept_entry){
                .epoch = entry.epoch,
                .steps = {entry.steps[0], entry.steps[1]},
                .rank = entry.rank,
                .num_ranks = entry.num_ranks,
                .node = options->nodes->own};
    }
    return status;
}

static pen_status add_list(const struct pen_kept_options *options,
                           uint32_t from, struct pen__kept_list *list)
{
    uint32_t count = 0;
    pen_status status =
        receive(options->transport, from, HEAD, &count, sizeof count);
    if (status != PEN_OK)
        return status;
    struct pen__kept_entry *longer =
        realloc(list->entries,
                ((size_t)list->count + count + 1) * sizeof *list->entries);
    if (longer == NULL)
        return PEN_NOMEM;
    list->entries = longer;
    status = receive(options->transport, from, BYTES, longer + list->count,
                     count * sizeof *longer);
    if (status == PEN_OK)
        list->count += count;
    return status;
}

pen_status pen__kept_gather(const struct pen_kept_options *options,
                            struct pen__kept_list *out, struct pen_text *why)
{
    const struct pen_node_map *nodes = options->nodes;
    uint32_t self = pen_transport_rank(options->transport);
    pen_status listed = PEN_OK, status = PEN_OK;
    if (pen_node_map_pick(nodes, nodes->own, 0) != self)
        return PEN_OK;
    listed = list_own(options, out, why);
    if (self == 0) {
        for (uint32_t i = 1; i < nodes->num_nodes && status == PEN_OK; i++)
            status = add_list(options, pen_node_map_pick(nodes, i, 0), out);
    } else {
        status =
            send(options->transport, 0, HEAD, &out->count, sizeof out->count);
        if (status == PEN_OK)
            status = send(options->transport, 0, BYTES, out->entries,
                          out->count * sizeof *out->entries);
        out->count = 0;
    }
    return status != PEN_OK ? status : listed;
}

/* ---- one shard ---- */

struct head {
    struct pen_shard_about about;
    uint64_t step; /* 0: it cannot be read */
    uint32_t check;
    uint32_t unused;
};

static pen_status give(const struct pen_kept_options *options,
                       const struct pen__kept_proposal *proposal,
                       uint32_t number, uint32_t to)
{
    struct pen_shard shard = PEN_SHARD_NONE;
    struct head head = {.step = 0};
    uint32_t slot = 0, is_ready = 0;
    if (pen_holder_fetch(options->client, proposal->epoch, number,
                         proposal->step, &shard, NULL) == PEN_OK &&
        pen_shard_find(&shard, proposal->step, &slot)) {
        pen_shard_describe(&shard, &head.about);
        head.step = proposal->step;
        head.check = pen_shard_check(&shard, slot);
    }
    pen_status status = send(options->transport, to, HEAD, &head, sizeof head);
    if (status == PEN_OK)
        status =
            receive(options->transport, to, READY, &is_ready, sizeof is_ready);
    if (status == PEN_OK && is_ready != 0)
        status =
            send(options->transport, to, BYTES, pen_shard_slot(&shard, slot),
                 (size_t)head.about.slot_bytes);
    pen_shard_close(&shard);
    return status;
}

/* Checks a slot that has arrived and hands it over. */
static pen_status hand_over(const struct pen_kept_options *options,
                            struct pen_shard *shard, uint32_t slot,
                            const struct head *head, struct pen_text *why)
{
    pen_shard_commit_copy(shard, slot, head->step, head->check);
    if (!pen_shard_verify(shard, slot)) {
        pen_why(why,
                "step %" PRIu64 " in the memory of rank %" PRIu32
                " of epoch %" PRIu64 " is damaged and is not used",
                head->step, head->about.rank, head->about.epoch);
        return PEN_DAMAGED;
    }
    return pen_holder_offer_copy(options->client, shard, why);
}

static pen_status get(const struct pen_kept_options *options, uint32_t from,
                      pen_status *own, struct pen_text *why)
{
    struct pen_shard shard = PEN_SHARD_NONE;
    struct head head;
    pen_status status =
        receive(options->transport, from, HEAD, &head, sizeof head);
    if (status != PEN_OK)
        return status;
    pen_status made = head.step == 0
                          ? PEN_DAMAGED
                          : pen_shard_create_for_one(&head.about, &shard, why);
    uint32_t is_ready = made == PEN_OK;
    uint32_t slot = is_ready ? pen_shard_begin(&shard) : 0;
    status = send(options->transport, from, READY, &is_ready, sizeof is_ready);
    if (status == PEN_OK && is_ready)
        status = receive(options->transport, from, BYTES,
                         pen_shard_slot(&shard, slot),
                         (size_t)head.about.slot_bytes);
    if (status == PEN_OK && is_ready)
        made = hand_over(options, &shard, slot, &head, why);
    if (made != PEN_OK)
        *own = made;
    pen_shard_close(&shard);
    return status;
}

/* ---- all of them ---- */

/* Shares a table with a byte for each node and shard: whether it is there. */
static pen_status share_table(const struct pen_kept_options *options,
                              const struct pen__kept_list *list,
                              const struct pen__kept_proposal *proposal,
                              char **out)
{
    size_t length =
        (size_t)options->nodes->num_nodes * (size_t)proposal->num_ranks;
    char *table = calloc(length, 1);
    if (table == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct pen__kept_entry *it = &list->entries[i];
        if (pen__kept_has(it, proposal))
            table[(size_t)it->node * proposal->num_ranks + it->rank] = 1;
    }
    pen_status status = pen_transport_share(options->transport, table, length);
    if (status == PEN_OK)
        *out = table;
    else
        free(table);
    return status;
}

static pen_status spread_shard(const struct pen_kept_options *options,
                               const struct pen__kept_proposal *proposal,
                               const char *table, uint32_t number,
                               pen_status *own, struct pen_text *why)
{
    const struct pen_node_map *nodes = options->nodes;
    uint32_t self = pen_transport_rank(options->transport);
    uint32_t source = 0;
    pen_status status = PEN_OK;
    while (source < nodes->num_nodes &&
           table[(size_t)source * proposal->num_ranks + number] == 0)
        source++;
    for (uint32_t i = 0; i < nodes->num_nodes && status == PEN_OK; i++) {
        if (table[(size_t)i * proposal->num_ranks + number] != 0)
            continue;
        uint32_t from = pen_node_map_pick(nodes, source, number);
        uint32_t to = pen_node_map_pick(nodes, i, number);
        if (self == from)
            status = give(options, proposal, number, to);
        else if (self == to)
            status = get(options, from, own, why);
    }
    return status;
}

pen_status pen__kept_spread(const struct pen_kept_options *options,
                            const struct pen__kept_list *list,
                            const struct pen__kept_proposal *proposal,
                            struct pen_text *why)
{
    char *table = NULL;
    pen_status own = PEN_OK;
    if (options->nodes->num_nodes < 2)
        return PEN_OK;
    pen_status status = share_table(options, list, proposal, &table);
    for (uint32_t i = 0; i < proposal->num_ranks && status == PEN_OK; i++)
        status = spread_shard(options, proposal, table, i, &own, why);
    free(table);
    if (status == PEN_OK)
        status = pen_transport_meet(options->transport);
    return status != PEN_OK ? status : own;
}
