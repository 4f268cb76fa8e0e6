/* Makes the network of a decoder-only model, or a range of its layers. */
#include "network/decoder.h"

#include <stdlib.h>

struct pen__shape pen__shape_of(const struct pen_network_options *options)
{
    enum pen_precision dtype = options->engine->dtype;
    return (struct pen__shape){
        .rows = options->batch * options->sequence,
        .hidden = options->model->hidden,
        .element = pen_precision_bytes(dtype),
        .stat = pen_precision_bytes(pen_precision_master(dtype))};
}

/* Vectors lie in one row, one behind the other; matrices one below the other.
 */
static void append_tensor(const struct pen_model *model, uint32_t tensor,
                          struct pen_network_parameter *into)
{
    struct pen_tensor_info info;
    pen_model_tensor(model, tensor, &info);
    const struct pen_tensor_form *form = info.form;
    size_t first = pen_network_count(into);
    if (form->num_dims == 1) {
        into->rows = 1;
        into->columns += form->shape[0];
    } else {
        into->rows += form->shape[form->is_input_first ? 1 : 0];
        into->columns = form->shape[form->is_input_first ? 0 : 1];
    }
    into->role = form->role;
    into->order = form->is_input_first ? PEN_ORDER_TRANSPOSED : PEN_ORDER_ROWS;
    into->slices[into->num_slices++] = (struct pen_tensor_slice){
        .tensor = tensor,
        .piece = pen_tensor_piece_whole(form->num_dims, form->shape),
        .first = first};
}

pen_status pen__add_parameter(struct pen_network *network, uint32_t layer,
                              enum pen_parameter_use use,
                              const enum pen_part *parts, size_t count,
                              struct pen_parameter **out, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    struct pen_network_parameter added = {.is_value_only =
                                              network->is_adding_values};
    for (size_t i = 0; i < count; i++) {
        uint32_t tensor = pen_model_find_part(model, layer, parts[i]);
        if (tensor < model->num_tensors)
            append_tensor(model, tensor, &added);
    }
    *out = NULL;
    if (added.num_slices == 0)
        return PEN_OK;
    pen_status status = pen__network_add(network, use, &added, why);
    if (status == PEN_OK)
        *out = added.parameter;
    return status;
}

pen_status pen__add_part(struct pen_network *network, uint32_t layer,
                         enum pen_parameter_use use, enum pen_part part,
                         struct pen_parameter **out, struct pen_text *why)
{
    return pen__add_parameter(network, layer, use, &part, 1, out, why);
}

pen_status pen__add_norm(struct pen_network *network, uint32_t layer,
                         enum pen_part gain, enum pen_part bias, size_t rows,
                         struct pen_norm *out, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    *out = (struct pen_norm){.kind = model->norm == PEN_MODEL_NORM_LAYER
                                         ? PEN_NORM_LAYER
                                         : PEN_NORM_RMS,
                             .rows = rows,
                             .epsilon = model->norm_eps};
    pen_status status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS,
                                      gain, &out->gain, why);
    if (status == PEN_OK && bias != PEN_PARTS)
        status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS, bias,
                               &out->bias, why);
    if (status != PEN_OK)
        return status;
    out->width = network->parameters[network->num_parameters - 1].columns;
    return PEN_OK;
}

pen_status pen__add_linear(struct pen_network *network, uint32_t layer,
                           const enum pen_part *weights,
                           const enum pen_part *biases, size_t count,
                           struct pen_linear *out, struct pen_text *why)
{
    struct pen_engine *engine = network->options.engine;
    *out = (struct pen_linear){.rows = network->options.batch *
                                       network->options.sequence};
    pen_status status = pen__add_parameter(network, layer, PEN_PARAMETER_DENSE,
                                           weights, count, &out->weight, why);
    if (status == PEN_OK)
        status = pen__add_parameter(network, layer, PEN_PARAMETER_VECTORS,
                                    biases, count, &out->bias, why);
    if (status == PEN_OK)
        status = engine->ops->linear_prepare(engine, out, why);
    return status;
}

static pen_status check(const struct pen_network_options *options,
                        struct pen_text *why)
{
    const struct pen_model *model = options->model;
    if (options->batch == 0 || options->sequence == 0) {
        pen_why(why, "a micro-batch needs at least one sequence of one token");
        return PEN_INVALID;
    }
    if (options->num_layers == 0 || options->first_layer >= model->num_layers ||
        options->num_layers > model->num_layers - options->first_layer) {
        pen_why(why, "layers %u to %u are beyond the model's %u layers",
                options->first_layer,
                options->first_layer + options->num_layers, model->num_layers);
        return PEN_INVALID;
    }
    if (options->sequence > model->max_positions &&
        model->rope.kind == PEN_ROPE_NONE) {
        pen_why(why,
                "the model has %u positions, too few for sequences of %zu "
                "tokens; use at most %u",
                model->max_positions, options->sequence, model->max_positions);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status create_layer(struct pen_network *network, uint32_t layer,
                               struct pen__layer **out, struct pen_text *why)
{
    switch (pen_model_layer_kind(network->options.model, layer)) {
    case PEN_LAYER_EMBEDDING:
        return pen__embedding_create(network, layer, out, why);
    case PEN_LAYER_BLOCK:
        return pen__block_create(network, layer, out, why);
    case PEN_LAYER_HEAD:
    case PEN_LAYER_KINDS:
        break;
    }
    return pen__head_create(network, layer, out, why);
}

static pen_status build(struct pen_network *network, struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    network->layers = calloc(options->num_layers, sizeof *network->layers);
    if (network->layers == NULL)
        return PEN_NOMEM;
    if (options->model->rope.kind != PEN_ROPE_NONE &&
        pen__rotary_tables(network) != PEN_OK)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < options->num_layers; k++) {
        network->building = options->first_layer + k;
        pen_status status = create_layer(network, options->first_layer + k,
                                         &network->layers[k], why);
        if (status != PEN_OK)
            return status;
    }
    return pen__network_seal(network, why);
}

pen_status pen_network_create(const struct pen_network_options *options,
                              struct pen_network **out, struct pen_text *why)
{
    pen_status status = check(options, why);
    if (status != PEN_OK)
        return status;
    struct pen_network *network = calloc(1, sizeof *network);
    if (network == NULL)
        return PEN_NOMEM;
    network->options = *options;
    status = build(network, why);
    if (status != PEN_OK) {
        pen_network_free(network);
        return status;
    }
    *out = network;
    return PEN_OK;
}
