/* Messages between the parts of a sequence. */
#include "network/context.h"

#include "network/chain.h"

#include <stdlib.h>

/* For each peer: two chunks received, two sent. */
enum { REQUESTS = 4 };

pen_status pen__context_init(struct pen__context *context,
                             const struct pen_context_share *share,
                             size_t chunk_elements, size_t element)
{
    *context = (struct pen__context){.share = share,
                                     .chunk_bytes = chunk_elements * element,
                                     .chunk_elements = chunk_elements};
    if (share->total == 1)
        return PEN_OK;
    context->requests =
        calloc((size_t)share->total * REQUESTS, sizeof *context->requests);
    return context->requests == NULL ? PEN_NOMEM : PEN_OK;
}

void pen__context_release(struct pen__context *context)
{
    free(context->requests);
}

size_t pen__context_bytes(const struct pen__context *context)
{
    return 2 * (size_t)context->share->total * context->chunk_bytes;
}

size_t pen__context_received_bytes(const struct pen__context *context)
{
    return pen__context_bytes(context) - 2 * context->chunk_bytes;
}

/* The low chunk of a part, or its high one. */
static uint32_t chunk_of(const struct pen_context_share *share, uint32_t part,
                         int high)
{
    return high ? 2 * share->total - 1 - part : part;
}

static void *chunk_at(const struct pen__context *context, void *chunks,
                      uint32_t part, int high)
{
    return pen__at(chunks,
                   chunk_of(context->share, part, high) * context->chunk_bytes);
}

struct pending {
    const struct pen__context *context;
    size_t count;
};

static bool is_done(void *it)
{
    const struct pending *pending = it;
    return pen_group_is_done(pending->context->share->group,
                             pending->context->requests, pending->count);
}

static void await(const struct pen__context *context, size_t count)
{
    struct pending pending = {context, count};
    pen_group_wait(context->share->group, is_done, &pending);
}

void pen__context_gather(struct pen__context *context, void *keys)
{
    const struct pen_context_share *share = context->share;
    size_t bytes = context->chunk_bytes, count = 0;
    for (uint32_t part = 0; part < share->total; part++)
        for (int high = 0; high < 2 && part != share->part; high++) {
            pen_group_receive(share->group, part, 0,
                              chunk_at(context, keys, part, high), bytes,
                              &context->requests[count++]);
            pen_group_send(share->group, part, 0,
                           chunk_at(context, keys, share->part, high), bytes,
                           &context->requests[count++]);
        }
    await(context, count);
}

void pen__context_gather_counts(const struct pen__context *context,
                                int32_t *counts, size_t each)
{
    const struct pen_context_share *share = context->share;
    size_t bytes = each * sizeof *counts, count = 0;
    for (uint32_t part = 0; part < share->total; part++) {
        if (part == share->part)
            continue;
        pen_group_receive(share->group, part, 0, counts + part * each, bytes,
                          &context->requests[count++]);
        pen_group_send(share->group, part, 0, counts + share->part * each,
                       bytes, &context->requests[count++]);
    }
    await(context, count);
}

/* Whether queries of a part see a chunk. */
static bool is_seen(const struct pen_context_share *share, uint32_t part,
                    uint32_t chunk)
{
    return chunk <= chunk_of(share, part, 1);
}

/* Where the share of a part in an own chunk is received. */
static void *received_at(const struct pen__context *context, void *received,
                         uint32_t part, int high)
{
    uint32_t slot = part - (part > context->share->part);
    return pen__at(received,
                   (2 * slot + (uint32_t)high) * context->chunk_bytes);
}

static void exchange_shares(struct pen__context *context, void *shares,
                            void *received)
{
    const struct pen_context_share *share = context->share;
    size_t bytes = context->chunk_bytes, count = 0;
    for (uint32_t part = 0; part < share->total; part++)
        for (int high = 0; high < 2 && part != share->part; high++) {
            if (is_seen(share, part, chunk_of(share, share->part, high)))
                pen_group_receive(share->group, part, 0,
                                  received_at(context, received, part, high),
                                  bytes, &context->requests[count++]);
            if (is_seen(share, share->part, chunk_of(share, part, high)))
                pen_group_send(share->group, part, 0,
                               chunk_at(context, shares, part, high), bytes,
                               &context->requests[count++]);
        }
    await(context, count);
}

struct pen__context_sums pen__context_sum(struct pen__context *context,
                                          struct pen_engine *engine,
                                          void *shares, void *received)
{
    const struct pen_context_share *share = context->share;
    struct pen__context_sums sums = {{NULL, NULL}};
    exchange_shares(context, shares, received);
    for (int high = 0; high < 2; high++) {
        uint32_t own = chunk_of(share, share->part, high);
        void *sum = NULL;
        for (uint32_t part = 0; part < share->total; part++) {
            void *next = part == share->part
                             ? chunk_at(context, shares, part, high)
                             : received_at(context, received, part, high);
            if (!is_seen(share, part, own))
                continue;
            if (sum == NULL)
                sum = next;
            else
                engine->ops->add(engine, context->chunk_elements, sum, next,
                                 sum);
        }
        sums.of[high] = sum;
    }
    return sums;
}
