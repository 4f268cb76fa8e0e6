/* From the ending of a file name to a surface of cairo. */
#include "view/timeline.h"

#include "base/bug.h"
#include "base/file.h"
#include "view/page.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OPS 1000000u
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
                              const struct pen__page *page, double scale)
{
    cairo_t *cairo = cairo_create(surface);
    cairo_scale(cairo, scale, scale);
    pen__page_draw(cairo, page);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    return status;
}

/* For surfaces that write their stream when they are finished. */
static cairo_status_t draw_and_finish(cairo_surface_t *surface,
                                      const struct pen__page *page,
                                      double scale)
{
    cairo_status_t status = draw_on(surface, page, scale);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status;
}

static cairo_status_t draw_svg(const struct pen__page *page,
                               struct pen_text *out)
{
    return draw_and_finish(cairo_svg_surface_create_for_stream(
                               write_text, out, page->width, page->height),
                           page, 1);
}

static cairo_status_t draw_pdf(const struct pen__page *page,
                               struct pen_text *out)
{
    double scale = fmin(1, PDF_MOST_SIDE / fmax(page->width, page->height));
    return draw_and_finish(
        cairo_pdf_surface_create_for_stream(
            write_text, out, page->width * scale, page->height * scale),
        page, scale);
}

static cairo_status_t draw_png(const struct pen__page *page,
                               struct pen_text *out)
{
    double scale =
        fmin(fmin(PNG_SCALE, PNG_MOST_SIDE / fmax(page->width, page->height)),
             sqrt(PNG_MOST_PIXELS / (page->width * page->height)));
    cairo_surface_t *surface = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)ceil(page->width * scale),
        (int)ceil(page->height * scale));
    cairo_status_t status = draw_on(surface, page, scale);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, write_text, out);
    cairo_surface_destroy(surface);
    return status;
}

static const struct {
    const char *ending;
    cairo_status_t (*draw)(const struct pen__page *page, struct pen_text *out);
} formats[] = {
    {".svg", draw_svg},
    {".png", draw_png},
    {".pdf", draw_pdf},
    {".json", NULL}, /* not a drawing */
};

#define NUM_FORMATS (sizeof formats / sizeof *formats)

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path);
    size_t tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static pen_status draw_items(const struct pen_picture_item *items, size_t count,
                             size_t format, struct pen_text *out,
                             struct pen_text *why)
{
    uint64_t ops = 0;
    for (size_t i = 0; i < count; i++)
        ops += pen_schedule_count(items[i].schedule);
    if (ops > MOST_OPS) {
        pen_why(why,
                "a drawing of %llu ops cannot be read, the most is %u: draw "
                "fewer micro-batches or ranks, or write a .json for Perfetto",
                (unsigned long long)ops, MOST_OPS);
        return PEN_INVALID;
    }
    struct pen__sheet *sheets = pen__sheets_create(items, count);
    if (sheets == NULL) {
        pen_why(why, "out of memory for a drawing of %llu ops",
                (unsigned long long)ops);
        return PEN_NOMEM;
    }
    struct pen__page page;
    pen__page_init(&page, sheets, count);
    cairo_status_t status = formats[format].draw(&page, out);
    pen__sheets_free(sheets, count);
    if (status == CAIRO_STATUS_SUCCESS)
        return PEN_OK;
    pen_why(why, "cannot draw: %s", cairo_status_to_string(status));
    return PEN_NOMEM;
}

pen_status pen_timeline_draw(const struct pen_picture_item *items, size_t count,
                             const char *path, struct pen_text *why)
{
    PEN_BUG_UNLESS(count > 0);
    size_t format = 0;
    while (format < NUM_FORMATS && !ends_in(path, formats[format].ending))
        format++;
    if (format == NUM_FORMATS) {
        pen_why(why,
                "cannot draw %s: its name should end in .svg, .png, .pdf or "
                ".json (Perfetto)",
                path);
        return PEN_INVALID;
    }
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (formats[format].draw != NULL)
        status = draw_items(items, count, format, &bytes, why);
    else if ((status = pen_perfetto_print(items, count, &bytes)) != PEN_OK)
        pen_why(why, "out of memory for %s", path);
    if (status == PEN_OK)
        status = pen_file_write(path, bytes.bytes, bytes.length, why);
    pen_text_release(&bytes);
    return status;
}
