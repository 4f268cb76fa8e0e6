#ifndef PEN_RUNTIME_COMMIT_COPY_H
#define PEN_RUNTIME_COMMIT_COPY_H

#include "runtime/checkpoint_contents.h"

/*
 * Copies pieces into a slot and makes the checks of its blocks in the same pass
 * (holder/shard.h), block by block, with the threads of the engine. Pieces are
 * in the order of the slot; what lies between them is there already.
 */
struct pen__commit_copy {
    char *slot;
    uint64_t slot_bytes;
    const struct pen__contents_piece *pieces;
    size_t num_pieces;
    uint32_t *checks; /* of the blocks */
    int num_threads;
};

void pen__commit_copy(const struct pen__commit_copy *copy);

#endif
