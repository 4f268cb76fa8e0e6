/* Code that the layers for images share; see image_layers.h. */
#include "network/image_layers.h"

#include <string.h>

static size_t element_bytes(const struct pen__image_place *place)
{
    return pen_precision_bytes(place->network->options.engine->dtype);
}

size_t pen__image_bytes(const struct pen__image_place *place, size_t numbers)
{
    return place->network->options.batch * numbers * element_bytes(place);
}

pen_status pen__image_parameter(const struct pen__image_place *place,
                                enum pen_parameter_use use, uint32_t tensor,
                                struct pen_parameter **out,
                                struct pen_text *why)
{
    const struct pen_image_tensor *from =
        &place->network->image_model->tensors[tensor];
    bool is_vector = from->num_dims == 1;
    struct pen_network_parameter added = {
        .role = from->role,
        .rows = is_vector ? 1 : from->shape[0],
        .columns =
            is_vector ? from->shape[0] : from->num_elements / from->shape[0],
        .num_slices = 1,
        .slices = {
            {.tensor = tensor,
             .piece = pen_tensor_piece_whole(from->num_dims, from->shape)}}};
    return pen__network_add(place->network, use, &added, out, why);
}

pen_status pen__image_linear(const struct pen__image_place *place,
                             struct pen_linear *out, struct pen_text *why)
{
    struct pen_engine *engine = place->network->options.engine;
    uint32_t matrix = place->model->first_tensor;
    out->rows = place->network->options.batch;
    pen_status status = pen__image_parameter(place, PEN_PARAMETER_DENSE, matrix,
                                             &out->weight, why);
    if (status == PEN_OK)
        status = pen__image_parameter(place, PEN_PARAMETER_VECTORS, matrix + 1,
                                      &out->bias, why);
    if (status == PEN_OK)
        status = engine->ops->linear_prepare(engine, out, why);
    return status;
}

void pen__image_input_init(const struct pen__image_place *place,
                           struct pen__layer *layer,
                           struct pen__image_input *out)
{
    size_t numbers = place->channels * place->image[0] * place->image[1];
    *out = (struct pen__image_input){.is_pixels = place->is_first};
    if (!place->is_first)
        layer->input_bytes = pen__align(pen__image_bytes(place, numbers));
    else if (place->network->options.engine->dtype != PEN_PRECISION_F32) {
        out->num_copied = place->network->options.batch * numbers;
        out->copy =
            pen__take(&layer->stash_bytes, pen__image_bytes(place, numbers));
    }
}

void pen__image_input_read(const struct pen__image_input *input,
                           const struct pen__pass *pass)
{
    const float *pixels = pass->microbatch->pixels;
    void *copy = pen__at(pass->stash, input->copy);
    bool is_double = pass->engine->dtype == PEN_PRECISION_F64;
    for (size_t i = 0; i < input->num_copied; i++)
        if (is_double)
            ((double *)copy)[i] = (double)pixels[i];
        else
            ((uint16_t *)copy)[i] = pen_bf16_from_float(pixels[i]);
}

const void *pen__image_input_at(const struct pen__image_input *input,
                                const struct pen__pass *pass, const void *x)
{
    return !input->is_pixels       ? x
           : input->num_copied > 0 ? pen__at(pass->stash, input->copy)
                                   : pass->microbatch->pixels;
}
