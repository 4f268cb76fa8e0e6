#ifndef PEN_BASE_RANDOM_H
#define PEN_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

/* Random numbers that depend on their seed only (splitmix64). */
struct pen_random {
    uint64_t state; /* the seed, at first */
};

static inline uint64_t pen_random_next(struct pen_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns a number in [0, 1). */
static inline double pen_random_unit(struct pen_random *random)
{
    return (double)(pen_random_next(random) >> 11) * 0x1p-53;
}

/* Returns a number in 0..count-1. */
static inline uint32_t pen_random_below(struct pen_random *random,
                                        uint32_t count)
{
    return (uint32_t)(((pen_random_next(random) >> 32) * count) >> 32);
}

/* Draws two independent normal numbers (Box-Muller). */
static inline void pen_random_normals(struct pen_random *random, double pair[2])
{
    double radius = sqrt(-2 * log(1 - pen_random_unit(random)));
    double angle = 2 * M_PI * pen_random_unit(random);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

#endif
