/*
 * Training of a pruned network: SAMO, Singh, Bhatele, IPDPS 2023, arXiv
 * 2302.05045.
 *
 * The k = f n largest of the n elements of a matrix w are kept, and the others
 * are zero for good. Products stay dense. One index of k numbers is
 * shared by all that is compressed:
 *
 *   products    w       [ 0  a  0  0  b  c  0  0 ]      dense, n floats
 *   index       i       [ 1  4  5 ]
 *   optimizer   w[i]    [ a  b  c ]                     packed, k floats each
 *   gradient    g[i]    [ . . . ]
 *   moments     m, v    [ . . . ] [ . . . ]
 *
 *   backward of a layer    g dense = scatter(g[i]), + dw, g[i] = gather(g
 * dense) step                   (w[i], m, v) = adamw(w[i], g[i], m, v), w =
 * scatter
 *
 * Dense gradients of the layers use one block of memory in turns. They have the
 * packed sums while a layer adds to them, so every kept element has the bits of
 * a dense training whose gradient is multiplied by the mask. Bytes of a weight:
 * 4 + 20 f instead of 16 with AdamW in floats, 36 % of them at f = 0.1; the
 * publication counts 2 + 24 f of 20 in half precision.
 *
 * The list of a network's parameters has the packed one, so that sums over
 * replicas, norms, the optimizer and moments know nothing of all this. Files
 * have whole tensors: pen_network_import() and pen_network_export().
 */
#include "network/pruned.h"

#include "base/bug.h"
#include "engine/mirror.h"

#include <stdlib.h>
#include <string.h>

static struct pen_engine *engine_of(const struct pen_network *network)
{
    return network->options.engine;
}

static size_t count_of(const struct pen__pruned *pruned)
{
    return pruned->rows * pruned->columns;
}

/* Shows all of a part, where the host has it. */
static float *show(const struct pen_network *network,
                   struct pen_parameter *parameter,
                   enum pen_parameter_part part, size_t count)
{
    struct pen_mirror mirror = {.engine = engine_of(network)};
    return pen_mirror_show(
        &mirror, &(struct pen_mirror_piece){
                     .parameter = parameter, .part = part, .count = count});
}

/* ---- making ---- */

bool pen__is_pruned(const struct pen_network *network,
                    enum pen_parameter_use use,
                    const struct pen_network_parameter *added)
{
    const struct pen_network_options *options = &network->options;
    return options->sparsity > 0 && use == PEN_PARAMETER_DENSE &&
           added->role == PEN_ROLE_MATRIX && network->building > 0 &&
           network->building + 1 < options->model->num_layers;
}

static size_t count_kept(double sparsity, size_t count)
{
    size_t kept = count - (size_t)(sparsity * (double)count);
    return kept > 0 ? kept : 1;
}

static pen_status make(struct pen_network *network, struct pen__pruned *pruned,
                       const struct pen_parameter_shape *shape,
                       struct pen_text *why)
{
    struct pen_engine *engine = engine_of(network);
    struct pen_parameter_shape dense = *shape, packed = *shape;
    dense.moments = 0;
    dense.has_no_room = true;
    packed.use = PEN_PARAMETER_VECTORS;
    packed.rows = 1;
    packed.columns = pruned->kept;
    pruned->index = calloc(pruned->kept, sizeof *pruned->index);
    if (pruned->index == NULL)
        return PEN_NOMEM;
    pen_status status =
        engine->ops->parameter_create(engine, &dense, why, &pruned->dense);
    if (status == PEN_OK)
        status = engine->ops->parameter_create(engine, &packed, why,
                                               &pruned->packed);
    return status;
}

static void release(const struct pen_network *network,
                    struct pen__pruned *pruned)
{
    struct pen_engine *engine = engine_of(network);
    if (pruned->dense != NULL)
        engine->ops->parameter_free(engine, pruned->dense);
    free(pruned->index);
    free(pruned);
}

static pen_status check(const struct pen_network *network, size_t count,
                        struct pen_text *why)
{
    const struct pen_engine *engine = engine_of(network);
    if (count > UINT32_MAX)
        pen_why(why,
                "--sparsity numbers the elements of a matrix with 32 bits, and "
                "one of this model has %zu. Drop it, or use a smaller model",
                count);
    else if (!engine->ops->is_host || engine->dtype == PEN_PRECISION_F64)
        pen_why(why,
                "--sparsity needs floats in the memory of the host, which the "
                "engine %s does not have. Use --engine onednn",
                engine->ops->name);
    else
        return PEN_OK;
    return PEN_INVALID;
}

pen_status pen__pruned_create(struct pen_network *network,
                              const struct pen_parameter_shape *shape,
                              struct pen_network_parameter *added,
                              struct pen_parameter **dense,
                              struct pen_text *why)
{
    size_t count = added->rows * added->columns;
    pen_status status = check(network, count, why);
    if (status != PEN_OK)
        return status;
    struct pen__pruned *pruned = calloc(1, sizeof *pruned);
    if (pruned == NULL)
        return PEN_NOMEM;
    pruned->rows = added->rows;
    pruned->columns = added->columns;
    pruned->kept = count_kept(network->options.sparsity, count);
    status = make(network, pruned, shape, why);
    if (status != PEN_OK) {
        release(network, pruned);
        return status;
    }
    *dense = pruned->dense;
    added->parameter = pruned->packed;
    added->pruned = pruned;
    added->rows = 1;
    added->columns = pruned->kept;
    return PEN_OK;
}

void pen__pruned_free(struct pen_network *network)
{
    for (size_t i = 0; i < network->num_parameters; i++)
        if (network->parameters[i].pruned != NULL)
            release(network, network->parameters[i].pruned);
    pen_engine_give(engine_of(network), PEN_PLACE_ENGINE, network->pruned_block,
                    network->pruned_bytes);
}

/* Places dense gradients of a layer, or only counts their bytes. */
static pen_status place(const struct pen_network *network, uint32_t layer,
                        char *block, size_t *bytes, struct pen_text *why)
{
    struct pen_engine *engine = engine_of(network);
    pen_status status = PEN_OK;
    *bytes = 0;
    for (size_t i = 0; i < network->num_parameters && status == PEN_OK; i++) {
        const struct pen_network_parameter *it = &network->parameters[i];
        if (it->pruned == NULL || it->layer != layer)
            continue;
        size_t at = pen__take(bytes, count_of(it->pruned) * sizeof(float));
        if (block != NULL)
            status = engine->ops->gradient_place(engine, it->pruned->dense,
                                                 block + at, why);
    }
    return status;
}

pen_status pen__pruned_seal(struct pen_network *network, struct pen_text *why)
{
    uint32_t first = network->options.first_layer;
    uint32_t end = first + network->options.num_layers;
    size_t most = 0, bytes = 0;
    pen_status status = PEN_OK;
    for (uint32_t layer = first; layer < end && status == PEN_OK; layer++) {
        status = place(network, layer, NULL, &bytes, why);
        most = bytes > most ? bytes : most;
    }
    if (most == 0 || status != PEN_OK)
        return status;
    network->pruned_block =
        pen_engine_take(engine_of(network), PEN_PLACE_ENGINE, most);
    if (network->pruned_block == NULL)
        return PEN_NOMEM;
    network->pruned_bytes = most;
    for (uint32_t layer = first; layer < end && status == PEN_OK; layer++)
        status = place(network, layer, network->pruned_block, &bytes, why);
    return status;
}

size_t pen__pruned_bytes(const struct pen_network *network)
{
    size_t bytes = network->pruned_bytes;
    for (size_t i = 0; i < network->num_parameters; i++) {
        const struct pen__pruned *pruned = network->parameters[i].pruned;
        if (pruned != NULL)
            bytes += pruned->kept * sizeof *pruned->index;
    }
    return bytes;
}

/* ---- which elements are kept ---- */

/* Floats of one sign are ordered as their bits are. */
static uint32_t magnitude(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

/*
 * The magnitude of the kept-largest element, byte by byte from the highest;
 * *equal is how many elements of just that magnitude are kept.
 */
static uint32_t find_least(const float *values, size_t count, size_t kept,
                           size_t *equal)
{
    uint32_t least = 0, mask = 0;
    for (uint32_t shift = 32; shift > 0;) {
        size_t bins[256] = {0}, bin = 255;
        shift -= 8;
        for (size_t i = 0; i < count; i++)
            if ((magnitude(values[i]) & mask) == least)
                bins[(magnitude(values[i]) >> shift) & 255u]++;
        while (bins[bin] < kept)
            kept -= bins[bin--];
        least |= (uint32_t)bin << shift;
        mask |= 255u << shift;
    }
    *equal = kept;
    return least;
}

/* Zeroes all but the largest; the first of equal magnitudes are kept. */
static void choose(struct pen__pruned *pruned, float *values)
{
    size_t equal = 0, kept = 0;
    uint32_t least = find_least(values, count_of(pruned), pruned->kept, &equal);
    for (size_t i = 0; i < count_of(pruned); i++) {
        uint32_t size = magnitude(values[i]);
        bool is_kept = size > least || (size == least && equal > 0);
        equal -= is_kept && size == least;
        if (is_kept)
            pruned->index[kept++] = (uint32_t)i;
        else
            values[i] = 0;
    }
    PEN_BUG_UNLESS(kept == pruned->kept);
}

/* ---- between packed and dense ---- */

static void gather(const struct pen__pruned *pruned, const float *dense,
                   float *packed)
{
    for (size_t k = 0; k < pruned->kept; k++)
        packed[k] = dense[pruned->index[k]];
}

static void scatter(const struct pen__pruned *pruned, const float *packed,
                    float *dense)
{
    for (size_t k = 0; k < pruned->kept; k++)
        dense[pruned->index[k]] = packed[k];
}

void pen__pruned_open(const struct pen_network *network, uint32_t layer)
{
    for (size_t i = 0; i < network->num_parameters; i++) {
        const struct pen__pruned *pruned = network->parameters[i].pruned;
        if (pruned == NULL || network->parameters[i].layer != layer)
            continue;
        float *dense =
            show(network, pruned->dense, PEN_PART_GRADIENT, count_of(pruned));
        memset(dense, 0, count_of(pruned) * sizeof *dense);
        scatter(pruned,
                show(network, pruned->packed, PEN_PART_GRADIENT, pruned->kept),
                dense);
    }
}

void pen__pruned_close(const struct pen_network *network, uint32_t layer)
{
    for (size_t i = 0; i < network->num_parameters; i++) {
        const struct pen__pruned *pruned = network->parameters[i].pruned;
        if (pruned == NULL || network->parameters[i].layer != layer)
            continue;
        gather(
            pruned,
            show(network, pruned->dense, PEN_PART_GRADIENT, count_of(pruned)),
            show(network, pruned->packed, PEN_PART_GRADIENT, pruned->kept));
    }
}

void pen_network_spread(const struct pen_network *network, size_t parameter)
{
    struct pen_engine *engine = engine_of(network);
    const struct pen__pruned *pruned = network->parameters[parameter].pruned;
    if (pruned == NULL)
        return;
    scatter(pruned, show(network, pruned->packed, PEN_PART_VALUE, pruned->kept),
            show(network, pruned->dense, PEN_PART_VALUE, count_of(pruned)));
    engine->ops->parameter_value_changed(engine, pruned->dense);
}

/* ---- files ---- */

/* Where an element lies in the plain array of a file. */
static size_t plain_at(const struct pen__pruned *pruned,
                       enum pen_parameter_order order, size_t element)
{
    return order == PEN_ORDER_ROWS ? element
                                   : element % pruned->columns * pruned->rows +
                                         element / pruned->columns;
}

size_t pen_network_plain_count(const struct pen_network_parameter *it)
{
    return it->pruned == NULL ? pen_network_count(it) : count_of(it->pruned);
}

static void import_value(struct pen_network *network,
                         const struct pen_network_parameter *it,
                         const void *plain)
{
    struct pen_engine *engine = engine_of(network);
    struct pen__pruned *pruned = it->pruned;
    engine->ops->parameter_import(engine, pruned->dense, PEN_PART_VALUE,
                                  it->order, plain);
    float *dense =
        show(network, pruned->dense, PEN_PART_VALUE, count_of(pruned));
    choose(pruned, dense);
    engine->ops->parameter_value_changed(engine, pruned->dense);
    gather(pruned, dense,
           show(network, pruned->packed, PEN_PART_VALUE, pruned->kept));
    engine->ops->parameter_value_changed(engine, pruned->packed);
}

void pen_network_import(struct pen_network *network,
                        const struct pen_network_parameter *it,
                        enum pen_parameter_part part, const void *plain)
{
    struct pen_engine *engine = engine_of(network);
    const struct pen__pruned *pruned = it->pruned;
    if (pruned == NULL) {
        engine->ops->parameter_import(engine, it->parameter, part, it->order,
                                      plain);
    } else if (part == PEN_PART_VALUE) {
        import_value(network, it, plain);
    } else {
        const float *from = plain;
        float *packed = show(network, pruned->packed, part, pruned->kept);
        for (size_t k = 0; k < pruned->kept; k++)
            packed[k] = from[plain_at(pruned, it->order, pruned->index[k])];
    }
}

void pen_network_export(const struct pen_network *network,
                        const struct pen_network_parameter *it,
                        enum pen_parameter_part part, void *plain)
{
    struct pen_engine *engine = engine_of(network);
    const struct pen__pruned *pruned = it->pruned;
    float *to = plain;
    if (pruned == NULL) {
        engine->ops->parameter_export(engine, it->parameter, part, it->order,
                                      plain);
        return;
    }
    const float *packed = show(network, pruned->packed, part, pruned->kept);
    memset(to, 0, count_of(pruned) * sizeof *to);
    for (size_t k = 0; k < pruned->kept; k++)
        to[plain_at(pruned, it->order, pruned->index[k])] = packed[k];
}
