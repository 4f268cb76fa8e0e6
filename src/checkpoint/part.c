/*
 * Names of what is kept of a tensor.
 */
#include "checkpoint/internal.h"

#include <string.h>

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

bool pen__is_version_name(const char *name)
{
    static const char word[] = ".version";
    size_t length = strlen(name);
    size_t digits = 0;
    while (digits < length && name[length - digits - 1] >= '0' &&
           name[length - digits - 1] <= '9')
        digits++;
    length -= digits;
    return digits > 0 && length >= strlen(word) &&
           memcmp(name + length - strlen(word), word, strlen(word)) == 0;
}
