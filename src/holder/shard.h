#ifndef PEN_HOLDER_SHARD_H
#define PEN_HOLDER_SHARD_H

#include "base/status.h"
#include "base/text.h"
#include "holder/message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The memory of one rank that outlives it: a memfd with two slots, which take
 * turns.
 *
 *   0        4096            4096+S          4096+2S
 *   | header | slot 0, S     | slot 1, S     |
 *
 * A slot is whole when its header says so. That word is cleared before the
 * first byte of a slot changes and set after the last one, so that a process
 * which is killed at any instruction leaves the other slot whole, and this one
 * either whole or marked as not. Size and seals never change: a process that
 * maps it can read all of it, and only the rank that made it can write.
 */
struct pen_shard {
    int descriptor; /* -1: none */
    char *bytes;    /* the mapping */
    size_t num_bytes;
};

#define PEN_SHARD_NONE ((struct pen_shard){.descriptor = -1})
#define PEN_SHARD_SLOTS 2u
#define PEN_SHARD_BLOCK_BYTES ((size_t)256 << 10)

struct pen_shard_about {
    uint64_t epoch;
    uint32_t rank;
    uint32_t num_ranks;
    char run[PEN_HOLDER_RUN_SIZE];
    uint64_t slot_bytes;
};

/*
 * Makes the memory of a rank. All pages exist on return. On success end with
 * pen_shard_close(), which leaves the memory to processes that still have it.
 */
pen_status pen_shard_create(const struct pen_shard_about *about,
                            struct pen_shard *out, struct pen_text *why);

/*
 * Makes such a memory with room for one step, which came from another node and
 * is written once.
 */
pen_status pen_shard_create_for_one(const struct pen_shard_about *about,
                                    struct pen_shard *out,
                                    struct pen_text *why);

/*
 * Maps the memory of another rank for reading and checks its seals and header.
 * The descriptor belongs to the shard on success, else to the caller.
 */
pen_status pen_shard_open(int descriptor, struct pen_shard *out,
                          struct pen_text *why);

/* Closes the memory. PEN_SHARD_NONE is fine. */
void pen_shard_close(struct pen_shard *shard);

void pen_shard_describe(const struct pen_shard *shard,
                        struct pen_shard_about *out);

/* Returns the bytes of the whole memory for slots of `slot_bytes`. */
size_t pen_shard_bytes(uint64_t slot_bytes);

/* Returns where the bytes of a slot begin, at a multiple of 4096. */
void *pen_shard_slot(const struct pen_shard *shard, uint32_t slot);

/* Returns the step of a slot, or 0 when it is not whole. Steps count from 1. */
uint64_t pen_shard_step(const struct pen_shard *shard, uint32_t slot);

/* Finds the slot of a step; false when no whole one has it. */
bool pen_shard_find(const struct pen_shard *shard, uint64_t step,
                    uint32_t *slot);

/*
 * Begins to write the slot that is not the newest, which is not whole until
 * pen_shard_commit(). Returns its number.
 */
uint32_t pen_shard_begin(struct pen_shard *shard);

/* Marks it as whole. `checks` are those of all blocks, in their order. */
void pen_shard_commit(struct pen_shard *shard, uint32_t slot, uint64_t step,
                      const uint32_t *checks);

/*
 * Return the check of a whole slot; and commit bytes that another shard has, so
 * that both have the same check.
 */
uint32_t pen_shard_check(const struct pen_shard *shard, uint32_t slot);
void pen_shard_commit_copy(struct pen_shard *shard, uint32_t slot,
                           uint64_t step, uint32_t check);

/* Blocks of a slot, each with a check of its own (CRC32C). */
size_t pen_shard_num_blocks(uint64_t slot_bytes);
uint32_t pen_shard_check_block(const void *slot, uint64_t slot_bytes,
                               size_t block);

/* Returns whether the bytes of a whole slot are those that were committed. */
bool pen_shard_verify(const struct pen_shard *shard, uint32_t slot);

#endif
