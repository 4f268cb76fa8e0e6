#ifndef PEN_SCHEDULE_RESTRICTIONS_H
#define PEN_SCHEDULE_RESTRICTIONS_H

#include "core/plan.h"
#include "schedule/correction.h"
#include "schedule/schedule.h"

/*
 * The restrictions of this program's trainer: one table, which the trainer and
 * the search for plans both read. A restriction is about a training as a whole
 * (its facts) or about the rows of its schedule.
 */

/*
 * The facts of a training that restrictions look at. A fact left zero is not
 * restricted: a caller fills in those that it knows.
 */
struct pen_training_facts {
    /* About the schedule. */
    const char *schedule; /* its name, or NULL */
    bool is_asynchronous; /* steps overlap */
    bool is_stale;        /* a backward may use other weights than its F */
    bool is_joint;        /* steps that overlap wait for the gradients of all */
    uint32_t period;      /* micro-batches of a copy per STEP, if so */
    uint32_t num_ranks;   /* of one pipeline, as those below */
    uint32_t num_stages;  /* of all copies together */
    uint32_t num_parts;   /* of the model */
    uint32_t num_slices;  /* token slices of a micro-batch */
    bool is_local;        /* no gradient goes from stage to stage */
    enum pen_correction correction; /* of delays */
    uint64_t discount_steps;        /* as struct pen_cures has them */
    bool predicts;                  /* likewise */
    uint32_t num_versions;          /* of the weights, that a stage keeps */

    /* About the layout and the batch. */
    uint32_t degrees[PEN_DEGREES];
    enum pen_sharding sharding;
    uint32_t num_members;          /* copies of the model, over all pipelines */
    const struct pen_shape *shape; /* of the schedule, or NULL: all stages have
                                      as many members; borrowed */
    uint32_t num_logical;          /* logical replicas */
    bool has_uneven_shares;        /* of them, in the replicas of a pipeline */
    uint64_t micro_batch;          /* sequences, as the next */
    uint64_t global_batch;

    /* About the model and its numbers. */
    const struct pen_model *model; /* NULL: not looked at; borrowed */
    uint32_t sequence;             /* tokens */
    enum pen_number number;
    bool has_tied_embeddings;
    bool recomputes;     /* in a stage at least */
    bool has_recomputed; /* the schedule has R */
    bool computes_twice; /* a stage with R has full recomputation, too */

    /* About the optimizer. */
    double clip_norm;   /* 0: gradients are not clipped */
    bool has_optimizer; /* the four below are known */
    bool is_adam;       /* else SGD, or: */
    bool is_muon;
    bool is_nesterov;
    double momentum;
};

/* Whether a reason ends with what to do in terms of `penstock train`. */
enum pen_restriction_words { PEN_REASON_ALONE, PEN_REASON_AND_REMEDY };

/* Returns INVALID when the training breaks a restriction: why says which. */
pen_status pen_restrictions_check(const struct pen_training_facts *facts,
                                  enum pen_restriction_words words,
                                  struct pen_text *why);

/*
 * Checks the row that one rank executes likewise: weight gradients in the order
 * of micro-batches, and evicted stashes loaded in the order of their eviction.
 */
pen_status pen_restrictions_check_row(const struct pen_schedule *schedule,
                                      uint32_t rank, struct pen_text *why);

#endif
