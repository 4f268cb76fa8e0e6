#ifndef PEN_EXPORT_MEGATRON_OPTIONS_H
#define PEN_EXPORT_MEGATRON_OPTIONS_H

#include "export/export_internal.h"

/* The options of Megatron-LM that describe a model. */

/*
 * Notes the parts of a model that have no option; refuses models other than
 * GPT's kind.
 */
pen_status pen__megatron_note_model(const struct pen_plan *plan,
                                    const struct pen_model *model,
                                    struct pen_text *notes,
                                    struct pen_text *why);

/* Adds the model's options, one in a line. */
void pen__megatron_add_model(const struct pen_model *model,
                             struct pen_text *out);

/* Adds a line. */
void pen__megatron_add_flag(struct pen_text *out, const char *name);
void pen__megatron_add_count(struct pen_text *out, const char *name,
                             uint64_t value);

#endif
