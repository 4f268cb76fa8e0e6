#ifndef PEN_RUNTIME_TRAINER_INTERNAL_H
#define PEN_RUNTIME_TRAINER_INTERNAL_H

#include "runtime/exchange.h"
#include "runtime/trainer.h"

/* What the files of the trainer share. */
struct pen_trainer {
    struct pen_trainer_options options;
    struct pen_transport *own_transport; /* of a process that is alone */
    struct pen_schedule *own_schedule;   /* where none was given */
    struct pen_layer_range own_part;
    struct pen_engine *engine;
    struct pen_layout layout;
    uint32_t num_per_step; /* micro-batches of a member */
    struct pen_executor *executor;
    struct pen_executor *evaluator; /* forward alone; made when needed */
    struct pen_schedule *evaluation;
    struct pen_exchange *exchange; /* NULL: there are no gradients */
    struct pen_trainer_progress progress;
    uint64_t num_passes;
    bool has_failed_alone;
    size_t num_labels; /* whose accuracy is told; 0: it is not */

    double *losses; /* per micro-batch of the schedule */
    struct pen_request request;

    /* Summed over all ranks at the end of a step; see trainer_step.c. */
    double *totals;
    size_t num_totals;
    double votes[PEN_VOTES];
};

/* trainer_model.c: what depends on the kind of the model. */

/* Whether model and samples fit each other. */
pen_status pen__trainer_check_model(const struct pen_trainer_options *options,
                                    struct pen_text *why);

/* The network of a range of layers, into the stage; sets num_labels. */
pen_status pen__trainer_make_network(struct pen_trainer *trainer,
                                     const struct pen_layer_range *layers,
                                     struct pen_stage *stage,
                                     struct pen_text *why);

/* The layers that the model has. */
uint32_t pen__trainer_num_layers(const struct pen_trainer_options *options);

/* trainer_layout.c */

/* Fills in the layout; makes schedule and part where none were given. */
pen_status pen__trainer_make_layout(struct pen_trainer *trainer,
                                    struct pen_text *why);

/* trainer_step.c */
pen_status pen__trainer_make_totals(struct pen_trainer *trainer);

#endif
