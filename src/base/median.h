#ifndef PEN_BASE_MEDIAN_H
#define PEN_BASE_MEDIAN_H

#include <stddef.h>

/* Sorts in ascending order; no value may be NAN. */
void pen_sort(double *values, size_t count);

/*
 * Returns the median, the lower of two, of the finite values; sorts them. NAN:
 * none.
 */
double pen_median(double *values, size_t count);

#endif
