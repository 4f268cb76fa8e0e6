#ifndef PEN_WATCH_LAUNCH_JOB_H
#define PEN_WATCH_LAUNCH_JOB_H

#include "watch/launch.h"

/*
 * Adds a name for one start of a job on this node, from variables that its
 * launcher sets. The name is the same on all ranks of the node, and differs
 * from that of any other job that runs here. Known before MPI_Init(). Adds
 * nothing to `out` where the launcher leaves no such name; `get` is as in
 * pen_launch_read().
 */
void pen_launch_job(const struct pen_launch *launch,
                    const char *(*get)(void *context, const char *name),
                    void *context, struct pen_text *out);

/* Like pen_launch_job(), from the environment of this process. */
void pen_launch_job_own(const struct pen_launch *launch, struct pen_text *out);

#endif
