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
    QUERIES,  /* all heads together */
    KEYS,
    INNER, /* of the two-layer network in a block */
    VOCAB,
    POSITIONS
};

enum condition { ALWAYS, QKV_BIAS, OUT_BIAS, MLP_BIAS, QK_NORM, UNTIED };

struct row {
    enum pen_layer_kind kind;
    enum pen_part part;
    enum pen_role role;
    const char *name;
    enum dimension shape[2];
    enum condition condition;
};

#define ROW(kind, part, role, name, rows, columns, condition)                  \
    {                                                                          \
        PEN_LAYER_##kind, PEN_PART_##part, PEN_ROLE_##role, name,              \
            {rows, columns}, condition                                         \
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

/* Mistral and Qwen took Llama's names. */
static const struct row llama_rows[] = {
    ROW(EMBEDDING, TOKEN_EMBEDDING, MATRIX, "embed_tokens.weight", VOCAB, HIDDEN, ALWAYS),
    ROW(BLOCK, ATTENTION_NORM, NORM, "input_layernorm.weight", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, Q, MATRIX, "self_attn.q_proj.weight", QUERIES, HIDDEN, ALWAYS),
    ROW(BLOCK, Q_BIAS, BIAS, "self_attn.q_proj.bias", QUERIES, NONE, QKV_BIAS),
    ROW(BLOCK, K, MATRIX, "self_attn.k_proj.weight", KEYS, HIDDEN, ALWAYS),
    ROW(BLOCK, K_BIAS, BIAS, "self_attn.k_proj.bias", KEYS, NONE, QKV_BIAS),
    ROW(BLOCK, V, MATRIX, "self_attn.v_proj.weight", KEYS, HIDDEN, ALWAYS),
    ROW(BLOCK, V_BIAS, BIAS, "self_attn.v_proj.bias", KEYS, NONE, QKV_BIAS),
    ROW(BLOCK, Q_NORM, NORM, "self_attn.q_norm.weight", HEAD, NONE, QK_NORM),
    ROW(BLOCK, K_NORM, NORM, "self_attn.k_norm.weight", HEAD, NONE, QK_NORM),
    ROW(BLOCK, ATTENTION_OUT, MATRIX, "self_attn.o_proj.weight", HIDDEN, QUERIES, ALWAYS),
    ROW(BLOCK, ATTENTION_OUT_BIAS, BIAS, "self_attn.o_proj.bias", HIDDEN, NONE, OUT_BIAS),
    ROW(BLOCK, MLP_NORM, NORM, "post_attention_layernorm.weight", HIDDEN, NONE, ALWAYS),
    ROW(BLOCK, GATE, MATRIX, "mlp.gate_proj.weight", INNER, HIDDEN, ALWAYS),
    ROW(BLOCK, GATE_BIAS, BIAS, "mlp.gate_proj.bias", INNER, NONE, MLP_BIAS),
    ROW(BLOCK, UP, MATRIX, "mlp.up_proj.weight", INNER, HIDDEN, ALWAYS),
    ROW(BLOCK, UP_BIAS, BIAS, "mlp.up_proj.bias", INNER, NONE, MLP_BIAS),
    ROW(BLOCK, DOWN, MATRIX, "mlp.down_proj.weight", HIDDEN, INNER, ALWAYS),
    ROW(BLOCK, DOWN_BIAS, BIAS, "mlp.down_proj.bias", HIDDEN, NONE, MLP_BIAS),
    ROW(HEAD, FINAL_NORM, NORM, "norm.weight", HIDDEN, NONE, ALWAYS),
    ROW(HEAD, HEAD, MATRIX, "lm_head.weight", VOCAB, HIDDEN, UNTIED),
};
/* clang-format on */

static bool is_gpt2(const struct pen_model *model)
{
    return model->family == PEN_FAMILY_GPT2;
}

/* What the network inside a "...ForCausalLM" is called there. */
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
    case QUERIES:
        return (uint64_t)model->num_heads * model->head_dim;
    case KEYS:
        return (uint64_t)model->num_kv_heads * model->head_dim;
    case INNER:
        return model->intermediate;
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
    case ALWAYS:
        break;
    }
    return true;
}

static void fill_form(const struct pen_model *model, const struct row *row,
                      struct pen_tensor_form *form)
{
    bool is_linear = row->kind == PEN_LAYER_BLOCK && row->shape[1] != NONE;
    *form =
        (struct pen_tensor_form){.part = row->part,
                                 .role = row->role,
                                 .is_input_first = is_gpt2(model) && is_linear,
                                 .name = row->name,
                                 .num_dims = row->shape[1] == NONE ? 1 : 2,
                                 .shape = {length_of(model, row->shape[0]),
                                           length_of(model, row->shape[1])}};
    form->num_elements = form->shape[0] * form->shape[1];
}

static void list_tensors(struct pen_model *model)
{
    const struct row *rows = is_gpt2(model) ? gpt2_rows : llama_rows;
    size_t num_rows =
        is_gpt2(model) ? COUNT_OF(gpt2_rows) : COUNT_OF(llama_rows);
    uint32_t num_forms = 0;
    size_t at = 0;
    for (unsigned kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        model->first_form[kind] = num_forms;
        for (; at < num_rows && rows[at].kind == kind; at++) {
            if (is_met(model, rows[at].condition))
                fill_form(model, &rows[at], &model->forms[num_forms++]);
        }
    }
    PEN_BUG_UNLESS(at == num_rows && num_forms <= PEN_PARTS);
    model->first_form[PEN_LAYER_KINDS] = num_forms;
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

static uint32_t num_forms(const struct pen_model *model,
                          enum pen_layer_kind kind)
{
    return model->first_form[kind + 1] - model->first_form[kind];
}

uint32_t pen_model_layer_tensors(const struct pen_model *model, uint32_t layer,
                                 uint32_t *first)
{
    enum pen_layer_kind kind = pen_model_layer_kind(model, layer);
    *first = layer == 0 ? 0
                        : num_forms(model, PEN_LAYER_EMBEDDING) +
                              (layer - 1) * num_forms(model, PEN_LAYER_BLOCK);
    return num_forms(model, kind);
}

static uint32_t layer_of(const struct pen_model *model, uint32_t tensor)
{
    uint32_t before = num_forms(model, PEN_LAYER_EMBEDDING);
    if (tensor < before)
        return 0;
    uint32_t block = (tensor - before) / num_forms(model, PEN_LAYER_BLOCK);
    /* The head may have as many tensors as a block, or more. */
    return block < model->num_blocks ? block + 1 : model->num_blocks + 1;
}

void pen_model_tensor(const struct pen_model *model, uint32_t tensor,
                      struct pen_tensor_info *out)
{
    PEN_BUG_UNLESS(tensor < model->num_tensors);
    uint32_t layer = layer_of(model, tensor);
    uint32_t first;
    pen_model_layer_tensors(model, layer, &first);
    enum pen_layer_kind kind = pen_model_layer_kind(model, layer);
    const struct pen_tensor_form *form =
        &model->forms[model->first_form[kind] + tensor - first];
    out->layer = layer;
    out->form = form;
    const char *outer = form->part == PEN_PART_HEAD ? "" : prefix(model);
    int length;
    if (kind == PEN_LAYER_BLOCK)
        length =
            snprintf(out->name, sizeof out->name, "%s%s.%u.%s", outer,
                     is_gpt2(model) ? "h" : "layers", layer - 1, form->name);
    else
        length =
            snprintf(out->name, sizeof out->name, "%s%s", outer, form->name);
    PEN_BUG_UNLESS(length > 0 && (size_t)length < sizeof out->name);
}

uint32_t pen_model_find_part(const struct pen_model *model, uint32_t layer,
                             enum pen_part part)
{
    enum pen_layer_kind kind = pen_model_layer_kind(model, layer);
    uint32_t first;
    uint32_t count = pen_model_layer_tensors(model, layer, &first);
    for (uint32_t i = 0; i < count; i++) {
        if (model->forms[model->first_form[kind] + i].part == part)
            return first + i;
    }
    return model->num_tensors;
}

const char *pen_model_bare_name(const struct pen_model *model, const char *name)
{
    size_t length = strlen(prefix(model));
    return strncmp(name, prefix(model), length) == 0 ? name + length : name;
}

pen_status pen_model_check_trainable(const struct pen_model *model,
                                     struct pen_text *why)
{
    bool is_trained = model->family < PEN_FAMILY_OPT && !model->is_text_part;
    if (is_trained || model->images != NULL)
        return PEN_OK;
    pen_why(why,
            "model_type \"%s\" is for planning only; train and profile "
            "support",
            pen_model_type(model));
    for (int family = 0; family < PEN_FAMILY_OPT; family++)
        pen_why(why, "%s \"%s\"", family == 0 ? "" : ",",
                pen_family_name((enum pen_family)family));
    return PEN_INVALID;
}
