#ifndef PEN_EXPORT_MEGATRON_MODEL_H
#define PEN_EXPORT_MEGATRON_MODEL_H

#include "core/model.h"
#include "export/megatron_words.h"

/*
 * Makes the model of a Megatron line, of the nearest family: the activation
 * decides between GPT-2 and Llama, since it determines how many matrices there
 * are. On success free it with pen_model_free().
 */
pen_status pen__megatron_model(const struct pen__megatron_words *words,
                               struct pen_model **out, struct pen_text *notes,
                               struct pen_text *why);

#endif
