#ifndef PEN_CORE_MODEL_INTERNAL_H
#define PEN_CORE_MODEL_INTERNAL_H

#include "core/model.h"

/* Sets what all GPT-2 have in common, given hidden size and heads. */
void pen__model_complete_gpt2(struct pen_model *model);

/* Copies the shape and lists its tensors. */
pen_status pen__model_create(const struct pen_model *shape,
                             struct pen_model **out, struct pen_text *why);

#endif
