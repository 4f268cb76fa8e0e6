#ifndef PEN_CLI_TRAIN_START_H
#define PEN_CLI_TRAIN_START_H

#include "cli/train/moves.h"
#include "host/threads.h"
#include "watch/launch.h"
#include "watch/launch_identity.h"

/* Facts that the ranks of a training settle among themselves. */

#define PEN__MB(bytes) (1e-6 * (double)(bytes))

/* Ranks that a launcher put on one node without binding share its cores. */
struct pen_threads_options
pen__train_threads(const struct pen__train_args *args,
                   const struct pen_launch *launch);

/* Describes build, plan, model, options and data of this rank, but nothing that
 * is its alone. */
pen_status pen__train_describe(const struct pen__train_facts *facts,
                               const struct pen_transport *transport,
                               struct pen_launch_identity *out,
                               struct pen_text *why);

/*
 * Refuses where this rank's description differs from that of rank 0. All ranks
 * must have theirs.
 */
pen_status pen__train_compare(const struct pen_launch_identity *own,
                              struct pen_transport *transport,
                              struct pen_text *why);

/*
 * Seconds that ranks wait for each other outside of steps: ten times
 * --hang-timeout, where 0 is for ever; see runtime/agree.h.
 */
double pen__train_patience(const struct pen__train_args *args);

/*
 * Makes the folder of --run, if there is to be one. The first rank removes
 * what another run may have left there and this one may not write again.
 */
pen_status pen__train_make_run(const struct pen__train_args *args,
                               bool is_first, struct pen_text *why);

/*
 * On rank 0: prints the peak of every rank against its prediction and writes it
 * to the folder of --run. A failure is a warning.
 */
pen_status pen__train_tell_peaks(const struct pen__train_args *args,
                                 struct pen_transport *transport,
                                 size_t predicted) PEN_MUST_CHECK;

/* On rank 0: prints the bytes that all ranks have sent. */
pen_status pen__train_tell_sent(struct pen_transport *transport) PEN_MUST_CHECK;

#endif
