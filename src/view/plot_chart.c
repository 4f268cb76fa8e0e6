/* One chart of a plot, on paper. */
#include "view/plot_ends.h"
#include "view/plot_page.h"

#include <math.h>
#include <stdlib.h>

#define LINE_WIDTH 1.5 /* of a smoothed line */
#define NOISY_WIDTH 1.1
#define FAINT_WIDTH 0.8
#define FAINT_SHARE 0.3 /* of the colour, the rest is paper */
#define MARK_SIZE 6.0
#define MARK_WIDTH 1.2
#define MARK_PITCH 14.0 /* marks that are closer are left out */
#define LABEL_SIZE 9.5
#define LABEL_PITCH 12.0
#define LABEL_GAP 14.0

/* Paul Tol's "vibrant" scheme without its grey. */
static const struct pen__colour colours[] = {
    {0.000, 0.467, 0.733}, {0.933, 0.467, 0.200}, {0.000, 0.600, 0.533},
    {0.933, 0.200, 0.467}, {0.200, 0.733, 0.933}, {0.800, 0.200, 0.067},
};

#define NUM_COLOURS (sizeof colours / sizeof *colours)

struct pen__colour pen__run_colour(size_t index)
{
    return colours[index % NUM_COLOURS];
}

/*
 * Returns a darker colour for text: type is thin and needs more contrast than a
 * line.
 */
struct pen__colour pen__run_text_colour(size_t index)
{
    struct pen__colour colour = pen__run_colour(index);
    return (struct pen__colour){0.75 * colour.red, 0.75 * colour.green,
                                0.75 * colour.blue};
}

static void add_polygon(struct pen__canvas *canvas, unsigned corners,
                        double turn, double x, double y, double radius)
{
    for (unsigned i = 0; i < corners; i++) {
        double angle = 2 * acos(-1) * (i + turn) / corners;
        double corner_x = x + radius * sin(angle);
        double corner_y = y - radius * cos(angle);
        if (i == 0)
            pen__move_to(canvas, corner_x, corner_y);
        else
            pen__line_to(canvas, corner_x, corner_y);
    }
    pen__close(canvas);
}

/* Shapes change one by one; colours come round later. */
void pen__run_mark(struct pen__canvas *canvas, size_t index, double x, double y,
                   double size)
{
    switch (index % 5) {
    case 0:
        pen__add_circle(canvas, x, y, size * 0.5);
        break;
    case 1:
        add_polygon(canvas, 4, 0.5, x, y, size * 0.64);
        break;
    case 2:
        add_polygon(canvas, 3, 0, x, y + size * 0.1, size * 0.66);
        break;
    case 3:
        add_polygon(canvas, 4, 0, x, y, size * 0.66);
        break;
    default:
        add_polygon(canvas, 3, 0.5, x, y - size * 0.1, size * 0.66);
        break;
    }
}

static struct pen__point place(const struct pen__plot_page *page,
                               enum pen__chart_kind kind,
                               const struct pen__point *point)
{
    const struct pen__box *box = &page->boxes[kind];
    double across = pen__axis_share(&page->x, point->x);
    double up = pen__axis_share(&page->y[kind], point->y);
    return (struct pen__point){pen__snap(box->x + box->width * across),
                               pen__snap(box->y + box->height * (1 - up))};
}

static void write_name(struct pen__canvas *canvas,
                       const struct pen__plot_page *page,
                       enum pen__chart_kind kind)
{
    const struct pen__box *box = &page->boxes[kind];
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__plot_add_chart_name(page->plot, kind, &name);
    pen__use_font(canvas, LABEL_SIZE, true);
    pen__write(canvas, box->x, box->y - 7, PEN__LEFT, pen_text_string(&name));
    pen_text_release(&name);
}

/*
 * Adds a curve. A point between two gaps is a line without length, which round
 * ends make a dot.
 */
static void add_curve(struct pen__canvas *canvas,
                      const struct pen__plot_page *page,
                      enum pen__chart_kind kind, const struct pen__curve *curve)
{
    bool has_pen_down = false;
    for (size_t i = 0; i < curve->count; i++) {
        if (isnan(curve->points[i].y)) {
            has_pen_down = false;
            continue;
        }
        struct pen__point at = place(page, kind, &curve->points[i]);
        if (!has_pen_down)
            pen__move_to(canvas, at.x, at.y);
        pen__line_to(canvas, at.x, at.y);
        has_pen_down = true;
    }
}

static void stroke_curve(struct pen__canvas *canvas, struct pen__colour colour,
                         double width)
{
    pen__use_colour(canvas, colour);
    pen__stroke_round(canvas, width);
}

static struct pen__colour faint_colour(size_t index)
{
    struct pen__colour colour = pen__run_colour(index);
    return (struct pen__colour){1 - FAINT_SHARE * (1 - colour.red),
                                1 - FAINT_SHARE * (1 - colour.green),
                                1 - FAINT_SHARE * (1 - colour.blue)};
}

/*
 * Draws open marks, on paper that separates them from the line: they show
 * another measure.
 */
static void draw_marks(struct pen__canvas *canvas,
                       const struct pen__plot_page *page, size_t index)
{
    const struct pen__curve *marks = &page->plot->runs[index].marks;
    add_curve(canvas, page, PEN__CHART_LOSS, marks);
    stroke_curve(canvas, pen__run_colour(index), 0.6);
    double last_x = -INFINITY;
    for (size_t i = 0; i < marks->count; i++) {
        struct pen__point at = place(page, PEN__CHART_LOSS, &marks->points[i]);
        if (at.x - last_x < MARK_PITCH && i < marks->count - 1)
            continue;
        last_x = at.x;
        pen__run_mark(canvas, index, at.x, at.y, MARK_SIZE + 4);
        pen__use_grey(canvas, 1);
        pen__fill(canvas);
        pen__run_mark(canvas, index, at.x, at.y, MARK_SIZE);
        stroke_curve(canvas, pen__run_colour(index), MARK_WIDTH);
    }
}

static void write_end(struct pen__canvas *canvas, const struct pen__end *end,
                      double x, double y)
{
    pen__run_mark(canvas, end->index, x, y, MARK_SIZE);
    if (end->is_mark) {
        stroke_curve(canvas, pen__run_colour(end->index), MARK_WIDTH);
    } else {
        pen__use_colour(canvas, pen__run_colour(end->index));
        pen__fill(canvas);
    }
    pen__use_colour(canvas, pen__run_text_colour(end->index));
    pen__write(canvas, x + 7, y + 3.4, PEN__LEFT, end->text);
}

static void write_ends(struct pen__canvas *canvas,
                       const struct pen__plot_page *page,
                       enum pen__chart_kind kind)
{
    const struct pen__box *box = &page->boxes[kind];
    struct pen__end *ends;
    size_t count;
    pen__ends_make(page->plot, kind, &page->y[kind], box->height, LABEL_PITCH,
                   &ends, &count);
    pen__use_font(canvas, LABEL_SIZE, false);
    for (size_t i = 0; i < count; i++)
        write_end(canvas, &ends[i], box->x + box->width + LABEL_GAP,
                  box->y + ends[i].y);
    free(ends);
}

/*
 * Marks the end of a line that ends before the chart does, or is a single
 * point.
 */
static void mark_end(struct pen__canvas *canvas,
                     const struct pen__plot_page *page,
                     enum pen__chart_kind kind, size_t index)
{
    const struct pen__box *box = &page->boxes[kind];
    const struct pen__point *last =
        pen__curve_last(&page->plot->runs[index].lines[kind]);
    if (last == NULL)
        return;
    struct pen__point at = place(page, kind, last);
    if (at.x > box->x + box->width - LABEL_GAP)
        return;
    pen__run_mark(canvas, index, at.x, at.y, MARK_SIZE);
    pen__use_colour(canvas, pen__run_colour(index));
    pen__fill(canvas);
}

void pen__chart_draw(struct pen__canvas *canvas,
                     const struct pen__plot_page *page,
                     enum pen__chart_kind kind)
{
    const struct pen__plot *plot = page->plot;
    double line_width = plot->options.smooth > 1 ? LINE_WIDTH : NOISY_WIDTH;
    pen__guides_draw(canvas, &page->boxes[kind], &page->x, &page->y[kind]);
    write_name(canvas, page, kind);
    for (size_t i = 0; i < plot->count; i++) {
        add_curve(canvas, page, kind, &plot->runs[i].faint[kind]);
        stroke_curve(canvas, faint_colour(i), FAINT_WIDTH);
    }
    for (size_t i = 0; i < plot->count; i++) {
        add_curve(canvas, page, kind, &plot->runs[i].lines[kind]);
        stroke_curve(canvas, pen__run_colour(i), line_width);
        mark_end(canvas, page, kind, i);
    }
    for (size_t i = 0; i < plot->count && kind == PEN__CHART_LOSS; i++)
        draw_marks(canvas, page, i);
    write_ends(canvas, page, kind);
}
