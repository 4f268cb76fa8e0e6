#ifndef PEN_CORE_IMAGE_MODEL_INTERNAL_H
#define PEN_CORE_IMAGE_MODEL_INTERNAL_H

#include "base/json.h"
#include "core/image_model.h"

/* Chosen so that no count of bytes of a model leaves 64 bits, nor its list of
 * tensors a few megabytes. */
#define PEN__IMAGE_MAX_CHANNELS (1u << 16)
#define PEN__IMAGE_MAX_SIDE (1u << 12)
#define PEN__IMAGE_MAX_INPUTS (1u << 28)
#define PEN__IMAGE_MAX_KERNEL 31

/* Reads "layers" and "global_average" of a penstock_cnn. */
pen_status pen__image_steps_read(const struct pen_json *json,
                                 struct pen_image_model *model,
                                 struct pen_text *why);

/* Writes them. */
void pen__image_steps_print(const struct pen_image_model *model,
                            struct pen_text *out);

/*
 * Checks that the images of the model are large enough for its steps, and that
 * the input of the first dense layer is not too large. Sets the inputs of that
 * layer.
 */
pen_status pen__image_steps_check(const struct pen_image_model *model,
                                  uint32_t *inputs, struct pen_text *why);

/* Returns the config.json of a preset; NULL when there is none of that name. */
const char *pen__image_preset(const char *name);

/* Copies the settings, and lists the layers and tensors that follow. */
pen_status pen__image_model_create(const struct pen_image_model *settings,
                                   struct pen_image_model **out,
                                   struct pen_text *why);

#endif
