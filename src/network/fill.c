/* Numbers that weights begin with; see fill.h. */
#include "network/fill.h"

#include "base/random.h"

enum { STREAM_STEP = 0x632be5ab }; /* odd, so that streams do not meet soon */

static struct pen_random stream_of(const struct pen__fill *fill, uint64_t seed)
{
    struct pen_random mixer = {
        .state = seed + (uint64_t)(fill->slice->tensor + 1) * STREAM_STEP};
    return (struct pen_random){.state = pen_random_next(&mixer)};
}

static void put(const struct pen__fill *fill, size_t at, double value)
{
    at += fill->slice->first;
    if (fill->is_double)
        ((double *)fill->plain)[at] = value;
    else
        ((float *)fill->plain)[at] = (float)value;
}

void pen__fill_constant(const struct pen__fill *fill, double value)
{
    for (size_t i = 0; i < fill->slice->count; i++)
        put(fill, i, value);
}

void pen__fill_normal(const struct pen__fill *fill, uint64_t seed,
                      double deviation)
{
    struct pen_random random = stream_of(fill, seed);
    double pair[2] = {0};
    for (size_t i = 0; i < fill->slice->count; i++) {
        if (i % 2 == 0)
            pen_random_normals(&random, pair);
        put(fill, i, deviation * pair[i % 2]);
    }
}

void pen__fill_uniform(const struct pen__fill *fill, uint64_t seed,
                       double bound)
{
    struct pen_random random = stream_of(fill, seed);
    for (size_t i = 0; i < fill->slice->count; i++)
        put(fill, i, bound * (2 * pen_random_unit(&random) - 1));
}
