#ifndef PEN_RUNTIME_REPLICAS_CHECKPOINT_H
#define PEN_RUNTIME_REPLICAS_CHECKPOINT_H

#include "checkpoint/checkpoint.h"
#include "runtime/replicas.h"

/*
 * Extras that replicas keep in a checkpoint in addition to the one model: each
 * its weights, moments, running statistics and states of the method, with
 * logical names (docs/formats.md). A run resumes with as many replicas on any
 * pipeline.
 */
struct pen_replicas_saver;

/* For a trainer that has joined. On failure *out is untouched. */
pen_status pen_replicas_saver_create(struct pen_trainer *trainer,
                                     struct pen_replicas_saver **out,
                                     struct pen_text *why);
void pen_replicas_saver_free(struct pen_replicas_saver *saver);

/* The extras that this rank writes. Borrowed until the saver is freed. */
const struct pen_tensor_spec *
pen_replicas_saver_extras(const struct pen_replicas_saver *saver,
                          size_t *count);

/* Room that pen_replicas_saver_read() asks for. */
size_t pen_replicas_saver_room(const struct pen_replicas_saver *saver);

/*
 * Between two steps, by all ranks: from here to the end the weights are those
 * of the one model, and extras can be read.
 */
pen_status
pen_replicas_saver_begin(struct pen_replicas_saver *saver) PEN_MUST_CHECK;
pen_status
pen_replicas_saver_end(struct pen_replicas_saver *saver) PEN_MUST_CHECK;

/* Where the bytes of an extra are, until the next is read. Uses the gradients.
 */
const void *pen_replicas_saver_read(struct pen_replicas_saver *saver,
                                    size_t extra, float *room);

/* Fills in how the replicas stay together. */
pen_status pen_replicas_describe(const struct pen_replicas *replicas,
                                 struct pen_manifest *manifest,
                                 struct pen_text *why);

/*
 * After pen_trainer_load() and pen_trainer_join(), on every rank: sets all that
 * the checkpoint has of this replica. INVALID when it is of another method,
 * other options or another number of replicas. Sends nothing: once all ranks
 * have succeeded, each calls pen_replicas_restored().
 */
pen_status pen_replicas_load(struct pen_trainer *trainer,
                             const struct pen_checkpoint *checkpoint,
                             struct pen_text *why);

#endif
