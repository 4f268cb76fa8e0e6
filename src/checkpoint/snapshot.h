#ifndef PEN_CHECKPOINT_SNAPSHOT_H
#define PEN_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/share.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A process's share of a checkpoint, copied at one moment: plain arrays of all
 * parts of its tensors, in one block that is made and touched before the first
 * step. The main thread fills it, the saver's thread writes it.
 *
 * The block holds the images of three safetensors files, with weights, moments
 * and the rest, so that the block alone can be read
 * (pen_checkpoint_open_blocks()).
 */
struct pen_snapshot;

/* Like pen_checkpoint_share_args. */
struct pen_snapshot_contents {
    const struct pen_checkpoint_tensor *tensors;
    const struct pen_checkpoint_cut *cuts;
    size_t count;
    uint32_t num_moments;
    const struct pen_tensor_spec *extras;
    size_t num_extras;
    /* Tensors whose parts lie column by column, of a block that is read by
     * pen_checkpoint_open_blocks() alone; NULL: none. */
    const bool *transposed;
};

/*
 * Creates a snapshot. Tensors and extras, with names and shapes, must live as
 * long as it. It has a block of its own, or none before pen_snapshot_use();
 * note_bytes is the most that pen_snapshot_set_note() will get. On success free
 * with pen_snapshot_free().
 */
pen_status pen_snapshot_create(const struct pen_snapshot_contents *contents,
                               struct pen_snapshot **out, struct pen_text *why);
pen_status pen_snapshot_plan(const struct pen_snapshot_contents *contents,
                             size_t note_bytes, struct pen_snapshot **out,
                             struct pen_text *why);

void pen_snapshot_free(struct pen_snapshot *snapshot);

/*
 * Returns the bytes of a snapshot with a block of its own, including
 * everything.
 */
size_t pen_snapshot_bytes(const struct pen_snapshot *snapshot);

/* Returns the bytes of its block. */
size_t pen_snapshot_block_bytes(const struct pen_snapshot *snapshot);

/*
 * Makes this memory its block from here on, at a multiple of 64 bytes;
 * borrowed. Writes everything but tensors and note there.
 */
void pen_snapshot_use(struct pen_snapshot *snapshot, void *block);

/* Sets the text that the block has in addition to the tensors: a manifest. */
void pen_snapshot_set_note(struct pen_snapshot *snapshot, const char *text,
                           size_t length);

/*
 * Returns the place for the bytes of a part, as many as the tensor has:
 * row-major, all but weights in float32. Borrowed until the block changes.
 */
void *pen_snapshot_part(struct pen_snapshot *snapshot,
                        enum pen_checkpoint_part part, size_t tensor);

/* Returns the place for an extra likewise. */
void *pen_snapshot_extra(struct pen_snapshot *snapshot, size_t extra);

/* Writes share `number` of a step; see pen_checkpoint_share_write(). */
pen_status pen_snapshot_write(struct pen_snapshot *snapshot, const char *run,
                              uint64_t step, uint32_t number,
                              uint64_t max_shard_bytes, struct pen_text *record,
                              struct pen_text *why);

/* ------------------------------------------------------------- Reading */

/* The block of a snapshot, as it came from another process. */
struct pen_snapshot_block {
    const void *bytes;
    size_t num_bytes;
};

/*
 * Opens the blocks of all processes as one checkpoint, whose manifest is the
 * note of the first. Blocks are borrowed until it is closed, and were verified:
 * bounds are checked here, bytes are not. `name` is its path in sentences.
 */
pen_status pen_checkpoint_open_blocks(const struct pen_snapshot_block *blocks,
                                      size_t count, const char *name,
                                      struct pen_checkpoint **out,
                                      struct pen_text *why);

#endif
