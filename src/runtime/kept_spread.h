#ifndef PEN_RUNTIME_KEPT_SPREAD_H
#define PEN_RUNTIME_KEPT_SPREAD_H

#include "runtime/commits.h"

/*
 * Steps in memory of several nodes: what their holders have, and how a node
 * gets the shards that it lacks. Shared by the files kept*.c.
 */

/* A shard that the holder of a node has. */
struct pen__kept_entry {
    uint64_t epoch;
    uint64_t steps[2]; /* 0: not whole */
    uint32_t rank;
    uint32_t num_ranks;
    uint32_t node;
    uint32_t unused;
};

struct pen__kept_list {
    struct pen__kept_entry *entries; /* owned */
    uint32_t count;
};

/* A step of an epoch, that rank 0 proposes; 0: there is none. */
struct pen__kept_proposal {
    uint64_t epoch;
    uint64_t step;
    uint32_t num_ranks;
    uint32_t unused;
};

/* Whether the entry is of a rank of the proposal, and has its step. */
bool pen__kept_has(const struct pen__kept_entry *entry,
                   const struct pen__kept_proposal *wanted);

/*
 * By all ranks: the shards of all nodes, which rank 0 gets; others get none.
 * Shards that a node cannot list are missing.
 */
pen_status pen__kept_gather(const struct pen_kept_options *options,
                            struct pen__kept_list *out, struct pen_text *why);

/*
 * By all ranks: the holder of each node gets the shards of the proposal that it
 * lacks; `list` is that of rank 0. PEN_LOST, or a status of this rank alone.
 * With one node there is nothing to do.
 */
pen_status pen__kept_spread(const struct pen_kept_options *options,
                            const struct pen__kept_list *list,
                            const struct pen__kept_proposal *proposal,
                            struct pen_text *why);

#endif
