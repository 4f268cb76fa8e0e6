#include "cli/program/progress.h"

#include "base/text.h"

#include <stdio.h>
#include <unistd.h>

#define INTERVAL_SEC 0.2 /* also the time before the first line */

void pen__progress_init(struct pen__progress *progress, const char *unit)
{
    *progress = (struct pen__progress){
        .unit = unit, .is_terminal = isatty(STDERR_FILENO) != 0};
    clock_gettime(CLOCK_MONOTONIC, &progress->start);
}

double pen__progress_elapsed_sec(const struct pen__progress *progress)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - progress->start.tv_sec) +
           1e-9 * (double)(now.tv_nsec - progress->start.tv_nsec);
}

void pen__progress_update(struct pen__progress *progress, uint64_t done,
                          uint64_t total, const char *note)
{
    if (!progress->is_terminal)
        return;
    double now = pen__progress_elapsed_sec(progress);
    if (now - progress->shown_sec < INTERVAL_SEC)
        return;
    progress->shown_sec = now;
    progress->is_shown = true;
    double rate = (double)done / now;
    struct pen_text line = PEN_TEXT_EMPTY;
    pen_text_add(&line, "\r\033[K%llu", (unsigned long long)done);
    if (total > 0)
        pen_text_add(&line, " of %llu", (unsigned long long)total);
    pen_text_add(&line, " %s, %.3g/s", progress->unit, rate);
    if (total > done && done > 0)
        pen_text_add(&line, ", %.1f s left", (double)(total - done) / rate);
    if (note != NULL)
        pen_text_add(&line, ": %s", note);
    fputs(pen_text_string(&line), stderr);
    fflush(stderr);
    pen_text_release(&line);
}

void pen__progress_finish(struct pen__progress *progress)
{
    if (progress->is_shown)
        fputs("\r\033[K", stderr);
    progress->is_shown = false;
}
