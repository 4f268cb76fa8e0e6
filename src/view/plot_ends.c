#include "view/plot_ends.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const struct pen__end *one = a;
    const struct pen__end *other = b;
    return (one->y > other->y) - (one->y < other->y);
}

/*
 * Spreads labels: from the top each below the one before; then, from the
 * bottom, back up.
 */
static void spread(struct pen__end *ends, size_t count, double height,
                   double pitch)
{
    qsort(ends, count, sizeof *ends, compare);
    for (size_t i = 1; i < count; i++)
        ends[i].y = fmax(ends[i].y, ends[i - 1].y + pitch);
    double most = height;
    for (size_t i = count; i-- > 0;) {
        ends[i].y = fmin(ends[i].y, most);
        most = ends[i].y - pitch;
    }
}

void pen__ends_make(const struct pen__plot *plot, enum pen__chart_kind kind,
                    const struct pen__axis *axis, double height, double pitch,
                    struct pen__end **out, size_t *count)
{
    struct pen__end *ends = calloc(2 * plot->count, sizeof *ends);
    size_t found = 0;
    for (size_t i = 0; ends != NULL && i < 2 * plot->count; i++) {
        const struct pen__plot_run *run = &plot->runs[i / 2];
        bool is_mark = i % 2 == 1;
        const struct pen__point *last =
            pen__curve_last(is_mark ? &run->marks : &run->lines[kind]);
        if (last == NULL || (is_mark && kind != PEN__CHART_LOSS))
            continue;
        struct pen__end *end = &ends[found++];
        end->y = height * (1 - pen__axis_share(axis, last->y));
        end->index = i / 2;
        end->is_mark = is_mark;
        pen__print_value(last->y, end->text);
    }
    if ((double)found * pitch > height + pitch)
        found = 0;
    if (found > 0)
        spread(ends, found, height, pitch);
    *out = ends;
    *count = found;
}
