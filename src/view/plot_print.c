/*
 * A plot for the terminal. A cell has two by four braille dots:
 *
 *   1.5k ┤⢄    o          A curve crosses the dots, a mark takes the whole
 *        │ ⠑⢄⡀            cell, and each cell has the colour of the run that
 *   1.0k ┤   ⠈⠒⠤ 1.02k    was drawn there last. Without colour several runs
 *        └───────         are drawn with letters, A for the first.
 */
#include "view/plot.h"

#include "view/cells.h"
#include "view/plot_ends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 8u   /* "  1.5k ┤" */
#define RIGHT 16u /* room for "  time (days)" after the last tick */
#define LEAST_WIDTH 20u
#define MOST_WIDTH 240u
#define ESCAPE_END "\033[0m"

static const unsigned chart_rows[PEN__CHARTS] = {16, 6};

/* The hues of the drawing, bright enough for a dark screen. */
static const char *const escapes[] = {"\033[38;5;39m",  "\033[38;5;208m",
                                      "\033[38;5;37m",  "\033[38;5;204m",
                                      "\033[38;5;117m", "\033[38;5;160m"};

#define NUM_ESCAPES (sizeof escapes / sizeof *escapes)

struct cell {
    unsigned char dots;
    bool has_mark;
    size_t run;
};

struct canvas {
    const struct pen__plot *plot; /* borrowed */
    enum pen__chart_kind kind;
    struct pen__axis x;
    struct pen__axis y;
    unsigned width; /* in cells */
    unsigned height;
    struct cell *cells;
    bool has_letters;
    bool with_colour;
};

static struct cell *cell_at(const struct canvas *canvas, double x, double y)
{
    double column = fmin(fmax(floor(x / 2), 0), canvas->width - 1.0);
    double row = fmin(fmax(floor(y / 4), 0), canvas->height - 1.0);
    return &canvas->cells[(size_t)row * canvas->width + (size_t)column];
}

/* Returns a place in dots from the top left. */
static struct pen__point place(const struct canvas *canvas,
                               const struct pen__point *point)
{
    double across = pen__axis_share(&canvas->x, point->x);
    double up = pen__axis_share(&canvas->y, point->y);
    return (struct pen__point){round(across * (2.0 * canvas->width - 1)),
                               round((1 - up) * (4.0 * canvas->height - 1))};
}

static void put_dot(struct canvas *canvas, size_t run, double x, double y)
{
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    struct cell *cell = cell_at(canvas, x, y);
    cell->dots |= bits[(unsigned)y % 4][(unsigned)x % 2];
    cell->run = run;
}

static void put_line(struct canvas *canvas, size_t run, struct pen__point from,
                     struct pen__point to)
{
    double count = fmax(fabs(to.x - from.x), fabs(to.y - from.y));
    for (double i = 0; i <= count; i++) {
        double share = count > 0 ? i / count : 0;
        put_dot(canvas, run, round(from.x + (to.x - from.x) * share),
                round(from.y + (to.y - from.y) * share));
    }
}

static void put_curve(struct canvas *canvas, size_t run,
                      const struct pen__curve *curve)
{
    struct pen__point before = {NAN, NAN};
    for (size_t i = 0; i < curve->count; i++) {
        struct pen__point at = {NAN, NAN};
        if (!isnan(curve->points[i].y)) {
            at = place(canvas, &curve->points[i]);
            put_line(canvas, run, isnan(before.x) ? at : before, at);
        }
        before = at;
    }
}

static void put_marks(struct canvas *canvas, size_t run,
                      const struct pen__curve *marks)
{
    for (size_t i = 0; i < marks->count; i++) {
        struct pen__point at = place(canvas, &marks->points[i]);
        struct cell *cell = cell_at(canvas, at.x, at.y);
        cell->has_mark = true;
        cell->run = run;
    }
}

static char letter_of(size_t run)
{
    return (char)('A' + run % 26);
}

static void add_colour(const struct canvas *canvas, size_t run,
                       struct pen_text *out)
{
    if (canvas->with_colour)
        pen_text_add_string(out, escapes[run % NUM_ESCAPES]);
}

static void end_colour(const struct canvas *canvas, struct pen_text *out)
{
    if (canvas->with_colour)
        pen_text_add_string(out, ESCAPE_END);
}

static bool is_empty(const struct cell *cell)
{
    return cell->dots == 0 && !cell->has_mark;
}

static void print_cell(const struct canvas *canvas, const struct cell *cell,
                       struct pen_text *out)
{
    if (is_empty(cell)) {
        pen_text_add_string(out, " ");
        return;
    }
    add_colour(canvas, cell->run, out);
    if (cell->has_mark)
        pen_text_add_string(out, "o");
    else if (canvas->has_letters)
        pen_text_add_repeat(out, letter_of(cell->run), 1);
    else
        /* U+2800 and the dots, in UTF-8. */
        pen_text_add(out, "\xe2%c%c", 0xa0 | cell->dots >> 6,
                     0x80 | (cell->dots & 0x3f));
    end_colour(canvas, out);
}

static void print_end(const struct canvas *canvas, const struct pen__end *end,
                      struct pen_text *out)
{
    pen_text_add_string(out, " ");
    add_colour(canvas, end->index, out);
    if (canvas->has_letters)
        pen_text_add(out, "%c ", letter_of(end->index));
    pen_text_add(out, "%s%s", end->is_mark ? "o " : "", end->text);
    end_colour(canvas, out);
}

/* Ends at the axis; `row` is the height of the canvas for the line below. */
static void print_left(const struct canvas *canvas, unsigned row,
                       struct pen_text *out)
{
    char label[PEN__NUMBER_SIZE] = "";
    for (size_t i = 0; i < canvas->y.num_ticks; i++) {
        struct pen__point tick = {canvas->x.from, canvas->y.ticks[i]};
        if ((unsigned)(place(canvas, &tick).y / 4) == row)
            pen__axis_label(&canvas->y, i, label);
    }
    pen_text_add(out, "%*s %s", (int)LEFT - 2, label,
                 label[0] == '\0' ? "│" : "┤");
}

static void print_cells(const struct canvas *canvas, const struct cell *cells,
                        bool is_last, struct pen_text *out)
{
    unsigned width = canvas->width;
    while (is_last && width > 0 && is_empty(&cells[width - 1]))
        width--;
    for (unsigned i = 0; i < width; i++)
        print_cell(canvas, &cells[i], out);
}

static void print_rows(const struct canvas *canvas, struct pen_text *out)
{
    struct pen__end *ends;
    size_t count;
    size_t next = 0;
    pen__ends_make(canvas->plot, canvas->kind, &canvas->y,
                   canvas->height - 0.25, 1, &ends, &count);
    for (unsigned row = 0; row < canvas->height; row++) {
        bool has_end = next < count && ends[next].y < row + 1.0;
        print_left(canvas, row, out);
        print_cells(canvas, &canvas->cells[(size_t)row * canvas->width],
                    !has_end, out);
        if (has_end)
            print_end(canvas, &ends[next++], out);
        pen_text_add_string(out, "\n");
    }
    free(ends);
}

static unsigned tick_column(const struct canvas *canvas, size_t tick)
{
    struct pen__point at = {canvas->x.ticks[tick], canvas->y.from};
    return (unsigned)(place(canvas, &at).x / 2);
}

static void print_axis(const struct canvas *canvas, struct pen_text *out)
{
    pen_text_add_repeat(out, ' ', LEFT - 1);
    pen_text_add_string(out, "└");
    size_t tick = 0;
    for (unsigned i = 0; i < canvas->width; i++) {
        bool is_tick =
            tick < canvas->x.num_ticks && tick_column(canvas, tick) == i;
        pen_text_add_string(out, is_tick ? "┬" : "─");
        tick += is_tick;
    }
    pen_text_add_string(out, "\n");
}

static void print_axis_labels(const struct canvas *canvas, struct pen_text *out)
{
    size_t line = out->length;
    for (size_t i = 0; i < canvas->x.num_ticks; i++) {
        char label[PEN__NUMBER_SIZE];
        pen__axis_label(&canvas->x, i, label);
        size_t column = LEFT + tick_column(canvas, i) - strlen(label) / 2;
        size_t at = out->length - line;
        if (column > at)
            pen_text_add_repeat(out, ' ', column - at);
        pen_text_add_string(out, label);
    }
    pen_text_add(out, "  %s\n", canvas->plot->x_name);
}

static pen_status print_chart(struct canvas *canvas, struct pen_text *out)
{
    const struct pen__plot *plot = canvas->plot;
    canvas->cells =
        calloc((size_t)canvas->width * canvas->height, sizeof *canvas->cells);
    if (canvas->cells == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < plot->count; i++)
        put_curve(canvas, i, &plot->runs[i].lines[canvas->kind]);
    for (size_t i = 0; i < plot->count && canvas->kind == PEN__CHART_LOSS; i++)
        put_marks(canvas, i, &plot->runs[i].marks);
    pen_text_add_repeat(out, ' ', LEFT - 1);
    pen__plot_add_chart_name(plot, canvas->kind, out);
    pen_text_add_string(out, "\n");
    print_rows(canvas, out);
    print_axis(canvas, out);
    free(canvas->cells);
    return PEN_OK;
}

static void choose_axes(struct canvas *canvas)
{
    const struct pen__plot *plot = canvas->plot;
    unsigned ticks = canvas->width / 10;
    pen__axis_init(&canvas->x, pen__plot_x_axis(plot), plot->x,
                   ticks < 10 ? ticks : 10);
    pen__axis_init(&canvas->y, pen__plot_y_axis(plot, canvas->kind),
                   plot->y[canvas->kind],
                   canvas->height < 9 ? 3 : canvas->height / 3);
}

static void print_legend(const struct canvas *canvas, struct pen_text *out)
{
    const struct pen__plot *plot = canvas->plot;
    for (size_t i = 0; i < plot->count; i++) {
        add_colour(canvas, i, out);
        if (canvas->has_letters)
            pen_text_add(out, " %c ", letter_of(i));
        else
            pen_text_add_string(out, "── ");
        end_colour(canvas, out);
        pen__add_clean(plot->items[i].label, out);
        pen_text_add_string(out, ": ");
        pen__plot_add_words(plot, i, out);
        pen_text_add_string(out, "\n");
    }
}

pen_status pen_plot_print(const struct pen_plot_item *items, size_t count,
                          const struct pen_plot_options *options,
                          bool with_colour, unsigned columns,
                          struct pen_text *out, struct pen_text *why)
{
    unsigned width = columns > LEFT + RIGHT ? columns - LEFT - RIGHT : 0;
    struct pen__plot plot;
    struct canvas canvas = {.plot = &plot,
                            .width = width < LEAST_WIDTH  ? LEAST_WIDTH
                                     : width > MOST_WIDTH ? MOST_WIDTH
                                                          : width,
                            .has_letters = count > 1 && !with_colour,
                            .with_colour = with_colour};
    pen_status status =
        pen__plot_init(&plot, items, count, options, 2.0 * canvas.width, why);
    if (status != PEN_OK)
        return status;
    pen__plot_add_title(&plot, out);
    pen_text_add_string(out, "\n");
    for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS && status == PEN_OK;
         kind++) {
        canvas.kind = kind;
        canvas.height = chart_rows[kind];
        choose_axes(&canvas);
        status = print_chart(&canvas, out);
    }
    if (status == PEN_OK) {
        print_axis_labels(&canvas, out);
        print_legend(&canvas, out);
    } else {
        pen_why(why, "no memory for the plot");
    }
    pen__plot_release(&plot);
    return status;
}
