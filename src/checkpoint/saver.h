#ifndef PEN_CHECKPOINT_SAVER_H
#define PEN_CHECKPOINT_SAVER_H

#include "base/status.h"
#include "base/text.h"

/*
 * One thread that writes checkpoints in the background: one job at a time,
 * while the main thread continues. A job never calls MPI and touches only its
 * context, which the main thread leaves alone until the job is over.
 *
 * All functions are for the one thread that created the saver.
 */
struct pen_saver;

enum pen_saver_state {
    PEN_SAVER_IDLE,
    PEN_SAVER_RUNNING,
    PEN_SAVER_DONE,  /* told once, then idle */
    PEN_SAVER_FAILED /* likewise; the reason is in why */
};

/* The job. It puts the reason into why when it fails. */
struct pen_saver_job {
    pen_status (*run)(void *context, struct pen_text *why);
    void *context;
};

/* Starts the thread. On success free with pen_saver_free(). */
pen_status pen_saver_create(struct pen_saver **out, struct pen_text *why);

/* Waits for a job that runs. */
void pen_saver_free(struct pen_saver *saver);

/*
 * Starts a job. The saver must be idle: the result of the last job has been
 * read.
 */
void pen_saver_start(struct pen_saver *saver, const struct pen_saver_job *job);

/* Never waits for the job. */
enum pen_saver_state pen_saver_poll(struct pen_saver *saver,
                                    struct pen_text *why);

/* Waits until the job is over; never answers PEN_SAVER_RUNNING. */
enum pen_saver_state pen_saver_wait(struct pen_saver *saver,
                                    struct pen_text *why);

#endif
