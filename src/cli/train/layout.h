#ifndef PEN_CLI_TRAIN_LAYOUT_H
#define PEN_CLI_TRAIN_LAYOUT_H

#include "cli/train/options.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "schedule/time.h"

/*
 * How a training is spread over ranks: the schedule and the layers of its
 * stages, from the options.
 */
struct pen__train_layout {
    struct pen_plan *plan;         /* NULL: the options alone decide */
    struct pen_schedule *schedule; /* lowered */
    struct pen_layer_range *parts;
    uint32_t num_ranks;   /* of all pipelines */
    struct pen_mesh mesh; /* of them, where there is a schedule */
    uint32_t num_shares;  /* of --replica-shares; 0: not given */
    uint32_t shares[PEN_MAX_REPLICATED]; /* logical replicas of each replica */
    uint32_t num_logical;                /* of all of them */
    bool has_costs;                      /* as below */
    struct pen_costs costs;              /* of the schedule, as predicted */
    struct pen_costs sleeps; /* of ranks inside layers that only wait, */
    struct pen_inner_messages *inner; /* and what they send; NULL: no such */
    struct pen_message_round *copies; /* of all of these, layer by layer */
    double predicted_bubble;          /* NaN: not known */
    double predicted_sec;             /* of a step, with a profile; else NaN */

    /* Where steps overlap: a pass has several, and then the pipeline drains. */
    bool is_asynchronous;
    enum pen_correction correction;
    bool is_tied;                  /* first and last stage share a matrix */
    uint64_t most_steps;           /* of a pass, that of the schedule above */
    uint64_t pass_steps;           /* of the coming one */
    uint32_t overlapping_steps;    /* at once; 1 where they do not */
    struct pen_schedule **shorter; /* of shorter passes, all that were made */
    size_t num_shorter;
};

/*
 * The schedule is that of the replica of args->rank, whose micro-batches are
 * others than those of the next one where shares are uneven.
 *
 * A plan sets options in args, and so does the schedule where --clip-grad is
 * not given; with --check a plan may also be for more ranks than the one that
 * there is, and with --move for fewer. On success release it.
 */
pen_status pen__train_layout_init(struct pen__train_layout *layout,
                                  struct pen__train_args *args,
                                  const struct pen_any_model *model,
                                  uint32_t sequence, uint32_t num_ranks,
                                  struct pen_text *why);

/*
 * The options of a trainer of this layout, except threads, transports and
 * hooks, which the caller sets. Borrows from all arguments.
 */
struct pen_trainer_options pen__train_layout_options(
    const struct pen__train_layout *layout, const struct pen__train_args *args,
    const struct pen_any_model *model, struct pen_sample_shape sample);

/*
 * After `done` steps of an asynchronous schedule: how many until a checkpoint,
 * an evaluation or the end. Where that is another number than before, *out is
 * a schedule for it, borrowed until the release; else NULL.
 */
pen_status pen__train_layout_set_pass(struct pen__train_layout *layout,
                                      const struct pen__train_args *args,
                                      uint64_t done,
                                      const struct pen_schedule **out,
                                      struct pen_text *why);

/* Places that train each part: replicas, and copies of the schedule. */
uint64_t pen__train_layout_members(const struct pen__train_layout *layout);

/*
 * Logical replicas of a run that had `kept` of them: the same where the layout
 * can sum so, otherwise one for each replica and copy. A layout without a
 * schedule keeps them.
 */
uint64_t pen__train_layout_replicas(const struct pen__train_layout *layout,
                                    uint64_t kept);
void pen__train_layout_release(struct pen__train_layout *layout);

#endif
