#ifndef PEN_RUNTIME_EXCHANGE_H
#define PEN_RUNTIME_EXCHANGE_H

#include "runtime/executor.h"
#include "runtime/phantom.h"

/*
 * Messages of ranks about weights, in addition to activations: sums of
 * gradients over logical replicas and members, the two ends of a tied matrix,
 * and the values of a sharded optimizer.
 */
struct pen_exchange;

struct pen_exchange_options {
    struct pen_transport *transport;
    struct pen_executor *executor;
    struct pen_layout layout;
    uint32_t num_per_step; /* micro-batches of a copy in a step */
    bool is_sharded;
    bool drops_gradients; /* of parameters that others own, layer by layer */
    uint32_t gathered_by; /* see reduction.h */
    bool is_fast;         /* see reduction.h, as the next */
    bool is_sparse;
    bool is_late;    /* no sum sets out before its stage is done */
    bool is_joint;   /* steps overlap and wait for all stages; see below */
    bool has_second; /* gradients of two steps are there at once */
    const struct pen_phantom *phantom; /* or NULL */
};

/* The stages are those of the executor. On failure *out is untouched. */
pen_status pen_exchange_create(const struct pen_exchange_options *options,
                               struct pen_exchange **out, struct pen_text *why);
void pen_exchange_free(struct pen_exchange *exchange);

size_t pen_exchange_bytes(const struct pen_exchange *exchange);

/* Whether this rank keeps the moments of a parameter and steps it. */
bool pen_exchange_owns(const struct pen_exchange *exchange, uint32_t stage,
                       size_t parameter);

/* Hooks of the executor: `stage` is one of its stages. */
void pen_exchange_poll(struct pen_exchange *exchange);
bool pen_exchange_is_busy(struct pen_exchange *exchange);
void pen_exchange_visit(struct pen_exchange *exchange,
                        const struct pen_stage *stage, uint32_t layer,
                        uint32_t next);
void pen_exchange_enter(struct pen_exchange *exchange,
                        const struct pen_stage *stage, uint32_t layer);
void pen_exchange_layer(struct pen_exchange *exchange,
                        const struct pen_stage *stage, uint32_t layer);
void pen_exchange_open(struct pen_exchange *exchange,
                       const struct pen_stage *stage, uint32_t number);
pen_status pen_exchange_gradient(struct pen_exchange *exchange,
                                 const struct pen_stage *stage,
                                 uint32_t number) PEN_MUST_CHECK;
void pen_exchange_sync(struct pen_exchange *exchange,
                       const struct pen_stage *stage);

/*
 * begin() comes before a pass of `steps` steps; finish(), after a pass of one
 * step, waits until all gradients are summed.
 */
void pen_exchange_begin(struct pen_exchange *exchange, uint32_t steps);
pen_status pen_exchange_finish(struct pen_exchange *exchange) PEN_MUST_CHECK;

/*
 * For one stage, where steps overlap: await() waits until its gradients are
 * summed, clear() clears them for the next step.
 */
pen_status pen_exchange_await(struct pen_exchange *exchange,
                              const struct pen_stage *stage) PEN_MUST_CHECK;
void pen_exchange_clear(struct pen_exchange *exchange,
                        const struct pen_stage *stage);

/*
 * Joint steps of a stage: the SYNC sets its gradients aside, where they are
 * summed while the next step's come in; polls advance all of it.
 *
 *   gradient  SYNC  ...  is_summed  lend, norm, give back  lend, step, done
 *
 * Lent gradients are those that the engine sees, until they are given back.
 * is_summed says whether those of a SYNC are whole; never waits.
 */
bool pen_exchange_is_summed(const struct pen_exchange *exchange,
                            const struct pen_stage *stage);
void pen_exchange_lend(struct pen_exchange *exchange,
                       const struct pen_stage *stage);
void pen_exchange_give_back(struct pen_exchange *exchange,
                            const struct pen_stage *stage);

/* Before and after the optimizer steps the stage with lent gradients. */
pen_status
pen_exchange_before_step(struct pen_exchange *exchange,
                         const struct pen_stage *stage) PEN_MUST_CHECK;
pen_status
pen_exchange_after_step(struct pen_exchange *exchange,
                        const struct pen_stage *stage) PEN_MUST_CHECK;

/* After a pass of joint steps: waits until all messages have left. */
pen_status pen_exchange_end(struct pen_exchange *exchange) PEN_MUST_CHECK;

/*
 * From here on waits look after messages by another executor of the same
 * stages.
 */
void pen_exchange_set_executor(struct pen_exchange *exchange,
                               struct pen_executor *executor);

/* After the optimizer: waits until all ranks have the new values. */
pen_status pen_exchange_values(struct pen_exchange *exchange) PEN_MUST_CHECK;

#endif
