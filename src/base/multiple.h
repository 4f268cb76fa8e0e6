#ifndef PEN_BASE_MULTIPLE_H
#define PEN_BASE_MULTIPLE_H

#include <stdint.h>

/* Returns the least common multiple of two numbers above 0, which must fit. */
static inline uint64_t pen_common_multiple(uint64_t a, uint64_t b)
{
    uint64_t divisor = a;
    uint64_t rest = b;
    while (rest != 0) {
        uint64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    return a / divisor * b;
}

#endif
