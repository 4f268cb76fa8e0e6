#ifndef PEN_CLI_TRAIN_REPLICAS_H
#define PEN_CLI_TRAIN_REPLICAS_H

#include "cli/train/options.h"
#include "runtime/replicas.h"

/*
 * How the replicas of a training keep together: by sums of gradients at every
 * step, which is the trainer's own way, or by a method of --sync. Then each
 * replica has ranks of its own, which are a world to its trainer.
 */
struct pen__train_replicas {
    bool has_method; /* else nothing below is */
    struct pen_sync_choice choice;
    uint32_t count;
    const struct pen_island *island; /* NULL: all replicas are here */
    struct pen_transport *part;      /* the ranks of this one */
};

/*
 * Sets up the replicas by the options; sets args->replica_batch, and the
 * sharding that a method asks for. `island` is what the world is one of, or
 * NULL. On success release it before the world is closed.
 */
pen_status pen__train_replicas_init(struct pen__train_replicas *replicas,
                                    struct pen__train_args *args,
                                    const struct pen_any_model *model,
                                    const struct pen_island *island,
                                    struct pen_transport *world,
                                    struct pen_text *why);
void pen__train_replicas_release(struct pen__train_replicas *replicas);

/* The ranks that train together in every step: the part, or the world. */
struct pen_transport *
pen__train_replicas_transport(const struct pen__train_replicas *replicas,
                              struct pen_transport *world);

/* Call this after the weights are loaded. */
pen_status pen__train_replicas_join(const struct pen__train_replicas *replicas,
                                    const struct pen__train_args *args,
                                    struct pen_batches *batches,
                                    struct pen_trainer *trainer,
                                    struct pen_text *why);

/* On the first rank: prints what it sent. */
void pen__train_replicas_tell(const struct pen_trainer *trainer,
                              uint64_t num_steps);

#endif
