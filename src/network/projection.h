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

    size_t stash_bytes;
    size_t hold_bytes;
    size_t scratch_bytes;
    /* In the stash. */
    size_t q, k, v;
    size_t raw_q, raw_k, q_rstd, k_rstd;
    /* In the hold. */
    size_t dq, dk, dv;
    size_t raw_dq, raw_dk;
};

/* Of a piece of the model. Release it where it failed, too. */
pen_status pen__projection_init(struct pen__projection *projection,
                                struct pen_network *network, uint32_t layer,
                                uint32_t piece, struct pen_text *why);

void pen__projection_release(struct pen__projection *projection);

/* q, k and v are at these places of the stash, with strides as attention's. */
void pen__projection_strides(const struct pen__projection *projection,
                             struct pen_attention *attention);

void pen__projection_forward(const struct pen__projection *projection,
                             struct pen_engine *engine, const void *a,
                             void *stash, void *scratch);

/* dq, dk and dv are in the hold; rotates them back where they lie. */
void pen__projection_backward_input(const struct pen__projection *projection,
                                    struct pen_engine *engine, void *stash,
                                    void *hold, void *scratch, void *da);
void pen__projection_backward_weight(const struct pen__projection *projection,
                                     struct pen_engine *engine, const void *a,
                                     void *stash, void *hold);

#endif
