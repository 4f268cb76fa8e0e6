#ifndef PEN_SCHEDULE_NEEDS_H
#define PEN_SCHEDULE_NEEDS_H

#include "schedule/schedule.h"

/*
 * What a rank needs room for, counted from its row before it runs: the runtime
 * makes so much, and a prediction of memory tells it.
 */

/* Pieces of a stage that are in use at once. */
struct pen_stage_needs {
    uint32_t stashes;
    uint32_t holds;
    uint32_t inputs; /* what the data gave */
};

struct pen_stage_needs pen_row_count_needs(const struct pen_row *row,
                                           uint32_t stage);

/* Receives that are posted ahead, of each kind from each peer. */
#define PEN_NEEDS_AHEAD 2u

/*
 * Buffers between two stages of one rank, for messages from the one to the
 * other.
 */
uint32_t pen_row_count_waiting(const struct pen_row *row,
                               enum pen_direction direction, uint32_t from,
                               uint32_t to);

/*
 * Sums over the members of a part go in pieces, so many of them under way at
 * once. Elements of a piece, when the largest array has so many.
 */
#define PEN_NEEDS_LANES 4u
uint64_t pen_needs_piece(uint32_t num_members, uint64_t largest);

/* Sums that wait for their twin while so many logical replicas are summed. */
uint32_t pen_needs_levels(uint32_t num_replicas);

#endif
