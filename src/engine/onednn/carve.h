#ifndef PEN_ENGINE_ONEDNN_CARVE_H
#define PEN_ENGINE_ONEDNN_CARVE_H

#include <stddef.h>

/*
 * The next `bytes` of a block of memory of which *used are taken, on a line of
 * the cache. Without a base it only counts, and returns NULL.
 */
static inline void *pen__carve(char *base, size_t *used, size_t bytes)
{
    char *at = base == NULL ? NULL : base + *used;
    *used += (bytes + 63) / 64 * 64;
    return at;
}

#endif
