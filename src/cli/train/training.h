#ifndef PEN_CLI_TRAIN_TRAINING_H
#define PEN_CLI_TRAIN_TRAINING_H

#include "checkpoint/run_folder.h"
#include "cli/train/held.h"
#include "cli/train/moves.h"
#include "cli/train/probe.h"
#include "cli/train/replicas.h"
#include "cli/train/report.h"
#include "cli/train/ring.h"
#include "cli/train/signals.h"
#include "cli/train/watch.h"
#include "runtime/checkpointer.h"
#include "runtime/pretrained.h"
#include "runtime/trainer.h"
#include "runtime/verifier.h"
#include "watch/launch_identity.h"

/*
 * A run of penstock train: prepare.c makes it ready, run.c takes its steps,
 * train.c is the command. All that it holds may be NULL.
 */
struct pen__training {
    struct pen__train_args args;
    struct pen_launch launch;
    struct pen_transport *transport; /* of all ranks */
    struct pen__train_ring ring;     /* that this training is an island of */
    struct pen__train_replicas replicas;
    bool is_first; /* of the ranks: this one talks */
    struct pen_pretrained pretrained;
    struct pen_checkpoint *resumed; /* besides --model: of --load, or found */
    struct pen__train_held held;    /* steps in memory */
    struct pen_run_folder folder;   /* of --save */
    struct pen_batches *batches;
    struct pen_batches *validation;
    struct pen__train_layout layout; /* that it begins with */
    struct pen__train_moves moves;   /* to others */
    struct pen_launch_identity identity;
    struct pen__train_watch watch;
    struct pen_trainer *trainer;
    struct pen_verifier *verifier; /* NULL: replicas are not compared */
    struct pen_checkpointer *checkpointer;
    struct pen_commits *commits; /* NULL: no step is kept in memory */
    struct pen_step *steps;      /* that a pass reports */
    double last_sec;             /* of a step of the pass before */
    int threads;
    double peak_flops; /* of this rank; NaN: not measured */
    struct pen__train_metrics metrics;
    struct pen__train_report report;
    struct pen__train_probe probe;
    struct pen__train_signals signals;
    size_t predicted_bytes; /* of memory, with the layout that it has */
    bool is_stopped;        /* before the last step */
};

/* The checkpoint that the run resumes from; NULL: it is a new run. */
const struct pen_checkpoint *
pen__training_checkpoint(const struct pen__training *training);

/* The ranks of this replica. */
struct pen_transport *
pen__training_own_ranks(const struct pen__training *training);

/* A check of one process may be of more ranks than there are. */
bool pen__training_stands_alone(const struct pen__training *training);

/* Makes the last kept step count from here on. */
void pen__training_finish_commit(struct pen__training *training);

/* Options for the trainer, for any layout. */
struct pen_trainer_options
pen__training_options(struct pen__training *training,
                      const struct pen__train_layout *layout,
                      const struct pen__train_args *args);

/* Makes the verifier where --verify-interval asks for one. */
pen_status pen__training_make_verifier(struct pen__training *training,
                                       struct pen_text *why);

/* Joins the run folder on a rank that writes to it, and did not claim it. */
pen_status pen__training_join_folder(const struct pen__training *training,
                                     struct pen_text *why);

/* The status of one rank becomes that of all; see runtime/agree.h. */
pen_status pen__training_agree(struct pen__training *training,
                               pen_status status, const char *doing,
                               struct pen_text *why);

void pen__training_release(struct pen__training *training, bool is_done);

/* ---- prepare.c ---- */

/*
 * Prepares the run by phases. All ranks agree after each, and begin the next
 * one together.
 */
pen_status pen__training_prepare(struct pen__training *training,
                                 struct pen_text *why);

/* ---- run.c ---- */

void pen__training_predict_memory(struct pen__training *training,
                                  struct pen_trainer_memory *memory);

/* Waits for a checkpoint that is being written. */
pen_status pen__training_settle(struct pen__training *training,
                                struct pen_text *why);

/* Puts the predictions into the metrics. */
void pen__training_set_predictions(struct pen__training *training);

/*
 * Saves the step that the run resumed from, where it is due and not on disk: it
 * may have been lost on its way there, and the next checkpoint may be far off.
 */
pen_status pen__training_save_kept(struct pen__training *training);

/*
 * Takes steps until the end or a signal, with checkpoints between steps and
 * after the last.
 */
pen_status pen__training_run(struct pen__training *training,
                             struct pen_text *why);

#endif
