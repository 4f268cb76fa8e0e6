#ifndef PEN_RUNTIME_REDUCTION_H
#define PEN_RUNTIME_REDUCTION_H

#include "group/group.h"
#include "network/network.h"
#include "runtime/gradients.h"
#include "runtime/phantom.h"
#include "schedule/needs.h"

/*
 * Sums the gradients of a part of the model over its members (layout.h), in the
 * order of their tree (group/sum.h), while other work continues:
 *
 *   members send pieces  ->  the owner of a piece sums  ->  and sends back
 *
 * Every member owns an equal share of the pieces, so each sends and receives
 * what a ring would. Where the optimizer is sharded, whole parameters have one
 * owner, which keeps its sums, steps, and sends the values:
 * pen_reduction_share().
 *
 * Pieces go in the order in which a backward finishes layers, a few at a time.
 *
 * Pieces of a token table may travel without the rows that are zero
 * (group/sparse_rows.h), to the owner and back, whichever form is shorter. The
 * owner fills in the zeros and sums as ever: the sums are bit-identical.
 */
struct pen_reduction;

/*
 * Pieces under way at once, at most. Phantoms are the buckets of runtimes for
 * GPUs, which have fewer and longer ones.
 */
enum { PEN_REDUCTION_LANES = PEN_NEEDS_LANES, PEN_REDUCTION_PHANTOMS = 4 };

/*
 * Channels of a lane: gradients to the rank that sums them, sums back, and
 * values.
 */
enum { PEN_REDUCTION_CHANNELS = 3 };

struct pen_reduction_options {
    struct pen_group *group; /* of the members; has channels for all lanes */
    struct pen_network *network;
    const uint32_t *shares; /* logical replicas of each member, whose nodes the
                               gradients keep; NULL: each has one sum */
    const struct pen_gradients *gradients;
    /* Sums the parameters that are dealt out over this many ranks alone. */
    uint32_t num_dealt;
    bool is_sharded;      /* parameters have owners */
    uint32_t gathered_by; /* members that have all values together, each its
                             share, and send them layer by layer (gather.h);
                             0: every member has all */
    bool is_cut;     /* other ranks have pieces of the same tensors, and the
                        same owners of these */
    bool is_fast;    /* sums in whatever order: bits are not promised */
    bool is_sparse;  /* gradients of token tables: see below; not fast */
    bool has_second; /* sums second gradients (engine.h) */
    /* Or NULL. With it, sums are fast, and sharded means that sums are
     * scattered and values gathered, whichever rank owns them. */
    const struct pen_phantom *phantom;
};

/* On failure *out is untouched. */
pen_status pen_reduction_create(const struct pen_reduction_options *options,
                                struct pen_reduction **out);
void pen_reduction_free(struct pen_reduction *reduction);

size_t pen_reduction_bytes(const struct pen_reduction *reduction);

/* Whether this member steps a parameter: always, unless it is sharded. */
bool pen_reduction_owns(const struct pen_reduction *reduction,
                        size_t parameter);

/* The member that steps a parameter, where the optimizer is sharded. */
uint32_t pen_reduction_owner(const struct pen_reduction *reduction,
                             size_t parameter);

/* Whether one layer alone has a parameter that is summed here: its gradient and
 * value may be elsewhere while other layers have their turn. */
bool pen_reduction_leaves(const struct pen_reduction *reduction,
                          size_t parameter);

/* Whether this member has a value all the time, and steps it or gets it after
 * every step. */
bool pen_reduction_keeps(const struct pen_reduction *reduction,
                         size_t parameter);

/* Call this before the gradients of a step. */
void pen_reduction_begin(struct pen_reduction *reduction);

/*
 * Gradients of this layer and of the layers after it are final, except in the
 * model's first layer, whose embedding adds what it gathered at the end.
 */
void pen_reduction_layer(struct pen_reduction *reduction, uint32_t layer);

/* All gradients are final, except those of a matrix that is tied elsewhere. */
void pen_reduction_start(struct pen_reduction *reduction);

/* The gradients of a matrix that is tied elsewhere are final, too. */
void pen_reduction_start_tied(struct pen_reduction *reduction);

/* Sends values in place of gradients, from their owners to all. */
void pen_reduction_share(struct pen_reduction *reduction);

/* Moves pieces on; never waits. */
void pen_reduction_poll(struct pen_reduction *reduction);

/*
 * Whether the gradients of this layer and the layers after it that others sum
 * have left, except those of a tied matrix; never waits.
 */
bool pen_reduction_has_left(const struct pen_reduction *reduction,
                            uint32_t layer);

/* True when everything that was begun is done. */
bool pen_reduction_is_done(const struct pen_reduction *reduction);

#endif
