/*
 * Families whose keys are in tables: which keys their config.json has, where
 * each goes, and its meaning when absent. Reader and printer go by the same
 * rows, so a printed model is read back as the same model. Scaling of rotary
 * positions is not read here.
 */
#include "core/model_internal.h"

#include "core/config_keys.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum row_kind {
    SIZE,  /* must be there, at least 1 */
    COUNT, /* at least 1; null is 0 */
    TIMES, /* at least 0 */
    FLAG,
    REAL
};

struct row {
    const char *key;
    enum row_kind kind;
    size_t offset; /* of the field in a model */
    double most;
    double absent;     /* what transformers takes */
    const char *other; /* an older or newer name, or NULL */
};

#define ROW(key, kind, field, most, absent, other)                             \
    {                                                                          \
        key, kind, offsetof(struct pen_model, field), most, absent, other      \
    }
#define HIDDEN PEN__MAX_HIDDEN
#define BLOCKS PEN__MAX_BLOCKS
#define HEADS PEN__MAX_HEADS
#define EXPERTS PEN__MAX_EXPERTS
#define WIDTH PEN__MAX_WIDTH
#define POSITIONS PEN__MAX_POSITIONS
#define MAX_THETA 1e12

/*
 * The length that it was trained with; its positions are slopes and have no
 * end.
 */
#define BLOOM_POSITIONS 2048

/* clang-format off */
static const struct row opt_rows[] = {
    ROW("hidden_size", SIZE, hidden, HIDDEN, 0, NULL),
    ROW("num_hidden_layers", SIZE, num_blocks, BLOCKS, 0, NULL),
    ROW("num_attention_heads", SIZE, num_heads, HEADS, 0, NULL),
    ROW("ffn_dim", SIZE, intermediate, WIDTH, 0, NULL),
    ROW("max_position_embeddings", SIZE, max_positions, POSITIONS, 0, NULL),
    ROW("word_embed_proj_dim", COUNT, embedding_dim, HIDDEN, 0, NULL),
    ROW("enable_bias", FLAG, has_mlp_bias, 1, true, NULL),
};

static const struct row bloom_rows[] = {
    ROW("hidden_size", SIZE, hidden, HIDDEN, 0, "n_embed"),
    ROW("n_layer", SIZE, num_blocks, BLOCKS, 0, "num_hidden_layers"),
    ROW("n_head", SIZE, num_heads, HEADS, 0, "num_attention_heads"),
    ROW("seq_length", COUNT, max_positions, POSITIONS, BLOOM_POSITIONS, NULL),
    ROW("layer_norm_epsilon", REAL, norm_eps, 1, 1e-5, NULL),
};

static const struct row gpt_neox_rows[] = {
    ROW("hidden_size", SIZE, hidden, HIDDEN, 0, NULL),
    ROW("num_hidden_layers", SIZE, num_blocks, BLOCKS, 0, NULL),
    ROW("num_attention_heads", SIZE, num_heads, HEADS, 0, NULL),
    ROW("intermediate_size", SIZE, intermediate, WIDTH, 0, NULL),
    ROW("max_position_embeddings", SIZE, max_positions, POSITIONS, 0, NULL),
    ROW("layer_norm_eps", REAL, norm_eps, 1, 1e-5, NULL),
    ROW("rotary_emb_base", REAL, rope.theta, MAX_THETA, 10000, "rope_theta"),
    ROW("rotary_pct", REAL, rope.share, 1, 0.25, "partial_rotary_factor"),
    ROW("use_parallel_residual", FLAG, has_parallel_residual, 1, true, NULL),
    ROW("attention_bias", FLAG, has_qkv_bias, 1, true, NULL),
};

static const struct row bert_rows[] = {
    ROW("hidden_size", SIZE, hidden, HIDDEN, 0, NULL),
    ROW("num_hidden_layers", SIZE, num_blocks, BLOCKS, 0, NULL),
    ROW("num_attention_heads", SIZE, num_heads, HEADS, 0, NULL),
    ROW("intermediate_size", SIZE, intermediate, WIDTH, 0, NULL),
    ROW("max_position_embeddings", SIZE, max_positions, POSITIONS, 0, NULL),
    ROW("type_vocab_size", COUNT, num_token_types, HIDDEN, 2, NULL),
    ROW("layer_norm_eps", REAL, norm_eps, 1, 1e-12, NULL),
};

#define MIXTURE_ROWS(kv_heads_absent, head_dim_absent, eps, base)              \
    ROW("hidden_size", SIZE, hidden, HIDDEN, 0, NULL),                         \
    ROW("num_hidden_layers", SIZE, num_blocks, BLOCKS, 0, NULL),               \
    ROW("num_attention_heads", SIZE, num_heads, HEADS, 0, NULL),               \
    ROW("num_key_value_heads", COUNT, num_kv_heads, HEADS, kv_heads_absent, NULL), \
    ROW("head_dim", COUNT, head_dim, WIDTH, head_dim_absent, NULL),            \
    ROW("intermediate_size", SIZE, intermediate, WIDTH, 0, NULL),              \
    ROW("max_position_embeddings", SIZE, max_positions, POSITIONS, 0, NULL),   \
    ROW("rms_norm_eps", REAL, norm_eps, 1, eps, NULL),                         \
    ROW("rope_theta", REAL, rope.theta, MAX_THETA, base, NULL)

static const struct row mixtral_rows[] = {
    MIXTURE_ROWS(8, 0, 1e-5, 1e6),
    ROW("num_local_experts", SIZE, num_experts, EXPERTS, 0, "num_experts"),
    ROW("num_experts_per_tok", COUNT, experts_per_token, EXPERTS, 2, NULL),
    ROW("sliding_window", COUNT, window, POSITIONS, 0, NULL),
};

static const struct row qwen3_moe_rows[] = {
    MIXTURE_ROWS(4, 0, 1e-6, 10000),
    ROW("num_experts", SIZE, num_experts, EXPERTS, 0, "num_local_experts"),
    ROW("num_experts_per_tok", COUNT, experts_per_token, EXPERTS, 8, NULL),
    ROW("moe_intermediate_size", SIZE, expert_intermediate, WIDTH, 0, NULL),
    ROW("decoder_sparse_step", COUNT, sparse_step, BLOCKS, 1, NULL),
    ROW("attention_bias", FLAG, has_qkv_bias, 1, false, NULL),
    ROW("sliding_window", COUNT, window, POSITIONS, 4096, NULL),
};

static const struct row gpt_oss_rows[] = {
    MIXTURE_ROWS(8, 64, 1e-5, 150000),
    ROW("num_local_experts", SIZE, num_experts, EXPERTS, 0, "num_experts"),
    ROW("num_experts_per_tok", COUNT, experts_per_token, EXPERTS, 4, "experts_per_token"),
    ROW("attention_bias", FLAG, has_qkv_bias, 1, true, NULL),
    ROW("sliding_window", COUNT, window, POSITIONS, 128, NULL),
    ROW("swiglu_alpha", REAL, gate_alpha, 1e6, 1.702, NULL),
    ROW("swiglu_limit", REAL, gate_limit, 1e6, 7, NULL),
};

#define LATENT_ROWS \
    ROW("hidden_size", SIZE, hidden, HIDDEN, 0, NULL), \
    ROW("num_hidden_layers", SIZE, num_blocks, BLOCKS, 0, NULL), \
    ROW("num_attention_heads", SIZE, num_heads, HEADS, 0, NULL), \
    ROW("intermediate_size", SIZE, intermediate, WIDTH, 0, NULL), \
    ROW("max_position_embeddings", SIZE, max_positions, POSITIONS, 0, NULL), \
    ROW("rms_norm_eps", REAL, norm_eps, 1, 1e-6, NULL), \
    ROW("rope_theta", REAL, rope.theta, MAX_THETA, 10000, NULL), \
    ROW("attention_bias", FLAG, has_qkv_bias, 1, false, NULL), \
    ROW("q_lora_rank", COUNT, q_lora_rank, WIDTH, 1536, NULL), \
    ROW("kv_lora_rank", SIZE, kv_lora_rank, WIDTH, 0, NULL), \
    ROW("qk_nope_head_dim", SIZE, qk_nope_dim, WIDTH, 0, NULL), \
    ROW("qk_rope_head_dim", SIZE, qk_rope_dim, WIDTH, 0, NULL), \
    ROW("v_head_dim", SIZE, v_head_dim, WIDTH, 0, NULL), \
    ROW("n_routed_experts", SIZE, num_experts, EXPERTS, 0, "num_local_experts"), \
    ROW("moe_intermediate_size", SIZE, expert_intermediate, WIDTH, 0, NULL)

static const struct row deepseek_v2_rows[] = {
    LATENT_ROWS,
    ROW("num_experts_per_tok", SIZE, experts_per_token, EXPERTS, 0, NULL),
    ROW("n_shared_experts", COUNT, num_shared_experts, EXPERTS, 2, NULL),
    ROW("n_group", COUNT, num_expert_groups, EXPERTS, 0, NULL),
    ROW("topk_group", COUNT, chosen_groups, EXPERTS, 0, NULL),
    ROW("routed_scaling_factor", REAL, gate_scale, 1e6, 1, NULL),
    ROW("first_k_dense_replace", TIMES, num_dense_blocks, BLOCKS, 0, NULL),
};

static const struct row deepseek_v3_rows[] = {
    LATENT_ROWS,
    ROW("num_experts_per_tok", COUNT, experts_per_token, EXPERTS, 8, NULL),
    ROW("n_shared_experts", COUNT, num_shared_experts, EXPERTS, 1, NULL),
    ROW("n_group", COUNT, num_expert_groups, EXPERTS, 8, NULL),
    ROW("topk_group", COUNT, chosen_groups, EXPERTS, 4, NULL),
    ROW("routed_scaling_factor", REAL, gate_scale, 1e6, 2.5, NULL),
    ROW("rope_interleave", FLAG, has_neighbour_rope, 1, true, NULL),
    ROW("first_k_dense_replace", TIMES, num_dense_blocks, BLOCKS, 3, NULL),
    ROW("num_nextn_predict_layers", TIMES, num_mtp_layers, BLOCKS, 0, "num_mtp_layers"),
};
/* clang-format on */

static const struct pen__config_word plain[] = {
    {"gelu_new", PEN_ACTIVATION_GELU_TANH},
    {"gelu", PEN_ACTIVATION_GELU},
    {"relu", PEN_ACTIVATION_RELU},
    {"gelu_fast", PEN_ACTIVATION_GELU_TANH},
    {"gelu_pytorch_tanh", PEN_ACTIVATION_GELU_TANH}};
static const struct pen__config_word gated[] = {{"silu", PEN_ACTIVATION_SILU},
                                                {"swish", PEN_ACTIVATION_SILU}};

static pen_status finish_opt(const struct pen_json *json,
                             struct pen_model *model, struct pen_text *why)
{
    bool is_before = true;
    pen_status status =
        pen__config_flag(json, "do_layer_norm_before", &is_before, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "layer_norm_elementwise_affine", true,
                                    why);
    if (status == PEN_OK)
        status =
            pen__config_demand(json, "_remove_final_layer_norm", false, why);
    model->is_post_norm = !is_before;
    model->has_qkv_bias = model->has_mlp_bias;
    model->has_attention_out_bias = model->has_mlp_bias;
    if (model->embedding_dim == model->hidden)
        model->embedding_dim = 0;
    return status;
}

static void set_all_biases(struct pen_model *model)
{
    model->has_qkv_bias = true;
    model->has_attention_out_bias = true;
    model->has_mlp_bias = true;
}

static pen_status finish_bloom(const struct pen_json *json,
                               struct pen_model *model, struct pen_text *why)
{
    const struct pen__config_count inner = {"n_inner", 4 * model->hidden,
                                            4 * model->hidden, WIDTH};
    set_all_biases(model);
    model->has_embedding_norm = true;
    if (model->max_positions == 0)
        model->max_positions = BLOOM_POSITIONS;
    pen_status status =
        pen__config_count(json, &inner, &model->intermediate, why);
    if (status != PEN_OK || model->intermediate == 4 * model->hidden)
        return status;
    pen_why(why, "n_inner is %u; only four times the hidden size is supported",
            model->intermediate);
    return PEN_INVALID;
}

static pen_status finish_gpt_neox(const struct pen_json *json,
                                  struct pen_model *model, struct pen_text *why)
{
    (void)json;
    (void)why;
    model->rope.kind = PEN_ROPE_DEFAULT;
    model->has_attention_out_bias = model->has_qkv_bias;
    model->has_mlp_bias = true;
    return PEN_OK;
}

static pen_status finish_bert(const struct pen_json *json,
                              struct pen_model *model, struct pen_text *why)
{
    set_all_biases(model);
    model->has_embedding_norm = true;
    model->is_post_norm = true;
    pen_status status = pen__config_demand(json, "is_decoder", false, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "add_cross_attention", false, why);
    return status;
}

static pen_status finish_mixtral(const struct pen_json *json,
                                 struct pen_model *model, struct pen_text *why)
{
    (void)json;
    (void)why;
    model->rope.kind = PEN_ROPE_DEFAULT;
    model->expert_intermediate = model->intermediate;
    return PEN_OK;
}

/* "mlp_only_layers": those without experts; the first ones, if any. */
static pen_status read_dense_blocks(const struct pen_json *json,
                                    struct pen_model *model,
                                    struct pen_text *why)
{
    if (!pen__config_has(json, "mlp_only_layers"))
        return PEN_OK;
    const json_t *list = json_object_get(json->object, "mlp_only_layers");
    bool is_good =
        json_is_array(list) && json_array_size(list) <= model->num_blocks;
    for (size_t i = 0; is_good && i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        is_good = json_is_integer(entry) &&
                  json_integer_value(entry) == (json_int_t)i;
    }
    if (!is_good) {
        pen_why(why, "mlp_only_layers must be a list of the first layers: 0, "
                     "1, ...");
        return PEN_INVALID;
    }
    model->num_dense_blocks = (uint32_t)json_array_size(list);
    return PEN_OK;
}

static pen_status finish_qwen3_moe(const struct pen_json *json,
                                   struct pen_model *model,
                                   struct pen_text *why)
{
    bool has_windows = false;
    bool is_normal = false;
    pen_status status =
        pen__config_flag(json, "use_sliding_window", &has_windows, why);
    if (status == PEN_OK)
        status = pen__config_flag(json, "norm_topk_prob", &is_normal, why);
    if (!has_windows)
        model->window = 0;
    model->has_plain_gates = !is_normal;
    model->rope.kind = PEN_ROPE_DEFAULT;
    model->has_attention_out_bias = model->has_qkv_bias;
    model->has_qk_norm = true;
    return status == PEN_OK ? read_dense_blocks(json, model, why) : status;
}

/* "layer_types": windows and full attention in turn. */
static pen_status check_layer_types(const struct pen_json *json,
                                    const struct pen_model *model,
                                    struct pen_text *why)
{
    static const char *const turns[] = {"sliding_attention", "full_attention"};
    if (!pen__config_has(json, "layer_types"))
        return PEN_OK;
    const json_t *list = json_object_get(json->object, "layer_types");
    if (!json_is_array(list) || json_array_size(list) != model->num_blocks) {
        pen_why(why, "layer_types must be a list of %u strings",
                model->num_blocks);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < model->num_blocks; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (word == NULL || strcmp(word, turns[i % 2]) != 0) {
            pen_why(why, "layer_types[%u] must be \"%s\"", i, turns[i % 2]);
            return PEN_INVALID;
        }
    }
    return PEN_OK;
}

/* Sets the defaults of transformers for a file without positions. */
static void set_gpt_oss_rope(struct pen_rope *rope)
{
    rope->kind = PEN_ROPE_YARN;
    rope->factor = 32;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->original_positions = 4096;
    rope->has_exact_ends = true;
}

static pen_status finish_gpt_oss(const struct pen_json *json,
                                 struct pen_model *model, struct pen_text *why)
{
    model->rope.kind = PEN_ROPE_DEFAULT;
    if (!pen__config_has(json, "rope_parameters") &&
        !pen__config_has(json, "rope_scaling"))
        set_gpt_oss_rope(&model->rope);
    model->has_attention_out_bias = model->has_qkv_bias;
    model->has_attention_sinks = true;
    model->has_alternate_windows = true;
    model->has_router_bias = true;
    model->has_expert_bias = true;
    model->expert_intermediate = model->intermediate;
    return check_layer_types(json, model, why);
}

static pen_status finish_latent(struct pen_model *model, struct pen_text *why)
{
    model->rope.kind = PEN_ROPE_DEFAULT;
    model->head_dim = model->qk_nope_dim + model->qk_rope_dim;
    model->num_kv_heads = model->num_heads;
    model->has_attention_out_bias = model->has_qkv_bias;
    if ((uint64_t)model->num_heads * model->v_head_dim <= WIDTH)
        return PEN_OK;
    pen_why(why, "v_head_dim is %u, too large for %u heads", model->v_head_dim,
            model->num_heads);
    return PEN_INVALID;
}

static pen_status finish_deepseek_v3(const struct pen_json *json,
                                     struct pen_model *model,
                                     struct pen_text *why)
{
    double every = 1;
    bool is_normal = true;
    pen_status status =
        pen__config_flag(json, "norm_topk_prob", &is_normal, why);
    if (status == PEN_OK)
        status = finish_latent(model, why);
    if (status != PEN_OK)
        return status;
    model->has_plain_gates = !is_normal;
    model->has_sigmoid_gates = true;
    model->has_router_bias = true;
    return pen__config_number(json, "moe_layer_freq", 1, 1, &every, why);
}

/* How a router of DeepSeek V2 chooses; the value is whether groups count. */
static const struct pen__config_word topk_methods[] = {
    {"greedy", false}, {"group_limited_greedy", true}};

static pen_status read_groups(const struct pen_json *json,
                              struct pen_model *model, struct pen_text *why)
{
    int has_groups = false;
    pen_status status =
        pen__config_word(json, "topk_method", topk_methods,
                         COUNT_OF(topk_methods), &has_groups, why);
    if (status != PEN_OK)
        return status;
    if (has_groups && model->num_expert_groups == 0) {
        pen_why(why, "n_group is missing; topk_method group_limited_greedy "
                     "needs it");
        return PEN_INVALID;
    }
    if (!has_groups) {
        model->num_expert_groups = 0;
        model->chosen_groups = 0;
    }
    return PEN_OK;
}

/*
 * Sets norm_topk_prob: the published code reads it here, transformers does not.
 */
static pen_status finish_deepseek_v2(const struct pen_json *json,
                                     struct pen_model *model,
                                     struct pen_text *why)
{
    static const struct pen__config_word scores[] = {{"softmax", 0}};
    double every = 1;
    int score = 0;
    pen_status status = finish_latent(model, why);
    model->has_plain_gates = true;
    model->has_neighbour_rope = true;
    if (status == PEN_OK)
        status = pen__config_demand(json, "norm_topk_prob", false, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "mlp_bias", false, why);
    if (status == PEN_OK)
        status = pen__config_word(json, "scoring_func", scores,
                                  COUNT_OF(scores), &score, why);
    if (status == PEN_OK)
        status = read_groups(json, model, why);
    return status == PEN_OK
               ? pen__config_number(json, "moe_layer_freq", 1, 1, &every, why)
               : status;
}

static const struct family {
    const struct row *rows;
    size_t num_rows;
    /* Settings that rows cannot express. */
    pen_status (*finish)(const struct pen_json *json, struct pen_model *model,
                         struct pen_text *why);
    enum pen_model_norm norm;
    const char *activation_key; /* or NULL, if there is no choice */
    const struct pen__config_word *activations;
    size_t num_activations;
    enum pen_activation activation;
} planned[] = {
#define ROWS(rows, finish) rows, COUNT_OF(rows), finish
#define PLAIN(key, absent)                                                     \
    PEN_MODEL_NORM_LAYER, key, plain, COUNT_OF(plain), absent
#define GATED                                                                  \
    PEN_MODEL_NORM_RMS, "hidden_act", gated, COUNT_OF(gated),                  \
        PEN_ACTIVATION_SILU
    [PEN_FAMILY_OPT] = {ROWS(opt_rows, finish_opt),
                        PLAIN("activation_function", PEN_ACTIVATION_RELU)},
    [PEN_FAMILY_BLOOM] = {ROWS(bloom_rows, finish_bloom),
                          PLAIN(NULL, PEN_ACTIVATION_GELU_TANH)},
    [PEN_FAMILY_GPT_NEOX] = {ROWS(gpt_neox_rows, finish_gpt_neox),
                             PLAIN("hidden_act", PEN_ACTIVATION_GELU)},
    [PEN_FAMILY_BERT] = {ROWS(bert_rows, finish_bert),
                         PLAIN("hidden_act", PEN_ACTIVATION_GELU)},
    [PEN_FAMILY_MIXTRAL] = {ROWS(mixtral_rows, finish_mixtral), GATED},
    [PEN_FAMILY_QWEN3_MOE] = {ROWS(qwen3_moe_rows, finish_qwen3_moe), GATED},
    [PEN_FAMILY_DEEPSEEK_V2] = {ROWS(deepseek_v2_rows, finish_deepseek_v2),
                                GATED},
    [PEN_FAMILY_DEEPSEEK_V3] = {ROWS(deepseek_v3_rows, finish_deepseek_v3),
                                GATED},
    [PEN_FAMILY_GPT_OSS] = {ROWS(gpt_oss_rows, finish_gpt_oss), GATED}};

static void *field_of(struct pen_model *model, const struct row *row)
{
    return (char *)model + row->offset;
}

/*
 * Finds the name under which the value is given, in the object or in the second
 * one.
 */
static const struct pen_json *find(const struct row *row,
                                   const struct pen_json *json,
                                   const struct pen_json *inner,
                                   const char **key)
{
    const struct pen_json *const places[] = {json, inner};
    for (size_t i = 0; i < COUNT_OF(places) && places[i]->object != NULL; i++) {
        *key = row->key;
        if (pen_json_has(places[i], row->key))
            return places[i];
        if (row->other != NULL && pen_json_has(places[i], row->other)) {
            *key = row->other;
            return places[i];
        }
    }
    *key = row->key;
    return json;
}

static pen_status read_count(const struct row *row, const struct pen_json *json,
                             const char *key, uint32_t *out,
                             struct pen_text *why)
{
    struct pen__config_count count = {key, (uint32_t)row->absent, 0,
                                      (uint32_t)row->most};
    if (row->kind == COUNT)
        return pen__config_count(json, &count, out, why);
    if (row->kind == SIZE)
        return pen_json_read_integer(json, key, 1, count.most, out, why);
    *out = count.absent;
    return pen__config_has(json, key)
               ? pen_json_read_integer(json, key, 0, count.most, out, why)
               : PEN_OK;
}

static pen_status read_row(const struct row *row, const struct pen_json *json,
                           const char *key, void *field, struct pen_text *why)
{
    switch (row->kind) {
    case SIZE:
    case COUNT:
    case TIMES:
        return read_count(row, json, key, field, why);
    case FLAG:
        *(bool *)field = row->absent != 0;
        return pen__config_flag(json, key, field, why);
    case REAL:
        break;
    }
    *(double *)field = row->absent;
    return pen__config_number(json, key, 0, row->most, field, why);
}

static pen_status read_rows(const struct pen_json *json,
                            const struct family *family,
                            struct pen_model *model, struct pen_text *why)
{
    /* transformers 5 puts what is about rotary positions there. */
    struct pen_json inner = {.object = NULL};
    pen_status status = PEN_OK;
    if (pen__config_has(json, "rope_parameters"))
        status = pen_json_open(json, "rope_parameters", &inner, why);
    for (size_t i = 0; status == PEN_OK && i < family->num_rows; i++) {
        const struct row *row = &family->rows[i];
        const char *key;
        const struct pen_json *place = find(row, json, &inner, &key);
        status = read_row(row, place, key, field_of(model, row), why);
    }
    return status;
}

static pen_status check_experts(const struct pen_model *model,
                                struct pen_text *why)
{
    bool is_dense = model->num_experts == 0;
    if (is_dense || (model->experts_per_token > 0 &&
                     model->experts_per_token <= model->num_experts))
        return PEN_OK;
    pen_why(why,
            "num_experts_per_tok is %u; it must be from 1 to the number of "
            "experts, %u",
            model->experts_per_token, model->num_experts);
    return PEN_INVALID;
}

pen_status pen__model_read_planned(const struct pen_json *json,
                                   struct pen_model *model,
                                   struct pen_text *why)
{
    const struct family *family = &planned[model->family];
    int activation = (int)family->activation;
    model->norm = family->norm;
    pen_status status = read_rows(json, family, model, why);
    if (status == PEN_OK && family->activation_key != NULL)
        status =
            pen__config_word(json, family->activation_key, family->activations,
                             family->num_activations, &activation, why);
    if (status == PEN_OK)
        status = family->finish(json, model, why);
    if (status != PEN_OK)
        return status;
    model->activation = (enum pen_activation)activation;
    if (model->num_kv_heads == 0)
        model->num_kv_heads = model->num_heads;
    if (model->head_dim == 0 && model->hidden % model->num_heads == 0)
        model->head_dim = model->hidden / model->num_heads;
    return check_experts(model, why);
}

static void print_row(const struct pen_model *model, const struct row *row,
                      struct pen_text *out)
{
    const void *field = (const char *)model + row->offset;
    const uint32_t *count = field;
    switch (row->kind) {
    case COUNT:
        if (*count == 0) {
            pen_text_add(out, ",\n  \"%s\": null", row->key);
            return;
        }
        pen__config_add_count(out, row->key, *count);
        return;
    case SIZE:
    case TIMES:
        pen__config_add_count(out, row->key, *count);
        return;
    case FLAG:
        pen__config_add_flag(out, row->key, *(const bool *)field);
        return;
    case REAL:
        pen__config_add_real(out, row->key, *(const double *)field);
        return;
    }
}

static void print_dense_blocks(const struct pen_model *model,
                               struct pen_text *out)
{
    pen_text_add_string(out, ",\n  \"mlp_only_layers\": [");
    for (uint32_t i = 0; i < model->num_dense_blocks; i++)
        pen_text_add(out, "%s%u", i == 0 ? "" : ", ", i);
    pen_text_add_string(out, "]");
}

void pen__model_print_planned(const struct pen_model *model,
                              struct pen_text *out)
{
    const struct family *family = &planned[model->family];
    for (size_t i = 0; i < family->num_rows; i++)
        print_row(model, &family->rows[i], out);
    if (family->activation_key != NULL) {
        size_t at = 0;
        while (family->activations[at].value != (int)model->activation)
            at++;
        pen__config_add_word(out, family->activation_key,
                             family->activations[at].text);
    }
    if (model->family == PEN_FAMILY_OPT)
        pen__config_add_flag(out, "do_layer_norm_before", !model->is_post_norm);
    if (model->family == PEN_FAMILY_DEEPSEEK_V2)
        pen__config_add_word(out, "topk_method",
                             topk_methods[model->num_expert_groups > 0].text);
    if (model->family == PEN_FAMILY_DEEPSEEK_V3)
        pen__config_add_flag(out, "norm_topk_prob", !model->has_plain_gates);
    if (model->family == PEN_FAMILY_QWEN3_MOE) {
        pen__config_add_flag(out, "use_sliding_window", model->window > 0);
        pen__config_add_flag(out, "norm_topk_prob", !model->has_plain_gates);
        print_dense_blocks(model, out);
    }
}
