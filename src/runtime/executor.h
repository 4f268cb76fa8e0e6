#ifndef PEN_RUNTIME_EXECUTOR_H
#define PEN_RUNTIME_EXECUTOR_H

#include "runtime/inner.h"
#include "runtime/layout.h"
#include "runtime/message_code.h"
#include "runtime/stage.h"
#include "runtime/transport.h"
#include "schedule/costs.h"

/*
 * Carries out the row of a rank, operation by operation, and knows nothing
 * else: which schedule it is, where it came from and what it is good for. One
 * pass over the row is one step of a synchronous schedule.
 *
 * Everything a pass needs is made beforehand from the row: stashes, holds,
 * buffers for messages. A message leaves at its send operation; receives are
 * posted ahead of their place, in their order; the executor polls messages
 * between operations, between layers, and while waiting.
 */
struct pen_executor;

/*
 * Calls of the executor to the code that knows about weights. All get
 * `context`; all may be NULL. `poll` is called wherever messages are polled.
 */
struct pen_executor_hooks {
    void *context;
    void (*poll)(void *context);
    /* Whether `poll` has work that must not wait. */
    bool (*is_busy)(void *context);
    /* Before a compute op: chooses the weights. Returns their version. */
    uint32_t (*use)(void *context, struct pen_stage *stage,
                    const struct pen_op *op, uint32_t version);
    void (*unuse)(void *context, struct pen_stage *stage,
                  const struct pen_op *op);
    /* A layer of a stage is about to read its values, and `next` is the one
     * after it in the same op. */
    void (*visit)(void *context, struct pen_stage *stage, uint32_t layer,
                  uint32_t next);
    /* A layer of a stage is about to add its weight gradient. */
    void (*enter)(void *context, struct pen_stage *stage, uint32_t layer);
    /* A layer of a stage has its last weight gradient of the step. */
    void (*layer)(void *context, struct pen_stage *stage, uint32_t layer);
    /* A stage is about to add the weight gradient of a micro-batch, and has
     * added it. Its number is that among those of the member and the step. */
    void (*open)(void *context, struct pen_stage *stage, uint32_t number);
    pen_status (*gradient)(void *context, struct pen_stage *stage,
                           uint32_t number);
    void (*sync)(void *context, struct pen_stage *stage);
    pen_status (*step)(void *context, struct pen_stage *stage,
                       uint32_t version);
    /* At the gate of a gated pass: whether its ops so far were in vain and
     * were taken back (pen_executor_rewind), so that it begins again. */
    pen_status (*validate)(void *context, bool *is_again, struct pen_text *why);
    /*
     * An op begins; the rank is about to wait for a rank (PEN_NO_RANK: for
     * all); it resumes.
     */
    void (*op)(void *context, uint64_t pass, uint32_t position);
    void (*wait)(void *context, uint32_t rank);
    void (*resume)(void *context);
    /* An op is over; times of CLOCK_MONOTONIC in ns. */
    void (*done)(void *context, uint64_t pass, uint32_t position, int64_t begin,
                 int64_t ready, int64_t end);
};

#define PEN_NO_RANK UINT32_MAX
#define PEN_OTHER_ISLANDS (UINT32_MAX - 1) /* no rank of this job */

struct pen_executor_options {
    struct pen_transport *transport;
    const struct pen_schedule *schedule; /* lowered and verified; borrowed */
    struct pen_layout layout;
    struct pen_sample_shape sample;
    size_t micro_batch;            /* samples */
    uint32_t num_per_step;         /* micro-batches of a copy in a step */
    uint64_t step_samples;         /* of all replicas in a step */
    double step_targets;           /* by which losses are divided */
    struct pen_message_code code;  /* of messages between ranks */
    const struct pen_cost *sleeps; /* by part: operations only wait; or NULL */
    struct pen_inner *inner; /* messages that they send meanwhile; or NULL */
    bool is_phantom;         /* messages have no contents (phantom.h) */
    bool is_blocking;        /* a sender waits until the bytes have left */
    bool joins_pairs; /* an F and a B of one group are one operation: it begins
                         when both can */
    struct pen_executor_hooks hooks;
};

/*
 * Stages of this rank, in the order of their numbers, with their networks or,
 * to sleep, their sizes; reads_data and has_head are set. The executor owns
 * the array from here on, also on failure.
 */
pen_status pen_executor_create(const struct pen_executor_options *options,
                               struct pen_stage *stages, uint32_t num_stages,
                               struct pen_executor **out, struct pen_text *why);
void pen_executor_free(struct pen_executor *executor);

/* Bytes of stashes, holds and messages. */
size_t pen_executor_bytes(const struct pen_executor *executor);

uint32_t pen_executor_num_stages(const struct pen_executor *executor);
struct pen_stage *pen_executor_stage(struct pen_executor *executor,
                                     uint32_t index);

/* Outputs of a layer for one micro-batch, or their gradient. */
struct pen_observed {
    bool is_backward;
    uint32_t layer;        /* as the model counts them */
    uint64_t first_sample; /* of the micro-batch, in the step */
    uint32_t slice;
    const void *numbers; /* in the engine's memory */
};

struct pen_pass {
    uint64_t number;       /* from 1 */
    uint64_t first_sample; /* of the pass */
    struct pen_batches *batches;
    bool is_evaluation;
    bool measures;        /* an evaluation that changes running statistics */
    uint64_t num_samples; /* of an evaluation; rows after them do not count */
    double num_targets;   /* by which its losses are divided */
    double
        *losses; /* out: per micro-batch of the schedule, where the head is */
    /* Called with the logits of an evaluation; may be NULL. */
    void (*scored)(void *context, const struct pen_stage *stage,
                   const void *stash, const struct pen_batch *batch);
    /*
     * Called after the forward of a stage, with its stash and output; may be
     * NULL.
     */
    void (*computed)(void *context, const struct pen_stage *stage,
                     const void *stash, const void *y, double loss);
    void *context; /* of both */
    /* Called once with each output and gradient, as it is made; may be NULL. */
    void (*observed)(void *observer, const struct pen_observed *it);
    void *observer;
    bool takes_steps; /* STEP ops call the hook; else the caller runs and
                         reports them after the pass */
    bool is_gated;    /* the step before is to be validated on the way */
    bool is_chained;  /* returns while messages may still be under way */
    int64_t wait_ns;  /* out: spent waiting */
    int64_t busy_ns;  /* out: spent in compute ops */
};

/*
 * INVALID when a sample is wrong: the other ranks then wait forever. LOST when
 * a rank is: the pass has ended in the middle, and so have those of the others.
 */
pen_status pen_executor_run(struct pen_executor *executor,
                            struct pen_pass *pass, struct pen_text *why);

/* After a chained pass: waits until its messages have left. */
pen_status pen_executor_finish(struct pen_executor *executor) PEN_MUST_CHECK;

/* In a gated pass: the last step is valid, more than forwards may come. */
void pen_executor_open(struct pen_executor *executor);

/*
 * In a gated pass, at the gate of all ranks: throws away the pass so far, and
 * waits until no message of it is under way.
 */
pen_status pen_executor_rewind(struct pen_executor *executor) PEN_MUST_CHECK;

/* Looks after messages once. */
void pen_executor_poll(struct pen_executor *executor);

/*
 * Looks after messages until is_done() says so, or a rank is lost: PEN_OK or
 * PEN_LOST. `rank` is the one that is waited for.
 */
pen_status pen_executor_wait(struct pen_executor *executor,
                             bool (*is_done)(void *context), void *context,
                             uint32_t rank) PEN_MUST_CHECK;

/* In place of an operation: waits `seconds`, and looks after messages. */
void pen_executor_sleep(struct pen_executor *executor, double seconds);

#endif
