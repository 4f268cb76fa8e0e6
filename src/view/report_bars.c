/*
 * Bars of parts, from the top: the limit's name, the bars, the axis, the
 * legend.
 *
 *                                            80 GiB
 *      ranks 0 to 3  [weights|optimizer|...]   |   61.2 GiB
 *      ranks 4 to 7  [weights|optimizer|..]    |   55.0 GiB
 *                    |----|----|----|----|----|  GiB
 *      [] weights  [] optimizer ...
 */
#include "view/plot_axis.h"
#include "view/report_internal.h"

#include <math.h>
#include <stdio.h>

#define TOP 20.0
#define AXIS_HEIGHT 40.0
#define LEGEND_PITCH 20.0
#define LEGEND_BOX 11.0
#define LEAST_GUTTER 60.0
#define MOST_GUTTER 320.0
#define GAP 10.0
#define LEAST_PART 0.05 /* that is drawn */

struct layout {
    const struct pen_report_bars *bars;
    struct pen_text *out;
    size_t num_bars; /* that are drawn */
    struct pen__axis axis;
    double x; /* of the plot */
    double width;
    double pitch;
    double bottom; /* of the bars */
};

static double sum_of(const struct pen_report_bars *bars,
                     const struct pen_report_bar *bar)
{
    double sum = 0;
    for (size_t i = 0; i < bars->num_parts; i++)
        sum += bar->parts[i];
    return sum;
}

static double gutter(double widest)
{
    return fmin(fmax(widest + 2 * GAP, LEAST_GUTTER), MOST_GUTTER);
}

static void lay_out(struct layout *layout)
{
    const struct pen_report_bars *bars = layout->bars;
    double labels = 0;
    double notes = 0;
    struct pen__range range = {0, 0};
    layout->num_bars = bars->num_bars < PEN_REPORT_MAX_BARS
                           ? bars->num_bars
                           : PEN_REPORT_MAX_BARS;
    for (size_t i = 0; i < layout->num_bars; i++) {
        const struct pen_report_bar *bar = &bars->bars[i];
        range.most = fmax(range.most, fmax(sum_of(bars, bar), bar->limit));
        labels = fmax(labels, pen__letters_width(bar->label));
        if (bar->note != NULL)
            notes = fmax(notes, pen__letters_width(bar->note));
    }
    layout->x = gutter(labels);
    layout->width = PEN__CHART_WIDTH - layout->x - gutter(notes);
    layout->pitch = layout->num_bars <= 12 ? 28 : 17;
    layout->bottom = TOP + layout->pitch * (double)layout->num_bars;
    pen__axis_init(&layout->axis, PEN__AXIS_ZERO, range, 8);
}

static double x_of(const struct layout *layout, double value)
{
    return layout->x + layout->width * pen__axis_share(&layout->axis, value);
}

static void draw_axis(const struct layout *layout)
{
    char label[PEN__NUMBER_SIZE];
    for (size_t i = 0; i < layout->axis.num_ticks; i++) {
        double x = x_of(layout, layout->axis.ticks[i]);
        pen__chart_guide(layout->out, x, TOP, x, layout->bottom + 4);
        pen__axis_label(&layout->axis, i, label);
        pen__chart_write(layout->out, x, layout->bottom + 18, PEN__MIDDLE,
                         "quiet", label);
    }
    pen__chart_write(layout->out, layout->x + layout->width + GAP,
                     layout->bottom + 18, PEN__START, "quiet",
                     layout->bars->unit);
}

/* Prints three digits, or all of a larger number. */
static void print_number(double value, char text[PEN__NUMBER_SIZE])
{
    snprintf(text, PEN__NUMBER_SIZE, value < 999.5 ? "%.3g" : "%.0f", value);
}

/*
 * Draws a part, with its text for the pointer, and inside it if there is room.
 */
static void draw_part(const struct layout *layout,
                      const struct pen_report_bar *bar, size_t part,
                      double begin, double y)
{
    const char *name = layout->bars->names[part];
    double x = x_of(layout, begin);
    double width = x_of(layout, begin + bar->parts[part]) - x;
    char number[PEN__NUMBER_SIZE];
    if (!(width > LEAST_PART))
        return;
    print_number(bar->parts[part], number);
    pen_text_add(layout->out,
                 "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
                 "style=\"fill:var(--c%u)\"><title>",
                 x, y, width, layout->pitch - 6,
                 (unsigned)(part % PEN__REPORT_COLOURS));
    pen__html_add(layout->out, name);
    pen_text_add(layout->out, " %s ", number);
    pen__html_add(layout->out, layout->bars->unit);
    pen_text_add_string(layout->out, "</title></rect>\n");
    if (layout->pitch > 20 && width > pen__letters_width(number) + 6)
        pen__chart_write(layout->out, x + width / 2, y + layout->pitch / 2 + 1,
                         PEN__MIDDLE, "inside", number);
}

static void draw_limit(const struct layout *layout,
                       const struct pen_report_bar *bar, double y)
{
    if (!(bar->limit > 0))
        return;
    double x = x_of(layout, bar->limit);
    pen_text_add(layout->out,
                 "<line class=\"limit\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                 "y2=\"%.1f\"/>\n",
                 x, y, x, y + layout->pitch);
}

static void draw_bar(const struct layout *layout, size_t index)
{
    const struct pen_report_bar *bar = &layout->bars->bars[index];
    double y = TOP + layout->pitch * (double)index;
    double line = y + layout->pitch / 2 + 4;
    double begin = 0;
    pen__chart_write(layout->out, layout->x - GAP, line, PEN__END, NULL,
                     bar->label);
    for (size_t i = 0; i < layout->bars->num_parts; i++) {
        draw_part(layout, bar, i, begin, y + 3);
        begin += bar->parts[i];
    }
    draw_limit(layout, bar, y);
    if (bar->note != NULL)
        pen__chart_write(layout->out, layout->x + layout->width + GAP, line,
                         PEN__START, NULL, bar->note);
}

/* Returns whether at least one bar shows the part. */
static bool has_part(const struct layout *layout, size_t part)
{
    for (size_t i = 0; i < layout->num_bars; i++) {
        double width =
            x_of(layout, layout->bars->bars[i].parts[part]) - layout->x;
        if (width > LEAST_PART)
            return true;
    }
    return false;
}

/* Draws the legend, or only measures it; returns its height. */
static double legend(const struct layout *layout, bool is_drawn)
{
    double x = layout->x;
    double y = layout->bottom + AXIS_HEIGHT;
    for (size_t i = 0; i < layout->bars->num_parts; i++) {
        const char *name = layout->bars->names[i];
        double width = LEGEND_BOX + 5 + pen__letters_width(name) + 14;
        if (!has_part(layout, i))
            continue;
        if (x > layout->x && x + width > PEN__CHART_WIDTH) {
            x = layout->x;
            y += LEGEND_PITCH;
        }
        if (is_drawn) {
            pen_text_add(layout->out,
                         "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" "
                         "height=\"%.0f\" style=\"fill:var(--c%u)\"/>\n",
                         x, y - LEGEND_BOX + 1, LEGEND_BOX, LEGEND_BOX,
                         (unsigned)(i % PEN__REPORT_COLOURS));
            pen__chart_write(layout->out, x + LEGEND_BOX + 5, y, PEN__START,
                             NULL, name);
        }
        x += width;
    }
    return y + 8;
}

void pen__bars_print(const struct pen_report_bars *bars, struct pen_text *out)
{
    struct layout layout = {.bars = bars, .out = out};
    if (bars->num_bars == 0)
        return;
    lay_out(&layout);
    pen__chart_begin(out, legend(&layout, false), bars->unit);
    draw_axis(&layout);
    for (size_t i = 0; i < layout.num_bars; i++)
        draw_bar(&layout, i);
    if (bars->limit_name != NULL && bars->bars[0].limit > 0)
        pen__chart_write(out, x_of(&layout, bars->bars[0].limit), TOP - 6,
                         PEN__END, "alert", bars->limit_name);
    legend(&layout, true);
    pen__chart_end(out);
    if (bars->num_bars > layout.num_bars)
        pen_text_add(out, "<p class=\"note\">%zu more are not drawn.</p>\n",
                     bars->num_bars - layout.num_bars);
}
