#ifndef PEN_BENCH_MEASURE_H
#define PEN_BENCH_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What several programs of this folder need. */

static inline double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Ascending, for qsort() of double. */
static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void stop_unless(int is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

#endif
