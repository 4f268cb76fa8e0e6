#ifndef PEN_NETWORK_CONTEXT_H
#define PEN_NETWORK_CONTEXT_H

#include "network/layer.h"

/*
 * Context parallelism: what the parts of a sequence have to know of each other.
 *
 *   chunks     0   1   2   3   4   5   6   7       C = 4 parts
 *   of part    0   1   2   3   3   2   1   0
 *
 * Keys and values of a chunk are one array, [batch][token][key, value]; those
 * of all chunks follow each other. Every part gets those of all others before
 * its attention. Backward it has a share of the gradients of all keys and
 * values that its queries see; a part gets the shares of its own chunks and
 * adds them in the order of the parts.
 */
struct pen__context {
    const struct pen_context_share *share; /* borrowed */
    size_t chunk_bytes;                    /* of keys and values */
    size_t chunk_elements;
    struct pen_group_request *requests; /* owned */
};

/* NOMEM alone; release in any case. */
pen_status pen__context_init(struct pen__context *context,
                             const struct pen_context_share *share,
                             size_t chunk_elements, size_t element);
void pen__context_release(struct pen__context *context);

/* Bytes of all chunks, and of the shares of others. */
size_t pen__context_bytes(const struct pen__context *context);
size_t pen__context_received_bytes(const struct pen__context *context);

/* Own chunks are at their places of `keys`; those of others get there. */
void pen__context_gather(struct pen__context *context, void *keys);

/* Rows of `each` numbers, one for each part: the own one is at its place, and
 * those of others get there. */
void pen__context_gather_counts(const struct pen__context *context,
                                int32_t *counts, size_t each);

/*
 * Turns the own shares of all chunks into the sums of the own chunks, low and
 * high one, which are somewhere in `shares` or `received`.
 */
struct pen__context_sums {
    const void *of[2];
};

struct pen__context_sums pen__context_sum(struct pen__context *context,
                                          struct pen_engine *engine,
                                          void *shares, void *received);

#endif
