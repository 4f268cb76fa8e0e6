#ifndef PEN_HOLDER_COPIER_H
#define PEN_HOLDER_COPIER_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/* A piece to copy to a place in a slot. */
struct pen_copier_piece {
    const void *from;
    char *to;
    size_t num_bytes;
};

/*
 * Copies pieces into a slot and makes the checks of its blocks in the same pass
 * (holder/shard.h), block by block. Pieces are in the order of the slot; what
 * lies between them is there already.
 */
struct pen_copier_job {
    char *slot;
    uint64_t slot_bytes;
    const struct pen_copier_piece *pieces;
    size_t num_pieces;
    uint32_t *checks; /* of the blocks */
    /* Called once, by the thread that finds all pieces copied. */
    void (*done)(void *context);
    void *context;
};

/*
 * A thread that copies while others compute. It has the lowest priority: it
 * runs where a processor would be idle, and the others do what is left.
 *
 *   IDLE --begin--> BEGUN --awake--> COPYING --no block is left--> IDLE
 *
 * K1. Every block is taken once, by the thread, by help() or by finish().
 * K2. `done` runs once, after all blocks and before finish() returns: by the
 *     thread if it finds all of them copied, else by finish().
 * K3. Between begin() and the return of finish() neither the pieces nor what
 *     they point to may change, and the slot is the copier's.
 */
struct pen_copier;

pen_status pen_copier_create(struct pen_copier **out, struct pen_text *why);

/* Finishes first. NULL is fine. */
void pen_copier_free(struct pen_copier *copier);

/* Returns at once. The one before has to be finished. */
void pen_copier_begin(struct pen_copier *copier,
                      const struct pen_copier_job *job);

/*
 * Takes blocks until none is left; others may still be copying theirs. By any
 * threads, all of which return before finish() is called.
 */
void pen_copier_help(struct pen_copier *copier);

/* Helps to copy, and waits for the last block. */
void pen_copier_finish(struct pen_copier *copier);

#endif
