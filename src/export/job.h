#ifndef PEN_EXPORT_JOB_H
#define PEN_EXPORT_JOB_H

#include "export/export_internal.h"

/*
 * The files that start an exported plan: settings.sh, with what a user has to
 * fill in and the environment that the program needs, and job.sbatch, a job of
 * Slurm that reads it, checks it, starts the program and queues again until all
 * steps are done.
 */

/* How a program is started; the texts are lines of bash. */
struct pen__launch {
    const char *fill;        /* of settings.sh: what has to be filled in */
    const char *names;       /* those variables: "DATA LR" */
    const char *keep;        /* of settings.sh: what may stay as it is */
    const char *environment; /* the same, exported; "" */
    const char *last_step;   /* prints the last step with a checkpoint, or "" */
    const char *prepare;     /* before the start; "" */
    const char *program;     /* and its words, the last line without newline */
    bool has_torchrun;       /* one on each node starts its ranks */
    bool ends_early;         /* with exit code 0 when MINUTES are over */
};

/* Adds both files. The head is that of the exporter. */
void pen__export_add_job(const struct pen_export *exporter,
                         const struct pen_export_job *job,
                         const struct pen__launch *launch,
                         struct pen_export_files *out);

/*
 * Returns the launch of the plan's target; for torchtitan that of the newest
 * version.
 */
const struct pen__launch *pen__launch_of(const struct pen_plan *plan);

/* The launch of torchtitan 0.2.2, which reads another file. */
extern const struct pen__launch pen__launch_titan_022;

#endif
