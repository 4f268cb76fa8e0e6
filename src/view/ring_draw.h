#ifndef PEN_VIEW_RING_DRAW_H
#define PEN_VIEW_RING_DRAW_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/* A seeded run of a ring of islands, between two times in seconds. */
struct pen_ring_picture {
    uint64_t seed;
    double from_sec;
    double to_sec; /* 0: to its end */
};

/*
 * Runs the seed and draws it to a file that ends in .svg, .png or .pdf: a row
 * per coordinator and island, messages, faults, epochs and commits.
 */
pen_status pen_ring_draw(const struct pen_ring_picture *picture,
                         const char *path, struct pen_text *why);

#endif
