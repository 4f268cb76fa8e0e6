#ifndef PEN_CLI_PLAN_FAILURE_OPTIONS_H
#define PEN_CLI_PLAN_FAILURE_OPTIONS_H

#include "cli/program/line.h"
#include "planner/recovery.h"

#include <argp.h>

/* Options of `penstock plan` and `penstock predict` for runs that fail. */

/* Options not given are NULL, numbers 0; where 0 can be meant, negative. */
struct pen__failure_args {
    const char *rate;
    const char *mtbf;
    const char *devices;
    const char *storage;
    const char *interval;
    const char *repair;
    double detect_sec;
    double restart_sec;
    double save_sec;
    double reload_sec;
    double pair_share;
    unsigned recovery; /* enum pen_recovery_way, of plan */
    uint64_t islands;
    uint64_t sync_steps;
    uint64_t spares; /* PEN_GOODPUT_NO_LIMIT: not given */
    uint64_t stacks; /* 0: not given */
    uint64_t seed;   /* 0: not given */
};

void pen__failure_args_init(struct pen__failure_args *args);

/* Returns whether failures are asked for. */
bool pen__failure_args_are_given(const struct pen__failure_args *args);

/* Ends the program where options lack --failures. */
void pen__failure_args_check(const struct pen__failure_args *args,
                             const struct argp_state *state);

/* Reads the options for a job of this many devices. */
pen_status pen__failure_args_read(const struct pen__failure_args *args,
                                  uint64_t devices,
                                  struct pen_failure_rate *rate,
                                  struct pen_recovery_wish *wish,
                                  struct pen_text *why);

/* The options, for struct pen__plan_args; the last has a NULL name. */
extern const struct pen__field pen__failure_options[];

#endif
