#include "view/page.h"

#include "base/real.h"

#include <math.h>

#define CELL_WIDTH 22.0 /* of a mean op, while the page may grow */
#define MIN_PLOT_WIDTH 580.0
#define MAX_PLOT_WIDTH 2400.0
#define LEFT 46.0 /* "rank 63" */
#define TITLE_HEIGHT 26.0
#define PANEL_GAP 10.0
#define AXIS_HEIGHT 34.0
#define SMALL_PITCH 10.5
#define RIGHT 78.0 /* busy, peak */

/* The more rows a page has, the lower they are. */
static const struct {
    uint64_t most_rows;
    double cell;
    double curve;
    double gap;
} row_sizes[] = {
    {10, 20, 11, 6},       {20, 16, 9, 5},
    {40, 13, 7, 4},        {96, 10, 5, 3},
    {300, 6, 3, 2},        {1200, 3.5, 1.8, 0.9},
    {4000, 1.5, 0.8, 0.4}, {UINT64_MAX, 0.5, 0.3, 0.1},
};

static void choose_rows(struct pen__page *page)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < page->count; i++)
        rows += page->sheets[i].item->schedule->shape.num_ranks;
    size_t size = 0;
    while (row_sizes[size].most_rows < rows)
        size++;
    page->cell_height = row_sizes[size].cell;
    page->curve_height = page->is_by_row ? 0 : row_sizes[size].curve;
    page->pitch = page->cell_height + page->curve_height + row_sizes[size].gap;
    page->label_size = fmin(8.5, page->cell_height * 0.62);
}

static void choose_width(struct pen__page *page)
{
    double longest_sec = pen__longest_sec(page->sheets, page->count);
    double mean_sec = INFINITY;
    double peak = 0;
    for (size_t i = 0; i < page->count; i++) {
        mean_sec = fmin(mean_sec, page->sheets[i].mean_sec);
        peak = fmax(peak, page->sheets[i].peak);
    }
    double wish = mean_sec > 0 ? longest_sec / mean_sec * CELL_WIDTH : 0;
    page->plot_width = fmin(fmax(wish, MIN_PLOT_WIDTH), MAX_PLOT_WIDTH);
    page->zoom = pen_real_power(page->plot_width / MIN_PLOT_WIDTH, 0.35);
    page->title_height = TITLE_HEIGHT * page->zoom;
    page->plot_x = PEN__MARGIN + LEFT;
    page->per_sec = longest_sec > 0 ? page->plot_width / longest_sec : 0;
    page->per_level = peak > 0 ? page->curve_height / peak : 0;
    page->width = page->plot_x + page->plot_width + RIGHT + PEN__MARGIN;
}

void pen__page_init(struct pen__page *page, const struct pen__sheet *sheets,
                    size_t count, bool is_by_row)
{
    *page = (struct pen__page){
        .sheets = sheets,
        .count = count,
        .is_by_row = is_by_row,
        .unit = pen__unit_for(sheets, count),
    };
    choose_rows(page);
    choose_width(page);

    page->legend_y = pen__page_panel_y(page, count) + AXIS_HEIGHT * page->zoom;
    /* Type has to be measured before there is a page to write on. */
    struct pen__canvas scratch = {.kind = NULL};
    page->small_print_y = page->legend_y + pen__legend(&scratch, page, false);
    page->height = page->small_print_y +
                   SMALL_PITCH * page->zoom * ((double)count + 0.5) +
                   PEN__MARGIN;
}

/* Tenths of a point are exact enough, and short in an SVG. */
static double snap(double points)
{
    return round(points * 10) / 10;
}

double pen__page_x(const struct pen__page *page, double at_sec)
{
    return snap(page->plot_x + at_sec * page->per_sec);
}

/*
 * Returns the distance from a row of the first sheet to its next one, when all
 * follow by row.
 */
static double group_pitch(const struct pen__page *page)
{
    return (double)page->count * page->pitch + 0.35 * page->cell_height;
}

double pen__page_panel_y(const struct pen__page *page, size_t index)
{
    double y = PEN__MARGIN;
    if (page->is_by_row) {
        y += (double)index * page->title_height;
        if (index < page->count)
            return y;
        uint32_t rows = page->sheets[0].item->schedule->shape.num_ranks;
        return y + rows * group_pitch(page) + PANEL_GAP;
    }
    for (size_t i = 0; i < index; i++) {
        uint32_t rows = page->sheets[i].item->schedule->shape.num_ranks;
        y += page->title_height + rows * page->pitch + PANEL_GAP;
    }
    return y;
}

double pen__page_row_y(const struct pen__page *page, size_t index,
                       uint32_t rank)
{
    if (page->is_by_row)
        return snap(PEN__MARGIN + (double)page->count * page->title_height +
                    rank * group_pitch(page) + (double)index * page->pitch);
    return snap(pen__page_panel_y(page, index) + page->title_height +
                rank * page->pitch);
}

struct pen__box pen__page_box(const struct pen__page *page,
                              const struct pen__cell *cell, double row_y)
{
    double x = pen__page_x(page, cell->start_sec);
    double height = page->cell_height / cell->lanes;
    return (struct pen__box){
        .x = x,
        .y = row_y + cell->lane * height,
        .width = pen__page_x(page, cell->end_sec) - x,
        .height = height,
    };
}

static double tick_step(const struct pen__page *page)
{
    double range =
        pen__longest_sec(page->sheets, page->count) * page->unit.per_sec;
    return pen__nice_step(range, page->plot_width / (60 * page->zoom));
}

static uint32_t count_ticks(const struct pen__page *page, double step)
{
    double range =
        pen__longest_sec(page->sheets, page->count) * page->unit.per_sec;
    return (uint32_t)floor(range / step + 1e-9) + 1;
}

static double tick_x(const struct pen__page *page, uint32_t tick, double step)
{
    return pen__page_x(page, tick * step / page->unit.per_sec);
}

/* Draws guides under the rows, at the ticks of the axis. */
static void draw_guides(struct pen__canvas *canvas,
                        const struct pen__page *page)
{
    double step = tick_step(page);
    size_t panels = page->is_by_row ? 1 : page->count;
    for (size_t i = 0; i < panels; i++) {
        double top = pen__page_row_y(page, i, 0) - 3;
        size_t next = page->is_by_row ? page->count : i + 1;
        double bottom = pen__page_panel_y(page, next) - PANEL_GAP + 2;
        for (uint32_t tick = 0; tick < count_ticks(page, step); tick++) {
            double x = tick_x(page, tick, step);
            pen__add_line(canvas, x, top, x, bottom);
        }
    }
    pen__use_grey(canvas, 0.88);
    pen__stroke(canvas, 0.4);
}

static void draw_axis(struct pen__canvas *canvas, const struct pen__page *page)
{
    double y = pen__page_panel_y(page, page->count) - PANEL_GAP + 4;
    double zoom = page->zoom;
    double step = tick_step(page);
    double right = page->plot_x + page->plot_width;
    pen__add_line(canvas, page->plot_x, y, right, y);
    for (uint32_t tick = 0; tick < count_ticks(page, step); tick++) {
        double x = tick_x(page, tick, step);
        pen__add_line(canvas, x, y, x, y + 3.5);
    }
    pen__use_grey(canvas, 0.2);
    pen__stroke(canvas, 0.6);

    struct pen_text text = PEN_TEXT_EMPTY;
    pen__use_font(canvas, 8 * zoom, false);
    for (uint32_t tick = 0; tick < count_ticks(page, step); tick++) {
        pen_text_clear(&text);
        pen_text_add(&text, "%.6g", tick * step);
        pen__write(canvas, tick_x(page, tick, step), y + 12 * zoom, PEN__CENTRE,
                   pen_text_string(&text));
    }
    pen_text_clear(&text);
    pen_text_add(&text, "time (%s)", page->unit.name);
    pen__write(canvas, page->plot_x + page->plot_width / 2, y + 23 * zoom,
               PEN__CENTRE, pen_text_string(&text));
    pen_text_release(&text);
}

static double mean_busy(const struct pen_timing *timing)
{
    double busy_sec = 0;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
        busy_sec += timing->ranks[rank].busy_sec;
    double all_sec = timing->makespan_sec * timing->num_ranks;
    return all_sec > 0 ? busy_sec / all_sec : 0;
}

static void write_small_print(struct pen__canvas *canvas,
                              const struct pen__page *page)
{
    double pitch = SMALL_PITCH * page->zoom;
    double y = page->small_print_y + pitch;
    double room = page->width - PEN__MARGIN - page->plot_x;
    pen__use_grey(canvas, 0.35);
    for (size_t i = 0; i < page->count; i++) {
        const struct pen_picture_item *item = page->sheets[i].item;
        const struct pen_timing *timing = item->timing;
        double unit = page->unit.per_sec;
        struct pen_text text = PEN_TEXT_EMPTY;
        pen__add_item_label(item, &text);
        if (!item->is_bare)
            pen_text_add(
                &text,
                ": makespan %.6g %s, span %.6g %s, bubble %.2f %%, ranks "
                "busy %.1f %% on average",
                timing->makespan_sec * unit, page->unit.name,
                timing->span_sec * unit, page->unit.name, 100 * timing->bubble,
                100 * mean_busy(timing));
        if (item->note != NULL) {
            pen_text_add_string(&text, "; ");
            pen__add_clean(item->note, &text);
        }
        pen__write_within(canvas, page->plot_x, y, room, 7.5 * page->zoom,
                          false, pen_text_string(&text));
        pen_text_release(&text);
        y += pitch;
    }
}

void pen__page_draw(struct pen__canvas *canvas, const struct pen__page *page)
{
    draw_guides(canvas, page);
    for (size_t i = 0; i < page->count; i++)
        pen__panel_draw(canvas, page, i);
    draw_axis(canvas, page);
    pen__legend(canvas, page, true);
    write_small_print(canvas, page);
}
