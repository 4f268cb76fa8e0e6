/*
 * Names of what is kept of a tensor.
 */
#include "core/checkpoint_internal.h"

void pen__part_word(enum pen_checkpoint_part part, struct pen_text *out)
{
    if (part == PEN_CHECKPOINT_WEIGHT)
        pen_text_add_string(out, "weight");
    else if (part < PEN_CHECKPOINT_VERSION1)
        pen_text_add(out, "moment%u", (unsigned)part);
    else
        pen_text_add(out, "version%u",
                     (unsigned)part - PEN_CHECKPOINT_VERSION1 + 1);
}

void pen__part_name(const char *tensor, enum pen_checkpoint_part part,
                    struct pen_text *out)
{
    pen_text_add_string(out, tensor);
    if (part == PEN_CHECKPOINT_WEIGHT)
        return;
    pen_text_add_string(out, ".");
    pen__part_word(part, out);
}
