#ifndef PEN_VIEW_PICTURE_H
#define PEN_VIEW_PICTURE_H

#include "base/status.h"
#include "base/text.h"

#include <cairo.h>
#include <stdbool.h>

/* A drawing of this size, in points, that any surface of cairo can carry. */
struct pen__picture {
    double width;
    double height;
    void (*draw)(cairo_t *cairo, const void *context);
    const void *context;
};

/* Whether the name ends in .svg, .png or .pdf. */
bool pen__picture_has_form(const char *path);

bool pen__ends_in(const char *path, const char *ending);

/* Makes the bytes of the file that the ending of path, which must have a form,
 * asks for. */
pen_status pen__picture_print(const struct pen__picture *picture,
                              const char *path, struct pen_text *out,
                              struct pen_text *why);

#endif
