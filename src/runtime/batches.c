#include "runtime/batches_internal.h"

size_t pen_sample_pixels(const struct pen_sample_shape *shape)
{
    return (size_t)shape->channels * shape->height * shape->width;
}

void pen_batches_free(struct pen_batches *batches)
{
    if (batches != NULL)
        batches->ops->free(batches);
}

struct pen_sample_shape pen_batches_shape(const struct pen_batches *batches)
{
    return batches->shape;
}

const char *pen_batches_unit(const struct pen_batches *batches)
{
    return batches->ops->unit;
}

uint64_t pen_batches_epoch(const struct pen_batches *batches)
{
    return batches->ops->epoch(batches);
}

pen_status pen_batches_read(struct pen_batches *batches, uint64_t first,
                            size_t count, const struct pen_batch *to,
                            struct pen_text *why)
{
    const struct pen_sample_shape *shape = &batches->shape;
    struct pen_batch at = *to;
    pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = batches->ops->read(batches, first + i, &at, why);
        if (at.ids != NULL)
            at.ids += shape->num_ids;
        if (at.pixels != NULL)
            at.pixels += pen_sample_pixels(shape);
        at.targets += shape->num_targets;
    }
    return status;
}
