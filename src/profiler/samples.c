#include "profiler/samples.h"

#include "base/bug.h"
#include "base/median.h"

#include <stdlib.h>

bool pen__samples_init(struct pen__samples *samples, size_t capacity)
{
    *samples = (struct pen__samples){
        .seconds = calloc(capacity, sizeof *samples->seconds),
        .capacity = capacity};
    return samples->seconds != NULL;
}

void pen__samples_release(struct pen__samples *samples)
{
    free(samples->seconds);
    *samples = (struct pen__samples){.seconds = NULL};
}

void pen__samples_add(struct pen__samples *samples, double seconds)
{
    PEN_BUG_UNLESS(samples->count < samples->capacity);
    samples->seconds[samples->count++] = seconds;
}

/* share 0 is the least, 1 the most. */
static double quantile(const struct pen__samples *samples, double share)
{
    double at = share * (double)(samples->count - 1);
    size_t below = (size_t)at;
    double low = samples->seconds[below];
    if (below + 1 == samples->count)
        return low;
    return low + (at - (double)below) * (samples->seconds[below + 1] - low);
}

struct pen_measured pen__samples_measure(struct pen__samples *samples)
{
    PEN_BUG_UNLESS(samples->count > 0);
    pen_sort(samples->seconds, samples->count);
    return (struct pen_measured){.median_sec = quantile(samples, 0.5),
                                 .spread_sec = quantile(samples, 0.75) -
                                               quantile(samples, 0.25)};
}
