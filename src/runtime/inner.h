#ifndef PEN_RUNTIME_INNER_H
#define PEN_RUNTIME_INNER_H

#include "group/group.h"

/*
 * Messages between tensor-parallel ranks inside the layers of stages that only
 * sleep: as many and as large as those of a stage that computes (network.h,
 * pen_tensor_share), at distances 1, 2, 4, ... All members call alike.
 */

/* Counts for one stage and micro-batch. */
struct pen_inner_messages {
    uint32_t num_forward; /* sums in a forward pass */
    uint32_t num_again;   /* in a forward pass that fills the stash only */
    uint32_t num_input;   /* in a backward input */
    size_t bytes;         /* of one of them */
    size_t loss_bytes;    /* at the end of a forward pass; 0 without the head */
};

struct pen_inner;

/*
 * `parts` are borrowed, num_parts of them, and so is the group. On success
 * *out is owned by the caller; on failure it is untouched.
 */
pen_status pen_inner_create(struct pen_group *group,
                            const struct pen_inner_messages *parts,
                            uint32_t num_parts, struct pen_inner **out);
void pen_inner_free(struct pen_inner *inner);

const struct pen_inner_messages *pen_inner_part(const struct pen_inner *inner,
                                                uint32_t part);

/* Ends early where a member is lost. */
void pen_inner_exchange(struct pen_inner *inner, size_t bytes);

#endif
