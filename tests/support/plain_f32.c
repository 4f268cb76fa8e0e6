/* The kernels as plain C, for floats. */
#define PLAIN_KERNELS plain_kernels_f32
#include "support/plain_kernels.h"
