#include "holder/copier.h"

#include "base/bug.h"
#include "base/crc32c.h"
#include "holder/shard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* A block that is being made. */
struct block {
    char *at;
    char *end;
    uint32_t check;
};

/* Adds the bytes from here to the end of the piece or block. */
static void add_piece(struct block *block, const struct pen_copier_piece *piece)
{
    size_t done = (size_t)(block->at - piece->to);
    size_t left = piece->num_bytes - done;
    size_t room = (size_t)(block->end - block->at);
    size_t count = left < room ? left : room;
    const char *from = (const char *)piece->from + done;
    block->check = pen_crc32c_copy(block->check, block->at, from, count);
    block->at += count;
}

/* Adds the bytes that are in the slot already, up to the next piece. */
static void add_gap(struct block *block, const char *end)
{
    const char *stop = end < block->end ? end : block->end;
    if (stop <= block->at)
        return;
    size_t count = (size_t)(stop - block->at);
    block->check = pen_crc32c_more(block->check, block->at, count);
    block->at += count;
}

/* Returns the first piece that ends after a place. */
static size_t find_piece(const struct pen_copier_job *job, const char *at)
{
    size_t low = 0;
    size_t high = job->num_pieces;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct pen_copier_piece *it = &job->pieces[middle];
        if (it->to + it->num_bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t make_block(const struct pen_copier_job *job, size_t number)
{
    char *slot_end = job->slot + job->slot_bytes;
    char *begin = job->slot + number * PEN_SHARD_BLOCK_BYTES;
    size_t left = (size_t)(slot_end - begin);
    struct block block = {.at = begin, .end = slot_end};
    if (left > PEN_SHARD_BLOCK_BYTES)
        block.end = begin + PEN_SHARD_BLOCK_BYTES;
    for (size_t i = find_piece(job, begin); block.at < block.end; i++) {
        bool is_last = i >= job->num_pieces;
        add_gap(&block, is_last ? slot_end : job->pieces[i].to);
        if (block.at < block.end)
            add_piece(&block, &job->pieces[i]);
    }
    return block.check;
}

/* ---- the thread ---- */

#define LOWEST_PRIORITY 19

enum state { IDLE, BEGUN, COPYING, CLOSED };

struct pen_copier {
    pthread_t thread;
    pthread_mutex_t lock; /* guards the next two */
    pthread_cond_t changed;
    enum state state; /* of the thread */
    bool is_done;     /* `done` has run, or there is no job */
    struct pen_copier_job job;
    size_t num_blocks;
    _Atomic size_t next;   /* the first block that is not taken */
    _Atomic size_t copied; /* blocks */
};

static void take_blocks(struct pen_copier *copier)
{
    size_t i;
    while ((i = atomic_fetch_add(&copier->next, 1)) < copier->num_blocks) {
        copier->job.checks[i] = make_block(&copier->job, i);
        atomic_fetch_add(&copier->copied, 1);
    }
}

/* Ends the job with its last copying thread. The lock is held. */
static void end_job(struct pen_copier *copier)
{
    if (copier->is_done || atomic_load(&copier->copied) < copier->num_blocks)
        return;
    copier->job.done(copier->job.context);
    copier->is_done = true;
}

static void *run(void *context)
{
    struct pen_copier *copier = context;
    setpriority(PRIO_PROCESS, 0, LOWEST_PRIORITY);
    pthread_mutex_lock(&copier->lock);
    while (copier->state != CLOSED) {
        if (copier->state == IDLE) {
            pthread_cond_wait(&copier->changed, &copier->lock);
            continue;
        }
        copier->state = COPYING;
        pthread_mutex_unlock(&copier->lock);
        take_blocks(copier);
        pthread_mutex_lock(&copier->lock);
        copier->state = IDLE;
        end_job(copier);
        pthread_cond_broadcast(&copier->changed);
    }
    pthread_mutex_unlock(&copier->lock);
    return NULL;
}

static int start_thread(struct pen_copier *copier)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&copier->thread, NULL, run, copier);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

pen_status pen_copier_create(struct pen_copier **out, struct pen_text *why)
{
    struct pen_copier *copier = calloc(1, sizeof *copier);
    if (copier == NULL)
        return PEN_NOMEM;
    copier->is_done = true;
    pthread_mutex_init(&copier->lock, NULL);
    pthread_cond_init(&copier->changed, NULL);
    int error = start_thread(copier);
    if (error == 0) {
        *out = copier;
        return PEN_OK;
    }
    pen_why(why, "cannot start the thread that keeps steps in memory: %s",
            strerror(error));
    pthread_cond_destroy(&copier->changed);
    pthread_mutex_destroy(&copier->lock);
    free(copier);
    return PEN_NOMEM;
}

void pen_copier_free(struct pen_copier *copier)
{
    if (copier == NULL)
        return;
    pen_copier_finish(copier);
    pthread_mutex_lock(&copier->lock);
    copier->state = CLOSED;
    pthread_cond_broadcast(&copier->changed);
    pthread_mutex_unlock(&copier->lock);
    pthread_join(copier->thread, NULL);
    pthread_cond_destroy(&copier->changed);
    pthread_mutex_destroy(&copier->lock);
    free(copier);
}

void pen_copier_begin(struct pen_copier *copier,
                      const struct pen_copier_job *job)
{
    pthread_mutex_lock(&copier->lock);
    PEN_BUG_UNLESS(copier->is_done && copier->state == IDLE);
    copier->job = *job;
    copier->num_blocks = pen_shard_num_blocks(job->slot_bytes);
    atomic_store(&copier->next, 0);
    atomic_store(&copier->copied, 0);
    copier->is_done = false;
    copier->state = BEGUN;
    pthread_mutex_unlock(&copier->lock);
    pthread_cond_broadcast(&copier->changed);
}

void pen_copier_help(struct pen_copier *copier)
{
    take_blocks(copier);
}

void pen_copier_finish(struct pen_copier *copier)
{
    pthread_mutex_lock(&copier->lock);
    if (copier->state == BEGUN) /* it has not run yet, and need not */
        copier->state = IDLE;
    pthread_mutex_unlock(&copier->lock);
    take_blocks(copier);
    pthread_mutex_lock(&copier->lock);
    while (copier->state == COPYING)
        pthread_cond_wait(&copier->changed, &copier->lock);
    end_job(copier);
    PEN_BUG_UNLESS(copier->is_done);
    pthread_mutex_unlock(&copier->lock);
}
