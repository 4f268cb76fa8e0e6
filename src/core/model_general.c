/*
 * Any decoder, recognised by its keys (model_general_keys.c). For known types
 * Penstock has facts that their files do not state. An unknown type is planned
 * all the same if it states layers, width, heads and vocabulary; the model is
 * then marked as guessed.
 *
 * Counts of known types are those of transformers 5.22, which a test compares.
 */
#include "core/model_internal.h"

#include "core/config_keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- types ---- */

enum fact {
    TIED = 1 << 0,
    QK_NORM = 1 << 1,    /* per head, without a key that says so */
    NO_QK_NORM = 1 << 2, /* without weights, whatever the key says */
    OUTPUT_NORMS = 1 << 3,
    GATED_GELU = 1 << 4,
    OUTPUT_GATE = 1 << 5,
    SHARED_GATE = 1 << 6,
    ROUTER_BIAS = 1 << 7,
    SIDE_EXPERTS = 1 << 8,
    SHARED_EXPERT = 1 << 9,  /* as wide as the others */
    SHARED_VALUES = 1 << 10, /* and the norm of keys alone, and sinks */
    INDEX_WEIGHTS = 1 << 11,
    NO_OUT_BIAS = 1 << 12,
    WIDE_QK_NORM = 1 << 13,
    RMS_NORM = 1 << 14
};

static const struct known {
    const char *type;
    unsigned facts;
    uint32_t window_step;
} known_types[] = {
    {"qwen3_5_text", QK_NORM | OUTPUT_GATE | RMS_NORM, 0},
    {"qwen3_5_moe_text", QK_NORM | OUTPUT_GATE | SHARED_GATE | RMS_NORM, 0},
    {"qwen3_next", QK_NORM | OUTPUT_GATE | SHARED_GATE | RMS_NORM, 0},
    {"gemma3_text", TIED | QK_NORM | OUTPUT_NORMS | GATED_GELU | RMS_NORM, 6},
    {"gemma4_text",
     TIED | QK_NORM | OUTPUT_NORMS | GATED_GELU | SIDE_EXPERTS | RMS_NORM, 6},
    {"llama4_text", NO_QK_NORM | SHARED_EXPERT | RMS_NORM, 4},
    {"glm4_moe", ROUTER_BIAS | NO_OUT_BIAS | RMS_NORM, 0},
    {"glm_moe_dsa", ROUTER_BIAS | INDEX_WEIGHTS | RMS_NORM, 0},
    {"deepseek_v32", ROUTER_BIAS | INDEX_WEIGHTS | RMS_NORM, 0},
    {"deepseek_v4", ROUTER_BIAS | INDEX_WEIGHTS | SHARED_VALUES | RMS_NORM, 0},
    {"nemotron_h", ROUTER_BIAS | RMS_NORM, 0},
    {"minimax_m2", ROUTER_BIAS | WIDE_QK_NORM | NO_QK_NORM | RMS_NORM, 0},
    {"minimax_m3", ROUTER_BIAS | QK_NORM | RMS_NORM, 0}};

static const struct known *find_type(const char *type)
{
    for (size_t i = 0; i < COUNT_OF(known_types); i++)
        if (strcmp(known_types[i].type, type) == 0)
            return &known_types[i];
    return NULL;
}

/* ---- what rows cannot say ---- */

static enum pen_model_norm read_norm(const struct pen_json *json,
                                     unsigned facts)
{
    bool is_layer = pen__config_has(json, "layer_norm_eps") ||
                    pen__config_has(json, "layer_norm_epsilon");
    bool is_rms =
        (facts & RMS_NORM) != 0 || pen__config_has(json, "rms_norm_eps");
    return is_layer && !is_rms ? PEN_MODEL_NORM_LAYER : PEN_MODEL_NORM_RMS;
}

static void take_facts(unsigned facts, struct pen_model *model)
{
    const struct {
        unsigned fact;
        bool *field;
    } fields[] = {{QK_NORM, &model->has_qk_norm},
                  {OUTPUT_NORMS, &model->has_output_norms},
                  {OUTPUT_GATE, &model->has_output_gate},
                  {SHARED_GATE, &model->has_shared_gate},
                  {ROUTER_BIAS, &model->has_router_bias},
                  {SIDE_EXPERTS, &model->has_side_experts},
                  {SHARED_VALUES, &model->has_shared_values},
                  {SHARED_VALUES, &model->has_key_norm},
                  {SHARED_VALUES, &model->has_attention_sinks},
                  {INDEX_WEIGHTS, &model->has_index_weights},
                  {WIDE_QK_NORM, &model->has_wide_qk_norm}};
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if ((facts & fields[i].fact) != 0)
            *fields[i].field = true;
}

/* Reads picks. MiniMax has an object of its own for them, in blocks of keys. */
static pen_status read_picks(const struct pen_json *json,
                             struct pen_model *model, struct pen_text *why)
{
    struct pen_json inner;
    uint32_t count = 0;
    uint32_t size = 0;
    if (!pen__config_has(json, "sparse_attention_config"))
        return PEN_OK;
    pen_status status =
        pen_json_open(json, "sparse_attention_config", &inner, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&inner, "sparse_num_index_heads", 1,
                                       1 << 8, &model->index_heads, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&inner, "sparse_index_dim", 1, 1 << 14,
                                       &model->index_dim, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&inner, "sparse_topk_blocks", 1, 1 << 14,
                                       &count, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&inner, "sparse_block_size", 1, 1 << 14,
                                       &size, why);
    model->index_topk = count * size;
    return status;
}

/*
 * Completes the recurrence. Mamba's first form has no heads: it counts as heads
 * of the usual width.
 */
static void complete_recurrence(const struct pen_json *json,
                                struct pen_model *model)
{
    struct pen_recurrence *it = &model->recurrence;
    double expand =
        json_number_value(json_object_get(json->object, "mamba_expand"));
    if (it->num_heads == 0 && it->state_dim > 0 && expand >= 1 && expand <= 8) {
        it->head_dim = 64;
        it->num_heads = (uint32_t)ceil(expand * model->hidden / it->head_dim);
    }
    if (it->num_heads == 0) {
        *it = (struct pen_recurrence){.num_heads = 0};
        return;
    }
    const struct {
        uint32_t *field;
        uint32_t absent;
    } fields[] = {{&it->head_dim, 64},
                  {&it->num_groups, 1},
                  {&it->state_dim, 128},
                  {&it->conv_kernel, 4},
                  {&it->chunk, 64}};
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (*fields[i].field == 0)
            *fields[i].field = fields[i].absent;
}

static void complete_experts(unsigned facts, struct pen_model *model)
{
    if (model->num_experts == 0) {
        model->experts_per_token = model->expert_intermediate = 0;
        model->shared_intermediate = model->num_shared_experts = 0;
        model->expert_hidden = 0;
        model->has_shared_gate = model->has_side_experts = false;
        model->has_router_bias = false;
        return;
    }
    if (model->experts_per_token == 0 && model->is_guessed)
        model->experts_per_token = 1;
    if ((facts & SHARED_EXPERT) != 0)
        model->num_shared_experts = 1;
    uint64_t together =
        (uint64_t)model->num_shared_experts * model->expert_intermediate;
    if (model->shared_intermediate == 0)
        model->shared_intermediate =
            together > UINT32_MAX ? UINT32_MAX : (uint32_t)together;
    if (model->shared_intermediate == 0)
        model->has_shared_gate = false;
}

/* The length for types that state none and whose real one is unknown. */
#define UNSTATED_POSITIONS 131072

static void complete_attention(unsigned facts, struct pen_model *model)
{
    if ((facts & NO_QK_NORM) != 0)
        model->has_qk_norm = false;
    model->has_attention_out_bias =
        model->has_qkv_bias && (facts & NO_OUT_BIAS) == 0;
    if (model->kv_lora_rank > 0) {
        model->head_dim = model->qk_nope_dim + model->qk_rope_dim;
        model->num_kv_heads = model->num_heads;
    } else {
        model->qk_nope_dim = model->qk_rope_dim = 0;
        model->v_head_dim = 0;
    }
    if (model->num_kv_heads == 0)
        model->num_kv_heads = model->num_heads;
    if (model->head_dim == 0 && model->num_heads > 0) {
        uint32_t equal = model->hidden / model->num_heads;
        model->head_dim = equal + equal % 2;
    }
    if (model->max_positions == 0)
        model->max_positions = UNSTATED_POSITIONS;
    if (model->output_rank == 0 || model->output_groups == 0)
        model->output_rank = model->output_groups = 0;
    if (model->index_heads == 0 || model->index_dim == 0)
        model->index_topk = 0;
    if (model->index_topk == 0)
        model->index_heads = model->index_dim = 0;
    model->rope.kind = PEN_ROPE_DEFAULT;
}

static bool is_on(const struct pen_json *json, const char *key)
{
    const json_t *value = json_object_get(json->object, key);
    return value == NULL || !json_is_false(value);
}

static bool has_word(const struct pen_json *json, const char *key,
                     const char *word)
{
    const char *text = json_string_value(json_object_get(json->object, key));
    return text != NULL && strcmp(text, word) == 0;
}

/* Takes as many blocks as the list has, where there is no number. */
static void complete_blocks(const struct pen_json *json,
                            struct pen_model *model)
{
    static const char *const keys[] = {"hybrid_override_pattern",
                                       "layers_block_type", "layer_types"};
    for (size_t i = 0; i < COUNT_OF(keys) && model->num_blocks == 0; i++) {
        const json_t *list = json_object_get(json->object, keys[i]);
        size_t count = json_is_string(list) ? json_string_length(list)
                                            : json_array_size(list);
        if (count <= PEN__MAX_BLOCKS)
            model->num_blocks = (uint32_t)count;
    }
}

/* ---- checks ---- */

/* Names all missing keys at once. */
static pen_status check_stated(const struct pen_model *model,
                               struct pen_text *why)
{
    const struct {
        uint32_t value;
        const char *key;
    } needed[] = {
        {model->num_blocks, "num_hidden_layers"},
        {model->hidden, "hidden_size"},
        {model->num_heads, "num_attention_heads"},
        {model->vocab, "vocab_size"},
        {model->kv_lora_rank == 0 || model->qk_nope_dim > 0,
         "qk_nope_head_dim"},
        {model->kv_lora_rank == 0 || model->v_head_dim > 0, "v_head_dim"}};
    uint32_t num_missing = 0;
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        if (needed[i].value > 0)
            continue;
        if (num_missing++ == 0)
            pen_why(why, "a model of type \"%s\" cannot be planned without",
                    model->type);
        pen_why(why, "%s %s", num_missing == 1 ? "" : ",", needed[i].key);
    }
    return num_missing == 0 ? PEN_OK : PEN_INVALID;
}

static bool has_dense_blocks(const struct pen_model *model)
{
    for (uint32_t i = 0; i < model->num_kinds; i++)
        if (model->kinds[i].mlp == PEN_MLP_DENSE)
            return true;
    return false;
}

static pen_status check_widths(struct pen_model *model, struct pen_text *why)
{
    const struct pen_recurrence *it = &model->recurrence;
    if (model->intermediate == 0 && has_dense_blocks(model))
        model->intermediate = 4 * model->hidden;
    if (model->has_side_experts)
        model->shared_intermediate = model->intermediate;
    model->num_shared_experts = model->shared_intermediate > 0 ? 1 : 0;
    if (model->num_experts > 0 &&
        (model->experts_per_token == 0 ||
         model->experts_per_token > model->num_experts)) {
        pen_why(why,
                "num_experts_per_tok is %u; it must be from 1 to the number of "
                "experts, %u",
                model->experts_per_token, model->num_experts);
        return PEN_INVALID;
    }
    uint64_t widest =
        (uint64_t)model->num_heads * (model->v_head_dim > model->global_head_dim
                                          ? model->v_head_dim
                                          : model->global_head_dim);
    uint64_t states = (uint64_t)it->num_heads * it->head_dim;
    if (widest <= PEN__MAX_WIDTH && states <= PEN__MAX_WIDTH &&
        model->shared_intermediate <= PEN__MAX_WIDTH)
        return PEN_OK;
    pen_why(why, "the heads or experts are together wider than %u",
            PEN__MAX_WIDTH);
    return PEN_INVALID;
}

/* ---- all of it ---- */

pen_status pen__model_read_general(const struct pen_json *json,
                                   const char *type, struct pen_model *model,
                                   struct pen_text *why)
{
    const struct known *known = find_type(type);
    unsigned facts = known == NULL ? 0 : known->facts;
    model->family = PEN_FAMILY_GENERAL;
    model->is_guessed = known == NULL;
    model->window_step = known == NULL ? 0 : known->window_step;
    model->sparse_step = 1;
    model->norm_eps = 1e-6;
    model->rope.theta = 10000;
    snprintf(model->type, sizeof model->type, "%s", type);
    take_facts(facts, model);
    pen_status status = pen__model_read_keys(json, model, why);
    if (status == PEN_OK)
        status = read_picks(json, model, why);
    complete_blocks(json, model);
    if (status == PEN_OK)
        status = check_stated(model, why);
    if (status != PEN_OK)
        return status;
    model->norm = read_norm(json, facts);
    model->activation = pen__model_read_activation(json);
    if ((facts & GATED_GELU) != 0 && model->activation == PEN_ACTIVATION_GELU)
        model->activation = PEN_ACTIVATION_GELU_GATED;
    if (model->block_input_dim > 0 || model->num_kv_shared_blocks > 0)
        model->is_guessed = true;
    if (model->is_guessed && has_word(json, "topk_method", "noaux_tc"))
        model->has_router_bias = true;
    if (!is_on(json, "enable_moe_block"))
        model->num_experts = 0;
    if (!is_on(json, "use_sliding_window"))
        model->window = 0;
    if (model->sparse_step == 0)
        model->sparse_step = 1;
    complete_attention(facts, model);
    complete_recurrence(json, model);
    complete_experts(facts, model);
    status = pen__model_read_blocks(json, model, why);
    return status == PEN_OK ? check_widths(model, why) : status;
}

bool pen__model_is_tied(const char *type)
{
    const struct known *known = find_type(type);
    return known != NULL && (known->facts & TIED) != 0;
}

/* Adds one sentence for all assumptions. */
static void add_guess(const struct pen_model *model, struct pen_text *out)
{
    if (find_type(model->type) != NULL) {
        pen_text_add(out,
                     "model_type \"%s\" with inputs for each block, or blocks "
                     "that share keys, is planned without these; its figures "
                     "may be off by more\n",
                     model->type);
        return;
    }
    pen_text_add(out,
                 "unknown model_type \"%s\": planned as a decoder with a %s "
                 "MLP%s; its figures may be off by more\n",
                 model->type, pen_model_has_gate(model) ? "gated" : "plain",
                 model->num_experts > 0 ? " and experts" : "");
}

void pen_model_add_warnings(const struct pen_model *model, struct pen_text *out)
{
    if (model->is_guessed)
        add_guess(model, out);
    if (model->is_text_part)
        pen_text_add(out,
                     "only the text part of the model is planned, \"%s\"; what "
                     "it has for images or sound is not counted\n",
                     pen_model_type(model));
}
