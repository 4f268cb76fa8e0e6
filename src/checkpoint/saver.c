#include "checkpoint/saver.h"

#include "base/bug.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct pen_saver {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below; never held while a job runs */
    pthread_cond_t changed;
    enum pen_saver_state state;
    struct pen_saver_job job;
    struct pen_text reason;
    bool is_closed;
};

/* Runs the job outside the lock: it takes seconds. */
static void run_job(struct pen_saver *saver)
{
    struct pen_saver_job job = saver->job;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pthread_mutex_unlock(&saver->lock);
    pen_status status = job.run(job.context, &reason);
    if (status != PEN_OK && reason.length == 0)
        pen_why(&reason, "%s", pen_status_text(status));
    pthread_mutex_lock(&saver->lock);
    saver->state = status == PEN_OK ? PEN_SAVER_DONE : PEN_SAVER_FAILED;
    saver->reason = reason;
    pthread_cond_broadcast(&saver->changed);
}

static void *run(void *context)
{
    struct pen_saver *saver = context;
    pthread_mutex_lock(&saver->lock);
    for (;;) {
        if (saver->state == PEN_SAVER_RUNNING)
            run_job(saver);
        else if (saver->is_closed)
            break;
        else
            pthread_cond_wait(&saver->changed, &saver->lock);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

pen_status pen_saver_create(struct pen_saver **out, struct pen_text *why)
{
    struct pen_saver *saver = calloc(1, sizeof *saver);
    if (saver == NULL) {
        pen_why(why, "no memory for the thread that writes checkpoints");
        return PEN_NOMEM;
    }
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    int failed = pthread_create(&saver->thread, NULL, run, saver);
    if (failed == 0) {
        *out = saver;
        return PEN_OK;
    }
    pen_why(why, "cannot start the thread that writes checkpoints: %s",
            strerror(failed));
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    free(saver);
    return PEN_NOMEM;
}

void pen_saver_free(struct pen_saver *saver)
{
    if (saver == NULL)
        return;
    pthread_mutex_lock(&saver->lock);
    saver->is_closed = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    pthread_join(saver->thread, NULL);
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    pen_text_release(&saver->reason);
    free(saver);
}

void pen_saver_start(struct pen_saver *saver, const struct pen_saver_job *job)
{
    pthread_mutex_lock(&saver->lock);
    PEN_BUG_UNLESS(saver->state == PEN_SAVER_IDLE);
    saver->state = PEN_SAVER_RUNNING;
    saver->job = *job;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

/* Returns the state and the reason; the lock is held. */
static enum pen_saver_state read_state(struct pen_saver *saver,
                                       struct pen_text *why)
{
    enum pen_saver_state state = saver->state;
    if (state == PEN_SAVER_RUNNING)
        return state;
    if (state == PEN_SAVER_FAILED)
        pen_why(why, "%s", pen_text_string(&saver->reason));
    pen_text_release(&saver->reason);
    saver->state = PEN_SAVER_IDLE;
    return state;
}

enum pen_saver_state pen_saver_poll(struct pen_saver *saver,
                                    struct pen_text *why)
{
    pthread_mutex_lock(&saver->lock);
    enum pen_saver_state state = read_state(saver, why);
    pthread_mutex_unlock(&saver->lock);
    return state;
}

enum pen_saver_state pen_saver_wait(struct pen_saver *saver,
                                    struct pen_text *why)
{
    pthread_mutex_lock(&saver->lock);
    while (saver->state == PEN_SAVER_RUNNING)
        pthread_cond_wait(&saver->changed, &saver->lock);
    enum pen_saver_state state = read_state(saver, why);
    pthread_mutex_unlock(&saver->lock);
    return state;
}
