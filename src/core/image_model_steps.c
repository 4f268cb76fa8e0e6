/*
 * "layers" of a penstock_cnn: a chain that is written out. Every entry has one
 * of three keys, which says its kind and how many channels come out:
 *
 *   {"conv": 64, "kernel": 7, "stride": 2, "padding": 3, "norm": true,
 *    "pool": 3, "pool_stride": 2, "pool_padding": 1}
 *   {"residual": 256, "inner": 64, "stride": 2, "repeat": 3}
 *   {"dense": 4096}
 *
 * When not given: kernel 3, stride 1, padding that keeps the size, no norm, no
 * pool, pool_stride as wide as the pool, pool_padding 0, repeat 1. A residual
 * block without "inner" has two convolutions of 3 x 3, one with it has 1 x 1, 3
 * x 3 (with the stride) and 1 x 1; all of them have norms. In a row of repeated
 * layers the first has the stride and the last has the pool.
 */
#include "core/image_model_internal.h"

#include "core/config_keys.h"

#include <inttypes.h>

enum { MAX_REPEAT = 256, DEFAULT_KERNEL = 3 };

/* Reads a count that may be zero; left alone when absent. */
static pen_status read_number(const struct pen_json *json, const char *key,
                              uint32_t least, uint32_t most, uint32_t *out,
                              struct pen_text *why)
{
    return pen_json_has(json, key)
               ? pen_json_read_integer(json, key, least, most, out, why)
               : PEN_OK;
}

static pen_status read_convolution(const struct pen_json *json,
                                   struct pen_image_step *step,
                                   struct pen_text *why)
{
    const uint32_t most = PEN__IMAGE_MAX_KERNEL;
    step->kernel = DEFAULT_KERNEL;
    pen_status status = pen_json_check_keys(
        json,
        "conv kernel stride padding norm pool pool_stride pool_padding repeat",
        why);
    if (status == PEN_OK)
        status = read_number(json, "kernel", 1, most, &step->kernel, why);
    step->padding = step->kernel / 2;
    if (status == PEN_OK)
        status = read_number(json, "padding", 0, most, &step->padding, why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(json, "norm", &step->has_norm, why);
    if (status == PEN_OK)
        status = read_number(json, "pool", 1, most, &step->pool_kernel, why);
    if (status != PEN_OK || step->pool_kernel == 0) {
        if (status == PEN_OK && (pen_json_has(json, "pool_stride") ||
                                 pen_json_has(json, "pool_padding"))) {
            pen_why(why, "%spool is missing, but there are keys of a pool",
                    json->path);
            status = PEN_INVALID;
        }
        return status;
    }
    step->pool_stride = step->pool_kernel;
    status = read_number(json, "pool_stride", 1, most, &step->pool_stride, why);
    if (status == PEN_OK)
        status = read_number(json, "pool_padding", 0, step->pool_kernel - 1,
                             &step->pool_padding, why);
    return status;
}

static const struct kind {
    const char *key;
    enum pen_image_layer_kind kind;
    const char *known; /* keys; NULL: read_convolution() checks them */
} kinds[] = {
    {"conv", PEN_IMAGE_LAYER_CONVOLUTION, NULL},
    {"residual", PEN_IMAGE_LAYER_RESIDUAL, "residual inner stride repeat"},
    {"dense", PEN_IMAGE_LAYER_DENSE, "dense repeat"}};

enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

static pen_status read_step(const struct pen_json *json,
                            struct pen_image_step *step, struct pen_text *why)
{
    const uint32_t most = PEN__IMAGE_MAX_CHANNELS;
    const struct kind *kind = NULL;
    for (size_t i = 0; i < NUM_KINDS && kind == NULL; i++)
        if (pen_json_has(json, kinds[i].key))
            kind = &kinds[i];
    if (kind == NULL) {
        pen_why(why, "%sconv, %sresidual or %sdense must say what the layer is",
                json->path, json->path, json->path);
        return PEN_INVALID;
    }
    *step =
        (struct pen_image_step){.kind = kind->kind, .stride = 1, .repeat = 1};
    pen_status status = kind->known == NULL
                            ? read_convolution(json, step, why)
                            : pen_json_check_keys(json, kind->known, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, kind->key, 1, most, &step->outputs,
                                       why);
    if (status == PEN_OK)
        status = read_number(json, "inner", 1, most, &step->inner, why);
    if (status == PEN_OK)
        status = read_number(json, "stride", 1, PEN__IMAGE_MAX_KERNEL,
                             &step->stride, why);
    if (status == PEN_OK)
        status = read_number(json, "repeat", 1, MAX_REPEAT, &step->repeat, why);
    return status;
}

/* Positions end where dense layers begin. */
static pen_status check_order(const struct pen_image_model *model,
                              struct pen_text *why)
{
    uint32_t num_layers = 1;
    bool is_dense = false;
    for (uint32_t i = 0; i < model->num_steps; i++) {
        const struct pen_image_step *step = &model->steps[i];
        num_layers += step->repeat;
        if (is_dense && step->kind != PEN_IMAGE_LAYER_DENSE) {
            pen_why(why,
                    "layers[%" PRIu32 "] has positions, but a dense layer "
                    "before it has left none",
                    i);
            return PEN_INVALID;
        }
        is_dense = step->kind == PEN_IMAGE_LAYER_DENSE;
    }
    if (is_dense && model->has_average) {
        pen_why(why, "global_average needs positions, but the last entry of "
                     "layers is dense");
        return PEN_INVALID;
    }
    if (num_layers > PEN_IMAGE_MAX_LAYERS) {
        pen_why(why, "layers stands for %" PRIu32 " layers; the limit is %u",
                num_layers, PEN_IMAGE_MAX_LAYERS);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen__image_steps_read(const struct pen_json *json,
                                 struct pen_image_model *model,
                                 struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, "layers");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || count > PEN_IMAGE_MAX_STEPS) {
        pen_why(why, "layers must be a list of 1 to %u objects",
                PEN_IMAGE_MAX_STEPS);
        return PEN_INVALID;
    }
    pen_status status =
        pen__config_flag(json, "global_average", &model->has_average, why);
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, "layers", i, &entry, why);
        if (status == PEN_OK)
            status = read_step(&entry, &model->steps[i], why);
    }
    model->num_steps = (uint32_t)count;
    return status == PEN_OK ? check_order(model, why) : status;
}

/* ---- sizes ---- */

static pen_status slide(uint32_t step, uint32_t kernel, uint32_t stride,
                        uint32_t padding, uint64_t *size, struct pen_text *why)
{
    if (*size + 2 * (uint64_t)padding < kernel) {
        pen_why(why,
                "image_size is too small: layers[%" PRIu32 "] has a window of "
                "%" PRIu32 " on an image of %" PRIu64 " x %" PRIu64,
                step, kernel, *size, *size);
        return PEN_INVALID;
    }
    *size = (*size + 2 * (uint64_t)padding - kernel) / stride + 1;
    return PEN_OK;
}

static pen_status pass_step(const struct pen_image_step *step, uint32_t index,
                            uint64_t *size, struct pen_text *why)
{
    bool is_block = step->kind == PEN_IMAGE_LAYER_RESIDUAL;
    uint32_t kernel = is_block ? DEFAULT_KERNEL : step->kernel;
    uint32_t padding = is_block ? DEFAULT_KERNEL / 2 : step->padding;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < step->repeat; i++)
        status =
            slide(index, kernel, i == 0 ? step->stride : 1, padding, size, why);
    if (status == PEN_OK && step->pool_kernel > 0)
        status = slide(index, step->pool_kernel, step->pool_stride,
                       step->pool_padding, size, why);
    return status;
}

pen_status pen__image_steps_check(const struct pen_image_model *model,
                                  uint32_t *inputs, struct pen_text *why)
{
    uint64_t size = model->image_size;
    uint64_t channels = model->num_channels;
    for (uint32_t i = 0; i < model->num_steps; i++) {
        const struct pen_image_step *step = &model->steps[i];
        if (step->kind == PEN_IMAGE_LAYER_DENSE)
            break;
        pen_status status = pass_step(step, i, &size, why);
        if (status != PEN_OK)
            return status;
        channels = step->outputs;
    }
    uint64_t count = channels * size * size;
    if (count > PEN__IMAGE_MAX_INPUTS) {
        pen_why(why,
                "%" PRIu64 " values are too many for a dense layer; the limit "
                "is %u",
                count, PEN__IMAGE_MAX_INPUTS);
        return PEN_INVALID;
    }
    *inputs = (uint32_t)count;
    return PEN_OK;
}

/* ---- printing ---- */

static void print_step(const struct pen_image_step *step, struct pen_text *out)
{
    const struct kind *kind = kinds;
    while (kind->kind != step->kind)
        kind++;
    pen_text_add(out, "{\"%s\": %" PRIu32, kind->key, step->outputs);
    if (step->kind == PEN_IMAGE_LAYER_CONVOLUTION) {
        pen_text_add(out, ", \"kernel\": %" PRIu32 ", \"padding\": %" PRIu32,
                     step->kernel, step->padding);
        if (step->has_norm)
            pen_text_add_string(out, ", \"norm\": true");
    }
    if (step->stride > 1)
        pen_text_add(out, ", \"stride\": %" PRIu32, step->stride);
    if (step->inner > 0)
        pen_text_add(out, ", \"inner\": %" PRIu32, step->inner);
    if (step->repeat > 1)
        pen_text_add(out, ", \"repeat\": %" PRIu32, step->repeat);
    if (step->pool_kernel > 0)
        pen_text_add(out,
                     ", \"pool\": %" PRIu32 ", \"pool_stride\": %" PRIu32
                     ", \"pool_padding\": %" PRIu32,
                     step->pool_kernel, step->pool_stride, step->pool_padding);
    pen_text_add_string(out, "}");
}

void pen__image_steps_print(const struct pen_image_model *model,
                            struct pen_text *out)
{
    pen_text_add_string(out, ",\n  \"layers\": [");
    for (uint32_t i = 0; i < model->num_steps; i++) {
        pen_text_add_string(out, i == 0 ? "\n    " : ",\n    ");
        print_step(&model->steps[i], out);
    }
    pen_text_add(out, "],\n  \"global_average\": %s",
                 model->has_average ? "true" : "false");
}
