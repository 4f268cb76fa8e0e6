#ifndef PEN_RUNTIME_EXECUTOR_INTERNAL_H
#define PEN_RUNTIME_EXECUTOR_INTERNAL_H

#include "runtime/executor.h"
#include "runtime/guests.h"
#include "runtime/mailbox.h"

/*
 * A stage of the row: the weights that it uses, and where its messages come
 * from and go to; NULL at the ends.
 */
struct pen__routes {
    uint32_t stage; /* number in the schedule */
    uint32_t home;  /* index of the stage that keeps its weights */
    struct pen_mailbox *act_in;
    struct pen_mailbox *act_out;
    struct pen_mailbox *grad_in;
    struct pen_mailbox *grad_out;
    uint32_t last_gradient; /* position of the last op with a weight gradient */
};

struct pen_executor {
    struct pen_executor_options options;
    const struct pen_row *row;
    struct pen_stage *stages;
    uint32_t num_stages;
    struct pen__routes *routes; /* per stage that the row has ops of */
    uint32_t num_routes;
    struct pen_mailbox **mailboxes;
    uint32_t num_mailboxes;
    struct pen_guests *guests; /* NULL: nothing is evicted */
    uint32_t *gates;           /* of all rows; see schedule.h */
    struct pen_batch whole;    /* what slices are cut out of; NULL: none are */

    /* State of the op that runs. */
    struct pen_pass *pass;
    uint32_t position;
    int64_t ready_ns;
    int64_t waited_ns;         /* since then */
    struct pen_stage *last_of; /* its last weight gradient is being computed */
};

/* Tokens of a micro-batch. */
static inline size_t
pen__executor_num_tokens(const struct pen_executor *executor)
{
    return executor->options.micro_batch * executor->options.sample.num_ids;
}

/* executor_room.c: makes everything; see pen_executor_create(). */
pen_status pen__executor_make_room(struct pen_executor *executor,
                                   struct pen_text *why);

/*
 * Index of a stage of this rank among the routes; and the stage that keeps its
 * weights.
 */
uint32_t pen__executor_find(const struct pen_executor *executor,
                            uint32_t stage);
struct pen_stage *pen__executor_home(const struct pen_executor *executor,
                                     uint32_t route);

#endif
