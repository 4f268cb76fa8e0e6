/* Lines through marked points, on paper. */
#include "view/chart.h"

#include "view/picture.h"
#include "view/plot_page.h"

#include <math.h>

#define WIDTH 720.0
#define MARGIN 18.0
#define LEFT 44.0
#define TITLE_SIZE 13.0
#define TITLE_HEIGHT 44.0
#define CHART_HEIGHT 320.0
#define AXIS_HEIGHT 44.0
#define LEGEND_PITCH 15.0
#define SAMPLE_WIDTH 26.0
#define TYPE_SIZE 9.5
#define LINE_WIDTH 1.5
#define MARK_SIZE 6.0

struct page {
    const struct pen_chart *chart;
    struct pen__axis x;
    struct pen__axis y;
    struct pen__box box;
    double height;
};

pen_status pen_chart_check(const char *path, struct pen_text *why)
{
    return pen__picture_check(path, why);
}

static void init_page(struct page *page, const struct pen_chart *chart)
{
    struct pen__range x = {INFINITY, -INFINITY};
    struct pen__range y = {INFINITY, -INFINITY};
    for (size_t i = 0; i < chart->num_lines; i++)
        for (size_t j = 0; j < chart->lines[i].num_points; j++) {
            const struct pen_chart_point *point = &chart->lines[i].points[j];
            if (isnan(point->y))
                continue;
            pen__range_widen(&x, point->x);
            pen__range_widen(&y, point->y);
        }
    *page = (struct page){.chart = chart,
                          .box = {MARGIN + LEFT, MARGIN + TITLE_HEIGHT,
                                  WIDTH - 2 * MARGIN - LEFT, CHART_HEIGHT}};
    page->height = MARGIN + TITLE_HEIGHT + CHART_HEIGHT + AXIS_HEIGHT +
                   LEGEND_PITCH * (double)chart->num_lines + MARGIN;
    pen__axis_init(&page->x, chart->has_log_x ? PEN__AXIS_LOG : PEN__AXIS_TIGHT,
                   x, 10);
    pen__axis_init(&page->y, chart->has_log_y ? PEN__AXIS_LOG : PEN__AXIS_ZERO,
                   y, 8);
}

static struct pen__point place(const struct page *page,
                               const struct pen_chart_point *point)
{
    const struct pen__box *box = &page->box;
    double across = pen__axis_share(&page->x, point->x);
    double up = pen__axis_share(&page->y, point->y);
    return (struct pen__point){pen__snap(box->x + box->width * across),
                               pen__snap(box->y + box->height * (1 - up))};
}

static void draw_line(struct pen__canvas *canvas, const struct page *page,
                      size_t index)
{
    const struct pen_chart_line *line = &page->chart->lines[index];
    bool has_pen_down = false;
    for (size_t i = 0; i < line->num_points; i++) {
        if (isnan(line->points[i].y)) {
            has_pen_down = false;
            continue;
        }
        struct pen__point at = place(page, &line->points[i]);
        if (!has_pen_down)
            pen__move_to(canvas, at.x, at.y);
        pen__line_to(canvas, at.x, at.y);
        has_pen_down = true;
    }
    pen__use_colour(canvas, pen__run_colour(index));
    pen__stroke_round(canvas, LINE_WIDTH);
    for (size_t i = 0; i < line->num_points; i++) {
        if (isnan(line->points[i].y))
            continue;
        struct pen__point at = place(page, &line->points[i]);
        pen__run_mark(canvas, index, at.x, at.y, MARK_SIZE);
    }
    pen__fill(canvas);
}

static void draw_legend_entry(struct pen__canvas *canvas,
                              const struct page *page, size_t index)
{
    double x = page->box.x;
    double y = page->box.y + page->box.height + AXIS_HEIGHT +
               LEGEND_PITCH * ((double)index + 0.5);
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__add_clean(page->chart->lines[index].name, &name);
    pen__add_line(canvas, x, y, x + SAMPLE_WIDTH - 8, y);
    pen__use_colour(canvas, pen__run_colour(index));
    pen__stroke(canvas, LINE_WIDTH);
    pen__run_mark(canvas, index, x + (SAMPLE_WIDTH - 8) / 2, y, MARK_SIZE);
    pen__fill(canvas);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, x + SAMPLE_WIDTH, y + 3.4,
                      page->box.width - SAMPLE_WIDTH, TYPE_SIZE, false,
                      pen_text_string(&name));
    pen_text_release(&name);
}

/* Writes the title of the page, and the name of its vertical axis under it. */
static void write_titles(struct pen__canvas *canvas, const struct page *page)
{
    const struct pen__box *box = &page->box;
    struct pen_text title = PEN_TEXT_EMPTY;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__add_clean(page->chart->title, &title);
    pen__add_clean(page->chart->y_name, &name);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, box->x, MARGIN + TITLE_SIZE, box->width,
                      TITLE_SIZE, true, pen_text_string(&title));
    pen__use_font(canvas, TYPE_SIZE, true);
    pen__write(canvas, box->x, box->y - 7, PEN__LEFT, pen_text_string(&name));
    pen_text_release(&title);
    pen_text_release(&name);
}

static void draw_page(struct pen__canvas *canvas, const void *context)
{
    const struct page *page = context;
    struct pen_text name = PEN_TEXT_EMPTY;
    write_titles(canvas, page);
    pen__guides_draw(canvas, &page->box, &page->x, &page->y);
    pen__add_clean(page->chart->x_name, &name);
    pen__x_axis_write(canvas, &page->box, &page->x, pen_text_string(&name));
    pen_text_release(&name);
    for (size_t i = 0; i < page->chart->num_lines; i++) {
        draw_line(canvas, page, i);
        draw_legend_entry(canvas, page, i);
    }
}

pen_status pen_chart_draw(const struct pen_chart *chart, const char *path,
                          struct pen_text *why)
{
    struct page page;
    init_page(&page, chart);
    const struct pen__picture picture = {WIDTH, page.height, draw_page, &page,
                                         chart->title};
    return pen__picture_write(&picture, path, why);
}
