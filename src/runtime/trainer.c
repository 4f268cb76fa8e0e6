#include "runtime/trainer.h"

#include "base/bug.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void pen_trainer_free(struct pen_trainer *trainer)
{
    if (trainer == NULL)
        return;
    pen_network_free(trainer->network);
    pen_engine_free(trainer->engine);
    free(trainer->arena);
    free(trainer);
}

static pen_status check_options(const struct pen_trainer_options *options,
                                struct pen_text *why)
{
    if (options->global_batch % options->micro_batch != 0) {
        pen_why(why,
                "--global-batch-size %zu is not a multiple of "
                "--micro-batch-size %zu",
                options->global_batch, options->micro_batch);
        return PEN_INVALID;
    }
    if (options->sequence > options->model->max_positions) {
        pen_why(why,
                "--seq-length %zu is more than the %" PRIu32
                " positions that the model has",
                options->sequence, options->model->max_positions);
        return PEN_INVALID;
    }
    if (options->engine == PEN_TRAINER_REFERENCE && options->is_bf16) {
        pen_why(why, "--bf16 needs --engine onednn: the reference computes in "
                     "float alone");
        return PEN_INVALID;
    }
    return options->is_forward_only
               ? PEN_OK
               : pen_lr_schedule_check(&options->schedule, why);
}

static pen_status make_engine(struct pen_trainer *trainer, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    if (options->engine == PEN_TRAINER_REFERENCE)
        return pen_engine_reference_create(PEN_PRECISION_F32, why,
                                           &trainer->engine);
    return pen_engine_onednn_create(options->is_bf16 ? PEN_PRECISION_BF16
                                                     : PEN_PRECISION_F32,
                                    options->threads, why, &trainer->engine);
}

static pen_status make_network(struct pen_trainer *trainer,
                               struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_network_options all = {
        .engine = trainer->engine,
        .model = options->model,
        .num_layers = options->model->num_layers,
        .batch = options->micro_batch,
        .sequence = options->sequence,
        .step_rows = options->global_batch * options->sequence,
        .moments = options->is_forward_only
                       ? 0
                       : pen_optimizer_moments(&options->optimizer),
        .recompute = options->recompute,
        .is_forward_only = options->is_forward_only};
    return pen_network_create(&all, &trainer->network, why);
}

/*
 * One block for all that a step writes besides the parameters. It is touched
 * here, so that a machine with too little memory says so before the first
 * step.
 */
static pen_status make_arena(struct pen_trainer *trainer, struct pen_text *why)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(trainer->network, &sizes);
    size_t rows = trainer->options.micro_batch * trainer->options.sequence;
    size_t id_bytes =
        (rows * sizeof(int32_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    trainer->arena_bytes = sizes.stash + 2 * id_bytes;
    trainer->arena = aligned_alloc(ALIGNMENT, trainer->arena_bytes);
    if (trainer->arena == NULL) {
        pen_why(why,
                "no memory for %.1f MB of activations; a smaller "
                "--micro-batch-size needs less",
                1e-6 * (double)trainer->arena_bytes);
        return PEN_NOMEM;
    }
    memset(trainer->arena, 0, trainer->arena_bytes);
    trainer->stash = trainer->arena;
    trainer->ids = (int32_t *)(void *)(trainer->arena + sizes.stash);
    trainer->targets =
        (int32_t *)(void *)(trainer->arena + sizes.stash + id_bytes);
    return PEN_OK;
}

pen_status pen_trainer_create(const struct pen_trainer_options *options,
                              struct pen_trainer **out, struct pen_text *why)
{
    pen_status status = check_options(options, why);
    if (status != PEN_OK)
        return status;
    struct pen_trainer *trainer = calloc(1, sizeof *trainer);
    if (trainer == NULL)
        return PEN_NOMEM;
    trainer->options = *options;
    status = make_engine(trainer, why);
    if (status == PEN_OK)
        status = make_network(trainer, why);
    if (status == PEN_OK)
        status = make_arena(trainer, why);
    if (status == PEN_OK)
        *out = trainer;
    else
        pen_trainer_free(trainer);
    return status;
}

struct pen_network *pen_trainer_network(struct pen_trainer *trainer)
{
    return trainer->network;
}

struct pen_trainer_progress
pen_trainer_progress(const struct pen_trainer *trainer)
{
    return trainer->progress;
}

/* ---- the step ---- */

/* The gradients of all micro-batches, and the mean loss. */
static pen_status accumulate(struct pen_trainer *trainer,
                             struct pen_batches *batches, double *loss,
                             struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_microbatch microbatch = {
        .ids = trainer->ids,
        .targets = trainer->targets,
        .loss_count = (double)(options->global_batch * options->sequence)};
    pen_network_clear_gradients(trainer->network);
    *loss = 0;
    for (size_t first = 0; first < options->global_batch;
         first += options->micro_batch) {
        pen_status status = pen_batches_read(
            batches, trainer->progress.samples + first, options->micro_batch,
            trainer->ids, trainer->targets, why);
        if (status != PEN_OK)
            return status;
        pen_network_forward(trainer->network, &microbatch, trainer->stash, NULL,
                            NULL);
        pen_network_backward(trainer->network, &microbatch, trainer->stash,
                             NULL, NULL);
        *loss += microbatch.loss;
    }
    pen_network_finish_gradients(trainer->network);
    return PEN_OK;
}

static pen_status check_numbers(const struct pen_step *step,
                                struct pen_text *why)
{
    if (isfinite(step->loss) && isfinite(step->gradient_norm))
        return PEN_OK;
    pen_why(why,
            "step %" PRIu64 " has the loss %g and the gradient norm %g: the "
            "training has diverged; a lower --lr, a longer --lr-warmup-iters "
            "or --clip-grad may help",
            step->step, step->loss, step->gradient_norm);
    return PEN_INVALID;
}

pen_status pen_trainer_step(struct pen_trainer *trainer,
                            struct pen_batches *batches, struct pen_step *out,
                            struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    PEN_BUG_UNLESS(!options->is_forward_only);
    struct pen_step step = {.step = trainer->progress.steps + 1,
                            .learning_rate = pen_lr_schedule_rate(
                                &options->schedule, trainer->progress.steps)};
    pen_status status = accumulate(trainer, batches, &step.loss, why);
    if (status != PEN_OK)
        return status;
    step.gradient_norm = pen_gradient_norm(trainer->network);
    status = check_numbers(&step, why);
    if (status != PEN_OK)
        return status;
    pen_optimizer_step(&options->optimizer, trainer->network,
                       step.learning_rate, step.step, step.gradient_norm);
    trainer->progress.steps++;
    trainer->progress.samples += options->global_batch;
    *out = step;
    return PEN_OK;
}

/* Fills a micro-batch; rows behind the last sample have no targets. */
static pen_status read_some(struct pen_trainer *trainer,
                            struct pen_batches *batches, uint64_t first,
                            uint64_t count, struct pen_text *why)
{
    size_t sequence = trainer->options.sequence;
    size_t micro = trainer->options.micro_batch;
    size_t some = count - first < micro ? (size_t)(count - first) : micro;
    for (size_t i = some * sequence; i < micro * sequence; i++) {
        trainer->ids[i] = 0;
        trainer->targets[i] = PEN_NO_TARGET;
    }
    return pen_batches_read(batches, first, some, trainer->ids,
                            trainer->targets, why);
}

pen_status pen_trainer_evaluate(struct pen_trainer *trainer,
                                struct pen_batches *batches, uint64_t count,
                                double *loss, struct pen_text *why)
{
    struct pen_microbatch microbatch = {
        .ids = trainer->ids,
        .targets = trainer->targets,
        .loss_count = (double)count * (double)trainer->options.sequence};
    double sum = 0;
    for (uint64_t first = 0; first < count;
         first += trainer->options.micro_batch) {
        pen_status status = read_some(trainer, batches, first, count, why);
        if (status != PEN_OK)
            return status;
        pen_network_forward(trainer->network, &microbatch, trainer->stash, NULL,
                            NULL);
        sum += microbatch.loss;
    }
    *loss = sum;
    return PEN_OK;
}
