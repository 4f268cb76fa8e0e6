/* Samples out of a directory of images, which are all in memory. */
#include "runtime/batches_internal.h"

#include "data/image_file.h"

#include <inttypes.h>
#include <stdlib.h>

struct images {
    struct pen_batches base;
    struct pen_image_batches_options options;
    struct pen_image_set set;
    float values[256]; /* of a pixel, by its byte */
};

static struct images *images_of(struct pen_batches *batches)
{
    return (struct images *)batches;
}

static void free_images(struct pen_batches *batches)
{
    struct images *self = images_of(batches);
    pen_image_set_release(&self->set);
    free(self);
}

static uint64_t epoch(const struct pen_batches *batches)
{
    return ((const struct images *)batches)->set.num_images;
}

static pen_status read_image(struct pen_batches *batches, uint64_t sample,
                             const struct pen_batch *to, struct pen_text *why)
{
    const struct images *self = images_of(batches);
    size_t count = pen_sample_pixels(&batches->shape);
    uint64_t num_images = self->set.num_images;
    uint64_t image = sample % num_images;
    (void)why;
    if (!self->options.is_ordered)
        image = pen_sampler_shuffle(self->options.seed, 0, sample / num_images,
                                    image, num_images);
    const uint8_t *pixels = self->set.pixels + image * count;
    for (size_t i = 0; i < count; i++)
        to->pixels[i] = self->values[pixels[i]];
    *to->targets = self->set.labels[image];
    return PEN_OK;
}

static const struct pen__batches_ops images_ops = {
    .unit = "images", .free = free_images, .epoch = epoch, .read = read_image};

static pen_status check_labels(const struct images *self, const char *directory,
                               const char *part, struct pen_text *why)
{
    for (uint32_t i = 0; i < self->set.num_images; i++) {
        if (self->set.labels[i] < self->options.num_labels)
            continue;
        pen_why(why,
                "%s: image %" PRIu32
                " of the part %s has the label %u, but the largest label of "
                "the model is %" PRIu32,
                directory, i, part, self->set.labels[i],
                self->options.num_labels - 1);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status
pen_batches_open_images(const char *directory,
                        const struct pen_image_batches_options *options,
                        struct pen_batches **out, struct pen_text *why)
{
    const char *part = options->is_test ? "t10k" : "train";
    struct images *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->options = *options;
    for (size_t i = 0; i < 256; i++)
        self->values[i] = (float)(((double)i / 255 - 0.5) / 0.5);
    pen_status status = pen_image_set_load(&self->set, directory, part, why);
    self->base = (struct pen_batches){&images_ops,
                                      {.channels = self->set.channels,
                                       .height = self->set.height,
                                       .width = self->set.width,
                                       .num_targets = 1}};
    if (status == PEN_OK)
        status = check_labels(self, directory, part, why);
    if (status == PEN_OK)
        *out = &self->base;
    else
        free_images(&self->base);
    return status;
}
