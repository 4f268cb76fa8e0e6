#ifndef PEN_CLI_TRAIN_HELD_H
#define PEN_CLI_TRAIN_HELD_H

#include "cli/train/options.h"
#include "holder/place.h"
#include "runtime/commits.h"

/*
 * A training under a supervisor (holder/names.h): its steps are kept in the
 * memory of a holder, and a later launch of the same command resumes from
 * there, or else from the newest step of its folder.
 */
struct pen__train_held {
    struct pen_holder_settings settings; /* epoch 0: no supervisor */
    struct pen_holder_place place;
    struct pen_holder_client client;
    struct pen_node_map nodes;
    bool is_everywhere; /* every rank has a holder */
    struct pen_kept kept;
    bool is_unsaved; /* the step that the run resumes from is not on disk */
};

#define PEN__TRAIN_HELD_NONE                                                   \
    ((struct pen__train_held){.client = {.socket = -1}})

/*
 * By all ranks, first of all, so that an early death is noticed. The first rank
 * of a node that is not the supervisor's starts a holder there, unless there is
 * one. Warns without a holder.
 */
pen_status pen__train_held_connect(struct pen__train_held *held,
                                   struct pen_transport *transport,
                                   struct pen_text *why);

/*
 * Finds the checkpoint that the run resumes from, unless `loaded` is newer;
 * called by all ranks. *out is a checkpoint that the caller closes, or
 * held->kept.checkpoint, or NULL: the run resumes from `loaded`, or is new.
 */
pen_status pen__train_held_find(struct pen__train_held *held,
                                const struct pen__train_args *args,
                                const struct pen_checkpoint *loaded,
                                struct pen_transport *transport,
                                struct pen_checkpoint **out,
                                struct pen_text *why);

/*
 * The holder has closed its socket. Refuses where the holder serves another
 * epoch, to which this rank does not belong. Otherwise the holder has ended:
 * warns, the training continues, and a restart begins from disk.
 */
pen_status pen__train_held_missed(struct pen__train_held *held,
                                  struct pen_text *why);

/* Forgets the memory that the run resumed from. */
void pen__train_held_drop(struct pen__train_held *held);

/* is_done: the training has ended, and no launch will need its steps. */
void pen__train_held_release(struct pen__train_held *held, bool is_done);

#endif
