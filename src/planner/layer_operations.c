#include "planner/layer_operations.h"

#include "planner/layer_mixer.h"

#include <math.h>

static void open_attention(const struct pen_model *model,
                           struct pen__layer *out)
{
    double value_dim =
        model->v_head_dim > 0 ? model->v_head_dim : model->head_dim;
    out->heads = model->num_heads / out->tp;
    out->head_dim = model->head_dim;
    out->query = out->heads * model->head_dim;
    out->key = fmax(model->num_kv_heads / out->tp, 1) * model->head_dim;
    out->value = out->heads * value_dim;
}

static void open_experts(const struct pen_model *model, struct pen__layer *out)
{
    out->experts = fmax(1, model->num_experts / out->ep);
    out->expert_inner = model->expert_intermediate / out->tp;
    out->routed = out->tokens * model->experts_per_token;
    out->inner = (double)model->shared_intermediate / out->tp;
}

void pen__layer_open(const struct pen_setting *setting,
                     const struct pen_plan *plan, uint32_t group,
                     uint32_t index, struct pen__layer *out)
{
    const struct pen_model *model = setting->model;
    double tp = plan->degrees[PEN_DEGREE_TP];
    double cp = plan->degrees[PEN_DEGREE_CP];
    *out =
        (struct pen__layer){.setting = setting,
                            .device = &setting->cluster->groups[group].device,
                            .tp = tp,
                            .cp = cp,
                            .ep = plan->degrees[PEN_DEGREE_EP],
                            .rows_tp = plan->has_sequence_parallel ? tp : 1,
                            .batch = plan->micro_batch,
                            .sequence = plan->sequence / cp,
                            .tokens = plan->micro_batch * (plan->sequence / cp),
                            .hidden = model->hidden,
                            .inner = model->intermediate / tp,
                            .element = pen_number_bytes(setting->number),
                            .has_gate = pen_model_has_gate(model)};
    open_attention(model, out);
    if (pen_model_layer_kind(model, index) != PEN_LAYER_BLOCK)
        return;
    out->block = pen_model_block(model, index - 1);
    pen__mixer_open(model, out);
    if (pen_model_block_is_sparse(model, index - 1))
        open_experts(model, out);
}

double pen__layer_up_width(const struct pen__layer *layer, double inner)
{
    return layer->has_gate ? 2 * inner : inner;
}

/* ---- the products ---- */

/* Weights of a block: batch matrices that tokens rows go through each. */
struct matrix {
    double batch;
    double rows; /* of the input */
    double columns;
    double tokens;
};

#define MAX_MATRICES 24

struct matrices {
    struct matrix items[MAX_MATRICES];
    uint32_t count;
};

static void add_matrix(struct matrices *list, double rows, double columns,
                       double tokens)
{
    list->items[list->count++] = (struct matrix){1, rows, columns, tokens};
}

/* Queries, keys and values through narrow matrices in between. */
static void add_latent(const struct pen__layer *layer, struct matrices *list)
{
    const struct pen_model *model = layer->setting->model;
    double narrow = model->kv_lora_rank;
    double wide = layer->heads * model->qk_nope_dim + layer->value;
    double query_in = layer->hidden;
    if (model->q_lora_rank > 0) {
        add_matrix(list, layer->hidden, model->q_lora_rank, layer->tokens);
        query_in = model->q_lora_rank;
    }
    add_matrix(list, query_in, layer->query, layer->tokens);
    add_matrix(list, layer->hidden, narrow + model->qk_rope_dim, layer->tokens);
    add_matrix(list, narrow, wide, layer->tokens);
}

static void add_mlp(const struct pen__layer *layer, struct matrices *list)
{
    if (layer->inner > 0) {
        add_matrix(list, layer->hidden,
                   pen__layer_up_width(layer, layer->inner), layer->tokens);
        add_matrix(list, layer->inner, layer->hidden, layer->tokens);
    }
    if (layer->experts == 0)
        return;
    double each = fmax(1, layer->routed / layer->experts);
    double up = pen__layer_up_width(layer, layer->expert_inner);
    add_matrix(list, layer->hidden, layer->setting->model->num_experts,
               layer->tokens);
    list->items[list->count++] =
        (struct matrix){layer->experts, layer->hidden, up, each};
    list->items[list->count++] = (struct matrix){
        layer->experts, layer->expert_inner, layer->hidden, each};
}

static void add_own_mixer(const struct pen__layer *layer, struct matrices *list)
{
    struct pen__mixer_product products[PEN_MAX_MIXER_PRODUCTS];
    uint32_t count = pen__mixer_list_products(layer, products);
    for (uint32_t i = 0; i < count; i++) {
        add_matrix(list, products[i].rows, products[i].columns, layer->tokens);
        list->items[list->count - 1].batch = products[i].batch;
    }
}

static void add_attention(const struct pen__layer *layer, struct matrices *list)
{
    if (layer->setting->model->kv_lora_rank > 0)
        add_latent(layer, list);
    else
        add_matrix(list, layer->hidden, layer->query + 2 * layer->key,
                   layer->tokens);
    add_matrix(list, layer->value, layer->hidden, layer->tokens);
}

static void list_matrices(const struct pen__layer *layer, struct matrices *list)
{
    list->count = 0;
    if (layer->has_own_mixer)
        add_own_mixer(layer, list);
    else
        add_attention(layer, list);
    add_mlp(layer, list);
}

/* ---- what lies between them ---- */

/* Positions that a query sees, of those on this rank and on all others. */
static double seen_positions(const struct pen__layer *layer, bool is_fused)
{
    double sequence = layer->sequence * layer->cp;
    if (!is_fused || !pen_model_is_causal(layer->setting->model))
        return sequence; /* half of them for nothing, where it is causal */
    return layer->window > 0 && layer->window < sequence ? layer->window
                                                         : sequence / 2;
}

void pen__layer_list_attention(const struct pen__layer *layer, bool is_backward,
                               struct pen_operation_list *list)
{
    if (layer->has_own_mixer) {
        pen__mixer_list_core(layer, is_backward, list);
        return;
    }
    bool is_fused = layer->setting->practice.has_fused_attention;
    double seen = seen_positions(layer, is_fused);
    double pairs = layer->batch * layer->heads * layer->sequence * seen;
    double value_dim = layer->value / layer->heads;
    if (is_fused) {
        double flops = 2 * pairs * (layer->head_dim + value_dim);
        pen_operations_add_attention(list, is_backward ? 2.5 * flops : flops);
        return;
    }
    double batch = layer->batch * layer->heads;
    for (int i = 0; i < (is_backward ? 2 : 1); i++) {
        pen_operations_add_product(list, batch, layer->sequence, seen,
                                   layer->head_dim);
        pen_operations_add_product(list, batch, layer->sequence, value_dim,
                                   seen);
    }
    double dropout = layer->setting->practice.has_dropout ? 5 : 0;
    pen_operations_add_rows(list, pairs * ((is_backward ? 6 : 4) + dropout),
                            dropout > 0 ? 2 : 1);
}

/* In steps, each reads and writes as much as all of them fused. */
#define UNFUSED_NORM_ARRAYS 6.0

/* What a norm reads and writes of each element of a row. */
static double norm_bytes(const struct pen__layer *layer, bool is_backward)
{
    bool is_fused = layer->setting->practice.has_fused_norm;
    double arrays = is_backward ? 4 : 2;
    return layer->element * (is_fused ? arrays : UNFUSED_NORM_ARRAYS * arrays);
}

static void add_norms(const struct pen__layer *layer, bool is_backward,
                      struct pen_operation_list *list)
{
    double row = layer->tokens * layer->hidden / layer->rows_tp;
    double dropout = layer->setting->practice.has_dropout ? 1 : 0;
    double kernels = is_backward ? 2 : 1;
    if (!layer->setting->practice.has_fused_norm)
        kernels *= UNFUSED_NORM_ARRAYS;
    for (int i = 0; i < layer->parts; i++) {
        pen_operations_add_rows(list, row * norm_bytes(layer, is_backward),
                                kernels);
        pen_operations_add_rows(list, row * (3 * layer->element + dropout), 1);
    }
}

static void add_activation(const struct pen__layer *layer, bool is_backward,
                           struct pen_operation_list *list)
{
    double arrays = layer->has_gate ? 3 : 2;
    if (is_backward)
        arrays = layer->has_gate ? 5 : 3;
    double elements = layer->tokens * layer->inner;
    if (layer->experts > 0) {
        elements += layer->routed * layer->expert_inner;
        /* Tokens are sorted by expert, and back again. */
        pen_operations_add_rows(
            list, layer->routed * layer->hidden * 4 * layer->element, 4);
    }
    pen_operations_add_rows(list, elements * arrays * layer->element, 1);
    if (layer->setting->model->rope.kind != PEN_ROPE_NONE)
        pen_operations_add_rows(list,
                                layer->tokens * (layer->query + layer->key) *
                                    2 * layer->element,
                                1);
}

/* The input of a product becomes 8 bits wide or less, and its transpose. */
static void add_cast(const struct pen__layer *layer, double elements,
                     struct pen_operation_list *list)
{
    if (pen_number_is_narrow(layer->setting->number))
        pen_operations_add_rows(list, elements * 4, 1);
}

/* ---- passes ---- */

void pen__layer_list_forward(const struct pen__layer *layer,
                             struct pen_operation_list *list)
{
    struct matrices weights;
    list_matrices(layer, &weights);
    for (uint32_t i = 0; i < weights.count; i++) {
        const struct matrix *it = &weights.items[i];
        add_cast(layer, it->batch * it->tokens * it->rows, list);
        pen_operations_add_product(list, it->batch, it->tokens, it->columns,
                                   it->rows);
    }
    add_norms(layer, false, list);
    pen__layer_list_attention(layer, false, list);
    add_activation(layer, false, list);
}

void pen__layer_list_input(const struct pen__layer *layer,
                           struct pen_operation_list *list)
{
    struct matrices weights;
    list_matrices(layer, &weights);
    for (uint32_t i = 0; i < weights.count; i++) {
        const struct matrix *it = &weights.items[i];
        add_cast(layer, it->batch * it->tokens * it->columns, list);
        pen_operations_add_product(list, it->batch, it->tokens, it->rows,
                                   it->columns);
    }
    add_norms(layer, true, list);
    pen__layer_list_attention(layer, true, list);
    add_activation(layer, true, list);
}

void pen__layer_add_gradient(const struct pen__layer *layer, double batch,
                             double rows, double columns, double tokens,
                             struct pen_operation_list *list)
{
    const struct pen_practice *practice = &layer->setting->practice;
    pen_operations_add_product(list, batch, rows, columns, tokens);
    if (!practice->fuses_accumulation)
        pen_operations_add_rows(
            list,
            batch * rows * columns *
                (layer->element + 2 * practice->gradient_bytes),
            1);
}

void pen__layer_list_weight(const struct pen__layer *layer,
                            struct pen_operation_list *list)
{
    struct matrices weights;
    list_matrices(layer, &weights);
    for (uint32_t i = 0; i < weights.count; i++) {
        const struct matrix *it = &weights.items[i];
        pen__layer_add_gradient(layer, it->batch, it->rows, it->columns,
                                it->tokens, list);
    }
}

/* Arrays as wide as a residual are cut as it is. */
static double width_of(const struct pen__layer *layer, double columns)
{
    return columns == layer->hidden ? columns / layer->rows_tp : columns;
}

double pen__layer_held_elements(const struct pen__layer *layer, bool has_inputs)
{
    struct matrices weights;
    double sum = 0;
    list_matrices(layer, &weights);
    for (uint32_t i = 0; i < weights.count; i++) {
        const struct matrix *it = &weights.items[i];
        double inputs = has_inputs ? width_of(layer, it->rows) : 0;
        sum += it->batch * it->tokens * (inputs + width_of(layer, it->columns));
    }
    return sum;
}
