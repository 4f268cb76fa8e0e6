#ifndef PEN_BASE_MEDIAN_H
#define PEN_BASE_MEDIAN_H

#include <stddef.h>

/* The median, the lower of two, of the finite values; sorts them. NAN: none. */
double pen_median(double *values, size_t count);

#endif
