/* A plot on paper: where things are, the legend, the file. */
#include "view/plot.h"

#include "view/picture.h"
#include "view/plot_page.h"

#define MARGIN 18.0
#define WIDTH 900.0
#define LEFT 44.0  /* "12.5k" */
#define RIGHT 58.0 /* last values */
#define TITLE_SIZE 13.0
#define TITLE_HEIGHT 40.0
#define LOSS_HEIGHT 300.0
#define SPEED_HEIGHT 110.0
#define CHART_GAP 32.0
#define AXIS_HEIGHT 42.0
#define TYPE_SIZE 9.5
#define LEGEND_PITCH 15.0
#define SAMPLE_WIDTH 26.0
#define COLUMNS_PER_POINT 2.0 /* pixels, in a PNG */

static void choose_axes(struct pen__plot_page *page)
{
    const struct pen__plot *plot = page->plot;
    const unsigned ticks[PEN__CHARTS] = {8, 4};
    pen__axis_init(&page->x, pen__plot_x_axis(plot), plot->x, 10);
    for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS; kind++)
        pen__axis_init(&page->y[kind], pen__plot_y_axis(plot, kind),
                       plot->y[kind], ticks[kind]);
}

static void init_page(struct pen__plot_page *page, const struct pen__plot *plot)
{
    const double heights[PEN__CHARTS] = {LOSS_HEIGHT, SPEED_HEIGHT};
    double y = MARGIN + TITLE_HEIGHT;
    *page = (struct pen__plot_page){.plot = plot, .width = WIDTH};
    for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS; kind++) {
        page->boxes[kind] = (struct pen__box){
            MARGIN + LEFT, y, WIDTH - 2 * MARGIN - LEFT - RIGHT, heights[kind]};
        y += heights[kind] + CHART_GAP;
    }
    page->legend_y = y - CHART_GAP + AXIS_HEIGHT;
    page->height = page->legend_y + LEGEND_PITCH * (double)plot->count + MARGIN;
    choose_axes(page);
}

/* Draws a line with the run's mark, its name, and its last step. */
static void draw_legend_entry(struct pen__canvas *canvas,
                              const struct pen__plot_page *page, size_t index)
{
    double x = page->boxes[0].x;
    double y = page->legend_y + LEGEND_PITCH * ((double)index + 0.5);
    double room = page->width - MARGIN - x - SAMPLE_WIDTH;
    struct pen_text words = PEN_TEXT_EMPTY;
    pen__add_clean(page->plot->items[index].label, &words);
    pen_text_add_string(&words, ":  ");
    pen__plot_add_words(page->plot, index, &words);
    pen__add_line(canvas, x, y, x + SAMPLE_WIDTH - 8, y);
    pen__use_colour(canvas, pen__run_colour(index));
    pen__stroke(canvas, 1.5);
    pen__run_mark(canvas, index, x + (SAMPLE_WIDTH - 8) / 2, y, 7);
    pen__fill(canvas);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, x + SAMPLE_WIDTH, y + 3.4, room, TYPE_SIZE, false,
                      pen_text_string(&words));
    pen_text_release(&words);
}

static void draw_page(struct pen__canvas *canvas, const void *context)
{
    const struct pen__plot_page *page = context;
    struct pen_text title = PEN_TEXT_EMPTY;
    pen__plot_add_title(page->plot, &title);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, page->boxes[0].x, MARGIN + TITLE_SIZE,
                      page->boxes[0].width, TITLE_SIZE, true,
                      pen_text_string(&title));
    pen_text_release(&title);
    for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS; kind++)
        pen__chart_draw(canvas, page, kind);
    pen__x_axis_write(canvas, &page->boxes[PEN__CHARTS - 1], &page->x,
                      page->plot->x_name);
    for (size_t i = 0; i < page->plot->count; i++)
        draw_legend_entry(canvas, page, i);
}

pen_status pen_plot_draw(const struct pen_plot_item *items, size_t count,
                         const struct pen_plot_options *options,
                         const char *path, struct pen_text *why)
{
    struct pen__plot plot;
    pen_status status = pen__picture_check(path, why);
    if (status == PEN_OK)
        status = pen__plot_init(&plot, items, count, options,
                                COLUMNS_PER_POINT * WIDTH, why);
    if (status != PEN_OK)
        return status;
    struct pen__plot_page page;
    struct pen_text title = PEN_TEXT_EMPTY;
    init_page(&page, &plot);
    pen__plot_add_title(&plot, &title);
    const struct pen__picture picture = {page.width, page.height, draw_page,
                                         &page, pen_text_string(&title)};
    status = pen__picture_write(&picture, path, why);
    pen_text_release(&title);
    pen__plot_release(&plot);
    return status;
}
