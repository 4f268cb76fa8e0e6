/*
 * Row operations for one element type: rows_f32.c and rows_bf16.c define
 * ELEMENT, LOAD, STORE and ROWS_NAME and include this; no guard, on purpose.
 */
#include "engine/onednn/exponential.h"
#include "engine/onednn/isa.h"
#include "engine/onednn/onednn.h"

#include <math.h>
#include <omp.h>

/* Elements that one thread takes at a time from a flat array. */
enum { PIECE = 4096, COLUMNS = 64 };

#include "engine/onednn/attention_of_element.h"
#include "engine/onednn/embedding_of_element.h"
#include "engine/onednn/experts_of_element.h"
#include "engine/onednn/flat_of_element.h"
#include "engine/onednn/images_of_element.h"
#include "engine/onednn/norm_of_element.h"
#include "engine/onednn/sinks_of_element.h"

static void fill(struct pen_engine_ops *ops)
{
    ops->embedding_forward = embedding_forward;
    ops->embedding_backward = embedding_backward;
    ops->norm_forward = norm_forward;
    ops->norm_backward_input = norm_backward_input;
    ops->norm_backward_weight = norm_backward_weight;
    ops->gelu_forward = gelu_forward;
    ops->gelu_backward = gelu_backward;
    ops->swiglu_forward = swiglu_forward;
    ops->swiglu_backward = swiglu_backward;
    ops->clamped_gate_forward = clamped_gate_forward;
    ops->clamped_gate_backward = clamped_gate_backward;
    ops->gated_bias_forward = gated_bias_forward;
    ops->gated_bias_backward_input = gated_bias_backward_input;
    ops->gated_bias_backward_weight = gated_bias_backward_weight;
    ops->sinks_forward = sinks_forward;
    ops->sinks_backward_input = sinks_backward_input;
    ops->sinks_backward_weight = sinks_backward_weight;
    ops->copy_columns = copy_columns;
    ops->route_forward = route_forward;
    ops->route_backward_input = route_backward_input;
    ops->route_backward_weight = route_backward_weight;
    ops->dispatch_rows = dispatch_rows;
    ops->collect_rows = collect_rows;
    ops->gate_forward = gate_forward;
    ops->gate_backward = gate_backward;
    ops->rotary_forward = rotary_forward;
    ops->rotary_backward = rotary_backward;
    ops->cross_entropy = cross_entropy;
    ops->entropy_measure = entropy_measure;
    ops->entropy_join = entropy_join;
    ops->entropy_finish = entropy_finish;
    ops->add = add;
    ops->relu_forward = relu_forward;
    ops->relu_backward = relu_backward;
    ops->pool_forward = pool_forward;
    ops->pool_backward = pool_backward;
    ops->batch_norm_measure = batch_norm_measure;
    ops->batch_norm_recall = batch_norm_recall;
    ops->batch_norm_forward = batch_norm_forward;
    ops->batch_norm_backward_input = batch_norm_backward_input;
    ops->batch_norm_backward_weight = batch_norm_backward_weight;
}

const struct pen__rows PEN__FOR_ISA(ROWS_NAME) = {
    .fill = fill,
    .add_columns = add_columns,
    .begin = begin,
    .add_channels = add_channels,
    .gather = gather,
    .scatter = scatter,
    .softmax = softmax,
    .softmax_slope = softmax_slope,
};
