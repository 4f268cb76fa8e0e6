#ifndef PEN_VIEW_RANKED_H
#define PEN_VIEW_RANKED_H

#include <stddef.h>
#include <stdint.h>

/* A rank, and how much it deserves mention where only some ranks are listed. */
struct pen_ranked {
    double key;
    uint32_t rank;
};

/* Sorts by key, the largest first, then by rank. */
void pen_ranked_sort(struct pen_ranked *ranks, size_t count);

#endif
