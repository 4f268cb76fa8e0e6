#ifndef PEN_RUNTIME_INNER_H
#define PEN_RUNTIME_INNER_H

#include "core/layer_messages.h"
#include "group/group.h"

#include <stdbool.h>

/*
 * Messages inside the layers of stages that only sleep or are simulated: as
 * many and as large as those of a stage that computes. All members call alike.
 *
 *   sums       tensor-parallel ranks, at distances 1, 2, 4, ... (network.h,
 *              pen_tensor_share)
 *   parts      of the rows of tensor-parallel ranks, to all others
 *              (network/stream.h)
 *   chunks     of keys and values, to all others (network/context.h)
 *   rows       for experts, to all others, as routers that choose all experts
 *              equally often would send them (network/experts.h)
 */
enum pen_inner_kind {
    PEN_INNER_SUMS,
    PEN_INNER_PARTS,
    PEN_INNER_CHUNKS,
    PEN_INNER_ROWS
};

/* For the blocks with experts of one stage and micro-batch. */
struct pen_inner_travel {
    uint32_t num_plain; /* blocks; 0 of both: none */
    uint32_t num_again; /* blocks whose rows travel again in a backward */
    uint64_t num_rows;  /* choices of a rank, for its own experts, too */
    size_t count_bytes; /* of one message with the number of rows that come */
    size_t row_bytes;   /* of one row */
    size_t gate_bytes;  /* of its gate */
};

/* Counts for one stage and micro-batch. */
struct pen_inner_messages {
    enum pen_inner_kind kind;
    uint32_t num_forward; /* rounds in a forward pass */
    uint32_t num_again;   /* in a forward pass that fills the stash only */
    uint32_t num_input;   /* in a backward input */
    uint32_t num_weight;  /* in a backward weight */
    uint32_t num_gathers; /* of num_input: the first ones, for chunks alone */
    size_t bytes;         /* of a sum, a part or one chunk */
    size_t loss_bytes;    /* at the end of a forward pass; 0 without the head */
    struct pen_inner_travel travel;         /* of rows */
    const struct pen_message_round *copies; /* once per logical replica */
    uint32_t num_copies;
};

struct pen_inner;

/*
 * `parts` are borrowed, num_parts of them, and so is the group. Without parts
 * messages have lengths and no contents (phantom.h). On success *out is owned
 * by the caller; on failure it is untouched.
 */
pen_status pen_inner_create(struct pen_group *group,
                            const struct pen_inner_messages *parts,
                            uint32_t num_parts, struct pen_inner **out);
void pen_inner_free(struct pen_inner *inner);

/* A round of messages without contents, of a layer that is simulated. */
void pen_inner_simulate(struct pen_inner *inner,
                        const struct pen_message_round *round);

const struct pen_inner_messages *pen_inner_part(const struct pen_inner *inner,
                                                uint32_t part);

/*
 * A sum of `bytes` bytes. It ends early where a member is lost, as
 * the next two do.
 */
void pen_inner_exchange(struct pen_inner *inner, size_t bytes);

/* A round, by its number in a pass of the stage of this part. */
void pen_inner_round(struct pen_inner *inner, uint32_t part, bool is_forward,
                     uint32_t number);

/* Sums of gradients of which members have copies, for the stage of a part. */
void pen_inner_sum_copies(struct pen_inner *inner, uint32_t part);

#endif
