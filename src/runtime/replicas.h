#ifndef PEN_RUNTIME_REPLICAS_H
#define PEN_RUNTIME_REPLICAS_H

#include "runtime/islands.h"
#include "runtime/trainer.h"
#include "sync/registry.h"

/*
 * Replicas that keep together by a method of sync/ in place of a sum of
 * gradients at every step. Each is a training of its own, with its own ranks:
 *
 *   rank of the world = replica * ranks of a replica + rank in the replica
 *
 * and, inside, any pipeline with any sharding of the optimizer. Rank k of a
 * replica has peers, ranks k of the others, and what it steps itself it keeps
 * together with them; then its replica shares the values as ever.
 *
 * Losses and norms are those of the replica. An evaluation and the weights of a
 * checkpoint are of the one model that all replicas stand for.
 */
struct pen_replicas;

struct pen_replicas_options {
    const struct pen_sync_choice *choice; /* copied */
    uint64_t seed;
    uint64_t epoch_steps;   /* as in sync/method.h */
    uint64_t epoch_batches; /* as there */
    uint64_t total_steps;
    struct pen_batches *batches; /* borrowed: to train on */
    /* NULL: replicas are in the world. Else the world is one of them, and the
     * others are other islands; borrowed. */
    const struct pen_island *island;
};

/*
 * After the weights are loaded, on all ranks of the world: from here on steps
 * of the trainer, which has options.world, follow the method. INVALID when
 * optimizer or schedule do not suit it.
 */
pen_status pen_trainer_join(struct pen_trainer *trainer,
                            const struct pen_replicas_options *options,
                            struct pen_text *why);

/* NULL before pen_trainer_join(). Borrowed. */
struct pen_replicas *pen_trainer_replicas(const struct pen_trainer *trainer);

uint32_t pen_replicas_count(const struct pen_replicas *replicas);
uint32_t pen_replicas_number(const struct pen_replicas *replicas);
/* The number of shares of a batch, and the share that this replica takes. */
uint32_t pen_replicas_num_shares(const struct pen_replicas *replicas);
uint32_t pen_replicas_share(const struct pen_replicas *replicas);
/* The turn of an island, borrowed; NULL: it is not an island. */
const struct pen_island_turn *
pen_replicas_turn(const struct pen_replicas *replicas);
bool pen_replicas_are_over(const struct pen_replicas *replicas);
const struct pen_sync_choice *
pen_replicas_choice(const struct pen_replicas *replicas);

size_t pen_replicas_bytes(const struct pen_replicas *replicas);
/* The part of these bytes that is not there before the first step. */
size_t pen_replicas_coming_bytes(const struct pen_replicas *replicas);

/* Bytes and messages that this rank has sent to its peers so far. */
void pen_replicas_sent(const struct pen_replicas *replicas, uint64_t *bytes,
                       uint64_t *messages);

/*
 * Between two steps, by all ranks: waits until nothing is under way between
 * replicas; then the states of the method are complete.
 */
pen_status pen_replicas_settle(struct pen_replicas *replicas) PEN_MUST_CHECK;

/* Parameters of this rank that it keeps together, in their order. */
struct pen_replicas_place {
    uint32_t stage;
    size_t parameter;
};

size_t pen_replicas_num_places(const struct pen_replicas *replicas);
const struct pen_replicas_place *
pen_replicas_place(const struct pen_replicas *replicas, size_t index);

/*
 * States of the method; the arrays may be written, too. See restored() below.
 */
void pen_replicas_states(struct pen_replicas *replicas,
                         struct pen_sync_states *out);

/*
 * All states, weights and moments were loaded, those of step `steps`. An island
 * comes here in any case, and is where its ring wants it then.
 */
pen_status pen_replicas_restored(struct pen_replicas *replicas,
                                 uint64_t steps) PEN_MUST_CHECK;

/*
 * Between two steps, by all ranks: show() replaces the weights by those of the
 * one model, hide() brings the own ones back.
 */
pen_status pen_replicas_show(struct pen_replicas *replicas) PEN_MUST_CHECK;
pen_status pen_replicas_hide(struct pen_replicas *replicas) PEN_MUST_CHECK;

/*
 * The own weights between show() and hide(): a vector of all places in order.
 */
const float *pen_replicas_hidden(const struct pen_replicas *replicas);

/* Likewise of a tensor of the model that is not trained. */
const void *pen_replicas_hidden_statistic(const struct pen_replicas *replicas,
                                          uint32_t tensor);

/* After the last step, by all ranks. */
pen_status pen_replicas_leave(struct pen_replicas *replicas) PEN_MUST_CHECK;

#endif
