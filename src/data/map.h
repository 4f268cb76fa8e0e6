#ifndef PEN_DATA_MAP_H
#define PEN_DATA_MAP_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A regular file mapped for reading; an empty one has bytes == NULL. */
struct pen__map {
    const uint8_t *bytes; /* valid until pen__map_release() */
    size_t length;
    bool has_handle; /* of the file, for pen__map_copy() */
    int handle;
};

/* Maps a file. On failure *out is untouched and why names the path. */
pen_status pen__map_init(struct pen__map *out, const char *path,
                         struct pen_text *why);
void pen__map_release(struct pen__map *map);

/*
 * Lets the kernel drop the pages that were read so far. They may be read again.
 */
void pen__map_forget(const struct pen__map *map);

/*
 * Copies bytes that are inside. Pages that are only copied from do not become
 * part of this process, where the system may map up to 2 MB around a byte that
 * is touched; but with very many files they do.
 */
void pen__map_copy(const struct pen__map *map, size_t begin, size_t length,
                   uint8_t *out);

/*
 * Load little-endian numbers of a file, at any alignment. The caller has
 * checked the bounds.
 */
uint32_t pen__load_u16(const uint8_t *bytes);
uint32_t pen__load_u32(const uint8_t *bytes);
uint64_t pen__load_u64(const uint8_t *bytes);

#endif
