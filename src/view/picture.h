#ifndef PEN_VIEW_PICTURE_H
#define PEN_VIEW_PICTURE_H

#include "base/status.h"
#include "base/text.h"
#include "view/canvas.h"

#include <stdbool.h>

/* A drawing on white paper of this size, in points, for any canvas. */
struct pen__picture {
    double width;
    double height;
    void (*draw)(struct pen__canvas *canvas, const void *context);
    const void *context;
    const char *name; /* its contents in words, for readers who cannot see it */
};

/* Returns whether the name ends in .svg, .png or .pdf. */
bool pen__picture_has_form(const char *path);

bool pen__ends_in(const char *path, const char *ending);

/* Refuses other names, and .png and .pdf in a build without cairo. */
pen_status pen__picture_check(const char *path, struct pen_text *why);

/* Makes the bytes of the file that the ending of path asks for. */
pen_status pen__picture_print(const struct pen__picture *picture,
                              const char *path, struct pen_text *out,
                              struct pen_text *why);

/* Makes the picture as above, and writes it to the file. */
pen_status pen__picture_write(const struct pen__picture *picture,
                              const char *path, struct pen_text *why);

/* Prints an SVG: the same bytes on every machine. */
void pen__svg_print(const struct pen__picture *picture, struct pen_text *out);

/*
 * Checks names that end in .png or .pdf; refuses them in a build without cairo.
 */
pen_status pen__cairo_check(const char *path, struct pen_text *why);
pen_status pen__cairo_print(const struct pen__picture *picture,
                            const char *path, struct pen_text *out,
                            struct pen_text *why);

#endif
