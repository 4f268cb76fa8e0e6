/* The reference engine in double: the truth for finite differences. */
#define REAL double
#define REAL_DTYPE PEN_PRECISION_F64
#define REAL_OPS pen__reference_ops_f64
#define FN(name) name
#include "engine/reference/engine_of_real.h"
