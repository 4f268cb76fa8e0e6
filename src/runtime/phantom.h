#ifndef PEN_RUNTIME_PHANTOM_H
#define PEN_RUNTIME_PHANTOM_H

#include <stdint.h>

/*
 * A run whose numbers are not needed: its messages have their lengths and no
 * contents, its parameters a number of elements and no memory. Only a simulated
 * MPI carries such messages; everything else is as ever.
 */
struct pen_phantom {
    uint32_t gradient_size; /* bytes of an element on its way to be summed */
    uint32_t value_size;    /* and of a weight, where these are gathered */
};

#endif
