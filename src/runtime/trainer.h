#ifndef PEN_RUNTIME_TRAINER_H
#define PEN_RUNTIME_TRAINER_H

#include "core/any_model.h"
#include "network/network.h"
#include "runtime/batches.h"
#include "runtime/lr_schedule.h"
#include "runtime/optimizer.h"

/*
 * Training in one process. A step takes the samples of the global batch in
 * micro-batches, in their order:
 *
 *   clear   forward backward   forward backward   ...   norm   optimizer
 *           micro-batch 0      micro-batch 1
 *
 * All memory is there before the first step: a step allocates nothing.
 */
struct pen_trainer;

enum pen_trainer_engine { PEN_TRAINER_ONEDNN, PEN_TRAINER_REFERENCE };

struct pen_trainer_options {
    const struct pen_any_model *model; /* borrowed until the trainer is freed */
    struct pen_sample_shape sample;    /* of the data */
    enum pen_trainer_engine engine;
    bool is_bf16; /* products and activations; the master weights are float */
    int threads;  /* 0: as many as OpenMP would take */
    size_t micro_batch;  /* samples */
    size_t global_batch; /* samples of a step; a multiple of micro_batch */
    enum pen_recompute recompute;
    struct pen_optimizer optimizer;
    struct pen_lr_schedule schedule;
    bool is_forward_only; /* for pen_trainer_evaluate() alone */
};

/*
 * The parameters are zero: initialize or load them through
 * pen_trainer_network(). On failure *out is untouched and why speaks in the
 * names of the options.
 */
pen_status pen_trainer_create(const struct pen_trainer_options *options,
                              struct pen_trainer **out, struct pen_text *why);
void pen_trainer_free(struct pen_trainer *trainer);

/* Borrowed until the trainer is freed. */
struct pen_network *pen_trainer_network(struct pen_trainer *trainer);

/* How far a run is. */
struct pen_trainer_progress {
    uint64_t steps;
    uint64_t samples; /* the number of the next one */
};

struct pen_trainer_progress
pen_trainer_progress(const struct pen_trainer *trainer);

struct pen_step {
    uint64_t step; /* 1 for the first */
    double loss;   /* mean over all targets */
    double gradient_norm;
    double learning_rate;
};

/*
 * One step on the next samples. INVALID when a sample has an id that the model
 * does not have or the loss is no number; the parameters are then unchanged.
 */
pen_status pen_trainer_step(struct pen_trainer *trainer,
                            struct pen_batches *batches, struct pen_step *out,
                            struct pen_text *why);

struct pen_evaluation {
    double loss;     /* mean over all targets */
    double accuracy; /* share of images with the right label; NaN for text */
};

/* Over samples 0 to count - 1; parameters and statistics do not change. */
pen_status pen_trainer_evaluate(struct pen_trainer *trainer,
                                struct pen_batches *batches, uint64_t count,
                                struct pen_evaluation *out,
                                struct pen_text *why);

/* Floating point operations of a step, recomputation not counted. */
double pen_trainer_step_flops(const struct pen_trainer *trainer);

/* Where the bytes go. */
struct pen_trainer_memory {
    size_t program;     /* code, libraries and what they keep */
    size_t parameters;  /* with gradients, moments and the engine's scratch */
    size_t activations; /* stash and scratch of the network */
    size_t logits;      /* of those */
    size_t passing;     /* taken and given back: packed operands, or a tensor */
    size_t total;       /* at the peak: loading may have taken more */
};

/*
 * What steps will need, and the checkpoints between them if any are written;
 * asked before the first step, when weights are loaded. Files of tokens do not
 * count, as samples are copied out of them; images are part of the program.
 */
void pen_trainer_predict_memory(const struct pen_trainer *trainer,
                                bool is_saving, struct pen_trainer_memory *out);

/* Resident bytes of this process, at its peak and now; 0 where nobody tells. */
size_t pen_memory_peak(void);
size_t pen_memory_resident(void);

#endif
