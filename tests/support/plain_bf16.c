/* The kernels as plain C, for bf16. */
#define PEN__BF16
#define PLAIN_KERNELS plain_kernels_bf16
#include "support/plain_kernels.h"
