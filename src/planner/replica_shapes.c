/*
 * The parameters that replicas have to agree on: those of a model as matrices.
 */
#include "planner/replica_sync.h"

#include <stdlib.h>

static pen_status fail(struct pen_replica_shapes *shapes, struct pen_text *why)
{
    free(shapes->at);
    pen_why(why, "no memory for the shapes of a model");
    return PEN_NOMEM;
}

static void add(struct pen_replica_shapes *shapes, double rows, double columns)
{
    shapes->at[shapes->count][0] = (size_t)rows;
    shapes->at[shapes->count][1] = (size_t)columns;
    shapes->num_weights += (double)(size_t)rows * (double)(size_t)columns;
    shapes->count++;
}

/* As the trainer lays it out: rows are the first dimension of several. */
static void add_tensor(struct pen_replica_shapes *shapes,
                       const uint64_t *dimensions, uint32_t count,
                       uint64_t num_elements, uint32_t share)
{
    double rows = count > 1 ? (double)dimensions[0] : 1;
    double columns = (double)num_elements / rows;
    if (count > 1 && share > 1)
        columns = (double)(uint64_t)((columns + share - 1) / share);
    add(shapes, rows, columns);
}

static void add_tensors(const struct pen_model *model, uint32_t layer,
                        uint32_t share, struct pen_replica_shapes *out)
{
    uint32_t first = 0;
    uint32_t count = pen_model_layer_tensors(model, layer, &first);
    for (uint32_t i = 0; i < count; i++) {
        struct pen_tensor_info tensor;
        pen_model_tensor(model, first + i, &tensor);
        const struct pen_tensor_form *form = tensor.form;
        add_tensor(out, form->shape, form->num_dims, form->num_elements, share);
    }
}

static void add_layer(const struct pen_model *model, uint32_t layer,
                      uint32_t share, struct pen_replica_shapes *out)
{
    if (model->num_tensors > 0) {
        add_tensors(model, layer, share, out);
        return;
    }
    double count = (double)pen_model_layer_parameters(model, layer) / share;
    if (count >= model->hidden)
        add(out, model->hidden, count / model->hidden);
    else
        add(out, 1, count);
}

static size_t num_shapes(const struct pen_model *model, uint32_t layer)
{
    uint32_t first = 0;
    return model->num_tensors > 0
               ? pen_model_layer_tensors(model, layer, &first)
               : 1;
}

pen_status pen_replica_shapes_of_layers(const struct pen_model *model,
                                        const struct pen_layer_range *ranges,
                                        size_t num_ranges, uint32_t share,
                                        struct pen_replica_shapes *out,
                                        struct pen_text *why)
{
    size_t count = 0;
    for (size_t i = 0; i < num_ranges; i++)
        for (uint32_t k = 0; k < ranges[i].count; k++)
            count += num_shapes(model, ranges[i].first + k);
    struct pen_replica_shapes shapes = {
        .at = calloc(count + 1, sizeof *shapes.at)};
    if (shapes.at == NULL)
        return fail(&shapes, why);
    double first = 0;
    for (size_t i = 0; i < num_ranges; i++)
        for (uint32_t k = 0; k < ranges[i].count; k++) {
            add_layer(model, ranges[i].first + k, share, &shapes);
            if (first == 0)
                first = shapes.num_weights;
        }
    /* A backward ends with the first layer. */
    shapes.last_share = first / shapes.num_weights;
    *out = shapes;
    return PEN_OK;
}

static pen_status shapes_of_images(const struct pen_any_model *model,
                                   struct pen_replica_shapes *out,
                                   struct pen_text *why)
{
    uint32_t count = pen_any_model_num_tensors(model);
    const struct pen_image_tensor *tensors = model->images->tensors;
    struct pen_replica_shapes shapes = {
        .at = calloc(count + 1, sizeof *shapes.at)};
    if (shapes.at == NULL)
        return fail(&shapes, why);
    double first = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!tensors[i].is_trained)
            continue;
        add_tensor(&shapes, tensors[i].shape, tensors[i].num_dims,
                   tensors[i].num_elements, 1);
        if (tensors[i].layer == 0)
            first = shapes.num_weights;
    }
    shapes.last_share = first / shapes.num_weights;
    *out = shapes;
    return PEN_OK;
}

pen_status pen_replica_shapes_of(const struct pen_any_model *model,
                                 struct pen_replica_shapes *out,
                                 struct pen_text *why)
{
    if (model->images != NULL)
        return shapes_of_images(model, out, why);
    const struct pen_layer_range all = {.count = model->decoder->num_layers};
    return pen_replica_shapes_of_layers(model->decoder, &all, 1, 1, out, why);
}
