#ifndef PEN_TESTS_SUPPORT_SPAN_H
#define PEN_TESTS_SUPPORT_SPAN_H

#include "engine/engine.h"

/* All stats of a part where they lie; of engines whose memory is the host's. */
static inline void *span_of_part(struct pen_engine *engine,
                                 struct pen_parameter *parameter,
                                 enum pen_parameter_part part, size_t *count)
{
    struct pen_parameter_shape shape;
    engine->ops->parameter_shape(parameter, &shape);
    *count = shape.rows * shape.columns;
    return engine->ops->parameter_read(engine, parameter, part, 0, *count,
                                       NULL);
}

#endif
