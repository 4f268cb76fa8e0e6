/*
 * One layer of a network for images on one device. A convolution is the product
 * that it stands for: positions of all images by filters. Its weight gradient
 * takes as long as its forward, since libraries cut the sum over positions.
 */
#include "planner/layer_operations.h"

#include "core/image_model_cost.h"

/*
 * Convolutions of 3 x 3 with stride 1 in f32 are computed as products of small
 * tiles (Winograd; Lavin and Gray, arXiv 1509.09308): 2.25 times fewer
 * multiplications for tiles of 2 x 2. The gain that remains in practice was
 * fitted to the layers of VGG-16 on a V100, see docs/accuracy.md.
 */
#define SMALL_TILES_GAIN 1.7

/* Passes over an array: read, and written. */
enum {
    RELU_FORWARD = 2,
    RELU_BACKWARD = 3,
    NORM_FORWARD = 3, /* statistics first */
    NORM_BACKWARD = 5
};

struct image_layer {
    const struct pen_setting *setting;
    double batch;
    double element; /* bytes */
    bool is_first;  /* needs no gradient of its input */
    struct pen_operation_list forward;
    struct pen_operation_list input;
    struct pen_operation_list weight;
};

static double bytes_of(const struct image_layer *layer,
                       const struct pen_image_extent *extent)
{
    return layer->batch * layer->element *
           (double)pen_image_extent_numbers(extent);
}

static double gain_of(const struct image_layer *layer,
                      const struct pen_image_convolution *it)
{
    bool is_small = it->kernel == 3 && it->stride == 1;
    return is_small && layer->setting->number == PEN_NUMBER_F32
               ? SMALL_TILES_GAIN
               : 1;
}

/* Returns what comes out. The norm is part of it. */
static struct pen_image_extent
list_convolution(struct image_layer *layer,
                 const struct pen_image_convolution *it,
                 const struct pen_image_extent *in, bool has_input_gradient)
{
    struct pen_image_extent out = pen_image_convolved(it, in);
    double positions = layer->batch * (double)(out.height * out.width);
    double window = (double)it->kernel * it->kernel;
    double depth = it->inputs * window;
    double bytes = bytes_of(layer, in) + bytes_of(layer, &out) +
                   layer->element * depth * it->outputs;
    double gain = gain_of(layer, it);
    pen_operations_add_convolution(&layer->forward, positions, it->outputs,
                                   depth, bytes, gain);
    pen_operations_add_convolution(&layer->weight, positions, it->outputs,
                                   depth, bytes, gain);
    double all = layer->batch * (double)(in->height * in->width);
    if (has_input_gradient)
        pen_operations_add_convolution(&layer->input, all, it->inputs,
                                       it->outputs * window * positions / all,
                                       bytes, gain);
    if (it->has_norm) {
        double array = bytes_of(layer, &out);
        pen_operations_add_rows(&layer->forward, NORM_FORWARD * array, 1);
        pen_operations_add_rows(&layer->input, NORM_BACKWARD * array, 1);
    }
    return out;
}

static void list_relu(struct image_layer *layer,
                      const struct pen_image_extent *extent, double arrays)
{
    double array = bytes_of(layer, extent);
    pen_operations_add_rows(&layer->forward, (RELU_FORWARD + arrays) * array,
                            1);
    pen_operations_add_rows(&layer->input, RELU_BACKWARD * array, 1);
}

/* One image's numbers before a pool and after it. */
static void list_pool(struct image_layer *layer,
                      const struct pen_image_extent *before,
                      const struct pen_image_extent *after)
{
    double in = bytes_of(layer, before);
    double out = bytes_of(layer, after);
    pen_operations_add_rows(&layer->forward, in + out, 1);
    pen_operations_add_rows(&layer->input, in + 2 * out, 1);
}

static void list_dense(struct image_layer *layer,
                       const struct pen_image_layer *model)
{
    double inputs = model->inputs;
    double outputs = model->outputs;
    pen_operations_add_product(&layer->forward, 1, layer->batch, outputs,
                               inputs);
    if (!layer->is_first)
        pen_operations_add_product(&layer->input, 1, layer->batch, inputs,
                                   outputs);
    pen_operations_add_product(&layer->weight, 1, outputs, inputs,
                               layer->batch);
}

static void list_layer(struct image_layer *layer,
                       const struct pen_image_layer *model,
                       const struct pen_image_extent *in,
                       const struct pen_image_extent *out)
{
    struct pen_image_extent at = *in;
    bool is_block = model->kind == PEN_IMAGE_LAYER_RESIDUAL;
    if (model->shortcut.outputs > 0)
        list_convolution(layer, &model->shortcut, in, !layer->is_first);
    for (uint32_t i = 0; i < model->num_convolutions; i++) {
        at = list_convolution(layer, &model->convolutions[i], &at,
                              i > 0 || !layer->is_first);
        bool is_sum = is_block && i == model->num_convolutions - 1;
        list_relu(layer, &at, is_sum ? 1 : 0);
    }
    if (model->pool_kernel > 0)
        list_pool(layer, &at, out);
    if (model->outputs == 0)
        return;
    if (model->has_average)
        list_pool(layer, in, out);
    list_dense(layer, model);
    list_relu(layer, out, 0); /* of a head, the softmax */
}

static double time_of(const struct pen_device *device, enum pen_number number,
                      const struct pen_operation_list *list)
{
    return pen__layer_blend(pen_operations_busy(device, number, list),
                            pen_operations_host(device, list));
}

void pen__image_layer_predict(const struct pen_setting *setting,
                              const struct pen_plan *plan, uint32_t group,
                              uint32_t index, struct pen_layer_time *time,
                              struct pen_layer_bytes *bytes)
{
    const struct pen_image_model *model = setting->model->images;
    const struct pen_device *device = &setting->cluster->groups[group].device;
    struct image_layer layer = {.setting = setting,
                                .batch = plan->micro_batch,
                                .element = pen_number_bytes(setting->number),
                                .is_first = index == 0};
    const struct pen_workload work = {
        .batch = plan->micro_batch,
        .sequence = 1,
        .element_bytes = (uint32_t)pen_number_bytes(setting->number)};
    struct pen_image_extent in;
    struct pen_image_extent out;
    struct pen_layer_cost cost;
    pen_image_layer_extents(model, index, &in, &out);
    list_layer(&layer, &model->layers[index], &in, &out);
    *time = (struct pen_layer_time){
        .forward_sec = time_of(device, setting->number, &layer.forward),
        .input_sec = time_of(device, setting->number, &layer.input),
        .weight_sec = time_of(device, setting->number, &layer.weight)};
    pen_image_layer_cost(model, index, &work, &cost);
    *bytes = (struct pen_layer_bytes){
        .num_parameters = pen_image_layer_parameters(model, index),
        .stash_bytes = cost.stash_bytes,
        .hold_bytes = cost.hold_bytes,
        .output_bytes = cost.output_bytes,
        .working_bytes = cost.hold_bytes};
}
