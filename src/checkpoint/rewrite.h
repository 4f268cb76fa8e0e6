#ifndef PEN_CHECKPOINT_REWRITE_H
#define PEN_CHECKPOINT_REWRITE_H

#include "checkpoint/checkpoint.h"

/*
 * A checkpoint in other files. Either appears whole, or not at all.
 */

/*
 * Writes the step to a run, which may be its own, with shards of at most
 * max_shard_bytes (0: no limit). Everything else stays: the hash, extras, the
 * state that a run resumes from, further files.
 */
pen_status pen_checkpoint_reshard(const struct pen_checkpoint *checkpoint,
                                  const struct pen_any_model *model,
                                  const char *run, uint64_t max_shard_bytes,
                                  struct pen_text *why);

/*
 * Writes what others need of it to a directory that must not be there: weights
 * as F32 or BF16, config.json, further files; neither moments, versions and
 * extras nor the manifest.
 */
pen_status pen_checkpoint_export(const struct pen_checkpoint *checkpoint,
                                 const struct pen_any_model *model,
                                 const char *directory, enum pen_dtype dtype,
                                 uint64_t max_shard_bytes,
                                 struct pen_text *why);

#endif
