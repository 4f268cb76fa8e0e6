/* The weights a training begins with. */
#include "network/chain.h"
#include "network/fill.h"
#include "network/image_tensors.h"
#include "network/subspace.h"

#include <math.h>
#include <stdlib.h>

static bool writes_to_stream(enum pen_part part)
{
    return part == PEN_PART_ATTENTION_OUT || part == PEN_PART_DOWN ||
           part == PEN_PART_EXPERT_DOWN || part == PEN_PART_SHARED_DOWN;
}

static bool is_gain(enum pen_part part)
{
    return part == PEN_PART_ATTENTION_NORM || part == PEN_PART_MLP_NORM ||
           part == PEN_PART_FINAL_NORM || part == PEN_PART_LOCAL_NORM ||
           part == PEN_PART_Q_NORM || part == PEN_PART_K_NORM ||
           part == PEN_PART_Q_LOW_NORM || part == PEN_PART_KV_LOW_NORM;
}

static void fill_tensor(const struct pen_model *model, uint64_t seed,
                        const struct pen__fill *fill)
{
    struct pen_tensor_info info;
    pen_model_tensor(model, fill->slice->tensor, &info);
    if (info.form->role != PEN_ROLE_MATRIX) {
        pen__fill_constant(fill, is_gain(info.form->part) ? 1 : 0);
        return;
    }
    double deviation = 0.02;
    if (writes_to_stream(info.form->part))
        deviation /= sqrt(2.0 * model->num_blocks);
    pen__fill_normal(fill, seed, deviation);
}

/* One expert of a stacked tensor is filled as a tensor of its own. */
static bool is_stacked(const struct pen_network *network, uint32_t tensor)
{
    struct pen_tensor_info info;
    if (network->image_model != NULL)
        return false;
    pen_model_tensor(network->options.model, tensor, &info);
    return info.form->is_stacked;
}

static struct pen_tensor_piece whole_of(const struct pen_network *network,
                                        uint32_t tensor)
{
    struct pen_tensor_info info;
    if (network->image_model != NULL) {
        const struct pen_image_tensor *it =
            &network->image_model->tensors[tensor];
        return pen_tensor_piece_whole(it->num_dims, it->shape);
    }
    pen_model_tensor(network->options.model, tensor, &info);
    return pen_tensor_piece_whole(info.form->num_dims, info.form->shape);
}

/* Makes the tensor that is filled that of the one expert of a slice. */
static void take_expert(const struct pen_network *network,
                        struct pen_tensor_slice *slice, struct pen__fill *fill)
{
    uint64_t rows = fill->whole.num_rows / network->options.model->num_experts;
    fill->expert = (uint32_t)(slice->piece.first_row / rows);
    slice->piece.first_row %= rows;
    fill->whole.num_rows = rows;
}

static pen_status initialize(struct pen_network *network,
                             const struct pen_network_parameter *it,
                             uint64_t seed)
{
    struct pen_engine *engine = network->options.engine;
    enum pen_precision stat = pen_precision_master(engine->dtype);
    void *plain =
        calloc(pen_network_plain_count(it), pen_precision_bytes(stat));
    if (plain == NULL)
        return PEN_NOMEM;
    for (size_t k = 0; k < it->num_slices; k++) {
        struct pen_tensor_slice slice = it->slices[k];
        struct pen__fill fill = {&slice, whole_of(network, slice.tensor),
                                 stat == PEN_PRECISION_F64, plain, 0};
        if (is_stacked(network, slice.tensor)) {
            take_expert(network, &slice, &fill);
        }
        if (network->image_model != NULL)
            pen__image_fill(network->image_model, seed, &fill);
        else
            fill_tensor(network->options.model, seed, &fill);
        pen__subspace_clear_slice(network, &it->slices[k], fill.is_double,
                                  plain);
    }
    pen_network_import(network, it, PEN_PART_VALUE, plain);
    free(plain);
    return PEN_OK;
}

pen_status pen_network_initialize(struct pen_network *network, uint64_t seed)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < network->num_parameters && status == PEN_OK; i++)
        status = initialize(network, &network->parameters[i], seed);
    for (size_t i = 0; i < pen_network_num_anchors(network) && status == PEN_OK;
         i++)
        status = initialize(network, pen_network_anchor(network, i), seed);
    if (network->image_model != NULL && status == PEN_OK)
        pen__image_statistics_reset(network);
    return status;
}
