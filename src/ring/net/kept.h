#ifndef PEN_RING_NET_KEPT_H
#define PEN_RING_NET_KEPT_H

#include "ring/island.h"

#include <stddef.h>

/*
 * The file "kept" of an island: the part of it that survives a restart, as this
 * build has it in memory. A file of another build counts as missing: the island
 * then pulls the state from another one.
 */
struct pen__kept_file {
    uint64_t magic;
    uint32_t length; /* of this struct */
    uint32_t check;  /* CRC32C of `kept` */
    struct pen_ring_kept kept;
};

void pen__kept_write(const struct pen_ring_kept *kept,
                     struct pen__kept_file *out);

/*
 * Reads such a file. False: these bytes are of another kind, were changed, or
 * are impossible.
 */
bool pen__kept_read(const void *bytes, size_t length,
                    struct pen_ring_kept *out);

#endif
