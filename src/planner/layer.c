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

static double fourth_power(double x)
{
    return x * x * (x * x);
}

/*
 * The device runs while the host launches what comes next. Where both take
 * about as long, each waits for the other now and then.
 */
double pen__layer_blend(double device_sec, double host_sec)
{
    double most = fmax(device_sec, host_sec);
    if (most <= 0)
        return 0;
    return most * sqrt(sqrt(fourth_power(device_sec / most) +
                            fourth_power(host_sec / most)));
}

/* Each rank sends its part of the rows to all others, or results for theirs. */
static double round_time(const struct pen__layer *layer, double bytes)
{
    const struct pen_cluster *cluster = layer->setting->cluster;
    double slowest = 0, sent = bytes * (layer->tp - 1) / layer->tp;
    double copied = 2 * bytes / layer->tp, added = 3 * sent; /* in turns */
    for (uint64_t apart = 1; apart < (uint64_t)layer->tp; apart *= 2)
        slowest = fmax(
            slowest,
            pen_message_latency(cluster, layer->device, apart) +
                sent / pen_message_bandwidth(cluster, layer->device, apart));
    return slowest + pen_bytes_time(layer->device, (copied + added) / 2);
}

/* Gradients of weights gather rows once more. */
static double backward_sums(const struct pen__layer *layer, double sums)
{
    bool gathers_again =
        layer->setting->target == PEN_TARGET_PENSTOCK && layer->rows_tp > 1;
    return gathers_again ? 1.5 * sums : sums;
}

/* This program's ranks exchange sums at distances 1, 2, 4, ... and add them. */
static double exchange_time(const struct pen__layer *layer, double bytes)
{
    const struct pen_cluster *cluster = layer->setting->cluster;
    double sec = 0;
    if (layer->rows_tp > 1)
        return 2 * round_time(layer, bytes);
    for (uint64_t apart = 1; apart < (uint64_t)layer->tp; apart *= 2)
        sec += pen_message_latency(cluster, layer->device, apart) +
               bytes / pen_message_bandwidth(cluster, layer->device, apart) +
               pen_bytes_time(layer->device, 3 * bytes);
    return sec;
}

/* The messages of tensor parallelism of one pass of a block. */
static double tensor_time(const struct pen__layer *layer, double kernels,
                          double *host)
{
    struct pen_device_set set = {(uint64_t)layer->tp, 1};
    if (set.count <= 1 || layer->setting->sends_inside)
        return 0;
    double bytes = layer->tokens * layer->hidden * layer->element;
    if (layer->setting->target == PEN_TARGET_PENSTOCK)
        return kernels * exchange_time(layer, bytes);
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

/*
 * Keys and values travel around a ring while the pairs are computed; this
 * program gathers them, and sends shares of their gradients.
 */
static double context_time(const struct pen__layer *layer, double passes)
{
    if (layer->cp <= 1 || layer->setting->sends_inside)
        return 0;
    struct pen_operation_list list = {.count = 0};
    struct pen_device_set set = {(uint64_t)layer->cp, (uint64_t)layer->tp};
    double bytes = layer->batch * layer->sequence * layer->cp * 2 * layer->key *
                   layer->element;
    double sec = pen_collective_time(layer->setting->cluster, layer->device,
                                     PEN_COLLECTIVE_GATHER, &set, bytes);
    if (layer->setting->target == PEN_TARGET_PENSTOCK)
        return sec; /* before the attention, and after its backward */
    pen__layer_list_attention(layer, passes > 1, &list);
    double hidden = busy_time(layer, &list) * (layer->cp - 1) / layer->cp;
    return fmax(PEN_BESIDE_SHARE * passes * sec, passes * sec - hidden);
}

/*
 * Seconds of selective recomputation by operation: every second product and all
 * cheap operations, but not attention, whose results are kept.
 */
static double selected_time(const struct pen__layer *layer)
{
    struct pen_operation_list forward = {.count = 0};
    double sec = 0;
    pen__layer_list_forward(layer, &forward);
    for (uint32_t i = 0; i < forward.count; i++) {
        const struct pen_operation *item = &forward.items[i];
        double once =
            pen_operation_time(layer->device, layer->setting->number, item);
        if (item->kind != PEN_OPERATION_ATTENTION)
            sec += item->kind == PEN_OPERATION_PRODUCT ? once / 2 : once;
    }
    return sec;
}

/*
 * A pass: experts begin when their tokens have come, so the host cannot launch
 * them ahead.
 */
struct pass {
    double busy_sec;        /* of the device, but for experts */
    double expert_busy_sec; /* of it for experts */
    double host_sec;
    double expert_host_sec;
};

static void add_pass(const struct pen__layer *layer,
                     const struct pen_operation_list *list, struct pass *pass)
{
    enum pen_number number = layer->setting->number;
    const struct pen_device *device = layer->device;
    pass->busy_sec += pen_operations_part_busy(device, number, list, false);
    pass->expert_busy_sec +=
        pen_operations_part_busy(device, number, list, true);
    pass->host_sec += pen_operations_part_host(device, list, false);
    pass->expert_host_sec += pen_operations_part_host(device, list, true);
}

static void join_pass(const struct pass *from, struct pass *pass)
{
    pass->busy_sec += from->busy_sec;
    pass->expert_busy_sec += from->expert_busy_sec;
    pass->host_sec += from->host_sec;
    pass->expert_host_sec += from->expert_host_sec;
}

/*
 * The host does not launch what a graph launches. A graph of modules leaves the
 * experts to the host, unless each has a fixed number of tokens.
 */
static void capture(const struct pen__layer *layer, struct pass *pass)
{
    if (layer->recipe->graphs == PEN_GRAPHS_NONE)
        return;
    pass->host_sec = 0;
    if (layer->recipe->graphs == PEN_GRAPHS_FULL || layer->recipe->drops_tokens)
        pass->expert_host_sec = 0;
}

static double pass_time(const struct pass *pass, double message_sec)
{
    return pen__layer_blend(pass->busy_sec + message_sec, pass->host_sec) +
           pen__layer_blend(pass->expert_busy_sec, pass->expert_host_sec);
}

/* Seconds of the exchange of a pass, there and back, that are exposed. */
static double expert_time(const struct pen__layer *layer)
{
    double sec = 2 * pen__layer_exchange_time(layer);
    return layer->recipe->overlaps_experts ? PEN_BESIDE_SHARE * sec : sec;
}

/* Seconds of the modules that are computed again, with their exchange. */
static double modules_time(const struct pen__layer *layer)
{
    unsigned modules = pen__layer_modules(layer);
    double sec = 0;
    for (unsigned i = 0; i < PEN_MODULES; i++) {
        struct pen_operation_list list = {.count = 0};
        bool is_inside = i == PEN_MODULE_EXPERT_ACT &&
                         (modules & 1u << PEN_MODULE_EXPERTS) != 0;
        if ((modules & 1u << i) == 0 || is_inside)
            continue;
        pen__layer_list_module(layer, (enum pen_module)i, &list);
        sec += busy_time(layer, &list);
        if (i == PEN_MODULE_EXPERTS && layer->experts > 0)
            sec += expert_time(layer) + pen__layer_expert_wait(layer);
    }
    return sec;
}

/* Adds what is computed again to the passes of a block. */
static void add_recompute(const struct pen__layer *layer,
                          enum pen_recompute recompute,
                          struct pen_layer_time *out)
{
    if (recompute == PEN_RECOMPUTE_FULL) {
        out->recompute_sec = out->forward_sec;
        out->tensor_sec += out->tensor_sec / 2; /* of one of two passes */
        if (layer->setting->target == PEN_TARGET_PENSTOCK)
            out->context_sec += out->context_sec / 2;
        out->expert_sec += out->expert_sec / 2;
    } else if (recompute == PEN_RECOMPUTE_SELECTIVE)
        out->recompute_sec = layer->setting->practice.selects_products
                                 ? selected_time(layer)
                                 : modules_time(layer);
}

static void time_block(const struct pen__layer *layer,
                       struct pen_layer_time *out)
{
    struct pen_operation_list forward = {.count = 0};
    struct pen_operation_list input = {.count = 0};
    struct pen_operation_list weight = {.count = 0};
    struct pass ahead = {.busy_sec = 0};
    struct pass back = {.busy_sec = 0};
    struct pass of_weight = {.busy_sec = 0};
    pen__layer_list_forward(layer, &forward);
    pen__layer_list_input(layer, &input);
    pen__layer_list_weight(layer, &weight);
    add_pass(layer, &forward, &ahead);
    add_pass(layer, &input, &back);
    add_pass(layer, &weight, &of_weight);
    double input_busy_sec = back.busy_sec + back.expert_busy_sec;
    join_pass(&of_weight, &back);
    double tensor[2] = {
        tensor_time(layer, layer->parts, &ahead.host_sec),
        tensor_time(layer, backward_sums(layer, layer->parts), &back.host_sec)};
    capture(layer, &ahead);
    capture(layer, &back);
    double context[2] = {context_time(layer, 1), context_time(layer, 2)};
    double expert = expert_time(layer);
    double wait = pen__layer_expert_wait(layer);
    *out = (struct pen_layer_time){
        .forward_sec =
            pass_time(&ahead, tensor[0] + context[0] + expert) + wait,
        .expert_sec = 2 * expert + 2 * wait,
        .tensor_sec = tensor[0] + tensor[1],
        .context_sec = context[0] + context[1]};
    double messages = tensor[1] + context[1] + expert;
    double weight_sec = of_weight.busy_sec + of_weight.expert_busy_sec;
    double input_sec = input_busy_sec + messages;
    double slow = pass_time(&back, messages) / (input_sec + weight_sec);
    out->input_sec = input_sec * slow + wait;
    out->weight_sec = weight_sec * slow;
}

/*
 * Seconds of a batch that comes and of losses that go: half with the first
 * layer, half at the end.
 */
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

/* Bytes of each logit: the gradient takes its place in two passes. */
#define FUSED_LOSS_PASSES 8.0

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
    bool is_fused = layer->setting->practice.has_fused_loss;
    pen_operations_add_rows(
        &forward, layer->tokens * vocab * (is_fused ? FUSED_LOSS_PASSES : 38),
        is_fused ? 2 : 8);
    if (!is_fused)
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

/* A logit in 16 and 32 bits, its softmax, and its gradient in both. */
#define LOGIT_BYTES 16.0

/* Fused, the gradient takes the place of the logit. */
#define FUSED_LOGIT_BYTES 4.0

/* On their way together they are in two more places. */
#define GATHERED_LOGIT_BYTES 6.0

/* Bytes of all logits of a token, while its loss is found. */
static double logit_bytes(const struct pen__layer *layer)
{
    double vocab = layer->setting->model->vocab;
    if (layer->setting->practice.has_fused_loss)
        return ceil(vocab / layer->tp) * FUSED_LOGIT_BYTES;
    if (layer->setting->practice.gathers_logits && layer->tp > 1)
        return vocab * (LOGIT_BYTES + GATHERED_LOGIT_BYTES);
    return ceil(vocab / layer->tp) * LOGIT_BYTES;
}

/* Norms count as cut, which they are not: they are too small to matter. */
static void count_parameters(const struct pen__layer *layer, uint32_t index,
                             struct pen_layer_bytes *out)
{
    const struct pen_model *model = layer->setting->model;
    uint64_t all = pen_model_layer_parameters(model, index);
    uint64_t experts = pen_model_expert_parameters(model, index);
    out->num_experts = (uint64_t)((double)experts / (layer->etp * layer->ep));
    out->num_parameters =
        (uint64_t)((double)(all - experts) / layer->tp) + out->num_experts;
}

void pen__layer_time_add(const struct pen_layer_time *time, double count,
                         struct pen_layer_time *sum)
{
    sum->forward_sec += count * time->forward_sec;
    sum->input_sec += count * time->input_sec;
    sum->weight_sec += count * time->weight_sec;
    sum->recompute_sec += count * time->recompute_sec;
    sum->tensor_sec += count * time->tensor_sec;
    sum->context_sec += count * time->context_sec;
    sum->expert_sec += count * time->expert_sec;
}

/* `count` times what a layer takes and holds. */
static void add_times(const struct pen_layer_time *time,
                      const struct pen_layer_bytes *bytes, double count,
                      struct pen_layer_time *sum, struct pen_layer_bytes *held)
{
    pen__layer_time_add(time, count, sum);
    held->num_parameters += bytes->num_parameters;
    held->num_experts += bytes->num_experts;
    held->stash_bytes += (uint64_t)(count * (double)bytes->stash_bytes);
    held->hold_bytes += (uint64_t)(count * (double)bytes->hold_bytes);
}

/* A layer of this kind of block; the last block where the model has none. */
static uint32_t layer_like(const struct pen_model *model, uint8_t kind)
{
    for (uint32_t block = model->num_blocks; block-- > 0;)
        if (pen_model_block_kind(model, block) == kind)
            return block + 1;
    return model->num_blocks;
}

/* The blocks that predict one further token: one, or two halves of one. */
static void add_further_blocks(const struct pen_setting *setting,
                               const struct pen_plan *plan, uint32_t group,
                               enum pen_recompute recompute,
                               struct pen_layer_time *time,
                               struct pen_layer_bytes *bytes)
{
    const struct pen_model *model = setting->model;
    for (uint32_t i = 0; i < model->num_mtp_kinds; i++) {
        struct pen_layer_time one;
        struct pen_layer_bytes held;
        pen_predict_layer(setting, plan, group,
                          layer_like(model, model->mtp_kinds[i]), recompute,
                          &one, &held);
        add_times(&one, &held, 1, time, bytes);
    }
}

/*
 * Each further token takes blocks of its own kinds, whose input comes out of a
 * product of two rows, and the head once more. They share these blocks.
 */
static void add_further_tokens(const struct pen_setting *setting,
                               const struct pen_plan *plan, uint32_t group,
                               enum pen_recompute recompute,
                               struct pen_layer_time *time,
                               struct pen_layer_bytes *bytes)
{
    double count = plan->recipe.mtp_blocks;
    struct pen__layer layer;
    struct pen_layer_time block = {.forward_sec = 0};
    struct pen_layer_bytes held = {.num_parameters = 0};
    if (count == 0)
        return;
    struct pen_layer_time head = *time;
    struct pen_layer_bytes kept = *bytes;
    add_further_blocks(setting, plan, group, recompute, &block, &held);
    pen__layer_open(setting, plan, group, setting->model->num_layers - 2,
                    &layer);
    struct pen_operation_list joined = {.count = 0};
    pen_operations_add_product(&joined, 1, layer.tokens,
                               layer.hidden / layer.tp, 2 * layer.hidden);
    double once = busy_time(&layer, &joined);
    block.forward_sec += once;
    block.input_sec += once;
    block.weight_sec += once;
    held.num_parameters +=
        (uint64_t)(2 * layer.hidden * layer.hidden / layer.tp);
    held.stash_bytes += (uint64_t)(3 * layer.tokens * layer.hidden *
                                   layer.element / layer.rows_tp);
    add_times(&block, &held, count, time, bytes);
    kept.num_parameters = kept.num_experts = 0;
    add_times(&head, &kept, count, time, bytes);
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
        add_further_tokens(setting, plan, group, recompute, time, bytes);
        break;
    default:
        time_block(&layer, time);
        add_recompute(&layer, recompute, time);
        pen__layer_fill_bytes(&layer, recompute, bytes);
    }
}

void pen__layer_recompute(const struct pen_setting *setting,
                          const struct pen_plan *plan, uint32_t group,
                          uint32_t index, enum pen_recompute recompute,
                          struct pen_layer_time *time,
                          struct pen_layer_bytes *bytes)
{
    struct pen__layer layer;
    bool is_block =
        pen_model_layer_kind(setting->model, index) == PEN_LAYER_BLOCK;
    if (pen__is_measured(setting) || setting->model->images != NULL ||
        (!is_block && plan->recipe.mtp_blocks > 0)) {
        pen_predict_layer(setting, plan, group, index, recompute, time, bytes);
        return;
    }
    if (!is_block)
        return;
    pen__layer_open(setting, plan, group, index, &layer);
    add_recompute(&layer, recompute, time);
    pen__layer_fill_bytes(&layer, recompute, bytes);
}
