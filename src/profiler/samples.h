#ifndef PEN_PROFILER_SAMPLES_H
#define PEN_PROFILER_SAMPLES_H

#include "core/profile.h"

#include <stddef.h>

/* Seconds of one thing, once per round. */
struct pen__samples {
    double *seconds; /* owned */
    size_t count;
    size_t capacity;
};

/*
 * Makes room for samples. False when memory runs out. Release in either case.
 */
bool pen__samples_init(struct pen__samples *samples, size_t capacity);
void pen__samples_release(struct pen__samples *samples);

void pen__samples_add(struct pen__samples *samples, double seconds);

/*
 * Measures at least one sample; sorts them. Quartiles lie between samples if
 * need be.
 */
struct pen_measured pen__samples_measure(struct pen__samples *samples);

#endif
