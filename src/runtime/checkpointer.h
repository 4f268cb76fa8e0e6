#ifndef PEN_RUNTIME_CHECKPOINTER_H
#define PEN_RUNTIME_CHECKPOINTER_H

#include "checkpoint/checkpoint.h"
#include "runtime/trainer.h"

/*
 * Checkpoints of a training, written by all ranks: each writes the tensors
 * that it keeps the moments of, rank 0 makes a step of the files. Where
 * replicas have weights of their own, the first writes the one model, and each
 * writes the state that it keeps in addition.
 *
 *   begin     all ranks, between two steps: copies what is to be written
 *   ...       threads write during further steps, until is_over()
 *   collect   all ranks, when all are over: rank 0 gets the records, and its
 *             thread gives the step its name
 *   settle    all ranks: waits for all of that
 *
 * In the foreground nothing is copied, and begin() writes. A failure is
 * reported and leaves the training and older checkpoints as they were.
 */
struct pen_checkpointer;

struct pen_checkpointer_options {
    struct pen_trainer *trainer;
    const char *run;              /* directory; borrowed, as the three below */
    const char *run_id;           /* that its steps get, on rank 0 */
    const char *tokenizer_folder; /* whose files are copied; NULL: none */
    bool is_in_background;
    uint64_t max_shard_bytes;
    struct pen_checkpoint_keep keep; /* taken over */
    /* Fills in the settings; on rank 0 only. */
    pen_status (*describe)(void *context, struct pen_manifest *manifest,
                           struct pen_text *why);
    void *context;
};

/* On failure *out is untouched. */
pen_status
pen_checkpointer_create(const struct pen_checkpointer_options *options,
                        struct pen_checkpointer **out, struct pen_text *why);
void pen_checkpointer_free(struct pen_checkpointer *checkpointer);

/*
 * Around a move of the trainer (pen_trainer_move), with nothing under way:
 * drops what belongs to the old layout, and makes what the new one needs. The
 * steps that it keeps stay known. In between it may only be freed.
 */
void pen_checkpointer_unload(struct pen_checkpointer *checkpointer);
pen_status pen_checkpointer_reload(struct pen_checkpointer *checkpointer,
                                   struct pen_text *why);

/* Bytes that a checkpointer holds, and those that it takes and gives back. */
size_t pen_checkpointer_bytes(const struct pen_checkpointer *checkpointer);
size_t
pen_checkpointer_passing_bytes(const struct pen_checkpointer *checkpointer);

/* Whether this rank writes to the directory. */
bool pen_checkpointer_is_writing(const struct pen_checkpointer *checkpointer);

/* Nothing may be under way. LOST; settle() reports other failures. */
pen_status
pen_checkpointer_begin(struct pen_checkpointer *checkpointer) PEN_MUST_CHECK;

/* True from begin() to the end of collect(). */
bool pen_checkpointer_is_busy(const struct pen_checkpointer *checkpointer);

/* The step of the last begin(). */
uint64_t pen_checkpointer_step(const struct pen_checkpointer *checkpointer);

/*
 * The newest step that was begun here and is durable; 0: none, or this is not
 * rank 0. Does not wait for one that is being written.
 */
uint64_t pen_checkpointer_durable_step(struct pen_checkpointer *checkpointer);

/* Whether this rank has written its share, well or not. */
bool pen_checkpointer_is_over(struct pen_checkpointer *checkpointer);

pen_status
pen_checkpointer_collect(struct pen_checkpointer *checkpointer) PEN_MUST_CHECK;

/*
 * Waits until nothing is under way. Says whether the last step is durable: on
 * rank 0 with the reason, on all others PEN_OK.
 */
pen_status pen_checkpointer_settle(struct pen_checkpointer *checkpointer,
                                   struct pen_text *why);

#endif
