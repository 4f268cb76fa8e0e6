#ifndef PEN_PLANNER_STACKS_H
#define PEN_PLANNER_STACKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Stacks of shards (SPARe: Lee et al., 2026, arXiv 2603.00357). A step has as
 * many shards as there are replica groups, and each group holds `height` of
 * them, so each shard is held by as many groups:
 *
 *            5 groups, height 2          group 1 fails
 *   group 0  [0] 2                       [0] 2
 *   group 1  [1] 3                        -
 *   group 2  [2] 4                       [2] 4
 *   group 3  [3] 0                       [3] 0
 *   group 4  [4] 1                       [4] [1]
 *
 * [s]: computed here. After each failure the survivors are dealt the shards
 * again, such that each shard is computed once and the busiest group computes
 * as few as it can. The sum of the gradients is therefore the one without
 * failures, until all holders of a shard are lost.
 *
 * Group g holds shards g + offset modulo their number. Where it is possible all
 * differences of two offsets differ and none is 1, so that two groups share at
 * most one shard and neighbours none; this choice of offsets is ours.
 */

#define PEN_STACKS_MAX_HEIGHT 16u
#define PEN_STACKS_MAX_GROUPS 100000u
#define PEN_STACKS_NONE UINT32_MAX

struct pen_stacks {
    uint32_t num_groups;
    uint32_t height;
    uint32_t offsets[PEN_STACKS_MAX_HEIGHT];
    uint32_t depth; /* shards that the busiest group computes */
    uint32_t num_lost;
    uint32_t *owners; /* of shards: the group that computes it */
    uint32_t *loads;  /* of groups: how many it computes */
    bool *is_lost;    /* of groups */
    /* Scratch of the search for another dealing. */
    uint32_t *queue; /* shards */
    uint32_t *from;  /* of groups: the shard by which it was reached */
    uint32_t *marks; /* of groups: the search that reached it */
    uint32_t mark;
};

/* 1 <= height <= min(num_groups, PEN_STACKS_MAX_HEIGHT). */
pen_status pen_stacks_init(struct pen_stacks *stacks, uint32_t num_groups,
                           uint32_t height);
void pen_stacks_release(struct pen_stacks *stacks);

/* All groups are there again. */
void pen_stacks_reset(struct pen_stacks *stacks);

uint32_t pen_stacks_shard(const struct pen_stacks *stacks, uint32_t group,
                          uint32_t place);
uint32_t pen_stacks_holder(const struct pen_stacks *stacks, uint32_t shard,
                           uint32_t place);

/*
 * This group fails. False if a shard is lost with it: the step cannot be
 * completed, and the stacks may only be reset or released.
 *
 * Otherwise the shards are dealt again for the steps that follow, and *late is
 * the number of shards that the busiest survivor computes in addition in the
 * step in flight, in which survivors keep what they have computed.
 */
bool pen_stacks_fail(struct pen_stacks *stacks, uint32_t group, uint32_t *late);

#endif
