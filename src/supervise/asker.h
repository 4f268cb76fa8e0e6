#ifndef PEN_SUPERVISE_ASKER_H
#define PEN_SUPERVISE_ASKER_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A command that is asked now and then, in a process group of its own, without
 * waiting for it: its answer is what it prints before it ends with 0.
 */
struct pen_asker {
    const char *command; /* borrowed; for sh -c */
    int64_t limit_ns;    /* it is killed after this long */
    pid_t pid;           /* 0: it does not run */
    int end;             /* of its stdout; -1: closed */
    int64_t start_ns;
    struct pen_text answer;
};

void pen_asker_init(struct pen_asker *asker, const char *command,
                    int64_t limit_ns);

/* Starts the command; one that still runs is killed first. */
pen_status pen_asker_start(struct pen_asker *asker, struct pen_text *why);

/*
 * Looks at the question without waiting. PEN_OK: it has ended, and
 * asker->answer is whole. PEN_BUSY: it is still running, or was not started.
 * Otherwise it has failed, and has been removed.
 */
pen_status pen_asker_tend(struct pen_asker *asker, struct pen_text *why);

/* Kills what runs, and waits a second at most for its end. */
void pen_asker_release(struct pen_asker *asker);

#endif
