#ifndef PEN_SCHEDULE_NEEDS_H
#define PEN_SCHEDULE_NEEDS_H

#include "schedule/schedule.h"

/*
 * Counts the buffers that a rank needs, from its row before it runs: the
 * runtime allocates that many, and a prediction of memory reports them.
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

/*
 * Counts for a stage that keeps weights, including all stages that use them
 * (placement.h).
 */
struct pen_stage_needs pen_row_count_needs(const struct pen_shape *shape,
                                           const struct pen_row *row,
                                           uint32_t stage);

/*
 * Buffers of a channel, that is of messages of one direction to or from one
 * rank of the pipeline. Outgoing messages need a buffer from when they are made
 * until they have left. Incoming ones need one for each receive that is posted
 * ahead at the same time.
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
 * Sums over the members of a part are sent in pieces, of which at most
 * PEN_NEEDS_LANES are under way at once: on a long link the next ones fill the
 * time that the first is on its way. Returns the elements of a piece for the
 * largest array.
 */
#define PEN_NEEDS_LANES 32u
uint64_t pen_needs_piece(uint32_t num_members, uint64_t largest);

/*
 * Returns how many sums wait for their twin while `num_replicas` logical
 * replicas are summed.
 */
uint32_t pen_needs_levels(uint32_t num_replicas);

#endif
