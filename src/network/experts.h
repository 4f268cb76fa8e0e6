#ifndef PEN_NETWORK_EXPERTS_H
#define PEN_NETWORK_EXPERTS_H

#include "network/context.h"
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
 * Without a capacity no token is dropped, and none is copied more often than it
 * has experts, so memory is the same whatever the router does. The gate is
 * taken before the last product, which gives the same sum and keeps no results
 * of experts.
 *
 * Members of an expert group have an equal share of the experts each, in order,
 * and their own tokens. Copies travel to the member with their expert, with
 * their gates, and the results travel back (experts_travel.c). Copies from one
 * member, a source, have a place, a product and a gradient of their own, so
 * that every number is bit-identical to that of a run with all experts on one
 * rank. A place has room for all copies that one source may send. Rows that
 * arrived stay until the backward weight, which sends nothing.
 *
 * In a model that is cut, every piece has some features of each expert: its own
 * way from the copies to results, which are added as those of a dense MLP. All
 * pieces have the same copies. The gradient of a gate is a sum over pieces, and
 * the first of all pieces adds what comes through the router.
 */
struct pen__expert_piece {
    struct pen_linear *up;   /* owned; one of each expert, with the gate */
    struct pen_linear *down; /* without its bias, which is: */
    struct pen_parameter **down_bias; /* owned; NULL in it: none */
    /* In the stash; in the hold or the scratch when computed again. */
    size_t wide, inner;
    size_t wide_gradient; /* in the hold */
};

struct pen__experts {
    struct pen__shape shape;
    struct pen_recomputed again;
    uint32_t num_experts;
    uint32_t num_owned;   /* of them, that are here */
    uint32_t num_sources; /* members of the group; 1: all experts are here */
    size_t room;          /* rows of a source, at most */
    uint32_t num_cuts; /* slices of a micro-batch, or parts of its sequences */
    size_t chosen;
    struct pen_router router;
    struct pen_parameter *offset;    /* of the router; may be NULL */
    struct pen_swiglu swiglu;        /* of all copies, in one piece */
    struct pen_clamped_gate clamped; /* in its place where limit is above 0 */
    uint32_t num_pieces;
    struct pen__expert_piece *pieces; /* owned */

    /* Only with several sources. */
    struct pen_group *group;                /* borrowed */
    struct pen_group_request *requests;     /* owned, as the next three */
    size_t num_posted;                      /* of them */
    int32_t *in_order;                      /* 0, 1, 2, ... */
    struct pen__expert_gradient *gradients; /* pen__experts_gradient() */
    struct pen_engine *engine;              /* borrowed; has their memory */

    size_t stash_bytes;
    size_t hold_bytes;
    size_t scratch_bytes;
    size_t counts_bytes; /* that slices share */
    /* In the stash; of several sources the last three, too. */
    size_t logits, gates, choice, order, at, tokens;
    size_t arrivals; /* rows of each source for each expert here */
    size_t arrived, arrived_gates;
    /* In the hold. */
    size_t logit_gradient;
    size_t arrived_gradient; /* of several sources: that of the results */
    /* In the scratch; the second line of several sources. */
    size_t copies, activated, inner_gradient, gate_gradient, all_counts;
    size_t returning, sorted_gates, returning_gates;

    /*
     * The routing in staging: the arrays that the stash has from the gates to
     * the tokens, then the gradients of gates. NULL where the host sees the
     * stash itself.
     */
    char *view; /* owned */
    size_t view_bytes;
    size_t routing_bytes;

    size_t capacity;    /* slots that an expert takes of a micro-batch */
    bool counts_tokens; /* as the gradient of the router's offset */
    size_t dropped;     /* slots, in the last forward */
    struct pen_routings routings; /* since they were taken */
};

/* Gradients of one parameter, one after the other, from each source; all zero
 * for a part that the model does not have. */
struct pen__expert_gradient {
    struct pen_parameter *parameter;
    char *at;     /* owned, in the engine's memory */
    size_t bytes; /* of one */
    bool *is_new; /* by source: not written since it was cleared; owned */
};

/* Parameters of an expert in one piece, as its gradients are in order. */
enum pen__expert_part {
    PEN__EXPERT_UP,
    PEN__EXPERT_DOWN,
    PEN__EXPERT_UP_BIAS,
    PEN__EXPERT_DOWN_BIAS,
    PEN__EXPERT_PARTS
};

/* Gradients of experts that are here, and the first one of a part and piece. */
static inline size_t
pen__experts_num_gradients(const struct pen__experts *experts)
{
    return PEN__EXPERT_PARTS * (size_t)experts->num_owned * experts->num_pieces;
}

static inline size_t pen__experts_gradient(const struct pen__experts *experts,
                                           uint32_t piece,
                                           enum pen__expert_part part)
{
    return (PEN__EXPERT_PARTS * (size_t)piece + part) * experts->num_owned;
}

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
    const struct pen_tensor_share *tensor;
    void *others;   /* rooms for results of pieces, as stream.h has them */
    bool adds;      /* to results of the pieces that are there already */
    uint32_t piece; /* that a function of these files is about */
    const struct pen__context *sequence; /* its parts */
    uint32_t slice;
    void *kept_counts; /* of all slices; NULL: there is one */
};

/* Where the host finds a part of the routing: gates, choice, order, at, tokens.
 */
static inline void *pen__experts_seen(const struct pen__experts *experts,
                                      const struct pen__experts_pass *pass,
                                      size_t offset)
{
    return experts->view == NULL ? pen__at(pass->stash, offset)
                                 : experts->view + (offset - experts->gates);
}

/*
 * The forward of all experts. Rows are those of all members. The pieces here
 * add to y and db, at the place that pen__piece_result() returns, for
 * pen__sum_pieces(). y has the residual, too, which may be NULL; without y the
 * stash alone is made.
 */
void pen__experts_forward(struct pen__experts *experts,
                          const struct pen__experts_pass *pass, const void *b,
                          const void *residual, void *y);
void pen__experts_backward_input(struct pen__experts *experts,
                                 const struct pen__experts_pass *pass,
                                 const void *b, const void *dy, void *db);
void pen__experts_backward_weight(struct pen__experts *experts,
                                  const struct pen__experts_pass *pass,
                                  const void *b, const void *dy);

/* ---- experts_counts.c: a micro-batch in slices or parts ---- */

/* After the slots were sorted, for the passes of other slices. */
void pen__experts_keep_counts(const struct pen__experts *experts,
                              const struct pen__experts_pass *pass);

/* Tokens of each expert, in all slices or of all parts, which exchange them.
 * Only with an auxiliary loss; else those of the pass. */
const void *pen__experts_all_counts(const struct pen__experts *experts,
                                    const struct pen__experts_pass *pass);

/* Gradients of all sources are zero. */
void pen__experts_clear_gradients(struct pen__experts *experts);

/* ---- capacity.c: slots that experts have no room for ---- */

/* Slots that an expert takes: `factor` times those of a mean one, rounded up.
 */
size_t pen__experts_room(size_t slots, uint32_t experts, double factor);

/*
 * Makes the gates of slots 0 that their expert has no room for; slots are in
 * `order`, by expert. Returns how many there are.
 */
size_t pen__experts_drop(const struct pen__experts *experts,
                         const int32_t *order, const int32_t *tokens,
                         void *gates);

/* Drops slots in a pass that trains, after its slots were sorted. */
void pen__experts_drop_slots(struct pen__experts *experts,
                             const struct pen__experts_pass *pass);

/* Clears the slopes of dropped slots: no logit moves their gates. */
void pen__experts_close_dropped(const struct pen__experts *experts,
                                const struct pen__experts_pass *pass);

/* ---- experts_travel.c: of several sources ---- */

/* Rows of a source that are here. */
size_t pen__experts_arrived(const struct pen__experts *experts,
                            const struct pen__experts_pass *pass,
                            uint32_t source);

/*
 * Exchanges, after the slots were sorted, how many rows come for each expert.
 */
void pen__experts_tell_counts(struct pen__experts *experts,
                              const struct pen__experts_pass *pass);

/* An array with an entry for each copy at its source, sorted, and another one
 * for each row that is here, by source. */
struct pen__journey {
    void *local;
    void *here;
    size_t bytes; /* of an entry */
};

enum { PEN__MOST_JOURNEYS = 2 };

/* Moves rows from their sources to their experts, or back. */
void pen__experts_travel(struct pen__experts *experts,
                         const struct pen__experts_pass *pass,
                         const struct pen__journey *journeys, size_t count,
                         bool is_back);

#endif
