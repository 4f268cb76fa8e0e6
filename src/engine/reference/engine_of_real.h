/*
 * The table of the reference engine for one type. Included by f32.c and f64.c,
 * which define REAL, REAL_DTYPE, REAL_OPS and FN(); no guard, on purpose.
 */
#include "base/bug.h"
#include "engine/host_memory.h"
#include "engine/newton_schulz.h"
#include "engine/reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COPIES = 16 };

struct pen_parameter {
    struct pen_parameter_shape shape;
    size_t count;
    REAL *parts[PEN_PART_MOMENT2 + 1];
    REAL *copies[MAX_COPIES]; /* of the value */
    int num_copies;
    REAL *second;            /* gradient, or NULL */
    bool is_gradient_placed; /* in memory that is not its own */
    bool is_value_placed;    /* likewise */
};

#include "engine/reference/attention_of_real.h"
#include "engine/reference/dense_of_real.h"
#include "engine/reference/experts_of_real.h"
#include "engine/reference/images_of_real.h"
#include "engine/reference/muon_of_real.h"
#include "engine/reference/parameter_of_real.h"
#include "engine/reference/rows_of_real.h"
#include "engine/reference/sinks_of_real.h"

static void reference_free(struct pen_engine *engine)
{
    free(((struct pen__reference *)engine)->scratch);
    free(engine);
}

static size_t memory_bytes(const struct pen_engine *engine)
{
    const struct pen__reference *self = (const struct pen__reference *)engine;
    return self->parameter_bytes + self->scratch_bytes;
}

static size_t scratch_bytes(const struct pen_engine *engine)
{
    return ((const struct pen__reference *)engine)->scratch_bytes;
}

static size_t passing_bytes(const struct pen_engine *engine)
{
    (void)engine;
    return 0;
}

const struct pen_engine_ops REAL_OPS = {
    .name = "reference",
    .is_host = true,
    .has_chunks = true,
    .take = pen_host_take,
    .give = pen_host_give,
    .copy = pen_host_copy,
    .mark = pen_host_mark,
    .is_reached = pen_host_is_reached,
    .fault = pen_host_fault,
    .free = reference_free,
    .memory_bytes = memory_bytes,
    .scratch_bytes = scratch_bytes,
    .passing_bytes = passing_bytes,
    .parameter_create = parameter_create,
    .parameter_free = parameter_free,
    .parameter_shape = parameter_shape,
    .parameter_add_moments = parameter_add_moments,
    .parameter_add_copy = parameter_add_copy,
    .parameter_swap = parameter_swap,
    .parameter_put = parameter_put,
    .parameter_import = parameter_import,
    .parameter_export = parameter_export,
    .parameter_read = parameter_read,
    .parameter_write = pen_host_parameter_write,
    .parameter_value_changed = parameter_value_changed,
    .gradient_clear = gradient_clear,
    .gradient_place = gradient_place,
    .value_bytes = value_bytes,
    .value_place = value_place,
    .gradient_add_second = gradient_add_second,
    .gradient_swap = gradient_swap,
    .gradient_add_rows = gradient_add_rows,
    .gradient_sum_squares = gradient_sum_squares,
    .adamw_step = adamw_step,
    .sgd_step = sgd_step,
    .muon_prepare = muon_prepare,
    .muon_step = muon_step,
    .linear_prepare = linear_prepare,
    .linear_forward = linear_forward,
    .linear_backward_input = linear_backward_input,
    .linear_backward_weight = linear_backward_weight,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .norm_forward = norm_forward,
    .norm_backward_input = norm_backward_input,
    .norm_backward_weight = norm_backward_weight,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .clamped_gate_forward = clamped_gate_forward,
    .clamped_gate_backward = clamped_gate_backward,
    .gated_bias_forward = gated_bias_forward,
    .gated_bias_backward_input = gated_bias_backward_input,
    .gated_bias_backward_weight = gated_bias_backward_weight,
    .sinks_forward = sinks_forward,
    .sinks_backward_input = sinks_backward_input,
    .sinks_backward_weight = sinks_backward_weight,
    .copy_columns = copy_columns,
    .route_forward = route_forward,
    .route_backward_input = route_backward_input,
    .route_backward_weight = route_backward_weight,
    .dispatch_rows = dispatch_rows,
    .collect_rows = collect_rows,
    .gate_forward = gate_forward,
    .gate_backward = gate_backward,
    .rotary_forward = rotary_forward,
    .rotary_backward = rotary_backward,
    .attention_prepare = attention_prepare,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .cross_entropy = cross_entropy,
    .entropy_measure = entropy_measure,
    .entropy_join = entropy_join,
    .entropy_finish = entropy_finish,
    .add = add,
    .relu_forward = relu_forward,
    .relu_backward = relu_backward,
    .convolution_prepare = convolution_prepare,
    .convolution_forward = convolution_forward,
    .convolution_backward_input = convolution_backward_input,
    .convolution_backward_weight = convolution_backward_weight,
    .pool_forward = pool_forward,
    .pool_backward = pool_backward,
    .batch_norm_measure = batch_norm_measure,
    .batch_norm_recall = batch_norm_recall,
    .batch_norm_forward = batch_norm_forward,
    .batch_norm_backward_input = batch_norm_backward_input,
    .batch_norm_backward_weight = batch_norm_backward_weight,
};
