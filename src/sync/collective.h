#ifndef PEN_SYNC_COLLECTIVE_H
#define PEN_SYNC_COLLECTIVE_H

#include "group/sum.h"

/*
 * A collective operation of all peers: it is started, polled while other work
 * continues, and has ended when poll returns true. One object carries one of
 * them at a time; every member starts the same ones in the same order. Objects
 * that are under way at the same time have different channels.
 *
 *   sum      floats, by shares (group/sum.h)
 *   gather   bytes of each member to all others: (N-1) times its own
 *   scatter  another piece to each other member
 */
struct pen_collective;

enum { PEN_COLLECTIVE_CHANNELS = PEN_SUM_CHANNELS }; /* of one object */

/*
 * Creates an object for sums of up to `most` floats, and for gathers of up to
 * `most_gathered` bytes of a member and scatters of pieces up to that; 0 where
 * there are none. On failure *out is untouched.
 */
pen_status pen_collective_create(struct pen_group *peers, uint32_t channel,
                                 size_t most, size_t most_gathered,
                                 struct pen_collective **out);
void pen_collective_free(struct pen_collective *collective);

size_t pen_collective_bytes(const struct pen_collective *collective);

/* Begins a sum, in place. The vector may not be touched until it is over. */
void pen_collective_sum(struct pen_collective *collective, float *values,
                        size_t count);

/*
 * Sends this member's bytes to all others. Lengths may differ between members:
 * pen_collective_received() returns the bytes of member k and their length
 * until the next start. Own bytes are included.
 */
void pen_collective_gather(struct pen_collective *collective, const void *bytes,
                           size_t length);

/*
 * Sends piece k to member k. The received pieces are those that were sent here.
 */
void pen_collective_scatter(struct pen_collective *collective,
                            const void *const *pieces, const size_t *lengths);

const void *pen_collective_received(const struct pen_collective *collective,
                                    uint32_t member, size_t *length);

/* Returns true when nothing is under way. Never waits. */
bool pen_collective_poll(struct pen_collective *collective);
void pen_collective_wait(struct pen_collective *collective);

/*
 * Return the bytes that a member sends for a sum, and its consecutive messages.
 */
double pen_collective_sum_bytes(uint32_t num_members, double num_floats);
double pen_collective_sum_legs(uint32_t num_members, double num_floats);

#endif
