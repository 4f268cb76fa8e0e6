#ifndef PEN_TESTS_DEVICE_TRIALS_H
#define PEN_TESTS_DEVICE_TRIALS_H

#include "engine/engine.h"

/*
 * What holds for the device engine on every driver, as tests that get a
 * struct device_trials as their state. They are skipped where there is no
 * device.
 */
struct device_trials {
    const char *name; /* in support/seeds.txt */
    uint64_t shapes;  /* of an operation, for each seed */
    uint64_t long_shapes;
    pen_status (*create)(enum pen_precision dtype, const char *device,
                         struct pen_text *why, struct pen_engine **out);
    const char *refusal; /* the engine fails the test when the reason has it */
};

/* NULL, with the reason printed, where there is none. */
struct pen_engine *device_engine(const struct device_trials *trials,
                                 enum pen_precision dtype);

/* Every operation agrees with the reference engine over random shapes. */
void device_float_agrees_with_the_reference(void **state);
void device_bf16_is_within_its_rounding(void **state);

/* It has the bits of the same kernels as plain C, and the same bits once more.
 */
void device_bits_are_those_of_plain_c(void **state);

/* The driver handed out as many bytes as the engine says it holds. */
void device_memory_is_what_the_driver_handed_out(void **state);

#endif
