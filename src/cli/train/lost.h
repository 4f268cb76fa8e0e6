#ifndef PEN_CLI_TRAIN_LOST_H
#define PEN_CLI_TRAIN_LOST_H

#include "runtime/transport.h"
#include "watch/watchdog.h"

/*
 * The policy: what becomes of a run when a rank is lost. Waits everywhere below
 * return PEN_LOST, and this is the one place that acts on it. Today the run
 * ends: with the report and the exit code of the watchdog, or where it has seen
 * nothing (the rank is on another node, or there is no watchdog: NULL) with a
 * line that names the rank and PEN_EXIT_PEER_DIED.
 */
_Noreturn void pen__end_lost(struct pen_transport *transport,
                             const struct pen_board *board,
                             struct pen_watchdog *watchdog);

#endif
