#ifndef PEN_CLI_REPORT_RUN_H
#define PEN_CLI_REPORT_RUN_H

#include "view/advice.h"

#include <stdbool.h>

/* The parts of one RUN of penstock report; all owned but the path. */
struct pen__report_run {
    const char *path;
    struct pen_text label; /* in tables and legends */
    struct pen_run *log;   /* NULL: there is none, as below */
    struct pen_view *view;
    struct pen_run_ranks *ranks;
    struct pen_run_events *events; /* of penstock supervise */
    struct pen_spent spent;        /* of the view */
    struct pen_text trace_fault;   /* why a trace that is there is not shown */
    struct pen_summary summary;
    struct pen_advices advices;
};

/*
 * Loads a folder of `penstock train --run`, a run log, or the folder of a
 * trace. Events of a supervisor are those in the folder, or in the folder of
 * --save that the log names. The trace of a killed run may be useless, and is
 * then left out, as are events that cannot be read; any other error is refused.
 * Release in any case.
 */
pen_status pen__report_run_load(struct pen__report_run *run, const char *path,
                                struct pen_text *why);
void pen__report_run_release(struct pen__report_run *run);

/* Returns the run's parts, borrowed from it. */
struct pen_run_parts pen__report_run_parts(const struct pen__report_run *run);

/*
 * Labels the runs by the last names of their paths, as many as make them
 * differ.
 */
void pen__report_name_runs(struct pen__report_run *runs, size_t count);

#endif
