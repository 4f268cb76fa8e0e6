/* Makes the network of a decoder-only model, or a range of its layers. */
#include "network/stream.h"
#include "network/subspace.h"

#include "base/bug.h"

#include <stdlib.h>

/* Chunks of a part of the sequence, where context parallelism cuts it. */
static uint32_t chunks_of_part(const struct pen_network_options *options)
{
    return options->context.total > 1 ? 2 : 1;
}

size_t pen__chunk_tokens(const struct pen_network_options *options)
{
    return options->sequence / options->num_slices / options->context.total /
           chunks_of_part(options);
}

size_t pen__chunk_rows(const struct pen_network_options *options)
{
    return options->batch * pen__chunk_tokens(options);
}

struct pen__shape pen__shape_of(const struct pen_network_options *options)
{
    enum pen_precision dtype = options->engine->dtype;
    size_t rows = chunks_of_part(options) * pen__chunk_rows(options);
    return (struct pen__shape){
        .rows = rows,
        .own_rows = pen_tensor_shares_rows(&options->tensor)
                        ? rows / options->tensor.group->size
                        : rows,
        .hidden = options->model->hidden,
        .element = pen_precision_bytes(dtype),
        .stat = pen_precision_bytes(pen_precision_master(dtype))};
}

struct pen__cut pen__cut_equally(enum pen__side side, size_t size,
                                 uint32_t piece, uint32_t total)
{
    if (total == 1)
        return (struct pen__cut){.side = PEN__ALL, .count = size};
    return (struct pen__cut){side, size / total * piece, size / total};
}

static size_t words_per_piece(uint32_t vocab, uint32_t total)
{
    return (vocab + (size_t)total - 1) / total;
}

struct pen__cut pen__cut_words(const struct pen_network_options *options,
                               uint32_t piece)
{
    size_t vocab = options->model->vocab;
    size_t each = words_per_piece(options->model->vocab, options->tensor.total);
    size_t first = each * piece;
    if (options->tensor.total == 1)
        return (struct pen__cut){.side = PEN__ALL, .count = vocab};
    return (struct pen__cut){PEN__OUTPUTS, first,
                             first + each > vocab ? vocab - first : each};
}

/* The piece of a tensor that a cut leaves, of one expert where it stacks them.
 */
static struct pen_tensor_piece cut_tensor(const struct pen_tensor_form *form,
                                          const struct pen__cut *cut,
                                          uint32_t expert)
{
    struct pen_tensor_piece piece =
        pen_tensor_piece_whole(form->num_dims, form->shape);
    if (form->is_stacked) {
        piece.num_rows /= form->shape[0];
        piece.first_row = expert * piece.num_rows;
    }
    bool is_vector = form->num_dims == 1u + form->is_stacked;
    if (cut->side == PEN__ALL || (is_vector && cut->side == PEN__INPUTS))
        return piece;
    bool is_first = is_vector
                        ? !form->is_stacked
                        : (cut->side == PEN__OUTPUTS) != form->is_input_first;
    if (is_first) {
        piece.first_row += cut->first;
        piece.num_rows = cut->count;
    } else {
        piece.first_column = cut->first;
        piece.num_columns = cut->count;
    }
    return piece;
}

/* Vectors lie in one row, one after the other; matrices one below the other. */
static void append_tensor(const struct pen_network *network, uint32_t tensor,
                          const struct pen__cut *cut,
                          struct pen_network_parameter *into)
{
    struct pen_tensor_info info;
    pen_model_tensor(network->options.model, tensor, &info);
    const struct pen_tensor_form *form = info.form;
    struct pen_tensor_piece piece =
        cut_tensor(form, cut, network->adding_expert);
    size_t first = pen_network_count(into);
    if (form->num_dims == 1u + form->is_stacked) {
        into->rows = 1;
        into->columns += pen_tensor_piece_count(&piece);
    } else if (form->is_input_first) {
        into->rows += (size_t)piece.num_columns;
        into->columns = (size_t)piece.num_rows;
    } else {
        into->rows += (size_t)piece.num_rows;
        into->columns = (size_t)piece.num_columns;
    }
    into->role = form->role;
    into->order = form->is_input_first ? PEN_ORDER_TRANSPOSED : PEN_ORDER_ROWS;
    into->slices[into->num_slices++] = (struct pen_tensor_slice){
        .tensor = tensor, .piece = piece, .first = first};
}

/* Numbers of parameters of one piece that begin with one tensor. */
static uint32_t numbers_per_piece(const struct pen_model *model,
                                  uint32_t pieces)
{
    uint32_t parts = pieces > 1 ? PEN_MAX_PARAMETER_TENSORS : 1;
    return model->has_expert_bias && model->num_experts > parts
               ? model->num_experts
               : parts;
}

uint32_t pen_tensor_numbers(const struct pen_any_model *model, uint32_t pieces)
{
    uint32_t count = pieces > 1 ? pieces : 1;
    return model->decoder == NULL
               ? 1
               : count * numbers_per_piece(model->decoder, pieces);
}

/* The number of the parameter that is being added. */
static uint32_t number_of(const struct pen_network *network, uint32_t tensor)
{
    uint32_t pieces = network->options.tensor.total;
    struct pen_tensor_info info;
    pen_model_tensor(network->options.model, tensor, &info);
    uint32_t number = info.form->is_stacked ? network->adding_expert
                      : pieces > 1          ? network->adding_kind
                                            : 0;
    return network->adding_piece *
               numbers_per_piece(network->options.model, pieces) +
           number;
}

pen_status pen__add_parameter(struct pen_network *network, uint32_t layer,
                              enum pen_parameter_use use,
                              const struct pen__part *parts, size_t count,
                              struct pen_parameter **out, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    struct pen_network_parameter added = {.is_value_only =
                                              network->is_adding_values};
    for (size_t i = 0; i < count; i++) {
        uint32_t tensor = pen_model_find_expert_part(
            model, layer, network->adding_expert, parts[i].part);
        if (tensor < model->num_tensors)
            append_tensor(network, tensor, &parts[i].cut, &added);
    }
    *out = NULL;
    if (added.num_slices == 0)
        return PEN_OK;
    added.number = number_of(network, added.slices[0].tensor);
    return pen__network_add(network, use, &added, out, why);
}

pen_status pen__add_part(struct pen_network *network, uint32_t layer,
                         enum pen_parameter_use use, enum pen_part part,
                         struct pen_parameter **out, struct pen_text *why)
{
    return pen__add_parameter(network, layer, use,
                              &(struct pen__part){.part = part}, 1, out, why);
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
    bool was_copy = network->is_adding_copies;
    if (network->adding_shared == 0) /* all members compute all of it */
        network->is_adding_copies = network->options.tensor.first > 0;
    pen_status status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS,
                                      gain, &out->gain, why);
    if (status == PEN_OK && bias != PEN_PARTS)
        status = pen__add_part(network, layer, PEN_PARAMETER_VECTORS, bias,
                               &out->bias, why);
    network->is_adding_copies = was_copy;
    if (status != PEN_OK)
        return status;
    out->width = network->parameters[network->num_parameters - 1].columns;
    return PEN_OK;
}

/* Where inputs are cut, the first piece has the biases. */
static bool has_bias(const struct pen__cut *cut)
{
    return cut->side != PEN__INPUTS || cut->first == 0;
}

pen_status pen__add_linear(struct pen_network *network, uint32_t layer,
                           const struct pen__dense *parts, size_t count,
                           struct pen_linear *out, struct pen_text *why)
{
    struct pen_engine *engine = network->options.engine;
    struct pen__part weights[PEN_MAX_PARAMETER_TENSORS];
    struct pen__part biases[PEN_MAX_PARAMETER_TENSORS];
    for (size_t i = 0; i < count; i++) {
        weights[i] = (struct pen__part){parts[i].weight, parts[i].cut};
        biases[i] = (struct pen__part){parts[i].bias, parts[i].cut};
    }
    *out = (struct pen_linear){.rows = pen__shape_of(&network->options).rows};
    pen_status status = pen__add_parameter(network, layer, PEN_PARAMETER_DENSE,
                                           weights, count, &out->weight, why);
    if (status == PEN_OK && has_bias(&parts[0].cut))
        status = pen__add_parameter(network, layer, PEN_PARAMETER_VECTORS,
                                    biases, count, &out->bias, why);
    if (status == PEN_OK)
        status = engine->ops->linear_prepare(engine, out, why);
    return status;
}

static bool has_dense_block(const struct pen_model *model)
{
    for (uint32_t i = 0; i < model->num_blocks; i++)
        if (!pen_model_block_is_sparse(model, i))
            return true;
    return false;
}

pen_status pen_network_check_pieces(const struct pen_model *model,
                                    uint32_t pieces, struct pen_text *why)
{
    uint32_t heads = model->num_kv_heads;
    if (pieces <= 1)
        return PEN_OK;
    if (model->num_heads % pieces != 0)
        pen_why(why, "the model's %u attention heads", model->num_heads);
    else if (heads % pieces != 0 && pieces % heads != 0)
        pen_why(why, "the model's %u key and value heads", heads);
    else if (has_dense_block(model) && model->intermediate % pieces != 0)
        pen_why(why, "the %u inner features of the model's MLP",
                model->intermediate);
    else if (model->num_experts > 0 && model->expert_intermediate % pieces != 0)
        pen_why(why, "the %u inner features of the model's experts",
                model->expert_intermediate);
    else if (model->num_experts > 0 && model->shared_intermediate % pieces != 0)
        pen_why(why, "the %u inner features of the model's shared experts",
                model->shared_intermediate);
    else if (words_per_piece(model->vocab, pieces) * (pieces - 1) >=
             model->vocab)
        pen_why(why, "the %u words of the model's vocabulary", model->vocab);
    else
        return PEN_OK;
    pen_why(why,
            " cannot be cut into %u pieces; use a number that divides "
            "them",
            pieces);
    return PEN_INVALID;
}

static bool is_power_of_two(uint32_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

/* Checks a tensor group: see struct pen_tensor_share. */
static pen_status check_group(const struct pen_network_options *options,
                              struct pen_text *why)
{
    const struct pen_tensor_share *tensor = &options->tensor;
    const struct pen_group *group = tensor->group;
    if (group == NULL)
        return pen_network_check_pieces(options->model, tensor->total, why);
    PEN_BUG_UNLESS(tensor->first == group->self * tensor->count &&
                   tensor->total == group->size * tensor->count);
    if (!is_power_of_two(group->size) || !is_power_of_two(tensor->count)) {
        pen_why(why,
                "%u tensor-parallel ranks with %u pieces each: both have to be "
                "powers of two",
                group->size, tensor->count);
        return PEN_INVALID;
    }
    if (!options->engine->ops->is_host) {
        pen_why(why,
                "the engine %s cannot be used by tensor-parallel ranks: its "
                "memory is not the host's",
                options->engine->ops->name);
        return PEN_INVALID;
    }
    return pen_network_check_pieces(options->model, tensor->total, why);
}

static pen_status check_rows(const struct pen_network_options *options,
                             struct pen_text *why)
{
    const struct pen_tensor_share *tensor = &options->tensor;
    size_t slices = options->num_slices > 1 ? options->num_slices : 1;
    size_t parts = options->context.total > 1 ? options->context.total : 1;
    size_t rows = options->batch * (options->sequence / slices / parts);
    if (!tensor->cuts_rows || rows % tensor->total == 0)
        return PEN_OK;
    pen_why(why,
            "--sequence-parallel cannot cut the %zu tokens of a micro-batch%s "
            "into %u equal parts; choose --micro-batch-size and --seq-length "
            "so that their product is a multiple of %zu",
            rows, parts > 1 ? " that a context-parallel rank has" : "",
            tensor->total, parts * tensor->total);
    return PEN_INVALID;
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
    pen_status status = check_group(options, why);
    return status == PEN_OK ? check_rows(options, why) : status;
}

static pen_status check_slices(const struct pen_network_options *options,
                               struct pen_text *why)
{
    uint32_t slices = options->num_slices;
    if (slices <= 1)
        return PEN_OK;
    if (options->sequence % slices != 0) {
        pen_why(why,
                "sequences of %zu tokens cannot be cut into %u equal slices; "
                "use a number of --slices that divides them",
                options->sequence, slices);
        return PEN_INVALID;
    }
    if (options->model->kv_lora_rank > 0) {
        pen_why(why, "--slices needs a model without latent attention; use "
                     "--slices 1");
        return PEN_INVALID;
    }
    if (!options->engine->ops->has_chunks) {
        pen_why(why,
                "the engine %s does not compute token slices; use --engine "
                "onednn, or --slices 1",
                options->engine->ops->name);
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
    if (pen_tensor_shares_rows(&options->tensor)) {
        network->requests =
            calloc(pen__stream_num_requests(options->tensor.group),
                   sizeof *network->requests);
        if (network->requests == NULL)
            return PEN_NOMEM;
    }
    if (options->model->rope.kind != PEN_ROPE_NONE &&
        pen__rotary_tables(network) != PEN_OK)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < options->num_layers; k++) {
        uint32_t layer = options->first_layer + k;
        network->building = layer;
        pen_status status =
            create_layer(network, layer, &network->layers[k], why);
        if (status == PEN_OK && pen_model_has_local_head(options->model, layer))
            status =
                pen__local_head_add(network, layer, &network->layers[k], why);
        if (status != PEN_OK)
            return status;
    }
    network->adding_piece = 0;
    pen_status status = pen__copies_create(network);
    if (status == PEN_OK)
        status = pen__subspace_create(network, why);
    return status == PEN_OK ? pen__network_seal(network, why) : status;
}

static pen_status check_parts(const struct pen_network_options *options,
                              struct pen_text *why)
{
    const struct pen_context_share *share = &options->context;
    if (share->total <= 1)
        return PEN_OK;
    PEN_BUG_UNLESS(share->group != NULL && share->group->size == share->total &&
                   share->group->self == share->part);
    PEN_BUG_UNLESS(options->num_slices <= 1);
    if (options->sequence % (2 * (size_t)share->total) != 0) {
        pen_why(why,
                "sequences of %zu tokens cannot be cut into the %u equal "
                "chunks of %u context-parallel ranks",
                options->sequence, 2 * share->total, share->total);
        return PEN_INVALID;
    }
    if (options->model->kv_lora_rank > 0) {
        pen_why(why, "--context-parallel-size needs a model without latent "
                     "attention; drop it");
        return PEN_INVALID;
    }
    if (!options->engine->ops->is_host || !options->engine->ops->has_chunks) {
        pen_why(why,
                "the engine %s cannot be used by context-parallel ranks: its "
                "memory is not the host's",
                options->engine->ops->name);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_network_create(const struct pen_network_options *options,
                              struct pen_network **out, struct pen_text *why)
{
    pen_status status = check(options, why);
    if (status == PEN_OK)
        status = check_slices(options, why);
    if (status == PEN_OK)
        status = check_parts(options, why);
    if (status != PEN_OK)
        return status;
    struct pen_network *network = calloc(1, sizeof *network);
    if (network == NULL)
        return PEN_NOMEM;
    network->options = *options;
    if (options->num_slices == 0)
        network->options.num_slices = 1;
    if (options->context.total == 0)
        network->options.context.total = 1;
    if (options->tensor.total == 0)
        network->options.tensor =
            (struct pen_tensor_share){.total = 1, .count = 1};
    status = build(network, why);
    if (status != PEN_OK) {
        pen_network_free(network);
        return status;
    }
    *out = network;
    return PEN_OK;
}
