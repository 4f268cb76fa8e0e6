#ifndef PEN_GROUP_TREE_H
#define PEN_GROUP_TREE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The order in which numbers of several members are added, wherever they lie,
 * so that the bits of a sum depend on the number of members alone:
 *
 *   0   1   2   3   4   5
 *    \ /     \ /     \ /
 *     '-------'       |
 *         '-----------'
 *
 * Walks over the additions in their order; member 0 has the sum at the end:
 *
 *   for (struct pen_tree at = {.size = n}; pen_tree_next(&at);)
 *       values[at.to] += values[at.from];
 */
struct pen_tree {
    uint32_t size; /* members */
    uint32_t to;
    uint32_t from;
    uint32_t step; /* from one to the other; 0 at first */
};

/*
 * A node of the tree that begins with member `first` and ends before `end`: as
 * many members as it can have. Nodes that follow each other from 0 on are added
 * as the tree has it, whichever rank added their contents:
 *
 *   if (both values[at.to] and values[at.from] begin a node)
 *       values[at.to] += values[at.from];
 */
static inline uint32_t pen_tree_node(uint32_t first, uint32_t end)
{
    uint32_t size = 1;
    while (first % (2 * size) == 0 && first + 2 * size <= end)
        size *= 2;
    return size;
}

/* Nodes between two members. */
static inline uint32_t pen_tree_count_nodes(uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (; first < end; first += pen_tree_node(first, end))
        count++;
    return count;
}

/*
 * Returns the most nodes while members are added one by one: before the last.
 */
static inline uint32_t pen_tree_most_nodes(uint32_t first, uint32_t end)
{
    uint32_t most = 0;
    for (uint32_t k = first + 1; k < end; k++) {
        uint32_t count = pen_tree_count_nodes(first, k);
        most = count > most ? count : most;
    }
    return most;
}

static inline bool pen_tree_next(struct pen_tree *at)
{
    if (at->step == 0)
        at->step = 1;
    else
        at->to += 2 * at->step;
    while (at->to + at->step >= at->size) {
        at->to = 0;
        at->step *= 2;
        if (at->step >= at->size)
            return false;
    }
    at->from = at->to + at->step;
    return true;
}

#endif
