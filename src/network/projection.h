#ifndef PEN_NETWORK_PROJECTION_H
#define PEN_NETWORK_PROJECTION_H

#include "network/latent.h"

/*
 * From the normed input of a block to what attention reads: queries, keys and
 * values with their positions.
 *
 *   one product   a -> | q k v |, rotary in place, read with a stride
 *   apart         a -> q', k', v;  norm per head -> q, k;  rotary
 *
 * The second is for models that norm the queries and keys of each head. Pieces
 * of a cut model have it, too, where one parameter could not hold their share:
 * where the three lie side by side in one tensor, and where there are fewer key
 * heads than pieces, which then have copies of them. Without norms q' is q and
 * k' is k. Latent attention has a way of its own (latent.h).
 */
struct pen__projection {
    struct pen__shape shape;
    bool has_norms;
    bool has_rotary;
    bool is_apart;
    size_t heads;
    size_t kv_heads;
    size_t query_width;
    size_t key_width;
    size_t value_width;         /* of what goes out of the attention */
    struct pen__latent *latent; /* owned; NULL: not latent */

    struct pen_linear all; /* q, k and v, or only q */
    struct pen_linear keys;
    struct pen_linear values;
    struct pen_norm query_norm;
    struct pen_norm key_norm;
    struct pen_rotary query_rotary; /* of keys too, in one product */
    struct pen_rotary key_rotary;

    uint32_t num_slices;
    size_t query_bytes; /* from a slice to the next, in q */
    size_t key_bytes;   /* in k and v */
    size_t stash_bytes;
    size_t hold_bytes;
    size_t scratch_bytes;
    size_t context_bytes; /* of slices, as their slopes; else 0 */
    /* In the stash, or those of all slices in the context. */
    size_t q, k, v;
    /* In the stash. */
    size_t raw_q, raw_k, q_rstd, k_rstd;
    /* In the hold, or those of all slices in the slopes. */
    size_t dq, dk, dv;
    /* In the hold. */
    size_t raw_dq, raw_dk;
};

/* Where a projection finds its arrays: one slice's, and those of all. */
struct pen__room {
    uint32_t slice;
    struct pen__chunks chunks;
    void *own;    /* in the stash, or the hold */
    void *shared; /* in the context, or the slopes; NULL without slices */
};

/* Queries, keys and values, or their gradients. */
struct pen__heads {
    void *q, *k, *v;         /* of the slice */
    void *first_k, *first_v; /* of the first slice: those of all follow */
};

/*
 * Initializes the projection of a piece of the model. Release it even when this
 * failed.
 */
pen_status pen__projection_init(struct pen__projection *projection,
                                struct pen_network *network, uint32_t layer,
                                uint32_t piece, struct pen_text *why);

void pen__projection_release(struct pen__projection *projection);

/* The strides that attention has, and its heads. */
void pen__projection_strides(const struct pen__projection *projection,
                             struct pen_attention *attention);

struct pen__heads
pen__projection_values(const struct pen__projection *projection,
                       const struct pen__room *values);
struct pen__heads
pen__projection_slopes(const struct pen__projection *projection,
                       const struct pen__room *slopes);

void pen__projection_forward(const struct pen__projection *projection,
                             struct pen_engine *engine, const void *a,
                             const struct pen__room *values, void *scratch);

/* Rotates the slopes of queries and keys back where they lie. */
void pen__projection_backward_input(const struct pen__projection *projection,
                                    struct pen_engine *engine,
                                    const struct pen__room *values,
                                    const struct pen__room *slopes,
                                    void *scratch, void *da);
void pen__projection_backward_weight(const struct pen__projection *projection,
                                     struct pen_engine *engine, const void *a,
                                     const struct pen__room *values,
                                     const struct pen__room *slopes);

#endif
