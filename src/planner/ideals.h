#ifndef PEN_PLANNER_IDEALS_H
#define PEN_PLANNER_IDEALS_H

#include "base/status.h"
#include "base/text.h"
#include "graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The downward-closed sets of a graph: with a node, each holds all that runs
 * before it. The nodes computed after any stage of a pipeline are such a set,
 * and a stage is the difference of two of them (Tarnawski et al., NeurIPS
 * 2020). A chain of n nodes has n + 1 sets; parallel branches multiply their
 * numbers.
 */

/* From one set to the next: it has one node more. */
struct pen_ideal_step {
    uint32_t node;
    uint32_t ideal;
};

struct pen_ideals {
    uint32_t num_nodes;
    uint32_t num_words;
    uint32_t count;
    uint64_t *sets;     /* (count, num_words), a bit for each node */
    uint32_t *up_begin; /* (count + 1), into up */
    struct pen_ideal_step *up;
};

/*
 * Number 0 is the empty set, the last one has all nodes, and a set comes after
 * all sets that it contains.
 *
 * INFEASIBLE when there are more than `most`, or when they would take more than
 * 1 GiB. On success *out is owned by the caller; free it with
 * pen_ideals_free().
 */
pen_status pen_ideals_create(const struct pen_graph *graph, uint32_t most,
                             struct pen_ideals **out, struct pen_text *why);
void pen_ideals_free(struct pen_ideals *ideals);

static inline const uint64_t *pen_ideal_set(const struct pen_ideals *ideals,
                                            uint32_t ideal)
{
    return &ideals->sets[(size_t)ideal * ideals->num_words];
}

static inline bool pen_set_has(const uint64_t *set, uint32_t node)
{
    return (set[node / 64] >> (node % 64) & 1) != 0;
}

static inline void pen_set_add(uint64_t *set, uint32_t node)
{
    set[node / 64] |= (uint64_t)1 << (node % 64);
}

/* Whether the first ideal is part of the second, or the same. */
bool pen_ideal_is_part(const struct pen_ideals *ideals, uint32_t part,
                       uint32_t whole);

#endif
