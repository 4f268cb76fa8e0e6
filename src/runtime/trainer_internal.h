#ifndef PEN_RUNTIME_TRAINER_INTERNAL_H
#define PEN_RUNTIME_TRAINER_INTERNAL_H

#include "checkpoint/share.h"
#include "engine/mirror.h"
#include "group/sum.h"
#include "runtime/exchange.h"
#include "runtime/saved_state.h"
#include "runtime/trainer.h"
#include "runtime/versions.h"

/* How far a rank is with its outstanding step; see trainer_joint.c. */
enum pen__joint_state {
    PEN__JOINT_IDLE,
    PEN__JOINT_SUMMING, /* gradients of its stage, over members and ends */
    PEN__JOINT_NORMING, /* squares of all stages are being summed */
    PEN__JOINT_KNOWN    /* the norm is there */
};

struct pen__joint {
    enum pen__joint_state state;
    uint32_t step; /* of the pass */
};

/* The last step of an optimistic schedule; see trainer_ahead.c. */
enum pen__ahead_state {
    PEN__AHEAD_IDLE,    /* it is validated, or there is none */
    PEN__AHEAD_SUMMING, /* numbers of all ranks */
    PEN__AHEAD_KNOWN    /* they are in `step` */
};

struct pen__ahead {
    enum pen__ahead_state state;
    bool is_exact;   /* it waited for the norm */
    bool is_wary;    /* the next one does */
    bool is_refused; /* it was not finite */
    struct pen_step step;
    struct pen_step valid;       /* the one that was validated last */
    struct pen_batches *batches; /* that it read, and the first sample */
    uint64_t first_sample;
    uint64_t number;       /* of its pass */
    struct pen_pass *pass; /* the one that runs, and when it began */
    int64_t begin_ns;
    uint32_t num_stepped;  /* STEP ops of it so far */
    struct pen_group *all; /* ranks, and the sum over them */
    struct pen_sum *sum;
    struct pen_saved_state *saved; /* NULL: there are no weights */
    uint64_t num_redone;
};

/* The find of one rank, a number that is not finite; see trainer_numbers.c. A
 * sum over ranks keeps these fields exactly. */
enum { PEN__HAS_FOUND, PEN__BATCH, PEN__LAYER, PEN__TENSOR, PEN__FIND_FIELDS };

/* The state that the files of the trainer share. */
struct pen_trainer {
    struct pen_trainer_options options;
    struct pen_transport *own_transport; /* of a process that is alone */
    struct pen_schedule *own_schedule;   /* where none was given */
    struct pen_layer_range own_part;
    struct pen_engine *engine;
    struct pen_layout layout;
    uint32_t num_per_step;     /* micro-batches of a copy */
    struct pen_group *tensor;  /* group of this rank; NULL: it is alone */
    struct pen_group *context; /* likewise */
    struct pen_group *experts; /* likewise */
    struct pen_inner *inner;   /* of stages that sleep; NULL: no group */
    struct pen_executor *executor;
    struct pen_executor *evaluator; /* forward alone; made when needed */
    struct pen_schedule *evaluation;
    struct pen_exchange *exchange; /* NULL: there are no gradients */
    struct pen_replicas *replicas; /* NULL: none but those of the exchange */

    /* Where steps overlap; see trainer_async.c. */
    bool is_asynchronous;
    struct pen_executor *longest; /* owns the stages, if `executor` does not */
    struct pen_versions **versions; /* per stage; NULL: none */
    double *squares;                /* of gradients, per step and part */
    int64_t step_ns;                /* of a pass, spent in steps */
    bool is_joint;                  /* steps wait for all stages */
    struct pen__joint joint;
    double *norms; /* of joint steps, per step of a pass */
    struct pen__ahead ahead;
    struct pen__probing *probing; /* NULL: no step is probed */

    struct pen_trainer_progress progress;
    uint64_t num_passes;
    uint64_t num_sound;   /* steps whose loss and norm were finite */
    uint64_t num_skipped; /* steps before the next one, in a row */
    /* The first bad output here, of a pass and of the one before it. */
    double found[2][PEN__FIND_FIELDS];
    void *statistics; /* before the step: a copy, of images; or NULL */
    bool has_failed_alone;
    size_t num_labels; /* whose accuracy is reported; 0: it is not */

    double *losses; /* per micro-batch of the schedule */
    struct pen_request request;

    /*
     * Summed over all ranks at the end of a step; see trainer_step.c. In
     * staging.
     */
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

/* Elements of the largest parameter of this rank. */
size_t pen__trainer_largest_parameter(const struct pen_trainer *trainer);

/* trainer_layout.c */

/*
 * Fills in the layout of this rank of num_ranks; makes schedule and part where
 * none were given. INVALID for a training that breaks a restriction.
 */
pen_status pen__trainer_make_layout(struct pen_trainer *trainer, uint32_t rank,
                                    uint32_t num_ranks, struct pen_text *why);

/* Parts of a layout that an option of a training may exclude. */
enum {
    PEN__WITH_PIECES = 1u << 0, /* of layers: tensor parallelism */
    PEN__WITH_PARTS = 1u << 1,  /* of sequences: context parallelism */
    PEN__WITH_SLICES = 1u << 2, /* of tokens */
    PEN__WITH_METHOD = 1u << 3  /* of replicas: --sync */
};

/* The rest of a sentence that begins with the option, for the first of these
 * conflicts that the training has; NULL: it has none. */
const char *
pen__trainer_find_conflict(const struct pen_trainer_options *options,
                           unsigned conflicts);

/* trainer_step.c */

/* Waits until a sum over the transport is there, on idle ranks, too. */
pen_status pen__trainer_await_sum(struct pen_trainer *trainer,
                                  struct pen_executor *executor) PEN_MUST_CHECK;

/* Samples of a step in all replicas, and those before this one's. */
uint64_t pen__trainer_step_samples(const struct pen_trainer *trainer);
uint64_t pen__trainer_sample_offset(const struct pen_trainer *trainer);

pen_status pen__trainer_make_totals(struct pen_trainer *trainer);

/* The totals begin with the squares of gradients: how many there are, and the
 * place of a parameter's among them. */
size_t pen__trainer_num_squares(const struct pen_trainer *trainer);
double *pen__trainer_square(const struct pen_trainer *trainer,
                            const struct pen_network_parameter *parameter);

/* Puts the square of a gradient there; 0 for a gradient that counts tokens. */
void pen__trainer_put_square(const struct pen_trainer *trainer,
                             const struct pen_network_parameter *parameter);

/*
 * An optimistic step that was not finite in its pass and was undone: computes
 * it again, with a sum before the update, and counts it.
 */
pen_status pen__trainer_step_again(struct pen_trainer *trainer, uint64_t pass,
                                   struct pen_batches *batches,
                                   struct pen_step *step, struct pen_text *why);

/* The number of totals that follow those of any kind of step. */
enum { PEN__FURTHER = 5 + PEN_VOTES };

/* Adds `totals` up over all ranks; the last PEN__FURTHER are filled in here. */
pen_status pen__trainer_sum(struct pen_trainer *trainer, double *totals,
                            size_t count, const struct pen_pass *pass,
                            int64_t pass_ns) PEN_MUST_CHECK;
void pen__trainer_read_further(const double *further, struct pen_step *out);

/*
 * The same of a synchronous step, in three parts: what this rank contributes to
 * the totals, what all know when they are summed, and the update.
 */
void pen__trainer_put_totals(struct pen_trainer *trainer,
                             const struct pen_pass *pass, int64_t pass_ns);
void pen__trainer_read_totals(const struct pen_trainer *trainer,
                              struct pen_step *out);
pen_status pen__trainer_update(struct pen_trainer *trainer,
                               const struct pen_step *step);

/*
 * The norm, from the squares that the totals begin with, added in the tensors'
 * order.
 */
double pen__trainer_total_norm(const struct pen_trainer *trainer);

/* Losses of a step: of the replicas of a stage, and their sum. */
void pen__trainer_put_losses(const struct pen_trainer *trainer,
                             const struct pen_stage *stage, size_t step,
                             double *out);
double pen__trainer_join_losses(const struct pen_trainer *trainer,
                                double *losses);

/* trainer_numbers.c: where the first number that is not finite appeared. */

bool pen__trainer_is_finite(const struct pen_step *step);

/* From here on the pass notes the first output here that is not finite. */
void pen__trainer_watch_outputs(struct pen_trainer *trainer,
                                struct pen_pass *pass);

/*
 * The last such pass, or the one before it, had a step that is not finite: adds
 * where the first such number was. Called by all ranks of the transport.
 */
pen_status pen__trainer_name_suspect(struct pen_trainer *trainer, uint64_t pass,
                                     struct pen_text *out) PEN_MUST_CHECK;

/*
 * After a step of a synchronous schedule whose parameters have not changed yet:
 * when its loss or gradient norm is not finite, INVALID on all ranks of the
 * transport, or step->is_skipped. `first_sample` is the step's first.
 */
pen_status pen__trainer_check_step(struct pen_trainer *trainer,
                                   struct pen_step *step,
                                   struct pen_batches *batches,
                                   uint64_t first_sample, struct pen_text *why);

/* Likewise for a step that overlaps others, with the squares of gradients of
 * its parts. */
pen_status pen__trainer_check_overlapping(const struct pen_step *step,
                                          const double *squares,
                                          uint32_t num_parts,
                                          struct pen_text *why);

/* Likewise of an evaluation of samples 0 to count - 1. */
pen_status pen__trainer_check_evaluation(struct pen_trainer *trainer,
                                         double loss,
                                         struct pen_batches *batches,
                                         uint64_t count, struct pen_text *why);

/*
 * trainer_evaluate.c: makes the executor of forwards alone, if it is not there.
 */
pen_status pen__trainer_make_evaluator(struct pen_trainer *trainer,
                                       struct pen_text *why);
pen_status pen__trainer_run_evaluator(struct pen_trainer *trainer,
                                      struct pen_pass *pass,
                                      struct pen_text *why) PEN_MUST_CHECK;

/* The number of micro-batches, with those that only keep ranks in step that
 * compute experts for each other or send each other weights. */
uint64_t pen__trainer_fill_groups(const struct pen_trainer *trainer,
                                  uint64_t count);

/* trainer_ahead.c: optimistic steps. */
pen_status pen__trainer_make_ahead(struct pen_trainer *trainer,
                                   struct pen_text *why);
void pen__trainer_free_ahead(struct pen_trainer *trainer);
void pen__trainer_hook_ahead(struct pen_executor_hooks *hooks);
bool pen__trainer_goes_ahead(const struct pen_trainer *trainer);
void pen__trainer_poll_ahead(struct pen_trainer *trainer);
pen_status pen__trainer_pass_ahead(struct pen_trainer *trainer,
                                   struct pen_batches *batches,
                                   struct pen_step *out, uint32_t *count,
                                   struct pen_text *why);

/* trainer_async.c */
pen_status pen__trainer_pass_async(struct pen_trainer *trainer,
                                   struct pen_batches *batches,
                                   struct pen_step *out, uint32_t *count,
                                   struct pen_text *why);

/* Makes the versions of all stages, and totals. */
pen_status pen__trainer_make_async(struct pen_trainer *trainer,
                                   struct pen_text *why);
void pen__trainer_free_async(struct pen_trainer *trainer);

/* Adds the hooks of steps that overlap to those of the executor. */
void pen__trainer_hook_async(struct pen_executor_hooks *hooks);

/* In place of the sum and the step of a stage that only sleeps. */
void pen__trainer_sleep_step(struct pen_trainer *trainer,
                             const struct pen_stage *stage);

/* trainer_probe.c: what --probe writes. Without it these do nothing. */
pen_status pen__trainer_make_probing(struct pen_trainer *trainer,
                                     struct pen_text *why);
void pen__trainer_free_probing(struct pen_trainer *trainer);

/* Before the pass of a step, after its gradients are summed, and at its end. */
void pen__trainer_begin_probing(struct pen_trainer *trainer,
                                const struct pen_step *step,
                                struct pen_pass *pass);
void pen__trainer_probe_parameters(struct pen_trainer *trainer,
                                   enum pen_probe_pass pass);
pen_status pen__trainer_end_probing(struct pen_trainer *trainer,
                                    const struct pen_step *step) PEN_MUST_CHECK;

/* trainer_joint.c: hooks of joint steps. */
void pen__trainer_poll_joint(struct pen_trainer *trainer);
void pen__trainer_joint_sync(struct pen_trainer *trainer,
                             const struct pen_stage *stage);

/* `versions` is NULL for a stage that only sleeps. */
pen_status pen__trainer_joint_step(struct pen_trainer *trainer,
                                   const struct pen_stage *stage,
                                   struct pen_versions *versions,
                                   uint32_t version) PEN_MUST_CHECK;

/* trainer.c: layers wait for their tensor group with this executor from here
 * on. */
void pen__trainer_set_executor(struct pen_trainer *trainer,
                               struct pen_executor *executor);

/* Options of the layout's executor. */
struct pen_executor_options
pen__trainer_executor_options(struct pen_trainer *trainer);

/* All that belongs to the layout: made anew, and freed. */
pen_status pen__trainer_make_parts(struct pen_trainer *trainer,
                                   struct pen_text *why);
void pen__trainer_release_parts(struct pen_trainer *trainer);

/* trainer_checkpoint.c */

/* Where the numbers of a slice come from, those of its piece densely. */
struct pen__trainer_source {
    void *context;
    pen_status (*read)(void *context, const struct pen_tensor_slice *slice,
                       enum pen_checkpoint_part part, float *values,
                       struct pen_text *why);
};

/* Values of all parameters of this rank, and moments of those that it steps. */
pen_status pen__trainer_fill(struct pen_trainer *trainer,
                             const struct pen__trainer_source *source,
                             struct pen_text *why);

/*
 * Parts of a parameter that are kept: the value, and moments where this rank
 * steps it.
 */
int pen__trainer_num_kept(const struct pen_trainer *trainer, uint32_t stage,
                          size_t parameter);

#endif
