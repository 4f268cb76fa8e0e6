/*
 * The tensors of a model, from tables: one row per tensor and kind of layer,
 * with its dimensions by name and the condition under which it exists.
 */
#include "core/model.h"

#include "core/image_model.h"

#include "core/model_internal.h"

#include "base/bug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum dimension {
    NONE,
    HIDDEN,
    HIDDEN_3, /* queries, keys and values */
    HEAD,     /* of one head */
    HEADS,
    QUERIES, /* all heads together */
    KEYS,
    INNER, /* of the two-layer network in a block */
    EXPERTS,
    EXPERT_INNER,
    EXPERT_WIDE,
    SHARED_INNER,
    QUERY_LOW,
    KEY_LOW,
    KEY_LOW_ROPE,
    KEY_UP,
    VALUES,
    VOCAB,
    POSITIONS
};

enum condition {
    ALWAYS,
    QKV_BIAS,
    OUT_BIAS,
    MLP_BIAS,
    QK_NORM,
    UNTIED,
    LOW_QUERIES,
    LOW_QUERIES_BIAS,
    FULL_QUERIES,
    SHARED_EXPERTS,
    ROUTER_BIAS
};

/* Blocks whose MLP is one for all tokens, and blocks with experts. */
enum blocks { BOTH, DENSE, SPARSE };

struct row {
    enum pen_layer_kind kind;
    enum pen_part part;
    enum pen_role role;
    const char *name;
    enum dimension shape[2];
    enum condition condition;
    enum blocks blocks;
    const char *tail; /* of its name, where every expert has one */
    bool is_stacked;  /* one tensor has those of all experts, [in, out] */
};

#define ROW(kind, part, role, name, rows, columns, condition)                  \
    {                                                                          \
        PEN_LAYER_##kind, PEN_PART_##part, PEN_ROLE_##role, name,              \
            {rows, columns}, condition, BOTH, NULL, false                      \
    }
#define MLP_ROW(part, role, name, rows, columns, condition)                    \
    {                                                                          \
        PEN_LAYER_BLOCK, PEN_PART_##part, PEN_ROLE_##role, name,               \
            {rows, columns}, condition, DENSE, NULL, false                     \
    }
#define BESIDE_ROW(part, role, name, rows, columns, condition)                 \
    {                                                                          \
        PEN_LAYER_BLOCK, PEN_PART_##part, PEN_ROLE_##role, name,               \
            {rows, columns}, condition, SPARSE, NULL, false                    \
    }
#define SPARSE_ROW(part, name, rows, columns, tail)                            \
    {                                                                          \
        PEN_LAYER_BLOCK, PEN_PART_##part, PEN_ROLE_MATRIX, name,               \
            {rows, columns}, ALWAYS, SPARSE, tail, false                       \
    }
#define STACK_ROW(part, role, name, rows, columns)                             \
    {                                                                          \
        PEN_LAYER_BLOCK, PEN_PART_##part, PEN_ROLE_##role, name,               \
            {rows, columns}, ALWAYS, SPARSE, NULL, true                        \
    }

/* clang-format off */
static const struct row gpt2_rows[] = {
    ROW(EMBEDDING, TOKEN_EMBEDDING, MATRIX, "wte.weight", VOCAB, HIDDEN, ALWAYS),
    ROW(EMBEDDING, POSITION_EMBEDDING, MATRIX, "wpe.weight", POSITIONS, HIDDEN, ALWAYS),
    ROW(BLOCK, ATTENTION_NORM, NORM, "ln_1.weight", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, ATTENTION_NORM_BIAS, NORM, "ln_1.bias", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, QKV, MATRIX, "attn.c_attn.weight", HIDDEN, HIDDEN_3, ALWAYS),
    ROW(BLOCK, QKV_BIAS, BIAS, "attn.c_attn.bias", HIDDEN_3, NONE, QKV_BIAS),
    ROW(BLOCK, ATTENTION_OUT, MATRIX, "attn.c_proj.weight", HIDDEN, HIDDEN, ALWAYS),
    ROW(BLOCK, ATTENTION_OUT_BIAS, BIAS, "attn.c_proj.bias", HIDDEN, NONE, OUT_BIAS),
    ROW(BLOCK, MLP_NORM, NORM, "ln_2.weight", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, MLP_NORM_BIAS, NORM, "ln_2.bias", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, UP, MATRIX, "mlp.c_fc.weight", HIDDEN, INNER, ALWAYS),
    ROW(BLOCK, UP_BIAS, BIAS, "mlp.c_fc.bias", INNER, NONE, MLP_BIAS),
    ROW(BLOCK, DOWN, MATRIX, "mlp.c_proj.weight", INNER, HIDDEN, ALWAYS),
    ROW(BLOCK, DOWN_BIAS, BIAS, "mlp.c_proj.bias", HIDDEN, NONE, MLP_BIAS),
    ROW(HEAD, FINAL_NORM, NORM, "ln_f.weight", HIDDEN, NONE, ALWAYS),
    ROW(HEAD, FINAL_NORM_BIAS, NORM, "ln_f.bias", HIDDEN, NONE, ALWAYS),
    ROW(HEAD, HEAD, MATRIX, "lm_head.weight", VOCAB, HIDDEN, UNTIED),
};

#define LLAMA_ATTENTION                                                        \
    ROW(EMBEDDING, TOKEN_EMBEDDING, MATRIX, "embed_tokens.weight", VOCAB, HIDDEN, ALWAYS), \
    ROW(BLOCK, ATTENTION_NORM, NORM, "input_layernorm.weight", HIDDEN, NONE, ALWAYS), \
    ROW(BLOCK, Q, MATRIX, "self_attn.q_proj.weight", QUERIES, HIDDEN, ALWAYS), \
    ROW(BLOCK, Q_BIAS, BIAS, "self_attn.q_proj.bias", QUERIES, NONE, QKV_BIAS), \
    ROW(BLOCK, K, MATRIX, "self_attn.k_proj.weight", KEYS, HIDDEN, ALWAYS), \
    ROW(BLOCK, K_BIAS, BIAS, "self_attn.k_proj.bias", KEYS, NONE, QKV_BIAS), \
    ROW(BLOCK, V, MATRIX, "self_attn.v_proj.weight", KEYS, HIDDEN, ALWAYS), \
    ROW(BLOCK, V_BIAS, BIAS, "self_attn.v_proj.bias", KEYS, NONE, QKV_BIAS), \
    ROW(BLOCK, Q_NORM, NORM, "self_attn.q_norm.weight", HEAD, NONE, QK_NORM), \
    ROW(BLOCK, K_NORM, NORM, "self_attn.k_norm.weight", HEAD, NONE, QK_NORM), \
    ROW(BLOCK, ATTENTION_OUT, MATRIX, "self_attn.o_proj.weight", HIDDEN, QUERIES, ALWAYS), \
    ROW(BLOCK, ATTENTION_OUT_BIAS, BIAS, "self_attn.o_proj.bias", HIDDEN, NONE, OUT_BIAS), \
    ROW(BLOCK, MLP_NORM, NORM, "post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS), \
    MLP_ROW(GATE, MATRIX, "mlp.gate_proj.weight", INNER, HIDDEN, ALWAYS), \
    MLP_ROW(GATE_BIAS, BIAS, "mlp.gate_proj.bias", INNER, NONE, MLP_BIAS), \
    MLP_ROW(UP, MATRIX, "mlp.up_proj.weight", INNER, HIDDEN, ALWAYS), \
    MLP_ROW(UP_BIAS, BIAS, "mlp.up_proj.bias", INNER, NONE, MLP_BIAS), \
    MLP_ROW(DOWN, MATRIX, "mlp.down_proj.weight", HIDDEN, INNER, ALWAYS), \
    MLP_ROW(DOWN_BIAS, BIAS, "mlp.down_proj.bias", HIDDEN, NONE, MLP_BIAS)

#define LLAMA_HEAD \
    ROW(HEAD, FINAL_NORM, NORM, "norm.weight", HIDDEN, NONE, ALWAYS), \
    ROW(HEAD, HEAD, MATRIX, "lm_head.weight", VOCAB, HIDDEN, UNTIED)

/* Mistral and Qwen took Llama's names. */
static const struct row llama_rows[] = {LLAMA_ATTENTION, LLAMA_HEAD};

static const struct row mixtral_rows[] = {
    LLAMA_ATTENTION,
    SPARSE_ROW(ROUTER, "block_sparse_moe.gate.weight", EXPERTS, HIDDEN, NULL),
    SPARSE_ROW(EXPERT_GATE, "block_sparse_moe.experts.", EXPERT_INNER, HIDDEN, ".w1.weight"),
    SPARSE_ROW(EXPERT_UP, "block_sparse_moe.experts.", EXPERT_INNER, HIDDEN, ".w3.weight"),
    SPARSE_ROW(EXPERT_DOWN, "block_sparse_moe.experts.", HIDDEN, EXPERT_INNER, ".w2.weight"),
    LLAMA_HEAD,
};

static const struct row deepseek_rows[] = {
    ROW(EMBEDDING, TOKEN_EMBEDDING, MATRIX, "embed_tokens.weight", VOCAB, HIDDEN, ALWAYS),
    ROW(BLOCK, ATTENTION_NORM, NORM, "input_layernorm.weight", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, Q_DOWN, MATRIX, "self_attn.q_a_proj.weight", QUERY_LOW, HIDDEN, LOW_QUERIES),
    ROW(BLOCK, Q_DOWN_BIAS, BIAS, "self_attn.q_a_proj.bias", QUERY_LOW, NONE, LOW_QUERIES_BIAS),
    ROW(BLOCK, Q_LOW_NORM, NORM, "self_attn.q_a_layernorm.weight", QUERY_LOW, NONE, LOW_QUERIES),
    ROW(BLOCK, Q, MATRIX, "self_attn.q_b_proj.weight", QUERIES, QUERY_LOW, LOW_QUERIES),
    ROW(BLOCK, Q, MATRIX, "self_attn.q_proj.weight", QUERIES, HIDDEN, FULL_QUERIES),
    ROW(BLOCK, KV_DOWN, MATRIX, "self_attn.kv_a_proj_with_mqa.weight", KEY_LOW_ROPE, HIDDEN, ALWAYS),
    ROW(BLOCK, KV_DOWN_BIAS, BIAS, "self_attn.kv_a_proj_with_mqa.bias", KEY_LOW_ROPE, NONE, QKV_BIAS),
    ROW(BLOCK, KV_LOW_NORM, NORM, "self_attn.kv_a_layernorm.weight", KEY_LOW, NONE, ALWAYS),
    ROW(BLOCK, KV_UP, MATRIX, "self_attn.kv_b_proj.weight", KEY_UP, KEY_LOW, ALWAYS),
    ROW(BLOCK, ATTENTION_OUT, MATRIX, "self_attn.o_proj.weight", HIDDEN, VALUES, ALWAYS),
    ROW(BLOCK, ATTENTION_OUT_BIAS, BIAS, "self_attn.o_proj.bias", HIDDEN, NONE, OUT_BIAS),
    ROW(BLOCK, MLP_NORM, NORM, "post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS),
    MLP_ROW(GATE, MATRIX, "mlp.gate_proj.weight", INNER, HIDDEN, ALWAYS),
    MLP_ROW(UP, MATRIX, "mlp.up_proj.weight", INNER, HIDDEN, ALWAYS),
    MLP_ROW(DOWN, MATRIX, "mlp.down_proj.weight", HIDDEN, INNER, ALWAYS),
    BESIDE_ROW(SHARED_GATE, MATRIX, "mlp.shared_experts.gate_proj.weight", SHARED_INNER, HIDDEN, SHARED_EXPERTS),
    BESIDE_ROW(SHARED_UP, MATRIX, "mlp.shared_experts.up_proj.weight", SHARED_INNER, HIDDEN, SHARED_EXPERTS),
    BESIDE_ROW(SHARED_DOWN, MATRIX, "mlp.shared_experts.down_proj.weight", HIDDEN, SHARED_INNER, SHARED_EXPERTS),
    SPARSE_ROW(ROUTER, "mlp.gate.weight", EXPERTS, HIDDEN, NULL),
    BESIDE_ROW(ROUTER_OFFSET, FIXED, "mlp.gate.e_score_correction_bias", EXPERTS, NONE, ROUTER_BIAS),
    SPARSE_ROW(EXPERT_GATE, "mlp.experts.", EXPERT_INNER, HIDDEN, ".gate_proj.weight"),
    SPARSE_ROW(EXPERT_UP, "mlp.experts.", EXPERT_INNER, HIDDEN, ".up_proj.weight"),
    SPARSE_ROW(EXPERT_DOWN, "mlp.experts.", HIDDEN, EXPERT_INNER, ".down_proj.weight"),
    LLAMA_HEAD,
};

static const struct row qwen3_moe_rows[] = {
    LLAMA_ATTENTION,
    SPARSE_ROW(ROUTER, "mlp.gate.weight", EXPERTS, HIDDEN, NULL),
    SPARSE_ROW(EXPERT_GATE, "mlp.experts.", EXPERT_INNER, HIDDEN, ".gate_proj.weight"),
    SPARSE_ROW(EXPERT_UP, "mlp.experts.", EXPERT_INNER, HIDDEN, ".up_proj.weight"),
    SPARSE_ROW(EXPERT_DOWN, "mlp.experts.", HIDDEN, EXPERT_INNER, ".down_proj.weight"),
    LLAMA_HEAD,
};

static const struct row gpt_oss_rows[] = {
    LLAMA_ATTENTION,
    BESIDE_ROW(SINKS, BIAS, "self_attn.sinks", HEADS, NONE, ALWAYS),
    SPARSE_ROW(ROUTER, "mlp.router.weight", EXPERTS, HIDDEN, NULL),
    BESIDE_ROW(ROUTER_BIAS, BIAS, "mlp.router.bias", EXPERTS, NONE, ALWAYS),
    STACK_ROW(EXPERT_WIDE, MATRIX, "mlp.experts.gate_up_proj", HIDDEN, EXPERT_WIDE),
    STACK_ROW(EXPERT_WIDE_BIAS, BIAS, "mlp.experts.gate_up_proj_bias", EXPERT_WIDE, NONE),
    STACK_ROW(EXPERT_DOWN, MATRIX, "mlp.experts.down_proj", EXPERT_INNER, HIDDEN),
    STACK_ROW(EXPERT_DOWN_BIAS, BIAS, "mlp.experts.down_proj_bias", HIDDEN, NONE),
    LLAMA_HEAD,
};
/* clang-format on */

/* The rows of each family that trains. */
static const struct {
    const struct row *rows;
    size_t count;
} trained[PEN_FAMILIES] = {
    [PEN_FAMILY_GPT2] = {gpt2_rows, COUNT_OF(gpt2_rows)},
    [PEN_FAMILY_LLAMA] = {llama_rows, COUNT_OF(llama_rows)},
    [PEN_FAMILY_MISTRAL] = {llama_rows, COUNT_OF(llama_rows)},
    [PEN_FAMILY_QWEN2] = {llama_rows, COUNT_OF(llama_rows)},
    [PEN_FAMILY_QWEN3] = {llama_rows, COUNT_OF(llama_rows)},
    [PEN_FAMILY_MIXTRAL] = {mixtral_rows, COUNT_OF(mixtral_rows)},
    [PEN_FAMILY_QWEN3_MOE] = {qwen3_moe_rows, COUNT_OF(qwen3_moe_rows)},
    [PEN_FAMILY_DEEPSEEK_V2] = {deepseek_rows, COUNT_OF(deepseek_rows)},
    [PEN_FAMILY_DEEPSEEK_V3] = {deepseek_rows, COUNT_OF(deepseek_rows)},
    [PEN_FAMILY_GPT_OSS] = {gpt_oss_rows, COUNT_OF(gpt_oss_rows)},
};

static bool is_gpt2(const struct pen_model *model)
{
    return model->family == PEN_FAMILY_GPT2;
}

/* Returns the name of the network inside a "...ForCausalLM". */
static const char *prefix(const struct pen_model *model)
{
    return is_gpt2(model) ? "transformer." : "model.";
}

static uint64_t length_of(const struct pen_model *model, enum dimension which)
{
    switch (which) {
    case HIDDEN:
        return model->hidden;
    case HIDDEN_3:
        return (uint64_t)model->hidden * 3;
    case HEAD:
        return model->head_dim;
    case HEADS:
        return model->num_heads;
    case QUERIES:
        return (uint64_t)model->num_heads * model->head_dim;
    case KEYS:
        return (uint64_t)model->num_kv_heads * model->head_dim;
    case INNER:
        return model->intermediate;
    case EXPERTS:
        return model->num_experts;
    case EXPERT_INNER:
        return model->expert_intermediate;
    case EXPERT_WIDE:
        return 2 * (uint64_t)model->expert_intermediate;
    case SHARED_INNER:
        return model->shared_intermediate;
    case QUERY_LOW:
        return model->q_lora_rank;
    case KEY_LOW:
        return model->kv_lora_rank;
    case KEY_LOW_ROPE:
        return (uint64_t)model->kv_lora_rank + model->qk_rope_dim;
    case KEY_UP:
        return ((uint64_t)model->qk_nope_dim + model->v_head_dim) *
               model->num_heads;
    case VALUES:
        return (uint64_t)model->num_heads * model->v_head_dim;
    case VOCAB:
        return model->vocab;
    case POSITIONS:
        return model->max_positions;
    case NONE:
        break;
    }
    return 1;
}

static bool is_met(const struct pen_model *model, enum condition condition)
{
    switch (condition) {
    case QKV_BIAS:
        return model->has_qkv_bias;
    case OUT_BIAS:
        return model->has_attention_out_bias;
    case MLP_BIAS:
        return model->has_mlp_bias;
    case QK_NORM:
        return model->has_qk_norm;
    case UNTIED:
        return !model->has_tied_embeddings;
    case LOW_QUERIES:
        return model->q_lora_rank > 0;
    case LOW_QUERIES_BIAS:
        return model->q_lora_rank > 0 && model->has_qkv_bias;
    case FULL_QUERIES:
        return model->q_lora_rank == 0;
    case SHARED_EXPERTS:
        return model->shared_intermediate > 0;
    case ROUTER_BIAS:
        return model->has_router_bias;
    case ALWAYS:
        break;
    }
    return true;
}

static void fill_form(const struct pen_model *model, const struct row *row,
                      struct pen_tensor_form *form)
{
    bool is_linear = row->kind == PEN_LAYER_BLOCK && row->shape[1] != NONE;
    bool is_input_first = is_gpt2(model) || row->is_stacked;
    *form =
        (struct pen_tensor_form){.part = row->part,
                                 .role = row->role,
                                 .is_input_first = is_input_first && is_linear,
                                 .name = row->name,
                                 .tail = row->tail,
                                 .is_stacked = row->is_stacked,
                                 .num_elements = 1};
    if (row->is_stacked)
        form->shape[form->num_dims++] = model->num_experts;
    for (int i = 0; i < 2 && row->shape[i] != NONE; i++)
        form->shape[form->num_dims++] = length_of(model, row->shape[i]);
    for (uint32_t i = 0; i < form->num_dims; i++)
        form->num_elements *= form->shape[i];
}

/* The list of tensors that layers of this kind have, by the MLP of a block. */
enum { SPARSE_BLOCKS = PEN_LAYER_KINDS };

static bool is_in_list(const struct row *row, unsigned list)
{
    if (list == SPARSE_BLOCKS)
        return row->kind == PEN_LAYER_BLOCK && row->blocks != DENSE;
    return row->kind == list && row->blocks != SPARSE;
}

static void list_tensors(struct pen_model *model)
{
    const struct row *rows = trained[model->family].rows;
    uint32_t num_forms = 0;
    for (unsigned list = 0; list < PEN_TENSOR_LISTS; list++) {
        model->first_form[list] = num_forms;
        for (size_t i = 0; i < trained[model->family].count; i++)
            if (is_in_list(&rows[i], list) && is_met(model, rows[i].condition))
                fill_form(model, &rows[i], &model->forms[num_forms++]);
    }
    PEN_BUG_UNLESS(num_forms <= COUNT_OF(model->forms));
    model->first_form[PEN_TENSOR_LISTS] = num_forms;
    for (uint32_t i = 0; i < num_forms; i++)
        model->num_expert_forms += model->forms[i].tail != NULL;
    uint32_t first;
    uint32_t count =
        pen_model_layer_tensors(model, model->num_layers - 1, &first);
    model->num_tensors = first + count;
}

pen_status pen__model_create(const struct pen_model *shape,
                             struct pen_model **out, struct pen_text *why)
{
    struct pen_model *model = malloc(sizeof *model);
    if (model == NULL) {
        pen_why(why, "no memory for a model");
        free(shape->kind_of_block);
        return PEN_NOMEM;
    }
    *model = *shape;
    model->num_layers = model->num_blocks + 2;
    if (model->v_head_dim == 0)
        model->v_head_dim = model->head_dim;
    if (model->sparse_step == 0)
        model->sparse_step = 1;
    if ((uint64_t)model->num_shared_experts * model->expert_intermediate >
        UINT32_MAX) {
        pen_why(why, "the shared experts are together wider than 2^32");
        pen_model_free(model);
        return PEN_INVALID;
    }
    if (!pen__model_fill_blocks(model)) {
        pen_why(why, "no memory for the blocks of a model");
        pen_model_free(model);
        return PEN_NOMEM;
    }
    if (!pen__model_count(model, &model->num_parameters)) {
        pen_why(why, "the model has more than 2^60 parameters");
        pen_model_free(model);
        return PEN_INVALID;
    }
    if (pen_model_check_trainable(model, NULL) == PEN_OK)
        list_tensors(model);
    *out = model;
    return PEN_OK;
}

void pen_model_free(struct pen_model *model)
{
    if (model == NULL)
        return;
    pen_image_model_free(model->images);
    free(model->kind_of_block);
    free(model);
}

enum pen_layer_kind pen_model_layer_kind(const struct pen_model *model,
                                         uint32_t layer)
{
    PEN_BUG_UNLESS(layer < model->num_layers);
    return layer == 0                   ? PEN_LAYER_EMBEDDING
           : layer <= model->num_blocks ? PEN_LAYER_BLOCK
                                        : PEN_LAYER_HEAD;
}

static unsigned list_of(const struct pen_model *model, uint32_t layer)
{
    enum pen_layer_kind kind = pen_model_layer_kind(model, layer);
    return kind == PEN_LAYER_BLOCK && pen__model_has_experts(model, layer - 1)
               ? SPARSE_BLOCKS
               : kind;
}

static uint32_t num_forms(const struct pen_model *model, unsigned list)
{
    return model->first_form[list + 1] - model->first_form[list];
}

/* Forms that are there once, whatever the number of experts. */
static uint32_t num_common_forms(const struct pen_model *model, unsigned list)
{
    return num_forms(model, list) -
           (list == SPARSE_BLOCKS ? model->num_expert_forms : 0);
}

static uint32_t num_in_list(const struct pen_model *model, unsigned list)
{
    return num_common_forms(model, list) +
           (list == SPARSE_BLOCKS ? model->num_experts * model->num_expert_forms
                                  : 0);
}

/* Counts the sparse blocks among the first `count`. */
static uint32_t num_sparse_blocks(const struct pen_model *model, uint32_t count)
{
    uint32_t dense = model->num_dense_blocks;
    if (model->num_experts == 0 || count <= dense)
        return 0;
    return count / model->sparse_step - dense / model->sparse_step;
}

uint32_t pen_model_layer_tensors(const struct pen_model *model, uint32_t layer,
                                 uint32_t *first)
{
    unsigned list = list_of(model, layer);
    uint32_t blocks = layer == 0 ? 0 : layer - 1;
    uint32_t sparse = num_sparse_blocks(model, blocks);
    *first = (layer == 0 ? 0 : num_in_list(model, PEN_LAYER_EMBEDDING)) +
             (blocks - sparse) * num_in_list(model, PEN_LAYER_BLOCK) +
             sparse * num_in_list(model, SPARSE_BLOCKS);
    return num_in_list(model, list);
}

/* Returns the last layer whose first tensor is not after this one. */
static uint32_t layer_of(const struct pen_model *model, uint32_t tensor)
{
    uint32_t low = 0;
    uint32_t high = model->num_layers;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t first;
        pen_model_layer_tensors(model, middle, &first);
        if (first <= tensor)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Adds the name that follows the prefix of its layer. */
static int add_name(char *out, size_t size, const struct pen_tensor_info *info)
{
    return info->form->tail == NULL
               ? snprintf(out, size, "%s", info->form->name)
               : snprintf(out, size, "%s%u%s", info->form->name, info->expert,
                          info->form->tail);
}

void pen_model_tensor(const struct pen_model *model, uint32_t tensor,
                      struct pen_tensor_info *out)
{
    PEN_BUG_UNLESS(tensor < model->num_tensors);
    uint32_t num_common_tensors =
        model->num_tensors - pen__model_num_local_tensors(model);
    if (tensor >= num_common_tensors) {
        pen__model_local_tensor(model, tensor - num_common_tensors, out);
        return;
    }
    uint32_t layer = layer_of(model, tensor);
    uint32_t first;
    pen_model_layer_tensors(model, layer, &first);
    unsigned list = list_of(model, layer);
    uint32_t common = num_common_forms(model, list);
    uint32_t at = tensor - first;
    out->layer = layer;
    out->expert = at < common ? 0 : (at - common) / model->num_expert_forms;
    if (at >= common)
        at = common + (at - common) % model->num_expert_forms;
    out->form = &model->forms[model->first_form[list] + at];
    const char *outer = out->form->part == PEN_PART_HEAD ? "" : prefix(model);
    int length;
    if (pen_model_layer_kind(model, layer) == PEN_LAYER_BLOCK)
        length = snprintf(out->name, sizeof out->name, "%s%s.%u.", outer,
                          is_gpt2(model) ? "h" : "layers", layer - 1);
    else
        length = snprintf(out->name, sizeof out->name, "%s", outer);
    PEN_BUG_UNLESS(length >= 0 && (size_t)length < sizeof out->name);
    size_t left = sizeof out->name - (size_t)length;
    length = add_name(out->name + length, left, out);
    PEN_BUG_UNLESS(length > 0 && (size_t)length < left);
}

uint32_t pen_model_find_expert_part(const struct pen_model *model,
                                    uint32_t layer, uint32_t expert,
                                    enum pen_part part)
{
    unsigned list = list_of(model, layer);
    uint32_t first;
    if (part >= PEN_PART_LOCAL_NORM)
        return pen__model_find_local_part(model, layer, part);
    pen_model_layer_tensors(model, layer, &first);
    for (uint32_t i = 0; i < num_forms(model, list); i++) {
        const struct pen_tensor_form *form =
            &model->forms[model->first_form[list] + i];
        if (form->part == part)
            return first + i +
                   (form->tail == NULL ? 0 : expert * model->num_expert_forms);
    }
    return model->num_tensors;
}

uint32_t pen_model_find_part(const struct pen_model *model, uint32_t layer,
                             enum pen_part part)
{
    return pen_model_find_expert_part(model, layer, 0, part);
}

const char *pen_model_bare_name(const struct pen_model *model, const char *name)
{
    size_t length = strlen(prefix(model));
    return strncmp(name, prefix(model), length) == 0 ? name + length : name;
}

enum { MOST_GROUPS = 64 };

/* Returns whether the chosen groups have enough experts for every token. */
static bool has_good_groups(const struct pen_model *model)
{
    uint32_t groups = model->num_expert_groups;
    uint32_t least = model->has_sigmoid_gates ? 2 : 1;
    if (groups <= 1)
        return true;
    return groups <= MOST_GROUPS && model->num_experts % groups == 0 &&
           model->num_experts / groups >= least && model->chosen_groups >= 1 &&
           model->chosen_groups <= groups &&
           (uint64_t)model->num_experts / groups * model->chosen_groups >=
               model->experts_per_token;
}

/* Refuses settings that the trained families cannot have. */
static pen_status check_settings(const struct pen_model *model,
                                 struct pen_text *why)
{
    if (model->rope.is_unknown)
        pen_why(why,
                "the model scales rotary positions in a way that train and "
                "profile do not support; use rope_type \"default\", "
                "\"linear\", \"llama3\" or \"yarn\"");
    else if (model->kv_lora_rank > 0 && model->v_head_dim > model->head_dim)
        pen_why(why,
                "values of %u numbers per head are wider than keys of %u, "
                "which train and profile do not support; use narrower ones",
                model->v_head_dim, model->head_dim);
    else if (model->kv_lora_rank > 0 && model->qk_rope_dim % 2 != 0)
        pen_why(why,
                "qk_rope_head_dim is %u; it must be even for rotary positions",
                model->qk_rope_dim);
    else if (!has_good_groups(model))
        pen_why(why,
                "n_group is %u and topk_group %u; n_group must divide the %u "
                "experts into at most 64 groups of at least 2, of which "
                "topk_group have %u experts or more",
                model->num_expert_groups, model->chosen_groups,
                model->num_experts, model->experts_per_token);
    else
        return PEN_OK;
    return PEN_INVALID;
}

pen_status pen_model_check_trainable(const struct pen_model *model,
                                     struct pen_text *why)
{
    if (model->images != NULL)
        return PEN_OK;
    if (trained[model->family].rows != NULL && !model->is_text_part)
        return check_settings(model, why);
    pen_why(why,
            "model_type \"%s\" is for planning only; train and profile "
            "support",
            pen_model_type(model));
    const char *before = "";
    for (int family = 0; family < PEN_FAMILIES; family++) {
        if (trained[family].rows == NULL)
            continue;
        pen_why(why, "%s \"%s\"", before,
                pen_family_name((enum pen_family)family));
        before = ",";
    }
    return PEN_INVALID;
}
