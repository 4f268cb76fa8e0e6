#ifndef PEN_RUNTIME_COMMITS_H
#define PEN_RUNTIME_COMMITS_H

#include "checkpoint/checkpoint.h"
#include "holder/client.h"
#include "runtime/node_map.h"
#include "runtime/trainer.h"

/*
 * Steps of a training that outlive its ranks: after each step every rank copies
 * what it would write of a checkpoint into memory that the holder of its node
 * keeps (holder/shard.h), into the older of two slots. A thread copies while
 * the next step is computed, where that leaves weights and moments alone.
 *
 *   step N    slot 0: N-2 -> N, slot 1: N-1     a kill leaves N-1, or N-1 and N
 *   step N+1  slot 0: N, slot 1: N-1 -> N+1     a kill leaves N, or N and N+1
 *
 * C1. A rank begins to write N+1 when it has finished step N+1. No rank can
 *     finish that step before every rank has voted on it, and a rank votes when
 *     it has committed the step before (pen_commits_finish()): so every rank
 *     has committed N when the first of them begins to overwrite N-1.
 * C2. Therefore some step is whole on all ranks, whenever and wherever they are
 *     killed: the last one that all had committed, or the one after it.
 * C3. A process of an older epoch that still runs never writes into the slot of
 *     the step that is common to all: for that it would have to finish a step
 *     that a rank which is gone had a part in.
 * C4. With several nodes a step counts when it is copied to the next node, too
 *     (buddies.h): during the next step.
 * C5. Weights and moments change after the vote, when the copy is over.
 */
struct pen_commits;

struct pen_commits_options {
    struct pen_trainer *trainer;
    struct pen_transport *transport;  /* borrowed, as all below */
    const struct pen_node_map *nodes; /* two or more: with copies */
    struct pen_holder_client *client;
    const char *run_id; /* "": no run folder */
    /* Fills in the settings; on rank 0 only. */
    pen_status (*describe)(void *context, struct pen_manifest *manifest,
                           struct pen_text *why);
    void *context;
};

/* Makes the memory and hands it over. On failure *out is untouched. */
pen_status pen_commits_create(const struct pen_commits_options *options,
                              struct pen_commits **out, struct pen_text *why);

/* NULL is fine. The holder keeps the memory. */
void pen_commits_free(struct pen_commits *commits);

/* Bytes of the memory and its copies, all of them shared with the holder. */
size_t pen_commits_bytes(const struct pen_commits *commits);

/*
 * All ranks, after a step and before the next one: begins to copy the state.
 * PEN_LOST where the holder is gone, or serves another epoch; with several
 * nodes all ranks get it then, at the next step. A rank that is lost is
 * PEN_LOST, too.
 */
pen_status pen_commits_take(struct pen_commits *commits,
                            struct pen_text *why) PEN_MUST_CHECK;

/*
 * Waits until the last step is copied. Returns the newest step that would
 * outlive this rank, or with several nodes any of them; 0: none of this launch.
 * By each rank before it votes on the next step: see C1 and C5.
 */
uint64_t pen_commits_finish(struct pen_commits *commits);

/*
 * Mean seconds for which one commit held up the training on this rank, without
 * the processor time of the thread while the training computes.
 */
double pen_commits_seconds(const struct pen_commits *commits);

/* ---- resuming ---- */

/* A step found in memory. */
struct pen_kept {
    struct pen_shard *shards; /* of all ranks of an earlier epoch */
    uint32_t count;
    struct pen_checkpoint *checkpoint; /* NULL: nothing that is newer */
};

/*
 * By all ranks at the same time: the newest step that is whole in the memory of
 * all ranks of an earlier epoch, on whatever node, if it is `from` or later, as
 * rank 0 knows it. Nodes get what they lack from others (kept_spread.h). Each
 * rank verifies a part of the memory; what is damaged is named, and an older
 * step is taken. The same layout is not needed. Release in any case.
 */
struct pen_kept_options {
    struct pen_holder_client *client;
    struct pen_transport *transport;
    const struct pen_node_map *nodes;
    uint64_t from;
};

pen_status pen_kept_open(struct pen_kept *kept,
                         const struct pen_kept_options *options,
                         struct pen_text *why);
void pen_kept_release(struct pen_kept *kept);

#endif
