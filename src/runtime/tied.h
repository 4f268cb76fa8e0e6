#ifndef PEN_RUNTIME_TIED_H
#define PEN_RUNTIME_TIED_H

#include "runtime/executor.h"
#include "runtime/gradients.h"

/*
 * A matrix that the first and the last stage of a model share. The last one
 * trains it:
 *
 *   first stage   gathered gradient  ---->  joins that of the last stage
 *                 value              <----  after the optimizer
 *
 * Either end, or both, may be on this rank. Gradients are handed over for
 * every logical replica of a copy of the model, into buffers for which the last
 * stage has posted receives before it began.
 */
struct pen_tied;

struct pen_tied_options {
    struct pen_transport *transport;
    struct pen_executor *executor; /* to wait with */
    struct pen_layout layout;
    uint32_t copy;                   /* of the model */
    struct pen_network *head;        /* NULL: on another rank */
    struct pen_network *embedding;   /* NULL: likewise */
    struct pen_gradients *gradients; /* of the head */
};

/* On failure *out is untouched. */
pen_status pen_tied_create(const struct pen_tied_options *options,
                           struct pen_tied **out);
void pen_tied_free(struct pen_tied *tied);

/* From here on waits with another executor. */
void pen_tied_set_executor(struct pen_tied *tied,
                           struct pen_executor *executor);

size_t pen_tied_bytes(const struct pen_tied *tied);

bool pen_tied_is_head(const struct pen_tied *tied,
                      const struct pen_network *network);
bool pen_tied_is_embedding(const struct pen_tied *tied,
                           const struct pen_network *network);

/* The copy of the model whose ends it ties. */
uint32_t pen_tied_copy(const struct pen_tied *tied);

/* Before a pass of `steps` steps. */
void pen_tied_begin(struct pen_tied *tied, uint32_t steps);

/* The embedding has gathered the gradient of a logical replica. */
pen_status pen_tied_hand_over(struct pen_tied *tied,
                              uint32_t replica) PEN_MUST_CHECK;

/*
 * The head has the gradients of all logical replicas of a step; never waits.
 * Then they join, and the receives of the next step of the pass are posted.
 */
bool pen_tied_has_come(struct pen_tied *tied);
pen_status pen_tied_join(struct pen_tied *tied) PEN_MUST_CHECK;

/*
 * After the optimizer: first all ranks that send, then all that receive, which
 * wait. Before the head's value changes again, the value that it sent must have
 * left.
 */
void pen_tied_send_value(struct pen_tied *tied);
pen_status pen_tied_take_value(struct pen_tied *tied) PEN_MUST_CHECK;
pen_status pen_tied_await_sent(struct pen_tied *tied) PEN_MUST_CHECK;

#endif
