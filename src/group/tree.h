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
