#ifndef PEN_ENGINE_REFERENCE_REFERENCE_H
#define PEN_ENGINE_REFERENCE_REFERENCE_H

#include "engine/engine.h"

/* The same source for two types: f32.c and f64.c. */
extern const struct pen_engine_ops pen__reference_ops_f32;
extern const struct pen_engine_ops pen__reference_ops_f64;

struct pen__reference {
    struct pen_engine engine;
    size_t parameter_bytes;
    void *scratch; /* of Muon, grown when preparing */
    size_t scratch_bytes;
};

#endif
