/* Weights from files into a network. */
#include "network/weights.h"

#include "network/chain.h"

#include <stdlib.h>

/* Widens floats in place, from the end: a float is shorter than a double. */
static void widen(void *plain, size_t count)
{
    float *floats = plain;
    double *doubles = plain;
    for (size_t i = count; i-- > 0;) {
        double wide = (double)floats[i];
        doubles[i] = wide;
    }
}

pen_status pen_network_read_slice(const struct pen_tensor_slice *slice,
                                  const struct pen_safetensor *tensor,
                                  float *values, struct pen_text *why)
{
    size_t count = pen_tensor_piece_count(&slice->piece);
    pen_tensor_piece_read(&slice->piece, tensor, values);
    size_t at = pen_dtype_first_nonfinite(PEN_DTYPE_F32, values, count);
    if (at == count)
        return PEN_OK;
    pen_why(why,
            "the weights that were loaded are damaged: %s is %g at element "
            "%zu of %zu. Load an earlier checkpoint, or another copy of the "
            "weights",
            tensor->name, (double)values[at], at, count);
    return PEN_INVALID;
}

static pen_status load_parameter(struct pen_network *network,
                                 const struct pen_network_parameter *it,
                                 const struct pen_weights *weights, void *plain,
                                 struct pen_text *why)
{
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t k = 0; k < it->num_slices; k++) {
        const struct pen_tensor_slice *slice = &it->slices[k];
        const struct pen_safetensor *tensor = NULL;
        pen_status status =
            network->image_model != NULL
                ? pen_weights_find_image_tensor(weights, network->image_model,
                                                slice->tensor, &tensor, why)
                : pen_weights_find_tensor(weights, pen_network_model(network),
                                          slice->tensor, &tensor, why);
        if (status != PEN_OK)
            return status;
        float *values = (float *)plain + slice->first;
        status = pen_network_read_slice(slice, tensor, values, why);
        if (status == PEN_OK)
            status = pen_network_check_slice(network, slice, values, why);
        if (status != PEN_OK)
            return status;
    }
    if (engine->dtype == PEN_PRECISION_F64)
        widen(plain, pen_network_count(it));
    pen_network_import(network, it, PEN_PART_VALUE, plain);
    return PEN_OK;
}

/* Heads in the middle (local.c) are not in weights of the model itself. */
static bool may_be_missing(const struct pen_network *network,
                           const struct pen_network_parameter *it,
                           const struct pen_weights *weights)
{
    struct pen_tensor_info info;
    if (network->image_model != NULL)
        return false;
    pen_model_tensor(pen_network_model(network), it->slices[0].tensor, &info);
    return info.form->part >= PEN_PART_LOCAL_NORM &&
           pen_weights_find(weights, info.name) == NULL;
}

static pen_status load(struct pen_network *network,
                       const struct pen_network_parameter *it,
                       const struct pen_weights *weights, struct pen_text *why)
{
    struct pen_engine *engine = pen_network_engine(network);
    size_t bytes = pen_precision_bytes(pen_precision_master(engine->dtype));
    if (may_be_missing(network, it, weights))
        return PEN_OK;
    void *plain = malloc(pen_network_plain_count(it) * bytes);
    if (plain == NULL)
        return PEN_NOMEM;
    pen_status status = load_parameter(network, it, weights, plain, why);
    free(plain);
    return status;
}

pen_status pen_network_load(struct pen_network *network,
                            const struct pen_weights *weights,
                            struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0;
         i < pen_network_num_parameters(network) && status == PEN_OK; i++)
        status = load(network, pen_network_parameter(network, i), weights, why);
    for (size_t i = 0; i < pen_network_num_anchors(network) && status == PEN_OK;
         i++)
        status = load(network, pen_network_anchor(network, i), weights, why);
    return status == PEN_OK ? pen_network_load_statistics(network, weights, why)
                            : status;
}
