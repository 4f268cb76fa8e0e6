#ifndef PEN_CORE_IMAGE_MODEL_H
#define PEN_CORE_IMAGE_MODEL_H

#include "core/model.h"

/*
 * A model that classifies images: what its config.json says, the layers that
 * follow, and their tensors with the names and shapes of a checkpoint.
 *
 *   resnet        ResNetForImageClassification of transformers
 *   penstock_cnn  convolutions with ReLU, and a norm and a max pool if wanted,
 *                 residual blocks; then dense layers
 *   penstock_mlp  dense layers with ReLU
 *
 * The last layer is the head, a dense one to the labels. Layers are counted
 * from the input, tensors in the order of the layers.
 */

enum pen_image_family {
    PEN_IMAGE_FAMILY_RESNET,
    PEN_IMAGE_FAMILY_CNN,
    PEN_IMAGE_FAMILY_MLP
};

/*
 * The place of a tensor in its layer. A convolution with a norm has the first
 * six in this order from its first tensor on, one without has filters and a
 * bias, a dense layer a matrix and a bias.
 */
enum pen_image_part {
    PEN_IMAGE_FILTERS,
    PEN_IMAGE_NORM_GAIN,
    PEN_IMAGE_NORM_BIAS,
    PEN_IMAGE_RUNNING_MEAN,
    PEN_IMAGE_RUNNING_VARIANCE,
    PEN_IMAGE_NUM_BATCHES, /* that made the running ones */
    PEN_IMAGE_NORM_TENSORS,
    PEN_IMAGE_MATRIX = PEN_IMAGE_NORM_TENSORS,
    PEN_IMAGE_BIAS
};

struct pen_image_convolution {
    uint32_t inputs; /* channels */
    uint32_t outputs;
    uint32_t kernel; /* height and width */
    uint32_t stride;
    uint32_t padding;
    bool has_norm; /* and no bias */
    uint32_t first_tensor;
};

enum pen_image_layer_kind {
    PEN_IMAGE_LAYER_CONVOLUTION, /* convolution, ReLU; norm, max pool if any */
    PEN_IMAGE_LAYER_RESIDUAL,    /* ReLU(shortcut(x) + convolutions(x)) */
    PEN_IMAGE_LAYER_DENSE,       /* ReLU(x W^T + bias) */
    PEN_IMAGE_LAYER_HEAD         /* average over positions, x W^T + bias */
};

#define PEN_IMAGE_MAX_CONVOLUTIONS 3

struct pen_image_layer {
    enum pen_image_layer_kind kind;
    uint32_t first_tensor;
    uint32_t num_tensors;

    /* Convolution and residual; a shortcut without outputs is x itself. */
    uint32_t num_convolutions;
    struct pen_image_convolution convolutions[PEN_IMAGE_MAX_CONVOLUTIONS];
    struct pen_image_convolution shortcut;
    uint32_t pool_kernel; /* after a convolution; 0: no pool */
    uint32_t pool_stride;
    uint32_t pool_padding;

    /* Dense and head: first_tensor is the matrix, the bias follows it. */
    uint32_t inputs;
    uint32_t outputs;
    bool has_average; /* over the positions of each channel first */
};

struct pen_image_tensor {
    char name[PEN_TENSOR_NAME_SIZE];
    uint32_t layer;
    enum pen_image_part part;
    enum pen_role role;
    bool is_trained; /* else it is a running statistic */
    uint32_t num_dims;
    uint64_t shape[4];
    uint64_t num_elements;
};

#define PEN_IMAGE_MAX_SIZES 16
#define PEN_IMAGE_MAX_STEPS 64
#define PEN_IMAGE_MAX_LAYERS 1024

/*
 * An entry of "layers" in a config.json: layers of one kind in a row. If it
 * repeats, the first layer has the stride and the last has the pool.
 */
struct pen_image_step {
    enum pen_image_layer_kind kind; /* any but HEAD */
    uint32_t outputs;
    uint32_t repeat;
    /* Convolution and residual. */
    uint32_t stride;
    /* Convolution. */
    uint32_t kernel;
    uint32_t padding;
    bool has_norm;
    uint32_t pool_kernel; /* 0: none */
    uint32_t pool_stride;
    uint32_t pool_padding;
    /* Residual: channels of a bottleneck; 0: two convolutions of 3 x 3. */
    uint32_t inner;
};

struct pen_image_model {
    enum pen_image_family family;
    uint32_t num_channels;
    uint32_t image_size; /* height and width; 0: any */
    uint32_t num_labels;

    /* ResNet: a stage each. CNN: convolutions. */
    uint32_t num_stages;
    uint32_t stage_sizes[PEN_IMAGE_MAX_SIZES]; /* channels that come out */
    uint32_t depths[PEN_IMAGE_MAX_SIZES];      /* ResNet */
    uint32_t embedding_size;                   /* ResNet */
    bool is_bottleneck;                        /* ResNet */
    bool has_downsample_in_first_stage;        /* ResNet */
    bool has_downsample_in_bottleneck;         /* ResNet */
    uint32_t kernel_size; /* CNN with conv_sizes; 0: it has "layers" */

    /* CNN: what "layers" says, or what conv_sizes stands for. */
    uint32_t num_steps;
    struct pen_image_step steps[PEN_IMAGE_MAX_STEPS];
    bool has_average; /* before the head, over positions */

    /* CNN with conv_sizes, and MLP: dense layers between. */
    uint32_t num_dense;
    uint32_t dense_sizes[PEN_IMAGE_MAX_SIZES];

    struct pen_image_layer *layers;
    uint32_t num_layers;
    struct pen_image_tensor *tensors;
    uint32_t num_tensors;
    uint64_t num_parameters; /* trained ones */
};

/*
 * Loads "preset:mnist-cnn" or another of image_model_presets.c, a config.json
 * or a directory that has one. Unknown keys are ignored; settings that would
 * change the network and are not supported are refused.
 *
 * On success *out is owned by the caller; free it with pen_image_model_free().
 * On failure why has the path and the key, or line and column.
 */
pen_status pen_image_model_load(const char *source,
                                struct pen_image_model **out,
                                struct pen_text *why);

/*
 * Returns whether the model is of the kinds above: its preset or model_type is
 * known here.
 */
bool pen_image_model_is(const char *source);

/* Returns the same for the text of a config.json. */
bool pen_image_model_is_config(const char *text, size_t length);

/* Returns the names of presets, without "preset:"; NULL after the last one. */
const char *pen_image_model_preset_at(size_t index);

/* Adds the names of all presets: "preset:alexnet, preset:cifar-cnn, ...". */
void pen_image_model_list_presets(struct pen_text *out);

/* Parses such a model from the text of a config.json. */
pen_status pen_image_model_parse(const char *text, size_t length,
                                 struct pen_image_model **out,
                                 struct pen_text *why);

void pen_image_model_free(struct pen_image_model *model);

/* Writes a config.json that is read as this model. */
void pen_image_model_print(const struct pen_image_model *model,
                           struct pen_text *out);

/* Returns "resnet" or the like, as model_type has it; a constant. */
const char *pen_image_family_name(enum pen_image_family family);

#endif
