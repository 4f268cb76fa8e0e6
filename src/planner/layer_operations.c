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
    out->expert_inner = model->expert_intermediate / out->etp;
    out->expert_width =
        model->expert_hidden > 0 ? model->expert_hidden : model->hidden;
    out->dispatched = out->tokens / out->rows_tp;
    out->routed = out->dispatched * model->experts_per_token *
                  (out->rows_tp > 1 ? out->etp : 1);
    out->inner = (double)model->shared_intermediate / out->tp;
}

void pen__layer_open(const struct pen_setting *setting,
                     const struct pen_plan *plan, uint32_t group,
                     uint32_t index, struct pen__layer *out)
{
    const struct pen_model *model = setting->model;
    double tp = plan->degrees[PEN_DEGREE_TP];
    double cp = plan->degrees[PEN_DEGREE_CP];
    *out = (struct pen__layer){
        .setting = setting,
        .recipe = &plan->recipe,
        .device = &setting->cluster->groups[group].device,
        .tp = tp,
        .cp = cp,
        .ep = plan->degrees[PEN_DEGREE_EP],
        .etp = pen_expert_tp(plan->degrees, plan->expert_tp),
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
    bool is_expert;
    bool has_cheap_input;  /* out of a norm or a function */
    bool has_cheap_result; /* whose gradient comes out of a function */
};

#define MAX_MATRICES 24

struct matrices {
    struct matrix items[MAX_MATRICES];
    uint32_t count;
};

static struct matrix *add_matrix(struct matrices *list, double rows,
                                 double columns, double tokens)
{
    struct matrix *matrix = &list->items[list->count++];
    *matrix = (struct matrix){
        .batch = 1, .rows = rows, .columns = columns, .tokens = tokens};
    return matrix;
}

/* Queries, keys and values through narrow matrices in between. */
static void add_latent_up(const struct pen__layer *layer, struct matrices *list)
{
    const struct pen_model *model = layer->setting->model;
    double query_in =
        model->q_lora_rank > 0 ? model->q_lora_rank : layer->hidden;
    add_matrix(list, query_in, layer->query, layer->tokens);
    add_matrix(list, model->kv_lora_rank,
               layer->heads * model->qk_nope_dim + layer->value, layer->tokens);
}

static void add_latent(const struct pen__layer *layer, struct matrices *list)
{
    const struct pen_model *model = layer->setting->model;
    if (model->q_lora_rank > 0)
        add_matrix(list, layer->hidden, model->q_lora_rank, layer->tokens);
    add_matrix(list, layer->hidden, model->kv_lora_rank + model->qk_rope_dim,
               layer->tokens);
    add_latent_up(layer, list);
}

static void add_expert_matrices(const struct pen__layer *layer,
                                struct matrices *list)
{
    double each = fmax(1, layer->routed / layer->experts);
    double up = pen__layer_up_width(layer, layer->expert_inner);
    struct matrix *first = add_matrix(list, layer->expert_width, up, each);
    struct matrix *second =
        add_matrix(list, layer->expert_inner, layer->expert_width, each);
    first->batch = second->batch = layer->experts;
    first->is_expert = second->is_expert = true;
    first->has_cheap_result = second->has_cheap_input = true;
}

/* Matrices that every token passes: the MLP, or shared experts. */
static void add_common_mlp(const struct pen__layer *layer,
                           struct matrices *list)
{
    if (layer->inner == 0)
        return;
    struct matrix *first =
        add_matrix(list, layer->hidden,
                   pen__layer_up_width(layer, layer->inner), layer->tokens);
    struct matrix *second =
        add_matrix(list, layer->inner, layer->hidden, layer->tokens);
    first->has_cheap_input = true;
    first->has_cheap_result = second->has_cheap_input = true;
}

static void add_mlp(const struct pen__layer *layer, struct matrices *list)
{
    add_common_mlp(layer, list);
    if (layer->experts == 0)
        return;
    add_matrix(list, layer->hidden, layer->setting->model->num_experts,
               layer->dispatched);
    if (layer->expert_width < layer->hidden) { /* to them and back */
        add_matrix(list, layer->hidden, layer->expert_width, layer->dispatched);
        add_matrix(list, layer->expert_width, layer->hidden, layer->dispatched);
    }
    add_expert_matrices(layer, list);
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
                   layer->tokens)
            ->has_cheap_input = true;
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

/* A window is computed in tiles, which reach over both of its ends. */
#define WINDOW_TILE 128.0

/* Positions that a query sees, of those on this rank and on all others. */
static double seen_positions(const struct pen__layer *layer, bool is_fused)
{
    double sequence = layer->sequence * layer->cp;
    if (!is_fused || !pen_model_is_causal(layer->setting->model))
        return sequence; /* half of them for nothing, where it is causal */
    bool is_skipped =
        layer->window > 0 && !layer->setting->model->has_attention_sinks;
    return fmin(is_skipped ? layer->window + WINDOW_TILE : sequence,
                sequence / 2);
}

/*
 * The exponential of a pair takes as long as products of SOFTMAX_WIDTH
 * elements, whatever the width of a head; shares of the peak are those of heads
 * of USUAL_HEAD.
 */
#define SOFTMAX_WIDTH 128.0
#define USUAL_HEAD 128.0

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
        double width = layer->head_dim + value_dim;
        if (layer->recipe->has_narrow_attention)
            width /= 2; /* its products are twice as fast */
        double flops = 2 * pairs * (width + SOFTMAX_WIDTH);
        flops *= USUAL_HEAD / (USUAL_HEAD + SOFTMAX_WIDTH / 2);
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

/*
 * Each step of a norm that is not fused reads and writes as much as a fused
 * norm.
 */
#define UNFUSED_NORM_ARRAYS 6.0

/* Bytes that a norm reads and writes for each element of a row. */
static double norm_bytes(const struct pen__layer *layer, bool is_backward)
{
    bool is_fused = layer->setting->practice.has_fused_norm;
    double arrays = is_backward ? 4 : 2;
    return layer->element * (is_fused ? arrays : UNFUSED_NORM_ARRAYS * arrays);
}

static void add_norm(const struct pen__layer *layer, bool is_backward,
                     struct pen_operation_list *list)
{
    double row = layer->tokens * layer->hidden / layer->rows_tp;
    double kernels = is_backward ? 2 : 1;
    if (!layer->setting->practice.has_fused_norm)
        kernels *= UNFUSED_NORM_ARRAYS;
    pen_operations_add_rows(list, row * norm_bytes(layer, is_backward),
                            kernels);
}

static void add_norms(const struct pen__layer *layer, bool is_backward,
                      struct pen_operation_list *list)
{
    double row = layer->tokens * layer->hidden / layer->rows_tp;
    double dropout = layer->setting->practice.has_dropout ? 1 : 0;
    for (int i = 0; i < layer->parts; i++) {
        add_norm(layer, is_backward, list);
        pen_operations_add_rows(list, row * (3 * layer->element + dropout), 1);
    }
}

double pen__layer_free_norms(const struct pen__layer *layer)
{
    double count = layer->experts > 0 ? 1 : 0;
    if (layer->recipe->graphs == PEN_GRAPHS_MODULES)
        return 0;
    if (layer->setting->model->kv_lora_rank > 0)
        count++;
    return count < layer->parts ? count : layer->parts;
}

/* Operations from `first` on are launched once the tokens have come. */
static void mark_experts(uint32_t first, struct pen_operation_list *list)
{
    for (uint32_t i = first; i < list->count; i++)
        list->items[i].is_expert = true;
}

/* The activation function between two products, on `elements` elements. */
static void add_function(const struct pen__layer *layer, double elements,
                         bool is_backward, struct pen_operation_list *list)
{
    double arrays = layer->has_gate ? 3 : 2;
    if (is_backward)
        arrays = layer->has_gate ? 5 : 3;
    pen_operations_add_rows(list, elements * arrays * layer->element, 1);
}

/* Where experts are not fused: copies that align and weigh rows. */
#define LOOSE_ARRAYS 4.0

/* Tokens are sorted by expert, and back again. */
static void add_sorting(const struct pen__layer *layer,
                        struct pen_operation_list *list)
{
    double arrays = 4;
    if (!layer->recipe->has_fused_experts)
        arrays += LOOSE_ARRAYS;
    pen_operations_add_rows(
        list, layer->routed * layer->expert_width * arrays * layer->element,
        arrays);
}

/*
 * Adds biases to the results of both products of an expert, and sums their
 * gradients.
 */
static void add_biases(const struct pen__layer *layer, bool is_backward,
                       struct pen_operation_list *list)
{
    double columns =
        pen__layer_up_width(layer, layer->expert_inner) + layer->expert_width;
    pen_operations_add_rows(
        list, layer->routed * columns * (is_backward ? 1 : 2) * layer->element,
        2);
}

static void add_activation(const struct pen__layer *layer, bool is_backward,
                           struct pen_operation_list *list)
{
    if (layer->experts > 0) {
        uint32_t first = list->count;
        add_sorting(layer, list);
        add_function(layer, layer->routed * layer->expert_inner, is_backward,
                     list);
        if (layer->setting->model->has_expert_bias)
            add_biases(layer, is_backward, list);
        mark_experts(first, list);
    }
    if (layer->inner > 0)
        add_function(layer, layer->tokens * layer->inner, is_backward, list);
    if (layer->setting->model->rope.kind != PEN_ROPE_NONE)
        pen_operations_add_rows(list,
                                layer->tokens * (layer->query + layer->key) *
                                    2 * layer->element,
                                1);
}

/*
 * Bytes to narrow an input of a product: by rows and by columns. Numbers of 4
 * bits are mixed with their neighbours first, and rounded at random.
 */
static double cast_bytes(enum pen_number number)
{
    switch (number) {
    case PEN_NUMBER_FP8:
    case PEN_NUMBER_MXFP8:
        return 4;
    case PEN_NUMBER_NVFP4:
        return 10;
    default:
        return 0;
    }
}

static void add_cast(const struct pen__layer *layer, double elements,
                     bool is_cheap, struct pen_operation_list *list)
{
    double bytes = cast_bytes(layer->setting->number);
    if (is_cheap && layer->setting->practice.fuses_casts &&
        layer->setting->number != PEN_NUMBER_NVFP4)
        return;
    if (bytes > 0)
        pen_operations_add_rows(list, elements * bytes, 1);
}

/* ---- passes ---- */

/* Where experts are not fused, a library loops over them. */
static void mark_product(const struct pen__layer *layer,
                         const struct matrix *matrix, uint32_t first,
                         struct pen_operation_list *list)
{
    const double *constants = layer->device->constants;
    if (!matrix->is_expert)
        return;
    mark_experts(first, list);
    if (!layer->recipe->has_fused_experts)
        list->items[first].kernels = matrix->batch *
                                     constants[PEN_CONSTANT_EXPERT_LAUNCH] /
                                     constants[PEN_CONSTANT_LAUNCH];
}

static void add_forward(const struct pen__layer *layer,
                        const struct matrices *weights,
                        struct pen_operation_list *list)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const struct matrix *it = &weights->items[i];
        uint32_t first = list->count;
        pen_operations_add_product(list, it->batch, it->tokens, it->columns,
                                   it->rows);
        add_cast(layer, it->batch * it->tokens * it->rows, it->has_cheap_input,
                 list);
        mark_product(layer, it, first, list);
    }
}

void pen__layer_list_forward(const struct pen__layer *layer,
                             struct pen_operation_list *list)
{
    struct matrices weights;
    list_matrices(layer, &weights);
    add_forward(layer, &weights, list);
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
        uint32_t first = list->count;
        pen_operations_add_product(list, it->batch, it->tokens, it->rows,
                                   it->columns);
        add_cast(layer, it->batch * it->tokens * it->columns,
                 it->has_cheap_result, list);
        mark_product(layer, it, first, list);
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
        uint32_t first = list->count;
        pen__layer_add_gradient(layer, it->batch, it->rows, it->columns,
                                it->tokens, list);
        mark_product(layer, it, first, list);
    }
}

/* ---- modules ---- */

void pen__layer_list_module(const struct pen__layer *layer,
                            enum pen_module module,
                            struct pen_operation_list *list)
{
    struct matrices weights = {.count = 0};
    bool has_experts = layer->experts > 0;
    double inner = layer->tokens * layer->inner;
    double routed = layer->routed * layer->expert_inner;
    switch (module) {
    case PEN_MODULE_CORE_ATTENTION:
        pen__layer_list_attention(layer, false, list);
        break;
    case PEN_MODULE_NORMS:
        for (int i = 0; i < pen__layer_free_norms(layer); i++)
            add_norm(layer, false, list);
        break;
    case PEN_MODULE_LATENT:
        if (layer->setting->model->kv_lora_rank > 0)
            add_latent_up(layer, &weights);
        break;
    case PEN_MODULE_MLP:
    case PEN_MODULE_SHARED_EXPERTS:
        if (has_experts != (module == PEN_MODULE_SHARED_EXPERTS))
            break;
        add_common_mlp(layer, &weights);
        if (inner > 0)
            add_function(layer, inner, false, list);
        break;
    case PEN_MODULE_EXPERTS:
        if (!has_experts)
            break;
        add_mlp(layer, &weights);
        add_sorting(layer, list);
        add_function(layer, routed, false, list);
        break;
    case PEN_MODULE_EXPERT_ACT:
        if (has_experts)
            add_function(layer, routed, false, list);
        break;
    case PEN_MODULES:
        break;
    }
    add_forward(layer, &weights, list);
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
