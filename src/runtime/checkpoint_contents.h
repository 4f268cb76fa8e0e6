#ifndef PEN_RUNTIME_CHECKPOINT_CONTENTS_H
#define PEN_RUNTIME_CHECKPOINT_CONTENTS_H

#include "checkpoint/snapshot.h"
#include "holder/copier.h"
#include "runtime/trainer.h"

/*
 * The tensors of a checkpoint that this rank writes, and how they come out of
 * the engine: those whose moments it keeps, running statistics, and what
 * replicas keep for themselves.
 */
struct pen__contents {
    struct pen_trainer *trainer;
    uint32_t num_moments;
    struct pen_checkpoint_tensor *tensors;
    struct pen_any_tensor *about; /* of each */
    size_t count;
    struct pen__place *places; /* of the tensors, in the order of parameters */
    size_t num_places;
    struct pen__place *handed_in; /* to the first of the expert group */
    size_t num_handed_in;
    bool is_cut;                         /* a tensor has several places */
    struct pen_replicas_saver *replicas; /* NULL: all are the same */
    const struct pen_tensor_spec *extras;
    size_t num_extras;
    float *plain; /* a parameter as it lies in files */
    size_t plain_bytes;
    float *whole; /* a tensor that is cut */
};

/* By all ranks of a tensor or expert group at the same time. Release it in any
 * case. */
pen_status pen__contents_init(struct pen__contents *contents,
                              struct pen_trainer *trainer, bool is_leader,
                              struct pen_text *why);
void pen__contents_release(struct pen__contents *contents);

/* Whether this rank writes nothing. */
bool pen__contents_is_empty(const struct pen__contents *contents);

/* The number of a listed tensor in the model. */
uint32_t pen__contents_tensor(const struct pen__contents *contents,
                              size_t index);

/* The list of tensors, borrowed until the contents are released. */
struct pen_snapshot_contents
pen__contents_list(const struct pen__contents *contents);

/*
 * Fills in the manifest of the step, except its files; `describe` fills in the
 * settings. An empty run id leaves that of runs without one.
 */
pen_status pen__contents_describe(
    const struct pen__contents *contents, struct pen_manifest *manifest,
    const char *run_id,
    pen_status (*describe)(void *context, struct pen_manifest *manifest,
                           struct pen_text *why),
    void *context, struct pen_text *why);

/* Copies the contents into a snapshot of the list. */
pen_status pen__contents_copy(struct pen__contents *contents,
                              struct pen_snapshot *snapshot);

/*
 * Ahead of a copy or a write: the first rank of a group may write what this one
 * has, which then serves until that one has all of it.
 */
pen_status pen__contents_serve(struct pen__contents *contents) PEN_MUST_CHECK;

/* The number of pieces of the engine's memory that the contents are in; 0 where
 * the engine's memory is not the host's. */
size_t pen__contents_num_pieces(const struct pen__contents *contents);

/*
 * Whether a tensor lies column by column in the engine's memory, for
 * pen_snapshot_contents: pieces are not turned.
 */
bool pen__contents_is_transposed(const struct pen__contents *contents,
                                 size_t tensor);

/* Lists these pieces in the order of their places in the snapshot's block. */
void pen__contents_list_pieces(struct pen__contents *contents,
                               struct pen_snapshot *snapshot,
                               struct pen_copier_piece *out);

/*
 * Writes the contents as the share whose run, step, number and limit `args`
 * has; see pen_checkpoint_share_write().
 */
pen_status pen__contents_write(struct pen__contents *contents,
                               struct pen_checkpoint_share_args args,
                               struct pen_text *record, struct pen_text *why);

#endif
