#include "planner/pareto.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    const struct pen_pareto_point *x = a;
    const struct pen_pareto_point *y = b;
    if (x->time_sec != y->time_sec)
        return x->time_sec < y->time_sec ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->label > y->label) - (x->label < y->label);
}

uint32_t pen_pareto_reduce(struct pen_pareto_point *points, uint32_t count)
{
    uint32_t kept = 0;
    qsort(points, count, sizeof *points, by_time);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || points[i].bytes < points[kept - 1].bytes)
            points[kept++] = points[i];
    return kept;
}
