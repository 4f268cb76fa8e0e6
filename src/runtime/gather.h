#ifndef PEN_RUNTIME_GATHER_H
#define PEN_RUNTIME_GATHER_H

#include "runtime/reduction.h"
#include "runtime/turns.h"

/*
 * Values of a stage of which every member keeps a share (ZeRO-3): those that it
 * owns. Ahead of a pass through a layer the owners send theirs to all others:
 *
 *   visit k: want k, wait until it is here -> want k + 1 -> products of k
 *
 * so that the next layer comes in while this one computes. Two layers that
 * follow each other have memory (turns.h); one that comes in takes the place of
 * another. All members visit the same layers in the same order.
 *
 * Members may form groups of equal size, one after another, each of which has
 * all values together. Then a value is kept by one member of each group, which
 * sends it to the others of its group; the owner steps it, and sends it to
 * those that keep it, too, after every step:
 *
 *   owner  --after the step-->  keepers  --layer by layer-->  their groups
 */
struct pen_gather;

struct pen_gather_options {
    struct pen_group *group; /* of the members, as the reduction has it */
    struct pen_network *network;
    const struct pen_reduction *reduction; /* knows the owners */
    uint32_t size;                         /* of a group; divides the members */
    const struct pen_phantom *phantom; /* or NULL. Each member of a group has an
                                          equal share of a phantom */
};

/* Gives all values memory: they were made without. The options are borrowed. On
 * failure *out is untouched. */
pen_status pen_gather_create(const struct pen_gather_options *options,
                             struct pen_gather **out, struct pen_text *why);
void pen_gather_free(struct pen_gather *gather);

/* The bytes of the memory that layers have in turns. */
size_t pen_gather_bytes(const struct pen_gather *gather);

/*
 * Call this when values have changed: no layer is here any more. Nothing may be
 * on its way to here.
 */
void pen_gather_forget(struct pen_gather *gather);

/* Asks for a layer, unless it is here or on its way. */
void pen_gather_want(struct pen_gather *gather, uint32_t layer);

/* Whether a layer that was asked for is here, and all of it that this member
 * owns has set out; never waits. */
bool pen_gather_has(const struct pen_gather *gather, uint32_t layer);

/* Call this ahead of products with a layer that is here. */
void pen_gather_use(struct pen_gather *gather, uint32_t layer);

/* Sends values from their owners to the members that keep them, after a step;
 * see pen_reduction_share(). */
void pen_gather_spread(struct pen_gather *gather);

/* Moves pieces on; never waits. */
void pen_gather_poll(struct pen_gather *gather);

/* True when nothing is on its way, from here or to here. */
bool pen_gather_is_done(const struct pen_gather *gather);

#endif
