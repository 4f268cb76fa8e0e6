#include "planner/layer_mixer.h"

#include <math.h>

/* ---- sizes ---- */

static void open_attention(const struct pen_model *model,
                           struct pen__layer *layer)
{
    const struct pen_block *block = layer->block;
    layer->head_dim = block->head_dim;
    layer->query = layer->heads * block->head_dim;
    layer->key = fmax(block->num_kv_heads / layer->tp, 1) * block->head_dim;
    if (model->kv_lora_rank == 0)
        layer->value = layer->query;
    bool has_more = model->has_output_gate || model->output_rank > 0 ||
                    (model->q_lora_rank > 0 && model->kv_lora_rank == 0) ||
                    block->has_shared_values || block->is_picked ||
                    block->compression > 0;
    layer->has_own_mixer = has_more || model->num_streams > 0;
}

/*
 * Sets keys as if they were those of the state, so that the kept bytes are
 * right.
 */
static void open_recurrence(const struct pen_model *model,
                            struct pen__layer *layer)
{
    const struct pen_recurrence *it = &model->recurrence;
    double width =
        (double)pen_model_recurrence_width(model, layer->block->mixer);
    layer->heads = fmax(1, it->num_heads / layer->tp);
    layer->head_dim = it->head_dim;
    layer->value = (double)it->num_heads * it->head_dim / layer->tp;
    layer->key = (double)it->num_groups * it->state_dim / layer->tp;
    layer->query = width / layer->tp - 2 * layer->key;
    layer->has_own_mixer = true;
}

void pen__mixer_open(const struct pen_model *model, struct pen__layer *layer)
{
    const struct pen_block *block = layer->block;
    layer->window = block->window;
    layer->parts = 2;
    switch (block->mixer) {
    case PEN_MIXER_ATTENTION:
        open_attention(model, layer);
        break;
    case PEN_MIXER_MAMBA:
    case PEN_MIXER_DELTA:
        open_recurrence(model, layer);
        break;
    case PEN_MIXER_NONE:
        layer->query = layer->key = layer->value = 0;
        layer->has_own_mixer = true;
        layer->parts = 1;
        break;
    }
    if (block->mlp == PEN_MLP_NONE) {
        layer->inner = 0;
        layer->parts = 1;
    }
}

/* ---- products ---- */

struct products {
    struct pen__mixer_product *items;
    uint32_t count;
};

static void add(struct products *list, double batch, double rows,
                double columns)
{
    list->items[list->count++] =
        (struct pen__mixer_product){batch, rows, columns};
}

static void add_queries(const struct pen__layer *layer, struct products *list)
{
    const struct pen_model *model = layer->setting->model;
    double from = layer->hidden;
    if (model->q_lora_rank > 0) {
        add(list, 1, layer->hidden, model->q_lora_rank);
        from = model->q_lora_rank;
    }
    add(list, 1, from, layer->query * (model->has_output_gate ? 2 : 1));
}

static void add_keys(const struct pen__layer *layer, struct products *list)
{
    const struct pen_model *model = layer->setting->model;
    if (model->kv_lora_rank == 0) {
        add(list, 1, layer->hidden,
            layer->key * (layer->block->has_shared_values ? 1 : 2));
        return;
    }
    add(list, 1, layer->hidden,
        (double)model->kv_lora_rank + model->qk_rope_dim);
    add(list, 1, model->kv_lora_rank,
        layer->heads * model->qk_nope_dim + layer->value);
}

static void add_output(const struct pen__layer *layer, struct products *list)
{
    const struct pen_model *model = layer->setting->model;
    if (model->output_rank == 0) {
        add(list, 1, layer->value, layer->hidden);
        return;
    }
    double groups = fmax(1, model->output_groups / layer->tp);
    add(list, groups, layer->value / groups, model->output_rank);
    add(list, 1, groups * model->output_rank, layer->hidden);
}

/* The matrices that pick and compress keys are whole on every rank. */
static void add_indexer(const struct pen__layer *layer, struct products *list)
{
    const struct pen_model *model = layer->setting->model;
    bool is_compressed = layer->block->compression > 0;
    double from = model->q_lora_rank > 0 ? model->q_lora_rank : layer->hidden;
    double weights = model->has_index_weights ? model->index_heads : 0;
    add(list, 1, from, (double)model->index_heads * model->index_dim);
    add(list, 1, layer->hidden,
        (is_compressed ? 4 : 1) * model->index_dim + weights);
}

static void add_attention(const struct pen__layer *layer, struct products *list)
{
    const struct pen_block *block = layer->block;
    add_queries(layer, list);
    add_keys(layer, list);
    add_output(layer, list);
    if (block->compression > 0)
        add(list, 1, layer->hidden,
            (block->has_indexer ? 4.0 : 2.0) * block->head_dim);
    if (block->has_indexer)
        add_indexer(layer, list);
}

uint32_t
pen__mixer_list_products(const struct pen__layer *layer,
                         struct pen__mixer_product out[PEN_MAX_MIXER_PRODUCTS])
{
    struct products list = {.items = out};
    double streams = layer->setting->model->num_streams;
    switch (layer->block->mixer) {
    case PEN_MIXER_ATTENTION:
        add_attention(layer, &list);
        break;
    case PEN_MIXER_MAMBA:
    case PEN_MIXER_DELTA:
        add(&list, 1, layer->hidden, layer->query + 2 * layer->key);
        add(&list, 1, layer->value, layer->hidden);
        break;
    case PEN_MIXER_NONE:
        break;
    }
    if (streams > 0)
        add(&list, layer->parts, streams * layer->hidden,
            (2 + streams) * streams);
    return list.count;
}

/* ---- between them ---- */

/* A short convolution and a gated norm read and write what they work on. */
static void add_convolution(const struct pen__layer *layer, double arrays,
                            struct pen_operation_list *list)
{
    double width = layer->query + 2 * layer->key + layer->value;
    pen_operations_add_rows(list,
                            layer->tokens * width * arrays * layer->element, 2);
}

/* Residuals are mixed before and after attention and MLP. */
static void add_streams(const struct pen__layer *layer, double arrays,
                        struct pen_operation_list *list)
{
    double streams = layer->setting->model->num_streams;
    if (streams > 0)
        pen_operations_add_rows(list,
                                layer->tokens * layer->hidden / layer->rows_tp *
                                    layer->parts * (2 * streams + 2) * arrays *
                                    layer->element,
                                2 * layer->parts);
}

void pen__mixer_list_core(const struct pen__layer *layer, bool is_backward,
                          struct pen_operation_list *list)
{
    const struct pen_block *block = layer->block;
    double arrays = is_backward ? 2 : 1;
    double flops = layer->batch / (layer->tp * layer->cp) *
                   pen_model_mixer_flops(layer->setting->model, block,
                                         layer->sequence * layer->cp);
    bool is_recurrent =
        block->mixer == PEN_MIXER_MAMBA || block->mixer == PEN_MIXER_DELTA;
    if (is_recurrent)
        pen_operations_add_recurrence(list, is_backward ? 2.5 * flops : flops);
    else if (flops > 0)
        pen_operations_add_attention(list, is_backward ? 2.5 * flops : flops);
    if (is_recurrent)
        add_convolution(layer, 4 * arrays, list);
    add_streams(layer, arrays, list);
}
