/* One layer on one rank: its operations, its messages and what it keeps. */
#include "planner/collective.h"
#include "planner/operations.h"
#include "planner/predict.h"

#include <math.h>

/* What the lists are made from: sizes on one rank. */
struct layer {
    const struct pen_setting *setting;
    const struct pen_device *device;
    double tp;
    double cp;
    double rows_tp;  /* over which norms and residuals are cut */
    double batch;    /* sequences */
    double sequence; /* tokens of one on this rank */
    double tokens;   /* of all of them */
    double hidden;
    double heads; /* of this rank */
    double head_dim;
    double query;   /* width of all queries of this rank */
    double key;     /* of its keys; values have as much */
    double inner;   /* of the MLP on this rank */
    double element; /* bytes */
    bool has_gate;
};

static void open_layer(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t group,
                       struct layer *out)
{
    const struct pen_model *model = setting->model;
    double tp = plan->degrees[PEN_DEGREE_TP];
    double cp = plan->degrees[PEN_DEGREE_CP];
    *out = (struct layer){
        .setting = setting,
        .device = &setting->cluster->groups[group].device,
        .tp = tp,
        .cp = cp,
        .rows_tp = plan->has_sequence_parallel ? tp : 1,
        .batch = plan->micro_batch,
        .sequence = plan->sequence / cp,
        .tokens = plan->micro_batch * (plan->sequence / cp),
        .hidden = model->hidden,
        .heads = model->num_heads / tp,
        .head_dim = model->head_dim,
        .query = (double)model->num_heads * model->head_dim / tp,
        .key = fmax(model->num_kv_heads / tp, 1) * model->head_dim,
        .inner = model->intermediate / tp,
        .element = pen_number_bytes(setting->number),
        .has_gate = model->activation == PEN_ACTIVATION_SILU};
}

/* ---- operations ---- */

/* Positions that a query sees, of those on this rank and on all others. */
static double seen_positions(const struct layer *layer, bool is_fused)
{
    double sequence = layer->sequence * layer->cp;
    double window = layer->setting->model->window;
    if (!is_fused)
        return sequence; /* all are computed, half of them for nothing */
    return window > 0 && window < sequence ? window : sequence / 2;
}

/* Queries by keys, softmax, by values: passes 1 forward, 2 backward. */
static void add_attention(const struct layer *layer, bool is_backward,
                          struct pen_operation_list *list)
{
    bool is_fused = layer->setting->practice.has_fused_attention;
    double seen = seen_positions(layer, is_fused);
    double pairs = layer->batch * layer->heads * layer->sequence * seen;
    if (is_fused) {
        double flops = 4 * pairs * layer->head_dim;
        pen_operations_add_attention(list, is_backward ? 2.5 * flops : flops);
        return;
    }
    double batch = layer->batch * layer->heads;
    for (int i = 0; i < (is_backward ? 2 : 1); i++) {
        pen_operations_add_product(list, batch, layer->sequence, seen,
                                   layer->head_dim);
        pen_operations_add_product(list, batch, layer->sequence,
                                   layer->head_dim, seen);
    }
    double dropout = layer->setting->practice.has_dropout ? 5 : 0;
    pen_operations_add_rows(list, pairs * ((is_backward ? 6 : 4) + dropout),
                            dropout > 0 ? 2 : 1);
}

/* Casts of the inputs of a product to 8 bits, and their transposes. */
static void add_cast(const struct layer *layer, double width,
                     struct pen_operation_list *list)
{
    if (layer->setting->number == PEN_NUMBER_FP8)
        pen_operations_add_rows(list, layer->tokens * width * 4, 1);
}

/* In steps, each reads and writes as much as all of them fused. */
#define UNFUSED_NORM_ARRAYS 6.0

/* What a norm reads and writes of a row, per element of 16 bits. */
static double norm_bytes(const struct layer *layer, bool is_backward)
{
    bool is_fused = layer->setting->practice.has_fused_norm;
    double arrays = is_backward ? 4 : 2;
    return layer->element * (is_fused ? arrays : UNFUSED_NORM_ARRAYS * arrays);
}

static void add_norms(const struct layer *layer, bool is_backward,
                      struct pen_operation_list *list)
{
    double row = layer->tokens * layer->hidden / layer->rows_tp;
    double dropout = layer->setting->practice.has_dropout ? 1 : 0;
    double kernels = is_backward ? 2 : 1;
    if (!layer->setting->practice.has_fused_norm)
        kernels *= UNFUSED_NORM_ARRAYS;
    for (int i = 0; i < 2; i++) {
        pen_operations_add_rows(list, row * norm_bytes(layer, is_backward),
                                kernels);
        pen_operations_add_rows(list, row * (3 * layer->element + dropout), 1);
    }
}

static void add_activation(const struct layer *layer, bool is_backward,
                           struct pen_operation_list *list)
{
    double arrays = layer->has_gate ? 3 : 2;
    if (is_backward)
        arrays = layer->has_gate ? 5 : 3;
    pen_operations_add_rows(
        list, layer->tokens * layer->inner * arrays * layer->element, 1);
    if (layer->setting->model->rope.kind != PEN_ROPE_NONE)
        pen_operations_add_rows(list,
                                layer->tokens * (layer->query + layer->key) *
                                    2 * layer->element,
                                1);
}

static double up_width(const struct layer *layer)
{
    return layer->has_gate ? 2 * layer->inner : layer->inner;
}

static void list_forward(const struct layer *layer,
                         struct pen_operation_list *list)
{
    double qkv = layer->query + 2 * layer->key;
    add_norms(layer, false, list);
    add_cast(layer, layer->hidden, list);
    pen_operations_add_product(list, 1, layer->tokens, qkv, layer->hidden);
    add_attention(layer, false, list);
    add_cast(layer, layer->query, list);
    pen_operations_add_product(list, 1, layer->tokens, layer->hidden,
                               layer->query);
    add_cast(layer, layer->hidden, list);
    pen_operations_add_product(list, 1, layer->tokens, up_width(layer),
                               layer->hidden);
    add_activation(layer, false, list);
    add_cast(layer, layer->inner, list);
    pen_operations_add_product(list, 1, layer->tokens, layer->hidden,
                               layer->inner);
}

static void list_input(const struct layer *layer,
                       struct pen_operation_list *list)
{
    double qkv = layer->query + 2 * layer->key;
    add_norms(layer, true, list);
    add_cast(layer, 2 * layer->hidden + qkv + up_width(layer), list);
    pen_operations_add_product(list, 1, layer->tokens, layer->hidden, qkv);
    add_attention(layer, true, list);
    pen_operations_add_product(list, 1, layer->tokens, layer->query,
                               layer->hidden);
    pen_operations_add_product(list, 1, layer->tokens, layer->hidden,
                               up_width(layer));
    add_activation(layer, true, list);
    pen_operations_add_product(list, 1, layer->tokens, layer->inner,
                               layer->hidden);
}

/* A weight gradient, and its way into the sum over the micro-batches. */
static void add_gradient(const struct layer *layer, double rows, double columns,
                         struct pen_operation_list *list)
{
    const struct pen_practice *practice = &layer->setting->practice;
    pen_operations_add_product(list, 1, rows, columns, layer->tokens);
    if (!practice->fuses_accumulation)
        pen_operations_add_rows(
            list,
            rows * columns * (layer->element + 2 * practice->gradient_bytes),
            1);
}

static void list_weight(const struct layer *layer,
                        struct pen_operation_list *list)
{
    double qkv = layer->query + 2 * layer->key;
    add_gradient(layer, layer->hidden, qkv, list);
    add_gradient(layer, layer->query, layer->hidden, list);
    add_gradient(layer, layer->hidden, up_width(layer), list);
    add_gradient(layer, layer->inner, layer->hidden, list);
}

/* ---- seconds ---- */

static double busy_time(const struct layer *layer,
                        const struct pen_operation_list *list)
{
    return pen_operations_busy(layer->device, layer->setting->number, list);
}

/*
 * The device runs while the host launches what comes next. Where both take
 * about as long, each waits for the other now and then.
 */
#define BLEND 4.0

static double blend(double device_sec, double host_sec)
{
    double most = fmax(device_sec, host_sec);
    if (most <= 0)
        return 0;
    return most *
           pow(pow(device_sec / most, BLEND) + pow(host_sec / most, BLEND),
               1 / BLEND);
}

/* The messages of tensor parallelism of one pass of a block. */
static double tensor_time(const struct layer *layer, double kernels,
                          double *host)
{
    struct pen_device_set set = {(uint64_t)layer->tp, 1};
    if (set.count <= 1)
        return 0;
    double bytes = layer->tokens * layer->hidden * layer->element;
    bool is_cut = layer->rows_tp > 1;
    double sec = pen_collective_time(layer->setting->cluster, layer->device,
                                     is_cut ? PEN_COLLECTIVE_GATHER
                                            : PEN_COLLECTIVE_REDUCE,
                                     &set, bytes) *
                 (is_cut ? 2 : 1);
    *host += kernels * (is_cut ? 2 : 1) *
             layer->device->constants[PEN_CONSTANT_LAUNCH];
    if (layer->setting->practice.overlaps_tensor)
        sec *= PEN_BESIDE_SHARE;
    return kernels * sec;
}

/* Keys and values travel around a ring while the pairs are computed. */
static double context_time(const struct layer *layer, double passes)
{
    if (layer->cp <= 1)
        return 0;
    struct pen_operation_list list = {.count = 0};
    struct pen_device_set set = {(uint64_t)layer->cp, (uint64_t)layer->tp};
    double bytes = layer->batch * layer->sequence * layer->cp * 2 * layer->key *
                   layer->element;
    double sec = pen_collective_time(layer->setting->cluster, layer->device,
                                     PEN_COLLECTIVE_GATHER, &set, bytes);
    add_attention(layer, passes > 1, &list);
    double hidden = busy_time(layer, &list) * (layer->cp - 1) / layer->cp;
    return fmax(0, passes * sec - hidden);
}

static void time_block(const struct layer *layer, enum pen_recompute recompute,
                       struct pen_layer_time *out)
{
    struct pen_operation_list forward = {.count = 0};
    struct pen_operation_list input = {.count = 0};
    struct pen_operation_list weight = {.count = 0};
    struct pen_operation_list core = {.count = 0};
    list_forward(layer, &forward);
    list_input(layer, &input);
    list_weight(layer, &weight);
    add_attention(layer, false, &core);
    double host[3] = {pen_operations_host(layer->device, &forward),
                      pen_operations_host(layer->device, &input),
                      pen_operations_host(layer->device, &weight)};
    double tensor[2] = {tensor_time(layer, 2, &host[0]),
                        tensor_time(layer, 2, &host[1])};
    double context[2] = {context_time(layer, 1), context_time(layer, 2)};
    double busy = busy_time(layer, &forward);
    *out = (struct pen_layer_time){
        .forward_sec = blend(busy + tensor[0] + context[0], host[0]),
        .tensor_sec = tensor[0] + tensor[1],
        .context_sec = context[0] + context[1]};
    double backward_sec = busy_time(layer, &input) + tensor[1] + context[1];
    double weight_sec = busy_time(layer, &weight);
    double slow = blend(backward_sec + weight_sec, host[1] + host[2]) /
                  (backward_sec + weight_sec);
    out->input_sec = backward_sec * slow;
    out->weight_sec = weight_sec * slow;
    if (recompute == PEN_RECOMPUTE_FULL) {
        out->recompute_sec = out->forward_sec;
        out->tensor_sec += tensor[0];
    } else if (recompute == PEN_RECOMPUTE_SELECTIVE)
        out->recompute_sec = busy_time(layer, &core);
}

/* Batches come, losses go; half of it with the first layer, half at the end. */
static double once_time(const struct layer *layer)
{
    return layer->device->constants[PEN_CONSTANT_MICROBATCH_SEC] / 2;
}

static void time_embedding(const struct layer *layer,
                           struct pen_layer_time *out)
{
    double host = 0;
    double bytes = layer->tokens * layer->hidden * layer->element;
    double tensor = tensor_time(layer, 1, &host);
    *out = (struct pen_layer_time){
        .forward_sec = pen_bytes_time(layer->device, 3 * bytes) + tensor +
                       once_time(layer),
        .weight_sec = pen_bytes_time(layer->device, 4 * bytes),
        .tensor_sec = tensor};
}

/* Last norm, logits, their softmax and its gradient in 32 bits. */
static void time_head(const struct layer *layer, struct pen_layer_time *out)
{
    struct layer head = *layer;
    struct pen_operation_list forward = {.count = 0};
    struct pen_operation_list input = {.count = 0};
    struct pen_operation_list weight = {.count = 0};
    double vocab = ceil(layer->setting->model->vocab / layer->tp);
    double row = layer->tokens * layer->hidden / layer->rows_tp;
    struct pen_setting setting = *layer->setting;
    if (setting.number == PEN_NUMBER_FP8)
        setting.number = PEN_NUMBER_BF16; /* the head stays in 16 bits */
    head.setting = &setting;
    pen_operations_add_rows(&forward, row * 2 * layer->element, 1);
    pen_operations_add_product(&forward, 1, layer->tokens, vocab,
                               layer->hidden);
    pen_operations_add_rows(&forward, layer->tokens * vocab * 38, 8);
    pen_operations_add_rows(&input, layer->tokens * vocab * 22, 3);
    pen_operations_add_product(&input, 1, layer->tokens, layer->hidden, vocab);
    pen_operations_add_rows(&input, row * 4 * layer->element, 2);
    add_gradient(&head, layer->hidden, vocab, &weight);
    double host = 0;
    double tensor = tensor_time(layer, 1, &host);
    *out = (struct pen_layer_time){
        .forward_sec = busy_time(&head, &forward) + once_time(layer),
        .input_sec = busy_time(&head, &input) + tensor,
        .weight_sec = busy_time(&head, &weight),
        .tensor_sec = tensor};
}

/* ---- bytes ---- */

/* In steps, a norm keeps its input and its result in 32 bits, and a cast. */
#define UNFUSED_NORM_BYTES 7.0

/* What a block keeps of each token, in bytes, without recomputation. */
static double stash_of_block(const struct layer *layer, bool has_core)
{
    double element = layer->element;
    double masks = layer->setting->practice.has_dropout ? 1 : 0;
    double rows = layer->hidden * (4 * element + 2 * masks) / layer->rows_tp;
    if (!layer->setting->practice.has_fused_norm)
        rows += layer->hidden * 2 * UNFUSED_NORM_BYTES / layer->rows_tp;
    double heads = (2 * layer->query + 2 * layer->key) * element;
    double inner = (up_width(layer) + layer->inner) * element;
    if (layer->has_gate && !layer->setting->practice.has_fused_gate)
        inner += layer->inner * element;
    double pairs = 0;
    if (!layer->setting->practice.has_fused_attention && has_core)
        pairs =
            layer->heads * layer->sequence * layer->cp * (2 * element + masks);
    return rows + heads + inner + pairs;
}

/* Gradients of the pairs before and after the softmax, one in 32 bits. */
#define PAIR_WORK_BYTES 16.0

static void bytes_of_block(const struct layer *layer,
                           enum pen_recompute recompute,
                           struct pen_layer_bytes *out)
{
    double all = layer->tokens * stash_of_block(layer, true);
    double input = layer->tokens * layer->hidden * layer->element;
    out->stash_bytes = (uint64_t)all;
    if (recompute == PEN_RECOMPUTE_SELECTIVE)
        out->stash_bytes =
            (uint64_t)(layer->tokens * stash_of_block(layer, false));
    if (recompute == PEN_RECOMPUTE_FULL) {
        out->stash_bytes = (uint64_t)(input / layer->rows_tp);
        out->working_bytes = (uint64_t)all;
    } else
        out->working_bytes = (uint64_t)(all - (double)out->stash_bytes);
    if (!layer->setting->practice.has_fused_attention)
        out->working_bytes +=
            (uint64_t)(layer->tokens * layer->heads * layer->sequence *
                       layer->cp * PAIR_WORK_BYTES);
    /* Gradients of the widest array and of what flows through. */
    out->working_bytes +=
        (uint64_t)(layer->tokens * (up_width(layer) + 2 * layer->hidden) *
                   layer->element);
}

/* A logit in 16 and 32 bits, its softmax, and its gradient in both. */
#define LOGIT_BYTES 16.0

/* On their way together they are in two more places. */
#define GATHERED_LOGIT_BYTES 6.0

/* Of all logits of a token, while its loss is found. */
static double logit_bytes(const struct layer *layer)
{
    double vocab = layer->setting->model->vocab;
    if (layer->setting->practice.gathers_logits && layer->tp > 1)
        return vocab * (LOGIT_BYTES + GATHERED_LOGIT_BYTES);
    return ceil(vocab / layer->tp) * LOGIT_BYTES;
}

static uint64_t parameters_of(const struct layer *layer, uint32_t index)
{
    /* Norms are not cut; they are too small to tell. */
    return (uint64_t)((double)pen_model_layer_parameters(layer->setting->model,
                                                         index) /
                      layer->tp);
}

void pen_predict_layer(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t group,
                       uint32_t index, enum pen_recompute recompute,
                       struct pen_layer_time *time,
                       struct pen_layer_bytes *bytes)
{
    struct layer layer;
    open_layer(setting, plan, group, &layer);
    double boundary = layer.tokens * layer.hidden * layer.element;
    *bytes =
        (struct pen_layer_bytes){.num_parameters = parameters_of(&layer, index),
                                 .output_bytes = (uint64_t)boundary};
    switch (pen_model_layer_kind(setting->model, index)) {
    case PEN_LAYER_EMBEDDING:
        time_embedding(&layer, time);
        if (setting->practice.has_dropout)
            bytes->stash_bytes = (uint64_t)(layer.tokens * layer.hidden);
        break;
    case PEN_LAYER_HEAD:
        time_head(&layer, time);
        bytes->stash_bytes = (uint64_t)(boundary / layer.rows_tp * 2);
        bytes->working_bytes = (uint64_t)(layer.tokens * logit_bytes(&layer));
        break;
    default:
        time_block(&layer, recompute, time);
        bytes_of_block(&layer, recompute, bytes);
    }
}
