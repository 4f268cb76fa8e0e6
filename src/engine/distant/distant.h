#ifndef PEN_ENGINE_DISTANT_DISTANT_H
#define PEN_ENGINE_DISTANT_DISTANT_H

#include "engine/engine.h"

#include <pthread.h>

/*
 * The distant engine: the reference engine as a device would be, for tests.
 *
 *   host                          queue                   worker, a thread
 *   linear_forward(...)  ----->  | command | command | --->  reference engine
 *   mark, is_reached     <-----------------------------  commands finished
 *
 * The engine's own memory lies in two ranges of addresses of equal length. The
 * host gets addresses of the first, which is mapped without any access: a read
 * or write there ends with SIGSEGV. The worker adds `offset` to get to the
 * second, where the bytes are.
 *
 * The queue runs late: the worker begins when the host asks for a mark, or the
 * queue is full. Therefore bytes that the host reads, or changes, before it has
 * waited for a mark are wrong in every run and not in one of a thousand. An
 * address that is neither the engine's nor in staging is a fault.
 */
enum { PEN__DISTANT_POINTERS = 9, PEN__DISTANT_QUEUE = 256 };

struct pen__distant;

struct pen__command {
    void (*run)(struct pen_engine *inner, const struct pen__command *command);
    union {
        struct pen_linear linear;
        struct pen_embedding embedding;
        struct pen_norm norm;
        struct pen_swiglu swiglu;
        struct pen_rotary rotary;
        struct pen_attention attention;
        struct pen_cross_entropy entropy;
        struct pen_adamw adamw;
        struct pen_sgd sgd;
        struct pen_muon muon;
        struct pen_convolution convolution;
        struct pen_pool pool;
        struct pen_batch_norm batch_norm;
    } about;
    struct pen_parameter *parameter;
    enum pen_parameter_part part;
    int number;
    size_t first;
    size_t count;
    void *at[PEN__DISTANT_POINTERS]; /* as the worker reaches them */
};

/* Staging memory that was handed out. */
struct pen__staged {
    char *block;
    size_t bytes;
};

struct pen__distant {
    struct pen_engine engine;
    struct pen_engine_ops ops;
    struct pen_engine *inner;

    char *shown; /* addresses that the host gets */
    char *held;  /* the same bytes, as the worker reaches them */
    size_t used;

    struct pen__staged *staged;
    size_t num_staged;
    size_t capacity; /* of staged */

    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pen__command queue[PEN__DISTANT_QUEUE];
    uint64_t num_put;
    uint64_t num_done;
    uint64_t num_wanted; /* the worker runs as far as this */
    bool is_ending;
    const char *fault; /* NULL: none */
};

/*
 * distant.c: begins a command in the queue, which the caller fills in and puts.
 */
struct pen__command *pen__distant_begin(
    struct pen_engine *engine,
    void (*run)(struct pen_engine *, const struct pen__command *));
void pen__distant_put(struct pen_engine *engine);

/* Returns the address as the worker reaches it; NULL stays NULL. */
void *pen__distant_reach(struct pen_engine *engine, const void *address);

/* Waits until the queue is empty. */
void pen__distant_drain(struct pen_engine *engine);

/* memory.c */
bool pen__distant_map(struct pen__distant *self);
void pen__distant_unmap(struct pen__distant *self);
void *pen__distant_take(struct pen_engine *engine, enum pen_place place,
                        size_t bytes);
void pen__distant_give(struct pen_engine *engine, enum pen_place place,
                       void *block, size_t bytes);

/* operations.c */
extern const struct pen_engine_ops pen__distant_ops;

/* distant.c, of the table */
void pen__distant_free(struct pen_engine *engine);
uint64_t pen__distant_mark(struct pen_engine *engine);
bool pen__distant_is_reached(struct pen_engine *engine, uint64_t mark);
const char *pen__distant_fault(struct pen_engine *engine);

#endif
