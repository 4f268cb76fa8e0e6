#ifndef PEN_BASE_SORT_H
#define PEN_BASE_SORT_H

#include <stddef.h>

/*
 * Sorts a short list by insertion; equal items keep their order. qsort() orders
 * equal items differently in different C libraries, so every printed list whose
 * items may be equal uses this function instead.
 */
void pen_sort_few(void *items, size_t count, size_t size,
                  int (*compare)(const void *, const void *));

#endif
