#ifndef PEN_BASE_ROOM_H
#define PEN_BASE_ROOM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Allocates memory for `count` elements, where a count may exceed the address
 * space: addresses in a browser have 32 bits. Returns NULL then, as when memory
 * runs out.
 */
static inline void *pen_room(uint64_t count, size_t size)
{
    return count > SIZE_MAX / size ? NULL : malloc((size_t)count * size);
}

static inline void *pen_room_zero(uint64_t count, size_t size)
{
    return count > SIZE_MAX ? NULL : calloc((size_t)count, size);
}

static inline void *pen_room_again(void *old, uint64_t count, size_t size)
{
    return count > SIZE_MAX / size ? NULL : realloc(old, (size_t)count * size);
}

#endif
