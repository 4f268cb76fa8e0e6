#ifndef PEN_BASE_UNITS_H
#define PEN_BASE_UNITS_H

#include "base/text.h"

#include <stdbool.h>

/*
 * Numbers with a unit, as people write them: "80 GiB", "450 GB/s", "25 Gbit/s",
 * "3 us", "989 TFLOP/s". The space may be left out, and so may the unit: then
 * the number is in bytes, bytes per second, seconds or operations per second.
 * A rate may also be in bits, as "1 Gb/s", "1 Gbps" or "1 Gbit".
 */
enum pen_unit {
    PEN_UNIT_BYTES,
    PEN_UNIT_BYTES_PER_SEC,
    PEN_UNIT_SECONDS,
    PEN_UNIT_FLOPS, /* per second */
    PEN_UNITS
};

/*
 * Parses a number with a unit: finite, not negative. Returns false for anything
 * else; *out is then untouched.
 */
bool pen_unit_parse(enum pen_unit unit, const char *text, double *out);

/*
 * Prints the value in the largest unit that leaves at least 1 and reads back as
 * the same number. The value is finite and not negative.
 */
void pen_unit_print(enum pen_unit unit, double value, struct pen_text *out);

/* Returns an example for messages: "80 GiB". A constant. */
const char *pen_unit_example(enum pen_unit unit);

#endif
