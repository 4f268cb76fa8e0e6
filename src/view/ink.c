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
static void add_rising(struct pen__canvas *canvas, const struct pen__box *box)
{
    double bottom = box->y + box->height;
    double right = box->x + box->width;
    double c = ceil((box->x + box->y) / HATCH_STEP) * HATCH_STEP;
    for (; c < right + bottom; c += HATCH_STEP) {
        double from = fmax(box->x, c - bottom);
        double to = fmin(right, c - box->y);
        pen__add_line(canvas, from, c - from, to, c - to);
    }
}

/* Lines x - y = n * step. */
static void add_falling(struct pen__canvas *canvas, const struct pen__box *box)
{
    double bottom = box->y + box->height;
    double right = box->x + box->width;
    double c = ceil((box->x - bottom) / HATCH_STEP) * HATCH_STEP;
    for (; c < right - box->y; c += HATCH_STEP) {
        double from = fmax(box->x, c + box->y);
        double to = fmin(right, c + bottom);
        pen__add_line(canvas, from, from - c, to, to - c);
    }
}

static void add_level(struct pen__canvas *canvas, const struct pen__box *box)
{
    double step = HATCH_STEP / 1.4;
    double y = (floor(box->y / step) + 0.5) * step;
    for (; y < box->y + box->height; y += step) {
        if (y <= box->y)
            continue;
        pen__add_line(canvas, box->x, y, box->x + box->width, y);
    }
}

void pen__hatch_box(struct pen__canvas *canvas, enum pen__hatch hatch,
                    const struct pen__box *box)
{
    if ((hatch & PEN__HATCH_RISING) != 0)
        add_rising(canvas, box);
    if ((hatch & PEN__HATCH_FALLING) != 0)
        add_falling(canvas, box);
    if ((hatch & PEN__HATCH_LEVEL) != 0)
        add_level(canvas, box);
}

void pen__hatch_stroke(struct pen__canvas *canvas)
{
    pen__use_grey(canvas, HATCH_GREY);
    pen__stroke(canvas, HATCH_WIDTH);
}

/* Adds a triangle of this side whose tip is at (x, y), on top. */
static void add_triangle(struct pen__canvas *canvas, double x, double y,
                         double side)
{
    pen__move_to(canvas, x, y);
    pen__line_to(canvas, x - side / 2, y + side);
    pen__line_to(canvas, x + side / 2, y + side);
    pen__close(canvas);
}

void pen__mark(struct pen__canvas *canvas, unsigned kind, double x, double y,
               double height)
{
    double side = fmin(5, height * 0.35);
    pen__use_grey(canvas, 0.1);
    if (kind == PEN_OP_EVICT || kind == PEN_OP_LOAD) {
        /* Out of the row at its top, back into it from below. */
        bool is_out = kind == PEN_OP_EVICT;
        add_triangle(canvas, x, is_out ? y - 2 : y + height + 2 - side, side);
        pen__fill(canvas);
        return;
    }
    pen__add_line(canvas, x, y - 1.5, x, y + height + 1.5);
    pen__stroke(canvas, kind == PEN_OP_STEP ? 1 : 0.5);
}
