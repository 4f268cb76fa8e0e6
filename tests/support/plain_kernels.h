/*
 * The kernels of the device engine as plain C, for one type of element.
 * Included by plain_f32.c and plain_bf16.c; no guard, on purpose.
 */
#include "support/plain_driver.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define is_descending plain_is_descending

/* clang-format off */
#include "engine/device/kernels/prelude_plain.cl"
#include "engine/device/kernels/common.cl"
#include "engine/device/kernels/rows.cl"
#include "engine/device/kernels/product.cl"
#include "engine/device/kernels/attention.cl"
#include "engine/device/kernels/embedding.cl"
#include "engine/device/kernels/loss.cl"
#include "engine/device/kernels/experts.cl"
#include "engine/device/kernels/update.cl"
/* clang-format on */

const plain_kernel PLAIN_KERNELS[PEN__KERNELS] = {
#define PLAIN_ROW(name, sizes) name,
    PEN__KERNEL_TABLE(PLAIN_ROW)
#undef PLAIN_ROW
};
