#ifndef PEN_RUNTIME_AGREE_H
#define PEN_RUNTIME_AGREE_H

#include "runtime/transport.h"

/*
 * One rank's error is every rank's. All ranks call pen_agree() wherever one of
 * them may have to leave; they return together, either all with PEN_OK or all
 * with an error.
 *
 *   rank r    status, host, reason  --->  rank 0
 *   rank 0    waits for all, then   --->  verdict to all
 *
 * No rank waits forever here:
 *
 *   a rank is lost       all return PEN_LOST, whatever they came with
 *   all come             rank 0 has the reason of the first rank that failed
 *   this rank failed,    it waits PEN_AGREE_FAILED_SEC, prints its reason and
 *   others do not come   ends the job with exit code 1
 *   none failed, some    rank 0 (or rank 1, if rank 0 is missing) names the
 *   do not come in time  missing ranks and ends the job with PEN_EXIT_HANG
 *
 * The second row makes it safe to call this after a stretch in which the
 * others may be in the middle of something that needs this rank.
 */
#define PEN_AGREE_FAILED_SEC 1.0

/* For steps that may take long on a slow disk: loading, the start. */
#define PEN_AGREE_DEADLINE_SEC 1800.0
#define PEN_AGREE_NO_DEADLINE 0.0

/*
 * `doing` says in a few words what was done since the last agreement ("opening
 * the model"); it completes an empty reason and the report of missing ranks.
 * `deadline_sec` counts from the call on each rank. Returns `status` where this
 * rank has failed, otherwise that of the first rank that has. On rank 0 `why`
 * then begins with the rank and host of that rank, unless all have failed; on
 * all other ranks it is emptied, so that the error is printed once. Only for
 * the main thread, and nothing may be under way.
 */
pen_status pen_agree(struct pen_transport *transport, pen_status status,
                     const char *doing, double deadline_sec,
                     struct pen_text *why) PEN_MUST_CHECK;

/*
 * Makes the reason of this rank one that names rank and host, as "rank 2 on
 * node1: reason"; with one rank it stays as it is.
 */
void pen_agree_name(const struct pen_transport *transport, pen_status status,
                    const char *doing, struct pen_text *why);

/*
 * For an error in the middle of something for which the other ranks wait:
 * prints rank and reason, and ends all ranks with exit code 1. A reason may be
 * NULL.
 */
_Noreturn void pen_agree_alone(struct pen_transport *transport,
                               pen_status status, const char *doing,
                               const struct pen_text *why);

#endif
