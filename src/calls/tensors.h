#ifndef PEN_CALLS_TENSORS_H
#define PEN_CALLS_TENSORS_H

#include "calls/calls.h"

#include <jansson.h>

/*
 * Reads the sizes of tensors, as [[2, 3], [4]]: 10 elements. An empty list in
 * it is a tensor of `scalar` elements. The type is the first of `types`.
 */
void pen__read_tensors(const json_t *sizes, const json_t *types,
                       uint64_t scalar, struct pen_call_data *out);

/* Nanoseconds within what can be added up; 0 for anything else. */
#define PEN__MOST_NS INT64_C(2200000000000000000) /* in 2039 */
int64_t pen__time_ns(const json_t *value);

/* Converts microseconds, whole or not, to nanoseconds. */
int64_t pen__micros_ns(const json_t *value);

#endif
