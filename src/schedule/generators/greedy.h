#ifndef PEN_SCHEDULE_GENERATORS_GREEDY_H
#define PEN_SCHEDULE_GENERATORS_GREEDY_H

#include "schedule/generators/generator.h"

/*
 * Makes a schedule by greedy list scheduling, as in hanayo and bitpipe: the op
 * that can start first does; backward before forward, then the deepest in the
 * model.
 *
 * With more than one micro-batch per rank there are two forms: units of as many
 * micro-batches as ranks, one after the other, or all at once, which is usually
 * faster and holds more. The faster one that fits the memory limit is kept.
 */
pen_status pen__greedy_generate(const struct pen_generator_args *args,
                                const char *name, const struct pen_shape *shape,
                                struct pen_schedule **out,
                                struct pen_text *why);

#endif
