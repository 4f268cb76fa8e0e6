/* Bytes that a block keeps from forward to backward, and needs in passing. */
#include "planner/layer_operations.h"

#include <math.h>

/*
 * A norm that is not fused keeps its input and its result in 32 bits, and a
 * cast.
 */
#define UNFUSED_NORM_BYTES 7.0

static bool keeps_narrow(const struct pen__layer *layer)
{
    return layer->setting->practice.keeps_narrow &&
           pen_number_is_narrow(layer->setting->number);
}

/* Bytes of the input of a product, as it is kept. */
static double input_bytes(const struct pen__layer *layer)
{
    return keeps_narrow(layer)
               ? pen_number_product_bytes(layer->setting->number)
               : layer->element;
}

/* Bytes that a block keeps of each token, by module. */
struct stash {
    double norms;   /* outputs of both */
    double rest;    /* their inputs, and masks */
    double heads;   /* queries, keys, values; out of a latent, if there is */
    double context; /* what attention gives */
    double latent;  /* before it is widened */
    double pairs;
    double common; /* the MLP, or shared experts */
    double experts;
    double expert_function; /* of the experts, the input of the last product */
};

/* First product, gate, and the input of the second one. */
static double inner_stash(const struct pen__layer *layer, double inner)
{
    double element = layer->element;
    double sum = pen__layer_up_width(layer, inner) * element +
                 inner * input_bytes(layer);
    if (layer->has_gate && !layer->setting->practice.has_fused_gate)
        sum += inner * element;
    return sum;
}

/* Buffers of pages are larger than what an equal share fills. */
#define PAGED_SHARE 1.2

/* Copies of a token at experts that there is memory for. */
static double expert_copies(const struct pen__layer *layer)
{
    if (!layer->setting->practice.has_worst_routing || layer->ep <= 1)
        return layer->routed / layer->tokens;
    return layer->ep *
           fmin(layer->experts, layer->setting->model->experts_per_token);
}

/* Returns the bytes per token of keys and values of all parts of a sequence. */
static double gathered_bytes(const struct pen__layer *layer)
{
    bool keeps = layer->setting->target == PEN_TARGET_PENSTOCK && layer->cp > 1;
    return keeps ? 2 * layer->key * layer->cp * layer->element : 0;
}

static struct stash count_stash(const struct pen__layer *layer)
{
    const struct pen_practice *practice = &layer->setting->practice;
    const struct pen_model *model = layer->setting->model;
    double element = layer->element;
    double input = input_bytes(layer);
    double masks = practice->has_dropout ? 1 : 0;
    double rows = layer->parts * layer->hidden / layer->rows_tp;
    struct stash out = {.norms = rows * input,
                        .rest = rows * (element + masks),
                        .heads = (layer->query + 2 * layer->key) * element,
                        .context = layer->value * element,
                        .common = inner_stash(layer, layer->inner)};
    if (!practice->has_fused_norm)
        out.rest += rows * UNFUSED_NORM_BYTES;
    out.heads += gathered_bytes(layer);
    if (keeps_narrow(layer))
        out.context += layer->value * input; /* for two readers */
    if (model->kv_lora_rank > 0)
        out.latent =
            (model->q_lora_rank + model->kv_lora_rank + model->qk_rope_dim) *
            (element + input);
    if (layer->experts > 0) {
        double share = expert_copies(layer);
        out.expert_function = share * layer->expert_inner * input;
        double pages = layer->recipe->is_paged ? PAGED_SHARE : 1;
        out.experts = share * (layer->expert_width * input +
                               inner_stash(layer, layer->expert_inner)) -
                      out.expert_function;
        out.experts *= pages;
        out.expert_function *= pages;
    }
    if (!practice->has_fused_attention)
        out.pairs =
            layer->heads * layer->sequence * layer->cp * (2 * element + masks);
    return out;
}

static double sum_stash(const struct stash *stash)
{
    return stash->norms + stash->rest + stash->heads + stash->context +
           stash->latent + stash->pairs + stash->common + stash->experts +
           stash->expert_function;
}

/* Drops the bytes of modules that are computed again, or wait on the host. */
static void drop_modules(const struct pen__layer *layer, unsigned modules,
                         struct stash *stash)
{
    const unsigned inner =
        1u << (layer->experts > 0 ? PEN_MODULE_SHARED_EXPERTS : PEN_MODULE_MLP);
    if ((modules & 1u << PEN_MODULE_CORE_ATTENTION) != 0)
        stash->pairs = 0;
    if ((layer->recipe->modules & modules & 1u << PEN_MODULE_CORE_ATTENTION) !=
            0 &&
        layer->setting->target == PEN_TARGET_PENSTOCK)
        stash->context = 0; /* this program computes it again, too */
    if ((modules & 1u << PEN_MODULE_NORMS) != 0)
        stash->norms *= 1 - pen__layer_free_norms(layer) / layer->parts;
    if ((modules & 1u << PEN_MODULE_LATENT) != 0 && stash->latent > 0)
        stash->heads = 0;
    if ((modules & inner) != 0)
        stash->common = 0;
    if ((modules & 1u << PEN_MODULE_EXPERTS) != 0)
        stash->experts = stash->expert_function = 0;
    if ((modules & 1u << PEN_MODULE_EXPERTS) != 0 && layer->experts > 0)
        stash->common = 0;
    if ((modules & 1u << PEN_MODULE_EXPERT_ACT) != 0)
        stash->expert_function = 0;
}

unsigned pen__layer_modules(const struct pen__layer *layer)
{
    unsigned modules = layer->recipe->modules;
    return modules != 0 ? modules : 1u << PEN_MODULE_CORE_ATTENTION;
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
                 (layer->expert_inner + layer->expert_width);
    return layer->element * (layer->query + layer->key + layer->value + inner +
                             (layer->has_gate ? 2 : 1) * rows);
}

/* Gradients of the pairs before and after the softmax, one in 32 bits. */
#define PAIR_WORK_BYTES 16.0

/* Bytes held for the gradients of the weights, without those computed again. */
static double hold_of_block(const struct pen__layer *layer,
                            enum pen_recompute recompute, double stash_bytes)
{
    bool is_again = recompute == PEN_RECOMPUTE_FULL &&
                    layer->setting->practice.recomputes_twice;
    return pen__layer_held_elements(layer, !is_again) * layer->element +
           (is_again ? stash_bytes : 0);
}

/* Bytes kept of each token under a mode of recomputation. */
static double kept_bytes(const struct pen__layer *layer,
                         enum pen_recompute recompute)
{
    struct stash stash = count_stash(layer);
    if (recompute == PEN_RECOMPUTE_FULL)
        return layer->hidden * layer->element / layer->rows_tp *
               fmax(1, layer->setting->model->num_streams);
    if (recompute == PEN_RECOMPUTE_SELECTIVE &&
        layer->setting->practice.selects_products)
        return stash_of_products(layer);
    if (recompute == PEN_RECOMPUTE_SELECTIVE)
        drop_modules(layer, pen__layer_modules(layer), &stash);
    drop_modules(layer, layer->recipe->offloaded, &stash);
    return sum_stash(&stash);
}

/* Rooms for rows of all tensor-parallel ranks, as in tensor_rank.c. */
#define GATHERED_STREAMS 5

void pen__layer_fill_bytes(const struct pen__layer *layer,
                           enum pen_recompute recompute,
                           struct pen_layer_bytes *out)
{
    struct stash stash = count_stash(layer);
    double all = layer->tokens * sum_stash(&stash);
    out->stash_bytes = (uint64_t)(layer->tokens * kept_bytes(layer, recompute));
    out->working_bytes = (uint64_t)all;
    if (recompute != PEN_RECOMPUTE_FULL)
        out->working_bytes -= out->stash_bytes;
    out->hold_bytes =
        (uint64_t)hold_of_block(layer, recompute, (double)out->stash_bytes);
    if (!layer->setting->practice.has_fused_attention)
        out->working_bytes +=
            (uint64_t)(layer->tokens * layer->heads * layer->sequence *
                       layer->cp * PAIR_WORK_BYTES);
    /* Shares of the gradients of keys and values, own ones and of others. */
    out->working_bytes += (uint64_t)(2 * layer->tokens * gathered_bytes(layer));
    if (layer->setting->target == PEN_TARGET_PENSTOCK && layer->rows_tp > 1)
        out->working_bytes += (uint64_t)(GATHERED_STREAMS * layer->tokens *
                                         layer->hidden * layer->element);
    /* Gradients of the widest array and of what flows through. */
    out->working_bytes += (uint64_t)(layer->tokens *
                                     (pen__layer_up_width(layer, layer->inner) +
                                      2 * layer->hidden) *
                                     layer->element);
}
