#include "base/median.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void pen_sort(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
}

double pen_median(double *values, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]))
            values[kept++] = values[i];
    }
    if (kept == 0)
        return (double)NAN;
    pen_sort(values, kept);
    return values[(kept - 1) / 2];
}
