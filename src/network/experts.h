#ifndef PEN_NETWORK_EXPERTS_H
#define PEN_NETWORK_EXPERTS_H

#include "network/decoder.h"

/*
 * The MLP of a block with experts. A router chooses some of them for every
 * token; each of these tokens is copied for each of its experts, the copies are
 * sorted by expert, in the order of tokens, and an expert is one product over
 * all of its copies, however many:
 *
 *   b -> logits -> choice, gates
 *   b -> copies -> wide -> activation -> (x gate) -> inner -> down -> sum over
 *   the copies of a token (+ middle) -> y
 *
 * No token is dropped, and none is copied more often than it has experts, so
 * memory is the same whatever the router does. The gate is taken before the
 * last product, which gives the same sum and keeps no results of experts.
 */
struct pen__experts {
    struct pen__shape shape;
    struct pen_recomputed again;
    uint32_t num_experts;
    size_t chosen;
    struct pen_router router;
    struct pen_swiglu swiglu; /* of all copies */
    struct pen_linear *up;    /* owned; one of each expert, with the gate */
    struct pen_linear *down;

    size_t stash_bytes;
    size_t hold_bytes;
    size_t scratch_bytes;
    /* In the stash. */
    size_t logits, gates, choice, order, at, tokens;
    /* In the stash; in the hold or the scratch when computed again. */
    size_t wide, inner;
    /* In the hold. */
    size_t wide_gradient, logit_gradient;
    /* In the scratch. */
    size_t copies, activated, inner_gradient, gate_gradient;

    struct pen_routings routings; /* since they were taken */
};

/* On success *out is owned by the caller. */
pen_status pen__experts_create(struct pen_network *network, uint32_t layer,
                               struct pen__experts **out, struct pen_text *why);
void pen__experts_free(struct pen__experts *experts); /* NULL is fine */

/*
 * Stash, hold and scratch are those of a pass, from the first byte of the
 * experts on. The hold is NULL in a forward.
 */
struct pen__experts_pass {
    struct pen_engine *engine;
    void *stash;
    void *hold;
    void *scratch;
    double share; /* of the tokens of a step: scales losses of the router */
    bool is_forward_only;
};

/* y = middle + experts; NULL: the stash alone. db has `add`, too, which may be
 * NULL or db. */
void pen__experts_forward(struct pen__experts *experts,
                          const struct pen__experts_pass *pass, const void *b,
                          const void *middle, void *y);
void pen__experts_backward_input(const struct pen__experts *experts,
                                 const struct pen__experts_pass *pass,
                                 const void *b, const void *dy, const void *add,
                                 void *db);
void pen__experts_backward_weight(const struct pen__experts *experts,
                                  const struct pen__experts_pass *pass,
                                  const void *b, const void *dy);

#endif
