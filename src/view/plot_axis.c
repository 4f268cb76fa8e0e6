#include "view/plot_axis.h"

#include "base/bug.h"
#include "base/real.h"
#include "view/cells.h"

#include <math.h>
#include <stdio.h>

#define PADDING 0.05 /* of the range, above and below the values */

/* The largest unit that leaves numbers of this size above 1; from 10,000 on. */
static const struct unit {
    double size;
    const char *letter;
} units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};

static const struct unit *unit_of(double size)
{
    const struct unit *unit = units;
    if (size < 1e4)
        size = 1;
    while (unit->size > 1 && size < unit->size)
        unit++;
    return unit;
}

void pen__print_value(double value, char text[PEN__NUMBER_SIZE])
{
    const struct unit *unit = unit_of(fabs(value));
    double shown = value / unit->size;
    double digits = 3 - floor(log10(fabs(shown)));
    if (digits >= 0 && digits <= 6)
        snprintf(text, PEN__NUMBER_SIZE, "%.*f%s", (int)digits, shown,
                 unit->letter);
    else
        snprintf(text, PEN__NUMBER_SIZE, "%.4g%s", shown, unit->letter);
}

/* Stretches an axis to a length that floats can divide. */
static struct pen__range stretch(struct pen__range range)
{
    if (range.least > range.most)
        return (struct pen__range){0, 1};
    double size = fmax(fabs(range.least), fabs(range.most));
    if (range.most - range.least > 1e-9 * size)
        return range;
    double pad = size > 0 ? 0.1 * size : 1;
    return (struct pen__range){range.least - pad, range.most + pad};
}

static void add_tick(struct pen__axis *axis, double value)
{
    double slack = 1e-9 * (axis->to - axis->from);
    if (axis->num_ticks < PEN__TICKS_MAX && value >= axis->from - slack &&
        value <= axis->to + slack)
        axis->ticks[axis->num_ticks++] = value;
}

static void add_even_ticks(struct pen__axis *axis, double step)
{
    double first = ceil(axis->from / step - 1e-9);
    double last = floor(axis->to / step + 1e-9);
    axis->step = step;
    for (unsigned i = 0; first + i <= last && i < PEN__TICKS_MAX; i++)
        add_tick(axis, (first + i) * step);
}

/* Fits the range to the points; a single value is in the middle of the axis. */
static struct pen__range fit_tightly(struct pen__range range)
{
    if (range.least == range.most && range.least > 0)
        return (struct pen__range){0, 2 * range.most};
    if (range.least > 0 && range.least < 0.2 * range.most)
        range.least = 0;
    return stretch(range);
}

static struct pen__range fit_loosely(struct pen__range range,
                                     bool begins_at_zero)
{
    if (begins_at_zero)
        range.least = fmin(range.least, 0);
    range = stretch(range);
    double room = PADDING * (range.most - range.least);
    range.most += room;
    if (range.least < 0 || !begins_at_zero)
        range.least -= room;
    return range;
}

static void init_even(struct pen__axis *axis, enum pen__axis_kind kind,
                      struct pen__range range, unsigned most_ticks)
{
    bool is_tight = kind == PEN__AXIS_COUNT || kind == PEN__AXIS_TIGHT;
    range = is_tight ? fit_tightly(range)
                     : fit_loosely(range, kind == PEN__AXIS_ZERO);
    axis->from = range.least;
    axis->to = range.most;
    double step = pen__nice_step(range.most - range.least, most_ticks);
    add_even_ticks(axis, kind == PEN__AXIS_COUNT ? fmax(step, 1) : step);
}

/* Digits that get a tick in every decade, from dense to sparse. */
static const char *const digit_sets[] = {"123456789", "12357", "125", "13",
                                         "1"};

static void add_decades(struct pen__axis *axis, const char *digits, int stride)
{
    double from = log10(axis->from);
    int first = (int)(stride > 1 ? ceil(from) : floor(from));
    int last = (int)ceil(log10(axis->to));
    axis->num_ticks = 0;
    for (int power = first; power <= last; power += stride) {
        for (const char *digit = digits; *digit != '\0'; digit++)
            add_tick(axis, (*digit - '0') * pow(10, power));
    }
}

static void init_log(struct pen__axis *axis, struct pen__range range,
                     unsigned most_ticks)
{
    range = stretch(range);
    if (range.least <= 0) /* there was nothing */
        range = (struct pen__range){0.1, 1};
    double padding = pow(range.most / range.least, PADDING);
    axis->from = range.least / padding;
    axis->to = range.most * padding;
    axis->is_log = true;
    double decades = log10(axis->to / axis->from);
    if (decades < 0.5) {
        add_even_ticks(axis, pen__nice_step(axis->to - axis->from, most_ticks));
        return;
    }
    for (size_t i = 0; i < sizeof digit_sets / sizeof *digit_sets; i++) {
        add_decades(axis, digit_sets[i], 1);
        if (axis->num_ticks <= most_ticks)
            return;
    }
    add_decades(axis, "1", (int)ceil(decades / most_ticks));
}

enum pen__axis_kind pen__plot_x_axis(const struct pen__plot *plot)
{
    return plot->options.x == PEN_PLOT_TIME ? PEN__AXIS_TIGHT : PEN__AXIS_COUNT;
}

enum pen__axis_kind pen__plot_y_axis(const struct pen__plot *plot,
                                     enum pen__chart_kind kind)
{
    if (kind == PEN__CHART_SPEED)
        return PEN__AXIS_ZERO;
    return plot->options.has_log_loss ? PEN__AXIS_LOG : PEN__AXIS_LOOSE;
}

void pen__axis_init(struct pen__axis *axis, enum pen__axis_kind kind,
                    struct pen__range range, unsigned most_ticks)
{
    PEN_BUG_UNLESS(most_ticks > 0 && most_ticks < PEN__TICKS_MAX / 2);
    *axis = (struct pen__axis){.is_log = false};
    if (kind == PEN__AXIS_LOG)
        init_log(axis, range, most_ticks);
    else
        init_even(axis, kind, range, most_ticks);
    PEN_BUG_UNLESS(axis->to > axis->from);
}

double pen__axis_share(const struct pen__axis *axis, double value)
{
    if (axis->is_log)
        return pen_real_log(value / axis->from) /
               pen_real_log(axis->to / axis->from);
    return (value - axis->from) / (axis->to - axis->from);
}

/* Ticks of one step share a unit; those of decades have each their own. */
void pen__axis_label(const struct pen__axis *axis, size_t tick,
                     char label[PEN__NUMBER_SIZE])
{
    double value = axis->ticks[tick];
    bool is_even = axis->step > 0;
    const struct unit *unit =
        unit_of(is_even ? fmax(fabs(axis->from), fabs(axis->to)) : fabs(value));
    double digits = -floor(log10(axis->step / unit->size) + 1e-9);
    if (!is_even)
        snprintf(label, PEN__NUMBER_SIZE, "%.4g%s", value / unit->size,
                 unit->letter);
    else if (digits > 6 || fabs(value) > 1e15)
        snprintf(label, PEN__NUMBER_SIZE, "%.4g", value);
    else if (fabs(value) < 1e-9 * axis->step)
        snprintf(label, PEN__NUMBER_SIZE, "0");
    else
        snprintf(label, PEN__NUMBER_SIZE, "%.*f%s", (int)fmax(digits, 0),
                 value / unit->size, unit->letter);
}
