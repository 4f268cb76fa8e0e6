#ifndef PEN_CHECKPOINT_SNAPSHOT_H
#define PEN_CHECKPOINT_SNAPSHOT_H

#include "checkpoint/share.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What a process will write of a checkpoint, copied at one moment: plain arrays
 * of all parts of its tensors, in one block that is made and touched before the
 * first step. The main thread fills it, the thread behind it writes it.
 */
struct pen_snapshot;

/* As pen_checkpoint_share_args has them. */
struct pen_snapshot_contents {
    const struct pen_checkpoint_tensor *tensors;
    const struct pen_checkpoint_cut *cuts;
    size_t count;
    uint32_t num_moments;
    const struct pen_tensor_spec *extras;
    size_t num_extras;
};

/* Bytes that a snapshot takes, all told. */
size_t pen_snapshot_bytes(const struct pen_snapshot_contents *contents);

/*
 * Tensors and extras, with names and shapes, must live as long as the snapshot.
 * On success free with pen_snapshot_free().
 */
pen_status pen_snapshot_create(const struct pen_snapshot_contents *contents,
                               struct pen_snapshot **out, struct pen_text *why);

void pen_snapshot_free(struct pen_snapshot *snapshot);

/*
 * Where the bytes of a part belong, as many as the tensor has: row-major, all
 * but weights in float32. Borrowed until the snapshot is freed.
 */
void *pen_snapshot_part(struct pen_snapshot *snapshot,
                        enum pen_checkpoint_part part, size_t tensor);

/* The same of an extra. */
void *pen_snapshot_extra(struct pen_snapshot *snapshot, size_t extra);

/* Writes share `number` of a step; see pen_checkpoint_share_write(). */
pen_status pen_snapshot_write(struct pen_snapshot *snapshot, const char *run,
                              uint64_t step, uint32_t number,
                              uint64_t max_shard_bytes, struct pen_text *record,
                              struct pen_text *why);

#endif
