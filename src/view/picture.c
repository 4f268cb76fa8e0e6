/* From the ending of a file name to a surface of cairo. */
#include "view/picture.h"

#include "base/bug.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <math.h>
#include <string.h>

#define PNG_SCALE 2.0          /* pixels per point, while it stays bearable */
#define PNG_MOST_SIDE 32000.0  /* cairo ends at 32767 */
#define PNG_MOST_PIXELS 64.0e6 /* 256 MB */
#define PDF_MOST_SIDE 14400.0  /* what viewers of PDF accept */

static cairo_status_t write_text(void *closure, const unsigned char *bytes,
                                 unsigned length)
{
    struct pen_text *text = closure;
    pen_text_add_bytes(text, (const char *)bytes, length);
    return text->has_failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static cairo_status_t draw_on(cairo_surface_t *surface,
                              const struct pen__picture *picture, double scale)
{
    cairo_t *cairo = cairo_create(surface);
    cairo_scale(cairo, scale, scale);
    picture->draw(cairo, picture->context);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    return status;
}

/* For surfaces that write their stream when they are finished. */
static cairo_status_t draw_and_finish(cairo_surface_t *surface,
                                      const struct pen__picture *picture,
                                      double scale)
{
    cairo_status_t status = draw_on(surface, picture, scale);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
}

static cairo_status_t draw_svg(const struct pen__picture *picture,
                               struct pen_text *out)
{
    return draw_and_finish(cairo_svg_surface_create_for_stream(write_text, out,
                                                               picture->width,
                                                               picture->height),
                           picture, 1);
}

static cairo_status_t draw_pdf(const struct pen__picture *picture,
                               struct pen_text *out)
{
    double scale =
        fmin(1, PDF_MOST_SIDE / fmax(picture->width, picture->height));
    return draw_and_finish(
        cairo_pdf_surface_create_for_stream(
            write_text, out, picture->width * scale, picture->height * scale),
        picture, scale);
}

static cairo_status_t draw_png(const struct pen__picture *picture,
                               struct pen_text *out)
{
    double scale = fmin(
        fmin(PNG_SCALE, PNG_MOST_SIDE / fmax(picture->width, picture->height)),
        sqrt(PNG_MOST_PIXELS / (picture->width * picture->height)));
    cairo_surface_t *surface = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)ceil(picture->width * scale),
        (int)ceil(picture->height * scale));
    cairo_status_t status = draw_on(surface, picture, scale);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, write_text, out);
    cairo_surface_destroy(surface);
    return status;
}

static const struct form {
    const char *ending;
    cairo_status_t (*draw)(const struct pen__picture *picture,
                           struct pen_text *out);
} forms[] = {
    {".svg", draw_svg},
    {".png", draw_png},
    {".pdf", draw_pdf},
};

bool pen__ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path);
    size_t tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static const struct form *find_form(const char *path)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (pen__ends_in(path, forms[i].ending))
            return &forms[i];
    }
    return NULL;
}

bool pen__picture_has_form(const char *path)
{
    return find_form(path) != NULL;
}

pen_status pen__picture_print(const struct pen__picture *picture,
                              const char *path, struct pen_text *out,
                              struct pen_text *why)
{
    const struct form *form = find_form(path);
    PEN_BUG_UNLESS(form != NULL);
    cairo_status_t status = form->draw(picture, out);
    if (status == CAIRO_STATUS_SUCCESS)
        return PEN_OK;
    pen_why(why, "cannot draw: %s", cairo_status_to_string(status));
    return PEN_NOMEM;
}
