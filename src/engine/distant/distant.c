/* The queue, and the thread that runs it. */
#include "engine/distant/distant.h"

#include <signal.h>
#include <stdlib.h>

static struct pen__distant *self_of(struct pen_engine *engine)
{
    return (struct pen__distant *)engine;
}

static bool has_work(const struct pen__distant *self)
{
    return self->fault == NULL && self->num_done < self->num_wanted;
}

static void *work(void *context)
{
    struct pen__distant *self = context;
    pthread_mutex_lock(&self->lock);
    while (!self->is_ending || has_work(self)) {
        if (!has_work(self)) {
            pthread_cond_wait(&self->changed, &self->lock);
            continue;
        }
        const struct pen__command *command =
            &self->queue[self->num_done % PEN__DISTANT_QUEUE];
        pthread_mutex_unlock(&self->lock);
        command->run(self->inner, command);
        pthread_mutex_lock(&self->lock);
        self->num_done++;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* Asks for a mark; the lock is held. */
static void want(struct pen__distant *self, uint64_t mark)
{
    if (mark > self->num_wanted) {
        self->num_wanted = mark;
        pthread_cond_broadcast(&self->changed);
    }
}

struct pen__command *pen__distant_begin(
    struct pen_engine *engine,
    void (*run)(struct pen_engine *, const struct pen__command *))
{
    struct pen__distant *self = self_of(engine);
    pthread_mutex_lock(&self->lock);
    while (self->num_put - self->num_done == PEN__DISTANT_QUEUE &&
           self->fault == NULL) {
        want(self, self->num_put);
        pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    struct pen__command *command =
        &self->queue[self->num_put % PEN__DISTANT_QUEUE];
    *command = (struct pen__command){.run = run};
    return command;
}

void pen__distant_put(struct pen_engine *engine)
{
    struct pen__distant *self = self_of(engine);
    pthread_mutex_lock(&self->lock);
    self->num_put++;
    pthread_mutex_unlock(&self->lock);
}

uint64_t pen__distant_mark(struct pen_engine *engine)
{
    return self_of(engine)->num_put;
}

bool pen__distant_is_reached(struct pen_engine *engine, uint64_t mark)
{
    struct pen__distant *self = self_of(engine);
    pthread_mutex_lock(&self->lock);
    want(self, mark);
    bool is_reached = self->num_done >= mark;
    pthread_mutex_unlock(&self->lock);
    return is_reached;
}

const char *pen__distant_fault(struct pen_engine *engine)
{
    struct pen__distant *self = self_of(engine);
    pthread_mutex_lock(&self->lock);
    const char *fault = self->fault;
    pthread_mutex_unlock(&self->lock);
    return fault;
}

void pen__distant_drain(struct pen_engine *engine)
{
    struct pen__distant *self = self_of(engine);
    pthread_mutex_lock(&self->lock);
    want(self, self->num_put);
    while (has_work(self))
        pthread_cond_wait(&self->changed, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

/* ---- making ---- */

/* Signals are for the threads that the host has. */
static bool start_worker(struct pen__distant *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&self->worker, NULL, work, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

static void end_worker(struct pen__distant *self)
{
    pthread_mutex_lock(&self->lock);
    self->is_ending = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->worker, NULL);
}

void pen__distant_free(struct pen_engine *engine)
{
    struct pen__distant *self = self_of(engine);
    end_worker(self);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    pen_engine_free(self->inner);
    pen__distant_unmap(self);
    free(self);
}

pen_status pen_engine_distant_create(enum pen_precision dtype, int threads,
                                     struct pen_text *why,
                                     struct pen_engine **out)
{
    struct pen__distant *self = calloc(1, sizeof *self);
    (void)threads;
    if (self == NULL)
        return PEN_NOMEM;
    pen_status status = pen_engine_reference_create(dtype, why, &self->inner);
    if (status != PEN_OK)
        goto fail_self;
    self->ops = pen__distant_ops;
    self->ops.parameter_shape = self->inner->ops->parameter_shape;
    self->engine =
        (struct pen_engine){.ops = &self->ops, .dtype = dtype, .threads = 1};
    status = PEN_NOMEM;
    if (!pen__distant_map(self))
        goto fail_map;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    if (!start_worker(self))
        goto fail_locks;
    *out = &self->engine;
    return PEN_OK;

fail_locks:
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
fail_map:
    pen_why(why, "no memory for the distant engine");
    pen__distant_unmap(self);
    pen_engine_free(self->inner);
fail_self:
    free(self);
    return status;
}
