#ifndef PEN_SCHEDULE_GENERATORS_REQUIRE_H
#define PEN_SCHEDULE_GENERATORS_REQUIRE_H

#include "schedule/generators.h"

/*
 * The demands that several generators make of their arguments. Each answers
 * PEN_OK, or PEN_INVALID with a sentence that names numbers that would work.
 */

pen_status pen__require_even_stages(const char *name,
                                    const struct pen_generator_args *args,
                                    struct pen_text *why);

/* Requires that the micro-batches are a multiple of `unit`. */
pen_status pen__require_multiple(const char *name,
                                 const struct pen_generator_args *args,
                                 uint32_t unit, struct pen_text *why);

/* Requires at least this many micro-batches. */
pen_status pen__require_microbatches(const char *name,
                                     const struct pen_generator_args *args,
                                     uint64_t least, struct pen_text *why);

/*
 * Requires that ranks times chunks is a number of stages that an op can carry.
 */
pen_status pen__require_chunks(const char *name,
                               const struct pen_generator_args *args,
                               uint32_t chunks, struct pen_text *why);

#endif
