#ifndef PEN_SUPERVISE_SUPERVISOR_H
#define PEN_SUPERVISE_SUPERVISOR_H

#include "base/status.h"
#include "base/text.h"
#include "supervise/fleet.h"

#include <stdint.h>

struct pen_supervisor_options {
    char **command;     /* words, the last NULL */
    const char *events; /* NULL: supervise.jsonl in the folder of --save */
    uint32_t max_restarts;
    double window_sec;
    struct pen_fleet_options fleet;
};

/*
 * Runs the command until it is done or no restart helps, and keeps what
 * docs/supervise.md promises. *code is the exit code. Changes the signal mask
 * of this process and makes it a subreaper: for a program that does nothing
 * else. A status other than PEN_OK means that nothing was started.
 */
pen_status pen_supervise(const struct pen_supervisor_options *options,
                         int *code, struct pen_text *why);

#endif
