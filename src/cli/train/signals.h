#ifndef PEN_CLI_TRAIN_SIGNALS_H
#define PEN_CLI_TRAIN_SIGNALS_H

#include "base/status.h"

#include <stdbool.h>

/*
 * Signals of a training: SIGINT and SIGTERM end it after the step, SIGUSR1 asks
 * for a checkpoint. A second SIGINT ends the program as it always did; a second
 * SIGTERM does not, for schedulers send two. One training per process.
 */
struct pen__train_signals {
    void *stack; /* that handlers run on */
    bool is_quiet;
};

pen_status pen__train_signals_watch(struct pen__train_signals *signals);
void pen__train_signals_release(struct pen__train_signals *signals);

/* The signal that ends the training, or 0. */
int pen__train_signal_to_stop(void);

/* Whether a checkpoint was asked for since the last time. */
bool pen__train_signal_to_save(void);

#endif
