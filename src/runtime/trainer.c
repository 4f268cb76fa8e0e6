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
    if (options->engine == PEN_TRAINER_REFERENCE && options->is_bf16) {
        pen_why(why, "--bf16 needs --engine onednn: the reference computes in "
                     "float alone");
        return PEN_INVALID;
    }
    pen_status status = pen__trainer_check_model(options, why);
    if (status == PEN_OK && !options->is_forward_only)
        status = pen_lr_schedule_check(&options->schedule, why);
    return status;
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

/* Rounded up, so that every array begins on a line. */
static size_t array_bytes(size_t count, size_t element)
{
    return (count * element + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
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
    const struct pen_sample_shape *sample = &trainer->options.sample;
    size_t micro = trainer->options.micro_batch;
    size_t id_bytes = array_bytes(micro * sample->num_ids, sizeof(int32_t));
    size_t pixel_bytes =
        array_bytes(micro * pen_sample_pixels(sample), sizeof(float));
    size_t target_bytes =
        array_bytes(micro * sample->num_targets, sizeof(int32_t));
    trainer->arena_bytes = sizes.stash + id_bytes + pixel_bytes + target_bytes;
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
    char *inputs = trainer->arena + sizes.stash;
    char *targets = inputs + id_bytes + pixel_bytes;
    if (id_bytes > 0)
        trainer->batch.ids = (int32_t *)(void *)inputs;
    if (pixel_bytes > 0)
        trainer->batch.pixels = (float *)(void *)(inputs + id_bytes);
    trainer->batch.targets = (int32_t *)(void *)targets;
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
        status = pen__trainer_make_network(trainer, why);
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

/* One of so many samples in all. */
static struct pen_microbatch microbatch_of(const struct pen_trainer *trainer,
                                           uint64_t num_samples)
{
    return (struct pen_microbatch){.ids = trainer->batch.ids,
                                   .pixels = trainer->batch.pixels,
                                   .targets = trainer->batch.targets,
                                   .loss_count =
                                       (double)num_samples *
                                       trainer->options.sample.num_targets};
}

/* The gradients of all micro-batches, and the mean loss. */
static pen_status accumulate(struct pen_trainer *trainer,
                             struct pen_batches *batches, double *loss,
                             struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_microbatch microbatch =
        microbatch_of(trainer, options->global_batch);
    pen_network_clear_gradients(trainer->network);
    *loss = 0;
    for (size_t first = 0; first < options->global_batch;
         first += options->micro_batch) {
        pen_status status =
            pen_batches_read(batches, trainer->progress.samples + first,
                             options->micro_batch, &trainer->batch, why);
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

/* ---- evaluation ---- */

/* Fills a micro-batch; rows behind the last sample have no targets. */
static pen_status read_some(struct pen_trainer *trainer,
                            struct pen_batches *batches, uint64_t first,
                            uint64_t count, struct pen_text *why)
{
    const struct pen_sample_shape *sample = &trainer->options.sample;
    const struct pen_batch *batch = &trainer->batch;
    size_t micro = trainer->options.micro_batch;
    size_t some = count - first < micro ? (size_t)(count - first) : micro;
    for (size_t i = some * sample->num_ids; i < micro * sample->num_ids; i++)
        batch->ids[i] = 0;
    for (size_t i = some * sample->num_targets; i < micro * sample->num_targets;
         i++)
        batch->targets[i] = PEN_NO_TARGET;
    return pen_batches_read(batches, first, some, batch, why);
}

/* The label that the logits of a row rank first. */
static int32_t guess(const struct pen_trainer *trainer, size_t row)
{
    bool is_bf16 = trainer->options.is_bf16;
    enum pen_dtype dtype = is_bf16 ? PEN_DTYPE_BF16 : PEN_DTYPE_F32;
    size_t width = pen_dtype_bits(dtype) / 8;
    const char *logits =
        (const char *)pen_network_logits(trainer->network, trainer->stash) +
        row * trainer->num_labels * width;
    int32_t best = 0;
    float most = -INFINITY;
    for (size_t i = 0; i < trainer->num_labels; i++) {
        float logit;
        pen_dtype_to_float(dtype, logits + i * width, 1, &logit);
        if (logit > most) {
            most = logit;
            best = (int32_t)i;
        }
    }
    return best;
}

/* Of the images of the micro-batch that was evaluated last. */
static uint64_t count_right(const struct pen_trainer *trainer)
{
    uint64_t count = 0;
    for (size_t i = 0;
         trainer->num_labels > 0 && i < trainer->options.micro_batch; i++)
        if (trainer->batch.targets[i] != PEN_NO_TARGET)
            count += guess(trainer, i) == trainer->batch.targets[i];
    return count;
}

pen_status pen_trainer_evaluate(struct pen_trainer *trainer,
                                struct pen_batches *batches, uint64_t count,
                                struct pen_evaluation *out,
                                struct pen_text *why)
{
    struct pen_microbatch microbatch = microbatch_of(trainer, count);
    double sum = 0;
    uint64_t num_right = 0;
    microbatch.is_evaluation = true;
    for (uint64_t first = 0; first < count;
         first += trainer->options.micro_batch) {
        pen_status status = read_some(trainer, batches, first, count, why);
        if (status != PEN_OK)
            return status;
        pen_network_forward(trainer->network, &microbatch, trainer->stash, NULL,
                            NULL);
        sum += microbatch.loss;
        num_right += count_right(trainer);
    }
    *out = (struct pen_evaluation){
        sum, trainer->num_labels == 0 ? (double)NAN
                                      : (double)num_right / (double)count};
    return PEN_OK;
}
