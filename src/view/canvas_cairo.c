/* PNG and PDF, drawn by cairo; the one file that knows of it. */
#include "view/picture.h"

#include <cairo-pdf.h>
#include <math.h>
#include <stddef.h>

#define PNG_SCALE 2.0          /* pixels per point, while it stays bearable */
#define PNG_MOST_SIDE 32000.0  /* cairo ends at 32767 */
#define PNG_MOST_PIXELS 64.0e6 /* 256 MB */
#define PDF_MOST_SIDE 14400.0  /* what viewers of PDF accept */

static void move_to(struct pen__canvas *canvas, double x, double y)
{
    cairo_move_to(canvas->target, x, y);
}

static void line_to(struct pen__canvas *canvas, double x, double y)
{
    cairo_line_to(canvas->target, x, y);
}

static void close_path(struct pen__canvas *canvas)
{
    cairo_close_path(canvas->target);
}

static void add_circle(struct pen__canvas *canvas, double x, double y,
                       double radius)
{
    cairo_new_sub_path(canvas->target);
    cairo_arc(canvas->target, x, y, radius, 0, 2 * acos(-1));
    cairo_close_path(canvas->target);
}

static void use_colour(cairo_t *cairo, const struct pen__colour *colour)
{
    cairo_set_source_rgb(cairo, colour->red, colour->green, colour->blue);
}

static void paint(struct pen__canvas *canvas, const struct pen__colour *fill,
                  const struct pen__colour *stroke,
                  const struct pen__line *line)
{
    cairo_t *cairo = canvas->target;
    if (fill != NULL) {
        use_colour(cairo, fill);
        cairo_fill_preserve(cairo);
    }
    if (stroke != NULL) {
        use_colour(cairo, stroke);
        cairo_set_line_width(cairo, line->width);
        cairo_set_line_join(cairo, line->is_round ? CAIRO_LINE_JOIN_ROUND
                                                  : CAIRO_LINE_JOIN_MITER);
        cairo_set_line_cap(cairo, line->is_round ? CAIRO_LINE_CAP_ROUND
                                                 : CAIRO_LINE_CAP_BUTT);
        cairo_stroke_preserve(cairo);
    }
    cairo_new_path(cairo);
}

/*
 * Writes words. In another font they may be wider than their place, and are
 * made narrower.
 */
static void write_words(struct pen__canvas *canvas,
                        const struct pen__words *words)
{
    static const double shifts[] = {
        [PEN__LEFT] = 0, [PEN__CENTRE] = 0.5, [PEN__RIGHT] = 1};
    cairo_t *cairo = canvas->target;
    cairo_text_extents_t extents;
    use_colour(cairo, &canvas->colour);
    cairo_select_font_face(cairo, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           canvas->is_bold ? CAIRO_FONT_WEIGHT_BOLD
                                           : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, canvas->font_size);
    cairo_text_extents(cairo, words->text, &extents);
    double width = extents.x_advance;
    if (width > words->width * 1.001) {
        cairo_matrix_t matrix;
        cairo_matrix_init_scale(&matrix,
                                canvas->font_size * words->width / width,
                                canvas->font_size);
        cairo_set_font_matrix(cairo, &matrix);
        width = words->width;
    }
    cairo_move_to(cairo, words->x - width * shifts[words->align], words->y);
    cairo_show_text(cairo, words->text);
}

static const struct pen__canvas_kind kind = {
    .move_to = move_to,
    .line_to = line_to,
    .close = close_path,
    .add_circle = add_circle,
    .paint = paint,
    .write = write_words,
};

static cairo_status_t write_text(void *closure, const unsigned char *bytes,
                                 unsigned length)
{
    struct pen_text *text = closure;
    pen_text_add_bytes(text, (const char *)bytes, length);
    return text->has_failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

/* Draws without fitting type to pixels, so that it is equal on all surfaces. */
static cairo_status_t draw_on(cairo_surface_t *surface,
                              const struct pen__picture *picture, double scale)
{
    static const struct pen__colour white = {1, 1, 1};
    cairo_t *cairo = cairo_create(surface);
    struct pen__canvas canvas = {.kind = &kind, .target = cairo};
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cairo, options);
    cairo_font_options_destroy(options);
    cairo_scale(cairo, scale, scale);
    use_colour(cairo, &white);
    cairo_paint(cairo);
    picture->draw(&canvas, picture->context);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    return status;
}

static cairo_status_t draw_pdf(const struct pen__picture *picture,
                               struct pen_text *out)
{
    double scale =
        fmin(1, PDF_MOST_SIDE / fmax(picture->width, picture->height));
    cairo_surface_t *surface = cairo_pdf_surface_create_for_stream(
        write_text, out, picture->width * scale, picture->height * scale);
    cairo_status_t status = draw_on(surface, picture, scale);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
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

pen_status pen__cairo_check(const char *path, struct pen_text *why)
{
    (void)path;
    (void)why;
    return PEN_OK;
}

pen_status pen__cairo_print(const struct pen__picture *picture,
                            const char *path, struct pen_text *out,
                            struct pen_text *why)
{
    cairo_status_t status = pen__ends_in(path, ".pdf") ? draw_pdf(picture, out)
                                                       : draw_png(picture, out);
    if (status == CAIRO_STATUS_SUCCESS)
        return PEN_OK;
    pen_why(why, "cannot draw: %s", cairo_status_to_string(status));
    return PEN_NOMEM;
}
