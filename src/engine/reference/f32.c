/* The reference engine in float. */
#define REAL float
#define REAL_DTYPE PEN_PRECISION_F32
#define REAL_OPS pen__reference_ops_f32
#define FN(name) name##f
#include "engine/reference/engine_of_real.h"
