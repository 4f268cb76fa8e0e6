/*
 * Blocks that write to a subspace of the residual stream, so that stages send
 * k of its d numbers and lose none (Protocol Models, 2506.01260).
 *
 * With U an orthonormal d x k matrix and P = U U^T, every matrix that writes to
 * the stream keeps W = P W. A row of the stream is then
 *
 *   x = e + P x',   e = the part of its token and position outside of P
 *
 * and e never changes: the tables are trained inside of P alone. A stage sends
 * x U and the next one computes x = (x U) U^T + e, from the ids and the columns
 * of the tables that do not change. Weights read the part of the gradient of x
 * that is in P alone, since W = P W, so g U is all that goes back.
 *
 * Here U is the first k axes of the stream. Then P W is W with zero rows, x U
 * is the first k columns, and everything above holds bit for bit: nothing is
 * rounded, and the steps of AdamW, SGD and Muon leave zero rows zero. The
 * publication turns U now and then; these axes stay.
 *
 *   x      | k columns that blocks write | d - k that tokens have |
 *   sent   | k columns                   |
 */
#include "network/subspace.h"

#include "base/bug.h"
#include "network/decoder.h"
#include "network/weights.h"

#include <stdlib.h>

/* ---- on the way ---- */

size_t pen__subspace_bytes(const struct pen__subspace *subspace, size_t bytes)
{
    return subspace == NULL || bytes == 0
               ? bytes
               : pen__align(subspace->rows * subspace->width *
                            subspace->element);
}

size_t pen__subspace_scratch(const struct pen__subspace *subspace)
{
    return subspace == NULL || subspace->num_anchors == 0
               ? 0
               : subspace->rows * (subspace->hidden - subspace->width) *
                     subspace->element;
}

/* The columns after those of the subspace. */
static void *outside(const struct pen__subspace *subspace, void *x)
{
    return pen__at(x, subspace->width * subspace->element);
}

static void copy(const struct pen__pass *pass, struct pen_columns columns,
                 const void *from, void *to)
{
    columns.rows = pass->subspace->rows;
    columns.groups = 1;
    pass->engine->ops->copy_columns(pass->engine, &columns, from, to);
}

void pen__subspace_enter(const struct pen__pass *pass, const void *message,
                         void *x)
{
    const struct pen__subspace *it = pass->subspace;
    size_t others = it->hidden - it->width;
    copy(pass,
         (struct pen_columns){.width = it->width,
                              .from_stride = it->width,
                              .to_stride = it->hidden},
         message, x);
    pass->engine->ops->embedding_forward(pass->engine, &it->table,
                                         pass->microbatch->ids, pass->scratch);
    copy(pass,
         (struct pen_columns){
             .width = others, .from_stride = others, .to_stride = it->hidden},
         pass->scratch, outside(it, x));
}

void pen__subspace_leave(const struct pen__pass *pass, const void *y,
                         void *message)
{
    const struct pen__subspace *it = pass->subspace;
    copy(pass,
         (struct pen_columns){.width = it->width,
                              .from_stride = it->hidden,
                              .to_stride = it->width},
         y, message);
}

/* Copies the columns of the subspace, of rows of any stride, and zeros after
 * them. */
static void keep(const struct pen__pass *pass, size_t stride, const void *from,
                 void *to)
{
    const struct pen__subspace *it = pass->subspace;
    copy(pass,
         (struct pen_columns){.width = it->width,
                              .zeros = it->hidden - it->width,
                              .from_stride = stride,
                              .to_stride = it->hidden},
         from, to);
}

void pen__subspace_widen(const struct pen__pass *pass, const void *message,
                         void *dy)
{
    keep(pass, pass->subspace->width, message, dy);
}

void pen__subspace_project(const struct pen__pass *pass, const void *x, void *y)
{
    keep(pass, pass->subspace->hidden, x, y);
}

void pen__subspace_clear(const struct pen__pass *pass, void *gradient)
{
    const struct pen__subspace *it = pass->subspace;
    if (it == NULL)
        return;
    void *from = outside(it, gradient);
    copy(pass,
         (struct pen_columns){.zeros = it->hidden - it->width,
                              .from_stride = it->hidden,
                              .to_stride = it->hidden},
         from, from);
}

/* ---- weights ---- */

static bool adds_to_stream(enum pen_part part)
{
    return part == PEN_PART_ATTENTION_OUT ||
           part == PEN_PART_ATTENTION_OUT_BIAS || part == PEN_PART_DOWN ||
           part == PEN_PART_DOWN_BIAS;
}

/*
 * Whether an element of a slice belongs to an output outside of the subspace.
 */
static bool is_outside(const struct pen_tensor_form *form,
                       const struct pen_tensor_piece *piece, size_t width,
                       size_t element)
{
    bool is_column = form->is_input_first && form->num_dims > 1;
    return (is_column
                ? element % piece->num_columns + piece->first_column
                : element / piece->num_columns + piece->first_row) >= width;
}

void pen__subspace_clear_slice(const struct pen_network *network,
                               const struct pen_tensor_slice *slice,
                               bool is_double, void *plain)
{
    struct pen_tensor_info info;
    if (network->subspace == NULL)
        return;
    pen_model_tensor(network->options.model, slice->tensor, &info);
    if (!adds_to_stream(info.form->part))
        return;
    for (size_t i = 0; i < pen_tensor_piece_count(&slice->piece); i++)
        if (!is_outside(info.form, &slice->piece, network->subspace->width, i))
            continue;
        else if (is_double)
            ((double *)plain)[slice->first + i] = 0;
        else
            ((float *)plain)[slice->first + i] = 0;
}

pen_status pen_network_check_slice(const struct pen_network *network,
                                   const struct pen_tensor_slice *slice,
                                   const float *values, struct pen_text *why)
{
    struct pen_tensor_info info;
    if (network->subspace == NULL)
        return PEN_OK;
    pen_model_tensor(network->options.model, slice->tensor, &info);
    size_t width = network->subspace->width;
    if (!adds_to_stream(info.form->part))
        return PEN_OK;
    for (size_t i = 0; i < pen_tensor_piece_count(&slice->piece); i++) {
        if (!is_outside(info.form, &slice->piece, width, i) || values[i] == 0)
            continue;
        pen_why(why,
                "the weights that were loaded do not fit --compress-stages "
                "subspace:%zu: %s of layer %u writes to further columns of the "
                "%zu of the residual stream. Begin with --random-weights, or "
                "drop --compress-stages",
                width, info.form->name, info.layer, network->subspace->hidden);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* ---- making ---- */

/* The columns of a table that do not change. */
static pen_status add_anchor(struct pen_network *network, enum pen_part part,
                             struct pen_parameter **out, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    struct pen_engine *engine = network->options.engine;
    struct pen__subspace *subspace = network->subspace;
    uint32_t tensor = pen_model_find_part(model, 0, part);
    struct pen_tensor_info info;
    if (tensor >= model->num_tensors)
        return PEN_OK;
    pen_model_tensor(model, tensor, &info);
    struct pen_tensor_piece piece =
        pen_tensor_piece_whole(info.form->num_dims, info.form->shape);
    PEN_BUG_UNLESS(piece.num_columns == subspace->hidden &&
                   !info.form->is_input_first);
    piece.first_column = subspace->width;
    piece.num_columns -= subspace->width;
    struct pen_network_parameter anchor = {
        .num_sharing = 1,
        .num_dealt = 1,
        .num_sources = 1,
        .is_value_only = true,
        .role = info.form->role,
        .rows = (size_t)piece.num_rows,
        .columns = (size_t)piece.num_columns,
        .num_slices = 1,
        .slices = {{.tensor = tensor, .piece = piece}}};
    const struct pen_parameter_shape shape = {.use = PEN_PARAMETER_VECTORS,
                                              .rows = anchor.rows,
                                              .columns = anchor.columns,
                                              .is_value_only = true};
    pen_status status =
        engine->ops->parameter_create(engine, &shape, why, &anchor.parameter);
    if (status != PEN_OK)
        return status;
    *out = anchor.parameter;
    subspace->anchors[subspace->num_anchors++] = anchor;
    return PEN_OK;
}

pen_status pen__subspace_create(struct pen_network *network,
                                struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    const struct pen__shape shape = pen__shape_of(options);
    if (options->subspace == 0)
        return PEN_OK;
    PEN_BUG_UNLESS(options->subspace < shape.hidden &&
                   options->tensor.total == 1 && options->context.total == 1 &&
                   options->num_slices == 1);
    if (options->engine->ops->copy_columns == NULL) {
        pen_why(why,
                "the engine %s cannot copy columns of the residual stream, "
                "which --compress-stages subspace:K needs. Use --engine "
                "onednn, or drop --compress-stages",
                options->engine->ops->name);
        return PEN_INVALID;
    }
    struct pen__subspace *subspace = calloc(1, sizeof *subspace);
    if (subspace == NULL)
        return PEN_NOMEM;
    network->subspace = subspace;
    subspace->rows = shape.rows;
    subspace->width = options->subspace;
    subspace->hidden = shape.hidden;
    subspace->element = shape.element;
    subspace->table.rows = shape.rows;
    subspace->table.sequence = options->sequence;
    if (options->first_layer == 0)
        return PEN_OK;
    pen_status status = add_anchor(network, PEN_PART_TOKEN_EMBEDDING,
                                   &subspace->table.tokens, why);
    if (status == PEN_OK)
        status = add_anchor(network, PEN_PART_POSITION_EMBEDDING,
                            &subspace->table.positions, why);
    return status;
}

void pen__subspace_free(struct pen_network *network)
{
    struct pen_engine *engine = network->options.engine;
    struct pen__subspace *subspace = network->subspace;
    for (uint32_t i = 0; subspace != NULL && i < subspace->num_anchors; i++)
        engine->ops->parameter_free(engine, subspace->anchors[i].parameter);
    free(subspace);
}

size_t pen_network_num_anchors(const struct pen_network *network)
{
    return network->subspace == NULL ? 0 : network->subspace->num_anchors;
}

const struct pen_network_parameter *
pen_network_anchor(const struct pen_network *network, size_t index)
{
    PEN_BUG_UNLESS(index < pen_network_num_anchors(network));
    return &network->subspace->anchors[index];
}
