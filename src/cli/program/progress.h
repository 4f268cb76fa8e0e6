#ifndef PEN_CLI_PROGRESS_H
#define PEN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * One line on stderr for work that takes more than a moment: how much is done,
 * at which rate, and the time left. Silent when stderr is not a terminal.
 */
struct pen__progress {
    const char *unit; /* "schedules" */
    struct timespec start;
    double shown_sec; /* since start; when the line was last written */
    bool is_terminal;
    bool is_shown;
};

void pen__progress_init(struct pen__progress *progress, const char *unit);

double pen__progress_elapsed_sec(const struct pen__progress *progress);

/* Updates the line. total 0: unknown. `note` may be NULL. */
void pen__progress_update(struct pen__progress *progress, uint64_t done,
                          uint64_t total, const char *note);

/* Removes the line; call it before printing results. */
void pen__progress_finish(struct pen__progress *progress);

#endif
