#ifndef PEN_RUNTIME_STAGE_H
#define PEN_RUNTIME_STAGE_H

#include "network/network.h"
#include "runtime/batches.h"
#include "schedule/needs.h"

/*
 * A stage of the schedule on this rank: its network, and room for as many
 * micro-batches as its row has in flight.
 */

/* Equal pieces of memory that micro-batches take and give back. */
struct pen_shelf {
    struct pen_engine *engine; /* that the memory is of, or NULL */
    enum pen_place place;
    char *block;
    size_t bytes; /* of one */
    uint32_t count;
    bool *is_taken;
};

#define PEN_SHELF_NONE UINT32_MAX

/*
 * Memory of an engine, or of the host where that is NULL. Release in any case.
 */
pen_status pen_shelf_init(struct pen_shelf *shelf, struct pen_engine *engine,
                          enum pen_place place, uint32_t count, size_t bytes);
void pen_shelf_release(struct pen_shelf *shelf);

/* PEN_SHELF_NONE while all are taken. */
uint32_t pen_shelf_take(struct pen_shelf *shelf);
void pen_shelf_give(struct pen_shelf *shelf, uint32_t index);
void *pen_shelf_at(const struct pen_shelf *shelf, uint32_t index);

/*
 * Indices of the arrays that slices of a micro-batch share in a stage
 * (network.h).
 */
struct pen_shared_stay {
    uint32_t context; /* index in a shelf or PEN_SHELF_NONE, as the next */
    uint32_t slopes;
};

/*
 * Indices of the arrays that a slice of a micro-batch has in a stage at the
 * moment.
 */
struct pen_stay {
    uint32_t stash; /* index in a shelf or PEN_SHELF_NONE, as below */
    uint32_t hold;
    uint32_t input;   /* what the data gave */
    uint32_t kept;    /* input of the stage, until it is computed again */
    uint32_t version; /* of the weights that its forward used */
};

struct pen_stage {
    uint32_t stage; /* number in the schedule */
    uint32_t part;
    struct pen_network *network; /* NULL: the stage only sleeps */
    struct pen_network_sizes sizes;
    bool reads_data; /* has the embedding or the head */
    bool has_head;
    bool has_guests;  /* stashes leave for another rank and come back */
    bool is_borrowed; /* all below and the network are another stage's */
    struct pen_shelf stashes;
    struct pen_shelf holds;
    struct pen_shelf inputs;
    struct pen_shelf kept;
    struct pen_shelf contexts;
    struct pen_shelf slopes;
    struct pen_sample_shape sample; /* of a slice, or a part */
    uint32_t num_parts;             /* of a sequence, for context parallelism */
    uint32_t sequence_part;         /* the one that is here */
    size_t micro_batch;
    uint32_t num_stays;
    uint32_t num_slices;
    struct pen_stay *stays; /* by micro-batch of the schedule and slice */
    struct pen_shared_stay *shared; /* by micro-batch */
};

/*
 * Room for a network that is there already, or for the sizes of one that only
 * sleeps. Takes over nothing. Release in any case.
 */
pen_status pen_stage_init_room(struct pen_stage *stage,
                               const struct pen_stage_needs *needs,
                               uint32_t num_microbatches);
void pen_stage_release(struct pen_stage *stage);

/*
 * The same stage for another executor, which runs while the first does not:
 * with the first one's network and room, for micro-batches one at a time.
 */
pen_status pen_stage_borrow(const struct pen_stage *from,
                            uint32_t num_microbatches, struct pen_stage *out);

/* The stay of the slice that an op computes, and the one of its micro-batch. */
struct pen_stay *pen_stage_stay(const struct pen_stage *stage,
                                const struct pen_op *op);
struct pen_shared_stay *pen_stage_shared(const struct pen_stage *stage,
                                         const struct pen_op *op);

/* Bytes of its room. */
size_t pen_stage_bytes(const struct pen_stage *stage);

/* Where an input of the stage lies. */
struct pen_batch pen_stage_batch(const struct pen_stage *stage, uint32_t input);

#endif
