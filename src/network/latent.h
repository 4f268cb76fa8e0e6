#ifndef PEN_NETWORK_LATENT_H
#define PEN_NETWORK_LATENT_H

#include "network/decoder.h"

/* Epsilon of the norms of narrow layers; the model file does not change it. */
#define PEN_LATENT_NORM_EPS 1e-6

/*
 * Queries, keys and values of latent attention (DeepSeek V2 and V3):
 *
 *   a -> low -> norm -> q                      | nope rope | of each head
 *   a -> | low | rope |, low -> norm -> wide   | nope v | of each head
 *   k = | nope rope | of each head, the rope of all heads is one
 *
 * Neighbours in a rope turn, not its halves. Values are narrower than keys:
 * for the attention they end in zeros, and so does what it gives. Without a
 * narrow layer queries come straight from a.
 */
struct pen__latent {
    struct pen__shape shape;
    size_t heads;
    size_t nope, rope, value; /* of a head */
    size_t query_low, key_low;
    struct pen_linear query_down; /* no weight: queries straight from a */
    struct pen_linear query_up;
    struct pen_linear key_down;
    struct pen_linear key_up;
    struct pen_norm query_norm;
    struct pen_norm key_norm;
    struct pen_rotary query_rotary;
    struct pen_rotary key_rotary;

    size_t stash_bytes, hold_bytes, scratch_bytes;
    /* In the stash. */
    size_t q, k, v;
    size_t low_q, normed_q, q_rstd, low_k, narrow_k, normed_k, k_rstd;
    /* In the hold. */
    size_t dq, dk, dv;
    size_t dlow_q, dnormed_q, dlow_k, dnormed_k, dwide;
    /* In the scratch. */
    size_t wide, second;
};

/* On success *out is owned by the caller. */
pen_status pen__latent_create(struct pen_network *network, uint32_t layer,
                              struct pen__latent **out, struct pen_text *why);
void pen__latent_free(struct pen__latent *latent); /* NULL is fine */

/* Heads of the attention, and strides of q, k and v. */
void pen__latent_strides(const struct pen__latent *latent,
                         struct pen_attention *attention);

void pen__latent_forward(const struct pen__latent *latent,
                         struct pen_engine *engine, const void *a, void *stash,
                         void *scratch);

/* Expects dq, dk and dv in the hold; turns them back where they lie. */
void pen__latent_backward_input(const struct pen__latent *latent,
                                struct pen_engine *engine, void *stash,
                                void *hold, void *scratch, void *da);
void pen__latent_backward_weight(const struct pen__latent *latent,
                                 struct pen_engine *engine, const void *a,
                                 void *stash, void *hold);

/*
 * Copies the attention's output without the padding zeros, or back with them.
 */
void pen__latent_narrow(const struct pen__latent *latent,
                        struct pen_engine *engine, const void *attended,
                        void *values);
void pen__latent_widen(const struct pen__latent *latent,
                       struct pen_engine *engine, const void *values,
                       void *attended);

#endif
