/*
 * The reference engine: plain loops in the order of the formulas, one thread,
 * nothing fused, nothing blocked. It is there to be right and to be read.
 */
#include "engine/reference/reference.h"

#include <stdlib.h>

pen_status pen_engine_reference_create(enum pen_precision dtype,
                                       struct pen_text *why,
                                       struct pen_engine **out)
{
    if (dtype == PEN_PRECISION_BF16) {
        pen_why(why, "the reference engine computes in f32 or f64, not in %s",
                pen_precision_text(dtype));
        return PEN_INVALID;
    }
    struct pen__reference *reference = calloc(1, sizeof *reference);
    if (reference == NULL)
        return PEN_NOMEM;
    reference->engine.ops = dtype == PEN_PRECISION_F64
                                ? &pen__reference_ops_f64
                                : &pen__reference_ops_f32;
    reference->engine.dtype = dtype;
    reference->engine.threads = 1;
    *out = &reference->engine;
    return PEN_OK;
}
