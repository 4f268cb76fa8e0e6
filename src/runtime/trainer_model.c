/*
 * What the trainer has to know of the kind of its model; everything else goes
 * by the shape of a sample.
 */
#include "core/image_model_cost.h"
#include "network/images.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>

/* ---- decoders ---- */

static pen_status check_decoder(const struct pen_trainer_options *options,
                                struct pen_text *why)
{
    uint32_t most = options->model->decoder->max_positions;
    if (options->sample.num_ids <= most)
        return PEN_OK;
    pen_why(why,
            "--seq-length %" PRIu32 " is more than the %" PRIu32
            " positions that the model has",
            options->sample.num_ids, most);
    return PEN_INVALID;
}

static int num_moments(const struct pen_trainer_options *options)
{
    return options->is_forward_only
               ? 0
               : pen_optimizer_moments(&options->optimizer);
}

static pen_status make_decoder(struct pen_trainer *trainer,
                               struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    size_t sequence = options->sample.num_ids;
    struct pen_network_options all = {
        .engine = trainer->engine,
        .model = options->model->decoder,
        .num_layers = options->model->decoder->num_layers,
        .batch = options->micro_batch,
        .sequence = sequence,
        .step_rows = options->global_batch * sequence,
        .moments = num_moments(options),
        .recompute = options->recompute,
        .is_forward_only = options->is_forward_only};
    return pen_network_create(&all, &trainer->network, why);
}

/* ---- images ---- */

static pen_status check_images(const struct pen_trainer_options *options,
                               struct pen_text *why)
{
    uint32_t num_channels = options->model->images->num_channels;
    if (options->sample.channels != num_channels) {
        pen_why(why,
                "the model takes images of %" PRIu32
                " channels, those of the data have %" PRIu32,
                num_channels, options->sample.channels);
        return PEN_INVALID;
    }
    if (options->recompute != PEN_RECOMPUTE_NONE) {
        pen_why(why, "--recompute-granularity is for text; the layers of this "
                     "model are not computed again");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status make_images(struct pen_trainer *trainer, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_image_options all = {
        .engine = trainer->engine,
        .model = options->model->images,
        .num_layers = options->model->images->num_layers,
        .batch = options->micro_batch,
        .height = options->sample.height,
        .width = options->sample.width,
        .moments = num_moments(options),
        .is_forward_only = options->is_forward_only};
    trainer->num_labels = options->model->images->num_labels;
    return pen_network_create_images(&all, &trainer->network, why);
}

/* ---- either ---- */

static bool is_for_images(const struct pen_trainer_options *options)
{
    return options->model->images != NULL;
}

pen_status pen__trainer_check_model(const struct pen_trainer_options *options,
                                    struct pen_text *why)
{
    return is_for_images(options) ? check_images(options, why)
                                  : check_decoder(options, why);
}

pen_status pen__trainer_make_network(struct pen_trainer *trainer,
                                     struct pen_text *why)
{
    return is_for_images(&trainer->options) ? make_images(trainer, why)
                                            : make_decoder(trainer, why);
}

double pen_trainer_step_flops(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_sample_shape *sample = &options->sample;
    return is_for_images(options)
               ? pen_image_model_step_flops(options->model->images,
                                            options->global_batch,
                                            sample->height, sample->width)
               : pen_model_step_flops(options->model->decoder,
                                      options->global_batch, sample->num_ids);
}
