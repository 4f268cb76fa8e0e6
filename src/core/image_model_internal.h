#ifndef PEN_CORE_IMAGE_MODEL_INTERNAL_H
#define PEN_CORE_IMAGE_MODEL_INTERNAL_H

#include "core/image_model.h"

/* Copies the settings, and lists the layers and tensors that follow. */
pen_status pen__image_model_create(const struct pen_image_model *settings,
                                   struct pen_image_model **out,
                                   struct pen_text *why);

#endif
