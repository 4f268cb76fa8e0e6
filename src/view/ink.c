#include "view/ink.h"

#include <math.h>

#define HATCH_STEP 4.5
#define HATCH_WIDTH 0.35
#define HATCH_GREY 0.4

/* Hues after Paul Tol's "light" scheme, spread in lightness. */
static const struct pen__ink inks[PEN_OP_KINDS] = {
    [PEN_OP_FORWARD] = {{0.678, 0.827, 0.941}, PEN__HATCH_NONE},
    [PEN_OP_BACKWARD] = {{0.933, 0.627, 0.478}, PEN__HATCH_CROSSED},
    [PEN_OP_BACKWARD_INPUT] = {{0.953, 0.855, 0.541}, PEN__HATCH_RISING},
    [PEN_OP_BACKWARD_WEIGHT] = {{0.431, 0.725, 0.620}, PEN__HATCH_FALLING},
    [PEN_OP_RECOMPUTE] = {{0.800, 0.737, 0.878}, PEN__HATCH_LEVEL},
    [PEN_OP_SYNC_GRAD] = {{0.965, 0.800, 0.839}, PEN__HATCH_LEVEL},
    [PEN_OP_STEP] = {{0.780, 0.780, 0.780}, PEN__HATCH_NONE},
    [PEN_OP_EVICT] = {{0.890, 0.890, 0.890}, PEN__HATCH_RISING},
    [PEN_OP_LOAD] = {{0.890, 0.890, 0.890}, PEN__HATCH_FALLING},
};

static const struct pen__colour white = {1, 1, 1};

static struct pen__colour mix(struct pen__colour a, struct pen__colour b,
                              double share)
{
    return (struct pen__colour){
        a.red + (b.red - a.red) * share,
        a.green + (b.green - a.green) * share,
        a.blue + (b.blue - a.blue) * share,
    };
}

struct pen__ink pen__ink_of(unsigned kind, uint32_t chunk, uint32_t chunks)
{
    struct pen__ink ink = inks[kind];
    if (chunks > 1)
        ink.colour = mix(ink.colour, white, 0.6 * chunk / (chunks - 1));
    return ink;
}

/* Lines x + y = n * step (rising on paper, where y points down). */
static void add_rising(cairo_t *cairo, const struct pen__box *box)
{
    double bottom = box->y + box->height;
    double right = box->x + box->width;
    double c = ceil((box->x + box->y) / HATCH_STEP) * HATCH_STEP;
    for (; c < right + bottom; c += HATCH_STEP) {
        double from = fmax(box->x, c - bottom);
        double to = fmin(right, c - box->y);
        pen__add_line(cairo, from, c - from, to, c - to);
    }
}

/* Lines x - y = n * step. */
static void add_falling(cairo_t *cairo, const struct pen__box *box)
{
    double bottom = box->y + box->height;
    double right = box->x + box->width;
    double c = ceil((box->x - bottom) / HATCH_STEP) * HATCH_STEP;
    for (; c < right - box->y; c += HATCH_STEP) {
        double from = fmax(box->x, c + box->y);
        double to = fmin(right, c + bottom);
        pen__add_line(cairo, from, from - c, to, to - c);
    }
}

static void add_level(cairo_t *cairo, const struct pen__box *box)
{
    double step = HATCH_STEP / 1.4;
    double y = (floor(box->y / step) + 0.5) * step;
    for (; y < box->y + box->height; y += step) {
        if (y <= box->y)
            continue;
        pen__add_line(cairo, box->x, y, box->x + box->width, y);
    }
}

void pen__hatch_box(cairo_t *cairo, enum pen__hatch hatch,
                    const struct pen__box *box)
{
    if ((hatch & PEN__HATCH_RISING) != 0)
        add_rising(cairo, box);
    if ((hatch & PEN__HATCH_FALLING) != 0)
        add_falling(cairo, box);
    if ((hatch & PEN__HATCH_LEVEL) != 0)
        add_level(cairo, box);
}

void pen__hatch_stroke(cairo_t *cairo)
{
    pen__use_grey(cairo, HATCH_GREY);
    cairo_set_line_width(cairo, HATCH_WIDTH);
    cairo_stroke(cairo);
}

void pen__add_line(cairo_t *cairo, double x0, double y0, double x1, double y1)
{
    cairo_move_to(cairo, x0, y0);
    cairo_line_to(cairo, x1, y1);
}

void pen__use_grey(cairo_t *cairo, double grey)
{
    cairo_set_source_rgb(cairo, grey, grey, grey);
}

void pen__use_colour(cairo_t *cairo, struct pen__colour colour)
{
    cairo_set_source_rgb(cairo, colour.red, colour.green, colour.blue);
}

void pen__use_font(cairo_t *cairo, double size, bool is_bold)
{
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cairo, options);
    cairo_font_options_destroy(options);
    cairo_select_font_face(cairo, "sans", CAIRO_FONT_SLANT_NORMAL,
                           is_bold ? CAIRO_FONT_WEIGHT_BOLD
                                   : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, size);
}

double pen__text_width(cairo_t *cairo, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(cairo, text, &extents);
    return extents.x_advance;
}

double pen__write(cairo_t *cairo, double x, double y, enum pen__align align,
                  const char *text)
{
    double width = pen__text_width(cairo, text);
    double shift = align == PEN__LEFT ? 0 : align == PEN__RIGHT ? 1 : 0.5;
    cairo_move_to(cairo, x - width * shift, y);
    cairo_show_text(cairo, text);
    return width;
}

double pen__write_within(cairo_t *cairo, double x, double y, double room,
                         double size, bool is_bold, const char *text)
{
    pen__use_font(cairo, size, is_bold);
    double width = pen__text_width(cairo, text);
    if (width > room)
        cairo_set_font_size(cairo, size * room / width);
    return pen__write(cairo, x, y, PEN__LEFT, text);
}

/* A triangle of this side whose tip is at (x, y), on top. */
static void add_triangle(cairo_t *cairo, double x, double y, double side)
{
    cairo_move_to(cairo, x, y);
    cairo_line_to(cairo, x - side / 2, y + side);
    cairo_line_to(cairo, x + side / 2, y + side);
    cairo_close_path(cairo);
}

void pen__mark(cairo_t *cairo, unsigned kind, double x, double y, double height)
{
    double side = fmin(5, height * 0.35);
    pen__use_grey(cairo, 0.1);
    if (kind == PEN_OP_EVICT || kind == PEN_OP_LOAD) {
        /* Out of the row at its top, back into it from below. */
        bool is_out = kind == PEN_OP_EVICT;
        add_triangle(cairo, x, is_out ? y - 2 : y + height + 2 - side, side);
        cairo_fill(cairo);
        return;
    }
    cairo_set_line_width(cairo, kind == PEN_OP_STEP ? 1 : 0.5);
    pen__add_line(cairo, x, y - 1.5, x, y + height + 1.5);
    cairo_stroke(cairo);
}
