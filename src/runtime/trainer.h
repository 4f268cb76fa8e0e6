#ifndef PEN_RUNTIME_TRAINER_H
#define PEN_RUNTIME_TRAINER_H

#include "core/any_model.h"
#include "core/plan.h"
#include "core/probe.h"
#include "core/weights.h"
#include "engine/registry.h"
#include "runtime/batches.h"
#include "runtime/executor.h"
#include "runtime/inner.h"
#include "runtime/lr_schedule.h"
#include "runtime/optimizer.h"
#include "schedule/correction.h"
#include "sync/block_code.h"

/*
 * Training, in one process or as one rank of many. A step carries out the row
 * that the schedule has for this rank, then all ranks agree on the norm of the
 * gradients, and each steps what it keeps:
 *
 *   clear   operations of the row ...   sums   norm   optimizer   values
 *
 * Without a schedule one process takes the micro-batches in their order. All
 * memory is there before the first step: a step allocates nothing.
 */
struct pen_trainer;
struct pen_versions;      /* runtime/versions.h */
struct pen_version_needs; /* likewise */

/* Makes the networks of stages, on an engine of its own. */
struct pen_network_maker {
    void *context;
    struct pen_engine *engine; /* lives longer than the trainer */
    size_t message_bytes;      /* between two stages */
    pen_status (*make)(void *context, uint32_t part, struct pen_network **out,
                       struct pen_text *why);
};

/* The fate of a step that was computed twice and is not finite. */
enum pen_on_nan {
    PEN_ON_NAN_STOP,
    PEN_ON_NAN_SKIP /* it counts as taken, and nothing is updated; not for
                       steps that overlap, nor for methods of replicas */
};

/*
 * At most this many steps in a row are skipped; the next one ends the training.
 */
#define PEN_MOST_SKIPPED 10

/*
 * The receiver of figures of a step's tensors (core/probe.h). Both functions
 * get `context`. All ranks must answer alike to `wants`; the records of a step
 * come to the first rank of the transport, after it, in the order of execution.
 */
struct pen_probe_sink {
    void *context;
    bool (*wants)(void *context, uint64_t step);
    void (*take)(void *context, const struct pen_probe_record *record);
};

struct pen_trainer_options {
    const struct pen_any_model *model; /* borrowed until the trainer is freed */
    struct pen_sample_shape sample;    /* of the data */
    const struct pen_engine_kind *engine; /* NULL: the registry's first */
    const char *device; /* of the engine; NULL: its choice; borrowed */
    bool is_bf16; /* products and activations; the master weights are float */
    int threads;  /* 0: as many as OpenMP would take */
    size_t micro_batch;  /* samples */
    size_t global_batch; /* samples of a step; a multiple of micro_batch */
    enum pen_recompute recompute;
    unsigned modules; /* of selective recomputation, as those of a network */
    struct pen_router_settings router; /* of a model with experts */
    struct pen_recompute_span span;    /* of full, likewise */

    /* All below may be zero: one process, one stage. */
    struct pen_transport *transport; /* borrowed, as the two below */
    struct pen_transport
        *world; /* of all replicas that synchronise by a method (replicas.h), of
                   which `transport` is one; NULL: none; borrowed */
    const struct pen_schedule *schedule; /* lowered */
    const struct pen_layer_range *parts; /* of the model, as the schedule has */
    enum pen_correction correction;      /* of an asynchronous schedule */
    struct pen_cures cures;              /* likewise; passes of one step make
                                            those before stale_after */
    enum pen_mesh_order order;           /* of the ranks */
    uint32_t num_ranks;                  /* that compute, the first ones; the
                                            others wait. 0: all of the
                                            transport */
    uint32_t logical_replicas;           /* 0: as many as there are members */
    /* Logical replicas of each replica of the pipeline, whose schedules differ
     * then; NULL: all alike; borrowed. */
    const uint32_t *replica_shares;
    uint32_t logical_tensor;    /* pieces of a decoder (network.h); 0: one */
    bool cuts_rows;             /* of several pieces: sequence parallelism */
    enum pen_sharding sharding; /* over the members of a part; ZeRO-2 and 3 keep
                                   gradients all the same where a member sums
                                   several micro-batches */
    uint32_t sharding_group;    /* members that have all weights together, with
                                   ZeRO-3; 0: all */
    uint32_t tensor_size;       /* ranks that share these; 0: one */
    uint32_t context_size; /* parts of a sequence, on a rank each; 0: one */
    uint32_t expert_size; /* replicas that experts are dealt out over; 0: one */
    bool has_fast_sums;   /* over members, in an order that is not promised */
    bool has_sparse_sums; /* of token tables: only rows that are not zero */
    struct pen_block_code stage_code; /* between stages; 0 bits: none */
    uint32_t subspace; /* columns of the stream that blocks of a decoder write
                          to and stages send; 0: all */
    double sparsity;   /* share of each matrix of the blocks of a decoder that
                          is pruned; 0: none */
    const struct pen_cost *sleeps; /* by part: they only wait; borrowed */
    const struct pen_inner_messages *inner; /* by part: what tensor-parallel
                                               ranks that wait send; borrowed */
    const struct pen_network_maker *maker;  /* NULL: by the engine; borrowed */
    const struct pen_phantom *phantom; /* NULL: there are contents; borrowed */
    bool is_verified;   /* the schedule: it is not checked again */
    bool has_late_sums; /* none sets out before its stage is done */
    bool is_blocking;   /* a sender waits until the bytes have left */
    bool joins_pairs;   /* see executor.h */
    const struct pen_probe_sink *probe; /* NULL: none; borrowed */
    struct pen_executor_hooks watch; /* op, wait, resume, done; of the caller */
    void (*vote)(void *voter);       /* when votes are counted; NULL: before */
    void *voter;

    struct pen_optimizer optimizer;
    struct pen_lr_schedule rates;
    enum pen_on_nan on_nan;
    bool is_forward_only; /* for pen_trainer_evaluate() alone */
};

/*
 * Whether members of `num_copies` copies of the model keep no gradients that
 * others own (ZeRO-2). Partial sums of a member's micro-batches have to stay
 * whole: then all are added in the order of one process.
 */
bool pen_trainer_drops_gradients(const struct pen_trainer_options *options,
                                 uint32_t num_copies);

/* The same for values, which owners send ahead of each layer (ZeRO-3). */
bool pen_trainer_drops_values(const struct pen_trainer_options *options,
                              uint32_t num_copies);

/*
 * The parameters are zero: initialize or load them. On failure *out is
 * untouched and why speaks in the names of the options.
 */
pen_status pen_trainer_create(const struct pen_trainer_options *options,
                              struct pen_trainer **out, struct pen_text *why);
void pen_trainer_free(struct pen_trainer *trainer);

/*
 * Whether pen_trainer_create() would make this rank of num_ranks, whatever the
 * size of the transport, which must be there. Nothing is made.
 */
pen_status pen_trainer_check(const struct pen_trainer_options *options,
                             uint32_t rank, uint32_t num_ranks,
                             struct pen_text *why);

/*
 * Between two steps: changes to another layout, with bit-identical steps. In
 * `to`, num_ranks, schedule, parts, order, recompute, modules, span and
 * sharding count; all else stays. Values and moments go from rank to rank by
 * way of memory. Called by all ranks of the transport, also those that are idle
 * before or after it; they return together. Networks, verifiers and
 * checkpointers that were made of this trainer are invalid then. After a
 * failure it can only be freed.
 */
struct pen_move_cost {
    double sec;
    uint64_t sent_bytes; /* by all ranks together */
};

pen_status pen_trainer_move(struct pen_trainer *trainer,
                            const struct pen_trainer_options *to,
                            struct pen_move_cost *out, struct pen_text *why);

/*
 * Whether a trainer of `from` could move to `to`, whose num_ranks must be set;
 * nothing is made. INVALID where it cannot.
 */
pen_status pen_trainer_check_move(const struct pen_trainer_options *from,
                                  const struct pen_trainer_options *to,
                                  struct pen_text *why);

/* Random weights, as pen_network_initialize() draws them. */
pen_status pen_trainer_initialize(struct pen_trainer *trainer, uint64_t seed);

/* Loads weights from disk. */
pen_status pen_trainer_load_weights(struct pen_trainer *trainer,
                                    const struct pen_weights *weights,
                                    struct pen_text *why);

/* Stages of this rank; borrowed until the trainer is freed. */
uint32_t pen_trainer_num_stages(const struct pen_trainer *trainer);
struct pen_network *pen_trainer_network(struct pen_trainer *trainer,
                                        uint32_t stage);

/* The roles of ranks, with the number of logical replicas. */
const struct pen_layout *pen_trainer_layout(const struct pen_trainer *trainer);

/* How far a run is. */
struct pen_trainer_progress {
    uint64_t steps;
    uint64_t samples; /* the number of the next one */
};

struct pen_trainer_progress
pen_trainer_progress(const struct pen_trainer *trainer);

/* Votes that ranks may cast at the end of a step; the step has their counts. */
enum pen_vote {
    PEN_VOTE_STOP,
    PEN_VOTE_SAVE,
    PEN_VOTE_SAVED, /* its share of a checkpoint is written */
    PEN_VOTES
};

struct pen_step {
    uint64_t step; /* 1 for the first */
    double loss;   /* mean over all targets */
    double gradient_norm;
    double learning_rate;
    double wait_share; /* of the time of all ranks in the pass: the bubble */
    double expert_imbalance; /* tokens of the busiest expert of a block over
                                those of a mean one; NaN: no experts */
    double dropped_tokens;   /* by experts, over all blocks; NaN: no experts */
    double votes[PEN_VOTES];
    uint64_t vote_delay; /* they were cast this many steps before */
    bool is_repeated;    /* it was not finite, and was computed again */
    bool is_skipped;     /* it was not finite again, and updated nothing */
};

void pen_trainer_vote(struct pen_trainer *trainer, enum pen_vote vote);

/* In place of computing, inside a step or after it; see the executor's. */
void pen_trainer_sleep(struct pen_trainer *trainer, double seconds);

/*
 * A round of messages inside a layer between the ranks of the tensor, context
 * or expert group, of a trainer with phantoms. The group has several ranks.
 */
void pen_trainer_exchange(struct pen_trainer *trainer,
                          const struct pen_message_round *round);

/* True when a step failed for a reason that only this rank has. */
bool pen_trainer_has_failed_alone(const struct pen_trainer *trainer);

/*
 * One pass over the schedule on the next samples: `out` has a place for each of
 * its steps, of which *count are known when it returns. INVALID when a sample
 * has an id that the model does not have (this rank alone knows) or the loss is
 * not a number (all do); the parameters are then unchanged. A step that is not
 * finite is computed once more before that, from the same weights and samples.
 * Where steps overlap it is not: the pass begins with an empty pipeline and
 * ends with one, so that delays begin anew; the parameters have changed when it
 * returns INVALID, and votes are counted at its end.
 *
 * Optimistic steps (rules of the schedule) are validated in the next pass: the
 * known step is then the one before, which has its votes, and the parameters
 * are those of the last step only after it was settled.
 */
uint32_t pen_trainer_pass_steps(const struct pen_trainer *trainer);
pen_status pen_trainer_pass(struct pen_trainer *trainer,
                            struct pen_batches *batches, struct pen_step *out,
                            uint32_t *count, struct pen_text *why);

/*
 * Waits until the last step is valid, after it was undone and done again where
 * it had to be clipped: before anything else than passes. *count is 0 where
 * none was outstanding. INVALID as pen_trainer_pass().
 */
pen_status pen_trainer_settle(struct pen_trainer *trainer, struct pen_step *out,
                              uint32_t *count, struct pen_text *why);

/* Steps that were undone and done again so far. */
uint64_t pen_trainer_num_redone(const struct pen_trainer *trainer);

/*
 * From here on passes of another schedule, which has fewer micro-batches than
 * the asynchronous one of the options and is its like otherwise. Borrowed.
 */
pen_status pen_trainer_set_schedule(struct pen_trainer *trainer,
                                    const struct pen_schedule *schedule,
                                    struct pen_text *why);

/* The weights that a stage of this rank holds; NULL where steps do not overlap.
 */
const struct pen_versions *
pen_trainer_versions(const struct pen_trainer *trainer, uint32_t stage);

/*
 * Copies of weights that a trainer of these options makes for a stage of this
 * row of its schedule, whose steps overlap; NOMEM is the only failure.
 */
pen_status pen_trainer_count_versions(const struct pen_trainer_options *options,
                                      uint32_t row, uint32_t stage,
                                      struct pen_version_needs *out);

struct pen_evaluation {
    double loss;     /* mean over all targets */
    double accuracy; /* share of images with the right label; NaN for text */
};

/* Evaluates samples 0 to count - 1; parameters and statistics do not change. */
pen_status pen_trainer_evaluate(struct pen_trainer *trainer,
                                struct pen_batches *batches, uint64_t count,
                                struct pen_evaluation *out,
                                struct pen_text *why);

/* Floating point operations of a step, recomputation not counted. */
double pen_trainer_step_flops(const struct pen_trainer *trainer);

/* Memory by use, in bytes. */
struct pen_trainer_memory {
    size_t program;     /* code, libraries and what they keep */
    size_t parameters;  /* with gradients, moments and the engine's scratch */
    size_t activations; /* stashes, messages and scratch */
    size_t logits;      /* of those */
    size_t exchange;    /* sums of gradients on their way */
    size_t snapshot;    /* of what is being written */
    size_t passing;     /* taken and given back: packed operands, or a tensor */
    size_t total;       /* at the peak of steps */
    size_t loading;     /* at the peak so far: what it took to be ready */
};

/*
 * Predicts the memory of steps, and of the checkpoints between them: `kept`
 * bytes, and `passing` bytes that they take and give back; 0 where none are
 * written. Asked before the first step, when weights are loaded. Files of
 * tokens do not count, as samples are copied out of them; images are part of
 * the program.
 */
void pen_trainer_predict_memory(const struct pen_trainer *trainer, size_t kept,
                                size_t passing, struct pen_trainer_memory *out);

/*
 * Resident bytes of this process, at its peak (since the prediction, where the
 * kernel can forget an older one) and now; 0 where the system does not say.
 */
size_t pen_memory_peak(void);
size_t pen_memory_resident(void);

/* The resident bytes after freed memory has gone back to the system. */
size_t pen_memory_settled(void);

/*
 * Whether the kernel forgot the peak so far: the next one is that of memory
 * used from now on.
 */
bool pen_memory_forget_peak(void);

#endif
