#ifndef PEN_WATCH_LAUNCH_JOB_H
#define PEN_WATCH_LAUNCH_JOB_H

#include "watch/launch.h"

/*
 * A name for one start of a job on this node, from what its launcher has left
 * in the environment: the same on all ranks of the node, and of no other job
 * that runs here. Known before MPI_Init(). Adds nothing to `out` where the
 * launcher leaves no such name; `get` is as in pen_launch_read().
 */
void pen_launch_job(const struct pen_launch *launch,
                    const char *(*get)(void *context, const char *name),
                    void *context, struct pen_text *out);

/* The same of this process's environment. */
void pen_launch_job_own(const struct pen_launch *launch, struct pen_text *out);

#endif
