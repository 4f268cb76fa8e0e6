#ifndef PEN_SUPERVISE_NODES_H
#define PEN_SUPERVISE_NODES_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nodes and their slots, one rank each, as a user's program lists them. */
enum {
    PEN_NODES_MOST = 4096,
    PEN_NODE_NAME_SIZE = 256, /* with its NUL */
    PEN_SLOTS_MOST = 1 << 20  /* of all nodes together */
};

struct pen_node {
    char name[PEN_NODE_NAME_SIZE];
    uint32_t num_slots; /* may be 0 */
};

struct pen_nodes {
    struct pen_node *items; /* owned */
    size_t count;
};

/*
 * Reads lines "HOST SLOTS" or "HOST:SLOTS"; empty ones and those that begin
 * with '#' are ignored. A name has letters, digits, '.', '-' and '_', since it
 * becomes a part of a command. One wrong line refuses all of them: a launch
 * must not lose a node because of a slip. On failure *out is untouched.
 */
pen_status pen_nodes_parse(const char *text, size_t length,
                           struct pen_nodes *out, struct pen_text *why);
void pen_nodes_release(struct pen_nodes *nodes);

uint32_t pen_nodes_slots(const struct pen_nodes *nodes);

/* Takes the first num_slots slots, which must exist. */
pen_status pen_nodes_take(const struct pen_nodes *nodes, uint32_t num_slots,
                          struct pen_nodes *out);

/*
 * Returns the first node of `used` that `nodes` do not have with as many slots;
 * NULL when all are there.
 */
const struct pen_node *pen_nodes_missing(const struct pen_nodes *nodes,
                                         const struct pen_nodes *used);

/* Prints "a:2,b:1", without nodes that have no slot. */
void pen_nodes_print(const struct pen_nodes *nodes, struct pen_text *out);

#endif
