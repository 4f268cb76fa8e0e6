/* One layer on one rank: its operations, its messages and what it keeps. */
#include "planner/collective.h"
#include "planner/layer_operations.h"
#include "planner/measured.h"
#include "planner/predict.h"

#include <math.h>

/* ---- seconds ---- */

static double busy_time(const struct pen__layer *layer,
                        const struct pen_operation_list *list)
{
    return pen_operations_busy(layer->device, layer->setting->number, list);
}

/*
 * The device runs while the host launches what comes next. Where both take
 * about as long, each waits for the other now and then.
 */
#define BLEND 4.0

double pen__layer_blend(double device_sec, double host_sec)
{
    double most = fmax(device_sec, host_sec);
    if (most <= 0)
        return 0;
    return most *
           pow(pow(device_sec / most, BLEND) + pow(host_sec / most, BLEND),
               1 / BLEND);
}

/* The messages of tensor parallelism of one pass of a block. */
static double tensor_time(const struct pen__layer *layer, double kernels,
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
static double context_time(const struct pen__layer *layer, double passes)
{
    if (layer->cp <= 1)
        return 0;
    struct pen_operation_list list = {.count = 0};
    struct pen_device_set set = {(uint64_t)layer->cp, (uint64_t)layer->tp};
    double bytes = layer->batch * layer->sequence * layer->cp * 2 * layer->key *
                   layer->element;
    double sec = pen_collective_time(layer->setting->cluster, layer->device,
                                     PEN_COLLECTIVE_GATHER, &set, bytes);
    pen__layer_list_attention(layer, passes > 1, &list);
    double hidden = busy_time(layer, &list) * (layer->cp - 1) / layer->cp;
    return fmax(PEN_BESIDE_SHARE * passes * sec, passes * sec - hidden);
}

/* Tokens go to their experts and come back. */
static double expert_time(const struct pen__layer *layer)
{
    struct pen_device_set set = {(uint64_t)layer->ep, (uint64_t)layer->tp};
    if (layer->experts == 0)
        return 0;
    return 2 *
           pen_collective_time(layer->setting->cluster, layer->device,
                               PEN_COLLECTIVE_EXCHANGE, &set,
                               layer->routed * layer->hidden * layer->element);
}

/* By operation: every second product, and what is cheap; attention is kept. */
static double selected_time(const struct pen__layer *layer,
                            const struct pen_operation_list *forward)
{
    double sec = 0;
    for (uint32_t i = 0; i < forward->count; i++) {
        const struct pen_operation *item = &forward->items[i];
        double once =
            pen_operation_time(layer->device, layer->setting->number, item);
        if (item->kind != PEN_OPERATION_ATTENTION)
            sec += item->kind == PEN_OPERATION_PRODUCT ? once / 2 : once;
    }
    return sec;
}

static void time_block(const struct pen__layer *layer,
                       enum pen_recompute recompute, struct pen_layer_time *out)
{
    struct pen_operation_list forward = {.count = 0};
    struct pen_operation_list input = {.count = 0};
    struct pen_operation_list weight = {.count = 0};
    struct pen_operation_list core = {.count = 0};
    pen__layer_list_forward(layer, &forward);
    pen__layer_list_input(layer, &input);
    pen__layer_list_weight(layer, &weight);
    pen__layer_list_attention(layer, false, &core);
    double host[3] = {pen_operations_host(layer->device, &forward),
                      pen_operations_host(layer->device, &input),
                      pen_operations_host(layer->device, &weight)};
    double tensor[2] = {tensor_time(layer, layer->parts, &host[0]),
                        tensor_time(layer, layer->parts, &host[1])};
    double context[2] = {context_time(layer, 1), context_time(layer, 2)};
    double expert = expert_time(layer);
    double busy = busy_time(layer, &forward);
    *out = (struct pen_layer_time){
        .forward_sec =
            pen__layer_blend(busy + tensor[0] + context[0] + expert, host[0]),
        .expert_sec = 2 * expert,
        .tensor_sec = tensor[0] + tensor[1],
        .context_sec = context[0] + context[1]};
    double backward_sec =
        busy_time(layer, &input) + tensor[1] + context[1] + expert;
    double weight_sec = busy_time(layer, &weight);
    double slow =
        pen__layer_blend(backward_sec + weight_sec, host[1] + host[2]) /
        (backward_sec + weight_sec);
    out->input_sec = backward_sec * slow;
    out->weight_sec = weight_sec * slow;
    if (recompute == PEN_RECOMPUTE_FULL) {
        out->recompute_sec = out->forward_sec;
        out->tensor_sec += tensor[0];
        out->expert_sec += expert;
    } else if (recompute == PEN_RECOMPUTE_SELECTIVE)
        out->recompute_sec = layer->setting->practice.selects_products
                                 ? selected_time(layer, &forward)
                                 : busy_time(layer, &core);
}

/* Batches come, losses go; half of it with the first layer, half at the end. */
static double once_time(const struct pen__layer *layer)
{
    return layer->device->constants[PEN_CONSTANT_MICROBATCH_SEC] / 2;
}

static void time_embedding(const struct pen__layer *layer,
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
static void time_head(const struct pen__layer *layer,
                      struct pen_layer_time *out)
{
    struct pen__layer head = *layer;
    struct pen_operation_list forward = {.count = 0};
    struct pen_operation_list input = {.count = 0};
    struct pen_operation_list weight = {.count = 0};
    double vocab = ceil(layer->setting->model->vocab / layer->tp);
    double row = layer->tokens * layer->hidden / layer->rows_tp;
    struct pen_setting setting = *layer->setting;
    setting.number = pen_number_beside(setting.number); /* in 16 bits */
    head.setting = &setting;
    pen_operations_add_rows(&forward, row * 2 * layer->element, 1);
    pen_operations_add_product(&forward, 1, layer->tokens, vocab,
                               layer->hidden);
    pen_operations_add_rows(&forward, layer->tokens * vocab * 38, 8);
    pen_operations_add_rows(&input, layer->tokens * vocab * 22, 3);
    pen_operations_add_product(&input, 1, layer->tokens, layer->hidden, vocab);
    pen_operations_add_rows(&input, row * 4 * layer->element, 2);
    pen__layer_add_gradient(&head, 1, layer->hidden, vocab, layer->tokens,
                            &weight);
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
static double stash_of_block(const struct pen__layer *layer, bool has_core)
{
    double element = layer->element;
    double masks = layer->setting->practice.has_dropout ? 1 : 0;
    double rows =
        layer->hidden * layer->parts * (2 * element + masks) / layer->rows_tp;
    if (!layer->setting->practice.has_fused_norm)
        rows +=
            layer->hidden * layer->parts * UNFUSED_NORM_BYTES / layer->rows_tp;
    double heads = (layer->query + layer->value + 2 * layer->key) * element;
    double inner =
        (pen__layer_up_width(layer, layer->inner) + layer->inner) * element;
    if (layer->has_gate && !layer->setting->practice.has_fused_gate)
        inner += layer->inner * element;
    if (layer->experts > 0)
        inner += layer->routed / layer->tokens * element *
                 (layer->hidden + layer->expert_inner +
                  pen__layer_up_width(layer, layer->expert_inner));
    double pairs = 0;
    if (!layer->setting->practice.has_fused_attention && has_core)
        pairs =
            layer->heads * layer->sequence * layer->cp * (2 * element + masks);
    return rows + heads + inner + pairs;
}

/*
 * Selective recomputation by operation: the results of every second product and
 * of attention stay, and the input. Queries, keys, values, the way out, gate,
 * up and down, in this order.
 */
static double stash_of_products(const struct pen__layer *layer)
{
    double inner = layer->inner;
    double rows = layer->hidden / layer->rows_tp;
    if (layer->experts > 0)
        inner += layer->routed / layer->tokens *
                 (layer->expert_inner + layer->hidden);
    return layer->element * (layer->query + layer->key + layer->value + inner +
                             (layer->has_gate ? 2 : 1) * rows);
}

/* Gradients of the pairs before and after the softmax, one in 32 bits. */
#define PAIR_WORK_BYTES 16.0

/* For the gradients of the weights; what is computed again is not held. */
static double hold_of_block(const struct pen__layer *layer,
                            enum pen_recompute recompute, double stash_bytes)
{
    bool is_again = recompute == PEN_RECOMPUTE_FULL &&
                    layer->setting->practice.recomputes_twice;
    return pen__layer_held_elements(layer, !is_again) * layer->element +
           (is_again ? stash_bytes : 0);
}

static void bytes_of_block(const struct pen__layer *layer,
                           enum pen_recompute recompute,
                           struct pen_layer_bytes *out)
{
    double all = layer->tokens * stash_of_block(layer, true);
    double input = layer->tokens * layer->hidden * layer->element *
                   fmax(1, layer->setting->model->num_streams);
    out->stash_bytes = (uint64_t)all;
    if (recompute == PEN_RECOMPUTE_SELECTIVE)
        out->stash_bytes = (uint64_t)(layer->tokens *
                                      (layer->setting->practice.selects_products
                                           ? stash_of_products(layer)
                                           : stash_of_block(layer, false)));
    if (recompute == PEN_RECOMPUTE_FULL) {
        out->stash_bytes = (uint64_t)(input / layer->rows_tp);
        out->working_bytes = (uint64_t)all;
    } else
        out->working_bytes = (uint64_t)(all - (double)out->stash_bytes);
    out->hold_bytes =
        (uint64_t)hold_of_block(layer, recompute, (double)out->stash_bytes);
    if (!layer->setting->practice.has_fused_attention)
        out->working_bytes +=
            (uint64_t)(layer->tokens * layer->heads * layer->sequence *
                       layer->cp * PAIR_WORK_BYTES);
    /* Gradients of the widest array and of what flows through. */
    out->working_bytes += (uint64_t)(layer->tokens *
                                     (pen__layer_up_width(layer, layer->inner) +
                                      2 * layer->hidden) *
                                     layer->element);
}

/* A logit in 16 and 32 bits, its softmax, and its gradient in both. */
#define LOGIT_BYTES 16.0

/* On their way together they are in two more places. */
#define GATHERED_LOGIT_BYTES 6.0

/* Of all logits of a token, while its loss is found. */
static double logit_bytes(const struct pen__layer *layer)
{
    double vocab = layer->setting->model->vocab;
    if (layer->setting->practice.gathers_logits && layer->tp > 1)
        return vocab * (LOGIT_BYTES + GATHERED_LOGIT_BYTES);
    return ceil(vocab / layer->tp) * LOGIT_BYTES;
}

/* Norms are not cut; they are too small to tell. */
static void count_parameters(const struct pen__layer *layer, uint32_t index,
                             struct pen_layer_bytes *out)
{
    const struct pen_model *model = layer->setting->model;
    uint64_t all = pen_model_layer_parameters(model, index);
    uint64_t experts = pen_model_expert_parameters(model, index);
    out->num_experts = (uint64_t)((double)experts / (layer->tp * layer->ep));
    out->num_parameters =
        (uint64_t)((double)(all - experts) / layer->tp) + out->num_experts;
}

void pen_predict_layer(const struct pen_setting *setting,
                       const struct pen_plan *plan, uint32_t group,
                       uint32_t index, enum pen_recompute recompute,
                       struct pen_layer_time *time,
                       struct pen_layer_bytes *bytes)
{
    struct pen__layer layer;
    if (pen__is_measured(setting) &&
        pen__measured_layer(setting, plan, index, recompute, time, bytes))
        return;
    if (setting->model->images != NULL) {
        pen__image_layer_predict(setting, plan, group, index, time, bytes);
        return;
    }
    pen__layer_open(setting, plan, group, index, &layer);
    double boundary = layer.tokens * layer.hidden * layer.element *
                      fmax(1, setting->model->num_streams);
    *bytes = (struct pen_layer_bytes){.output_bytes = (uint64_t)boundary};
    count_parameters(&layer, index, bytes);
    switch (pen_model_layer_kind(setting->model, index)) {
    case PEN_LAYER_EMBEDDING:
        time_embedding(&layer, time);
        if (setting->practice.has_dropout)
            bytes->stash_bytes =
                (uint64_t)(layer.tokens * layer.hidden / layer.rows_tp);
        break;
    case PEN_LAYER_HEAD:
        time_head(&layer, time);
        bytes->stash_bytes = (uint64_t)(boundary / layer.rows_tp * 2);
        bytes->hold_bytes = bytes->stash_bytes;
        bytes->working_bytes = (uint64_t)(layer.tokens * logit_bytes(&layer));
        break;
    default:
        time_block(&layer, recompute, time);
        bytes_of_block(&layer, recompute, bytes);
    }
}
