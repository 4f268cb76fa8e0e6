#ifndef PEN_SCHEDULE_GENERATORS_ZB_LINE_H
#define PEN_SCHEDULE_GENERATORS_ZB_LINE_H

#include "schedule/generators/generator.h"
#include "schedule/generators/stage_costs.h"

/*
 * The ledger of the zero-bubble schedulers: rows that grow op by op, with the
 * clock, the memory and the idle time of every rank. Forwards and input
 * gradients of a stage keep the order of micro-batches; weight gradients of a
 * rank keep the order of its input gradients.
 */
struct pen__zb_rank {
    int64_t clock;
    int64_t start;  /* of the first forward */
    int64_t bubble; /* idle ticks after the first forward */
    int64_t memory;
    struct pen_op *row;
    uint32_t count;
    struct pen_op *inputs; /* weight gradients are due in this order */
    uint32_t num_inputs;
    uint32_t num_weights;
};

struct pen__zb_line {
    struct pen_shape shape;
    const struct pen__stage_cost *costs; /* per stage */
    int64_t limit;                       /* of memory, per rank */
    int64_t most_bubble;                 /* of any rank so far */
    bool has_failed; /* an op had no input or no room: start anew */
    struct pen__zb_rank *ranks;
    uint32_t *forwards; /* per stage: done */
    uint32_t *inputs;
    int64_t *forward_ends; /* per stage and micro-batch */
    int64_t *input_ends;
    struct pen_op *ops; /* what the rows point into */
};

#define PEN__ZB_NEVER INT64_MAX

/* Costs are borrowed. Release also after a failure. */
pen_status pen__zb_init(struct pen__zb_line *line,
                        const struct pen_shape *shape,
                        const struct pen__stage_cost *costs, int64_t limit);
void pen__zb_release(struct pen__zb_line *line);
void pen__zb_restart(struct pen__zb_line *line);

/*
 * Return when the input of the stage's next op arrives; PEN__ZB_NEVER: unknown.
 */
int64_t pen__zb_forward_arrival(const struct pen__zb_line *line,
                                uint32_t stage);
int64_t pen__zb_input_arrival(const struct pen__zb_line *line, uint32_t stage);

/* Put the next forward or input gradient of the stage, as early as possible. */
void pen__zb_put_forward(struct pen__zb_line *line, uint32_t stage);
void pen__zb_put_input(struct pen__zb_line *line, uint32_t stage);

/* Find and put the oldest weight gradient that is due. */
bool pen__zb_has_weight(const struct pen__zb_line *line, uint32_t rank);
void pen__zb_put_weight(struct pen__zb_line *line, uint32_t rank);

/* Puts weight gradients while `need` more would exceed the limit. */
void pen__zb_make_room(struct pen__zb_line *line, uint32_t rank, int64_t need);

/* Puts weight gradients that end before `arrival`; nothing waits for them. */
void pen__zb_fill(struct pen__zb_line *line, uint32_t rank, int64_t arrival);

/* Puts all weight gradients that are left. */
void pen__zb_finish(struct pen__zb_line *line);

/* Refuses weight gradients that add memory. */
pen_status pen__zb_require_memory(const char *name,
                                  const struct pen_memory *memory,
                                  struct pen_text *why);

/*
 * Returns the memory that must be free before a forward: I must fit after it,
 * too.
 */
int64_t pen__zb_forward_need(const struct pen__stage_cost *cost);

/* Writes the rows. */
void pen__zb_build(const struct pen__zb_line *line,
                   struct pen__builder *builder);

#endif
