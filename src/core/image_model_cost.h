#ifndef PEN_CORE_IMAGE_MODEL_COST_H
#define PEN_CORE_IMAGE_MODEL_COST_H

#include "core/image_model.h"

/*
 * Flops of the three passes of all layers over a batch, from the shapes alone:
 * convolutions and dense products, multiply-adds counting two. Nobody asks for
 * the gradient of the pixels, so the first layer has two passes.
 */
double pen_image_model_step_flops(const struct pen_image_model *model,
                                  uint64_t batch, uint32_t height,
                                  uint32_t width);

#endif
