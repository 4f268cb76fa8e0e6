#ifndef PEN_CORE_IMAGE_MODEL_COST_H
#define PEN_CORE_IMAGE_MODEL_COST_H

#include "core/image_model.h"
#include "core/model_cost.h"

/*
 * Flops and bytes of the layers of an image network, from the shapes alone:
 * convolutions and dense products; a multiply-add counts as two flops. The
 * gradient of the pixels is not computed, so the first layer has two passes.
 */

/* The input or the output of a layer, for one image. */
struct pen_image_extent {
    uint64_t channels;
    uint64_t height;
    uint64_t width;
};

uint64_t pen_image_extent_numbers(const struct pen_image_extent *extent);

/* Returns the output of a convolution. */
struct pen_image_extent
pen_image_convolved(const struct pen_image_convolution *convolution,
                    const struct pen_image_extent *in);

/*
 * Computes the input and the output of a layer. For networks that take images
 * of any size it assumes 224 x 224.
 */
void pen_image_layer_extents(const struct pen_image_model *model,
                             uint32_t layer, struct pen_image_extent *in,
                             struct pen_image_extent *out);

/* Returns the parameters that the layer trains. */
uint64_t pen_image_layer_parameters(const struct pen_image_model *model,
                                    uint32_t layer);

/*
 * Computes costs like pen_model_layer_cost(), for the layers as src/network
 * computes them.
 */
void pen_image_layer_cost(const struct pen_image_model *model, uint32_t layer,
                          const struct pen_workload *workload,
                          struct pen_layer_cost *out);

/* Returns the flops of the three passes of all layers over a batch. */
double pen_image_model_step_flops(const struct pen_image_model *model,
                                  uint64_t batch, uint32_t height,
                                  uint32_t width);

#endif
