#ifndef PEN_SCHEDULE_NEEDS_H
#define PEN_SCHEDULE_NEEDS_H

#include "schedule/schedule.h"

/*
 * What a rank needs room for, counted from its row before it runs: the runtime
 * makes so much, and a prediction of memory tells it.
 */

/* Pieces of a stage that are in use at once; of one slice each but the last
 * two. */
struct pen_stage_needs {
    uint32_t stashes;
    uint32_t holds;
    uint32_t inputs;   /* what the data gave */
    uint32_t kept;     /* inputs of the stage, from an F to its R */
    uint32_t contexts; /* micro-batches between the F of the first slice and the
                          weight gradient of the last one */
    uint32_t slopes;   /* of these, those with a B or I */
};

/* Of a stage that keeps weights, with all that use them (placement.h). */
struct pen_stage_needs pen_row_count_needs(const struct pen_shape *shape,
                                           const struct pen_row *row,
                                           uint32_t stage);

/*
 * Buffers of a channel, that is of messages of one direction to or from one
 * rank of the pipeline. To it: as many as are made and not sent where the sends
 * stand, and those under way. From it: receives are posted ahead, and all that
 * are posted where they stand have room.
 */
uint32_t pen_row_count_out(const struct pen_schedule *schedule, uint32_t row,
                           enum pen_direction direction, uint32_t peer);
uint32_t pen_row_count_in(const struct pen_schedule *schedule, uint32_t row,
                          enum pen_direction direction, uint32_t peer);

/*
 * Buffers between two stages of one rank, for messages from the one to the
 * other.
 */
uint32_t pen_row_count_waiting(const struct pen_row *row,
                               enum pen_direction direction, uint32_t from,
                               uint32_t to);

/*
 * Sums over the members of a part go in pieces, so many of them under way at
 * once: on a long link the next ones fill the time that the first is on its
 * way. Elements of a piece, when the largest array has so many.
 */
#define PEN_NEEDS_LANES 32u
uint64_t pen_needs_piece(uint32_t num_members, uint64_t largest);

/* Sums that wait for their twin while so many logical replicas are summed. */
uint32_t pen_needs_levels(uint32_t num_replicas);

#endif
