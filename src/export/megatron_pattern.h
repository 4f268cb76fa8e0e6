#ifndef PEN_EXPORT_MEGATRON_PATTERN_H
#define PEN_EXPORT_MEGATRON_PATTERN_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Which blocks have something, as an option says it: "2", every second one, or
 * a list that Python adds up, "([0]*3+[1]*5)".
 */
struct pen__megatron_pattern {
    uint32_t num_first; /* blocks at the input that have it not */
    uint32_t step;      /* of the others every how many have it */
    bool is_exact;      /* whether these two numbers say all of it */
};

pen_status pen__megatron_pattern_parse(const char *text, const char *name,
                                       uint32_t num_blocks,
                                       struct pen__megatron_pattern *out,
                                       struct pen_text *why);

#endif
