#ifndef PEN_BENCH_MEASURE_H
#define PEN_BENCH_MEASURE_H

#include <stdint.h>
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

/* Small numbers; as bf16 the same bytes are small numbers, too. */
static inline void *small_numbers(size_t bytes)
{
    bytes = (bytes + 63) / 64 * 64;
    uint16_t *block = aligned_alloc(64, bytes);
    stop_unless(block != NULL, "no memory");
    for (size_t i = 0; i < bytes / 2; i++)
        block[i] = (uint16_t)(0x3c00 + i * 2654435761u % 256);
    return block;
}

#endif
