#ifndef PEN_SYNC_LARGEST_H
#define PEN_SYNC_LARGEST_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Finds the k values of largest size of a vector, exactly; among equal ones
 * those that come first.
 *
 * A strided sample of 1 % gives a threshold that somewhat more than k values
 * pass. One scan collects these; whenever the room is full, all but the k
 * largest are dropped, and the threshold rises to the last of them. A threshold
 * that fewer than k pass is followed by a scan without one.
 */
struct pen_largest {
    uint64_t *keys;    /* size and place of what passed, in order of place */
    uint64_t *scratch; /* for looking for the k-th of them, or of a sample */
    size_t room;       /* of both */
};

/*
 * Values that are made while they are scanned, a part at a time and once each.
 * `peek` returns one of them ahead of time. With both NULL the values exist
 * already.
 */
struct pen_largest_source {
    const float *values;
    size_t count; /* at most UINT32_MAX */
    void (*make)(void *context, size_t first, size_t count);
    float (*peek)(void *context, size_t place);
    void *context;
};

/* Keys that k of `count` values need room for. */
size_t pen_largest_room(size_t count, size_t k);

pen_status pen_largest_init(struct pen_largest *largest, size_t room);
void pen_largest_release(struct pen_largest *largest);

/* Places of k values, ascending. All values are made then. */
void pen_largest_find(struct pen_largest *largest,
                      const struct pen_largest_source *source, size_t k,
                      uint32_t *places);

#endif
