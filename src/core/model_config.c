/*
 * config.json of Hugging Face, as transformers 4 and 5 write it.
 *
 * Foreign files carry many keys that mean nothing here: unknown ones are
 * ignored. A key that is absent has the default of the family's class in
 * transformers; null often means something else than absent. Keys that would
 * change the network and are not supported are refused.
 */
#include "core/model.h"

#include "core/config_keys.h"
#include "core/model_internal.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define DEFAULT_WINDOW 4096
#define DEFAULT_MAX_WINDOW_LAYERS 28

/*
 * The defaults of transformers for absent keys; model_planned.c has those of
 * the other families.
 */
struct defaults {
    const char *name;
    uint32_t kv_heads; /* 0: as many as heads */
    uint32_t head_dim; /* 0: hidden / heads */
    double norm_eps;
    bool is_tied;
};

static const struct defaults families[] = {
    [PEN_FAMILY_GPT2] = {"gpt2", 0, 0, 1e-5, true},
    [PEN_FAMILY_LLAMA] = {"llama", 0, 0, 1e-6, false},
    [PEN_FAMILY_MISTRAL] = {"mistral", 8, 0, 1e-6, false},
    [PEN_FAMILY_QWEN2] = {"qwen2", 32, 0, 1e-6, false},
    [PEN_FAMILY_QWEN3] = {"qwen3", 32, 128, 1e-6, false},
    [PEN_FAMILY_OPT] = {"opt", 0, 0, 1e-5, true},
    [PEN_FAMILY_BLOOM] = {"bloom", 0, 0, 1e-5, true},
    [PEN_FAMILY_GPT_NEOX] = {"gpt_neox", 0, 0, 1e-5, false},
    [PEN_FAMILY_BERT] = {"bert", 0, 0, 1e-12, true},
    [PEN_FAMILY_MIXTRAL] = {"mixtral", 0, 0, 1e-5, false},
    [PEN_FAMILY_QWEN3_MOE] = {"qwen3_moe", 0, 0, 1e-6, false},
    [PEN_FAMILY_DEEPSEEK_V2] = {"deepseek_v2", 0, 0, 1e-6, false},
    [PEN_FAMILY_DEEPSEEK_V3] = {"deepseek_v3", 0, 0, 1e-6, false},
    [PEN_FAMILY_GPT_OSS] = {"gpt_oss", 0, 0, 1e-5, false},
    [PEN_FAMILY_GENERAL] = {"", 0, 0, 1e-6, false}};

const char *pen_family_name(enum pen_family family)
{
    return families[family].name;
}

/* Finds a family by its name, or by another name that is used for it. */
static enum pen_family find_family(const char *type)
{
    if (strcmp(type, "kimi_k2") == 0)
        return PEN_FAMILY_DEEPSEEK_V3;
    int family = 0;
    while (family < PEN_FAMILY_GENERAL &&
           strcmp(type, families[family].name) != 0)
        family++;
    return (enum pen_family)family;
}

static pen_status read_dtype(const struct pen__model_part *part,
                             enum pen_dtype *out, struct pen_text *why)
{
    static const struct pen__config_word words[] = {
        {"float32", PEN_DTYPE_F32},
        {"float16", PEN_DTYPE_F16},
        {"bfloat16", PEN_DTYPE_BF16},
        {"float64", PEN_DTYPE_F64}};
    int found = (int)*out;
    /* transformers 5 calls it dtype. */
    const char *key = pen__config_has(&part->text, "dtype") ||
                              (pen__config_has(&part->whole, "dtype") &&
                               !pen__config_has(&part->text, "torch_dtype"))
                          ? "dtype"
                          : "torch_dtype";
    pen_status status = pen__config_word(pen__model_place(part, key), key,
                                         words, COUNT_OF(words), &found, why);
    if (status == PEN_OK)
        *out = (enum pen_dtype)found;
    return status;
}

static pen_status read_llama3(const struct pen_json *json,
                              struct pen_rope *rope, struct pen_text *why)
{
    pen_status status = pen_json_read_integer(
        json, "original_max_position_embeddings", 1, PEN__MAX_POSITIONS,
        &rope->original_positions, why);
    if (status == PEN_OK)
        status = pen__config_number(json, "low_freq_factor", 1e-3, 1e6,
                                    &rope->low_freq_factor, why);
    if (status == PEN_OK)
        status = pen__config_number(json, "high_freq_factor", 1e-3, 1e6,
                                    &rope->high_freq_factor, why);
    if (status != PEN_OK)
        return status;
    if (rope->low_freq_factor > 0 &&
        rope->low_freq_factor < rope->high_freq_factor)
        return PEN_OK;
    pen_why(why,
            "%slow_freq_factor must be given and less than "
            "high_freq_factor",
            json->path);
    return PEN_INVALID;
}

static pen_status read_yarn(const struct pen_json *json, struct pen_rope *rope,
                            struct pen_text *why)
{
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"beta_fast", &rope->beta_fast},
                   {"beta_slow", &rope->beta_slow},
                   {"mscale", &rope->mscale},
                   {"mscale_all_dim", &rope->mscale_all_dim},
                   {"attention_factor", &rope->attention_factor}};
    bool is_truncated = true;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    pen_status status = pen_json_read_integer(
        json, "original_max_position_embeddings", 1, PEN__MAX_POSITIONS,
        &rope->original_positions, why);
    for (size_t i = 0; i < COUNT_OF(numbers) && status == PEN_OK; i++)
        status = pen__config_number(json, numbers[i].key, 0, 1e6,
                                    numbers[i].out, why);
    if (status == PEN_OK)
        status = pen__config_flag(json, "truncate", &is_truncated, why);
    rope->has_exact_ends = !is_truncated;
    if (status != PEN_OK || (rope->beta_fast > 0 && rope->beta_slow > 0))
        return status;
    pen_why(why, "%sbeta_fast and beta_slow must be above 0", json->path);
    return PEN_INVALID;
}

static pen_status read_scaling(const struct pen_json *json, bool has_yarn,
                               struct pen_rope *rope, struct pen_text *why)
{
    static const struct pen__config_word words[] = {
        {"default", PEN_ROPE_DEFAULT},
        {"linear", PEN_ROPE_LINEAR},
        {"llama3", PEN_ROPE_LLAMA3},
        {"yarn", PEN_ROPE_YARN}}; /* the last, for not all have it */
    int kind = PEN_ROPE_DEFAULT;
    double share = 1;
    const char *key = pen__config_has(json, "rope_type") ? "rope_type" : "type";
    pen_status status = pen__config_word(
        json, key, words, COUNT_OF(words) - !has_yarn, &kind, why);
    if (status == PEN_OK)
        status =
            pen__config_number(json, "rope_theta", 1, 1e12, &rope->theta, why);
    if (status == PEN_OK)
        status = pen__config_number(json, "partial_rotary_factor", 1, 1, &share,
                                    why);
    rope->kind = (enum pen_rope_kind)kind;
    if (status != PEN_OK || rope->kind == PEN_ROPE_DEFAULT)
        return status;
    status = pen__config_number(json, "factor", 1, 1e6, &rope->factor, why);
    if (status == PEN_OK && rope->factor < 1) {
        pen_why(why, "%sfactor is missing", json->path);
        return PEN_INVALID;
    }
    if (status == PEN_OK && rope->kind == PEN_ROPE_LLAMA3)
        status = read_llama3(json, rope, why);
    if (status == PEN_OK && rope->kind == PEN_ROPE_YARN)
        status = read_yarn(json, rope, why);
    return status;
}

/* "rope_theta" and "rope_scaling", or both in "rope_parameters"; what is there
 * stays where they say nothing. */
static pen_status read_rope(const struct pen_json *json, bool has_yarn,
                            struct pen_rope *rope, struct pen_text *why)
{
    double share = 1;
    pen_status status =
        pen__config_number(json, "rope_theta", 1, 1e12, &rope->theta, why);
    if (status == PEN_OK)
        status = pen__config_number(json, "partial_rotary_factor", 1, 1, &share,
                                    why);
    const char *key = pen__config_has(json, "rope_parameters")
                          ? "rope_parameters"
                          : "rope_scaling";
    if (status != PEN_OK || !pen__config_has(json, key))
        return status;
    struct pen_json scaling;
    status = pen_json_open(json, key, &scaling, why);
    return status == PEN_OK ? read_scaling(&scaling, has_yarn, rope, why)
                            : status;
}

/* "layer_types": full attention up to some block, windows from there on. */
static pen_status read_layer_types(const struct pen_json *json,
                                   struct pen_model *model,
                                   struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, "layer_types");
    if (!json_is_array(list) || json_array_size(list) != model->num_blocks) {
        pen_why(why, "layer_types must be a list of %u strings",
                model->num_blocks);
        return PEN_INVALID;
    }
    uint32_t num_full = 0;
    for (uint32_t i = 0; i < model->num_blocks; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        bool is_full = word != NULL && strcmp(word, "full_attention") == 0;
        bool is_sliding =
            word != NULL && strcmp(word, "sliding_attention") == 0;
        if (is_full && num_full == i) {
            num_full++;
        } else if (!is_sliding) {
            pen_why(why, "layer_types[%u] must be \"sliding_attention\"%s", i,
                    num_full == i ? " or \"full_attention\""
                                  : " as the layer before it");
            return PEN_INVALID;
        }
    }
    model->first_window_block = num_full;
    return PEN_OK;
}

/* Reads Qwen's windows: only if switched on, and only in the upper blocks. */
static pen_status read_upper_windows(const struct pen_json *json,
                                     struct pen_model *model,
                                     struct pen_text *why)
{
    bool is_on = false;
    pen_status status =
        pen__config_flag(json, "use_sliding_window", &is_on, why);
    if (status != PEN_OK || !is_on)
        return status;
    static const struct pen__config_count window = {
        "sliding_window", DEFAULT_WINDOW, 0, PEN__MAX_POSITIONS};
    status = pen__config_count(json, &window, &model->window, why);
    if (status != PEN_OK || model->window == 0)
        return status;
    if (pen__config_has(json, "layer_types"))
        return read_layer_types(json, model, why);
    model->first_window_block = DEFAULT_MAX_WINDOW_LAYERS;
    if (pen__config_has(json, "max_window_layers"))
        status =
            pen_json_read_integer(json, "max_window_layers", 0, PEN__MAX_BLOCKS,
                                  &model->first_window_block, why);
    return status;
}

static pen_status read_window(const struct pen_json *json,
                              struct pen_model *model, struct pen_text *why)
{
    static const struct pen__config_count window = {
        "sliding_window", DEFAULT_WINDOW, 0, PEN__MAX_POSITIONS};
    switch (model->family) {
    case PEN_FAMILY_MISTRAL:
        return pen__config_count(json, &window, &model->window, why);
    case PEN_FAMILY_QWEN2:
    case PEN_FAMILY_QWEN3:
        return read_upper_windows(json, model, why);
    default:
        return PEN_OK;
    }
}

/* A count that every file must have. */
struct required {
    const char *key;
    uint32_t most;
    uint32_t *out;
};

static pen_status read_required(const struct pen_json *json,
                                const struct required *required, size_t count,
                                struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++)
        status = pen_json_read_integer(json, required[i].key, 1,
                                       required[i].most, required[i].out, why);
    return status;
}

static pen_status check_heads(const struct pen_model *model,
                              struct pen_text *why)
{
    if (model->head_dim == 0 ||
        (uint64_t)model->num_heads * model->head_dim > PEN__MAX_WIDTH) {
        pen_why(why,
                "%u heads do not divide a hidden size of %u, or their total "
                "width is above %u",
                model->num_heads, model->hidden, PEN__MAX_WIDTH);
        return PEN_INVALID;
    }
    if (model->num_heads % model->num_kv_heads != 0) {
        pen_why(why,
                "num_key_value_heads is %u; it must divide the number of "
                "heads, %u",
                model->num_kv_heads, model->num_heads);
        return PEN_INVALID;
    }
    if (model->rope.kind != PEN_ROPE_NONE && model->head_dim % 2 != 0) {
        pen_why(why, "head_dim is %u; it must be even for rotary positions",
                model->head_dim);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* Returns 0 when the heads do not divide the hidden size. */
static uint32_t equal_head_dim(const struct pen_model *model)
{
    bool divides = model->hidden % model->num_heads == 0;
    return divides ? model->hidden / model->num_heads : 0;
}

static void complete_gpt2(struct pen_model *model)
{
    model->num_kv_heads = model->num_heads;
    model->head_dim = equal_head_dim(model);
    model->norm = PEN_MODEL_NORM_LAYER;
    model->activation = PEN_ACTIVATION_GELU_TANH;
    model->has_qkv_bias = true;
    model->has_attention_out_bias = true;
    model->has_mlp_bias = true;
}

static pen_status read_gpt2(const struct pen_json *json,
                            struct pen_model *model, struct pen_text *why)
{
    static const struct pen__config_word activations[] = {
        {"gelu_new", PEN_ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", PEN_ACTIVATION_GELU_TANH}};
    const struct required counts[] = {
        {"n_embd", PEN__MAX_HIDDEN, &model->hidden},
        {"n_layer", PEN__MAX_BLOCKS, &model->num_blocks},
        {"n_head", PEN__MAX_HEADS, &model->num_heads},
        {"n_positions", PEN__MAX_POSITIONS, &model->max_positions}};
    int activation = PEN_ACTIVATION_GELU_TANH;
    pen_status status = read_required(json, counts, COUNT_OF(counts), why);
    if (status == PEN_OK)
        status = pen__config_word(json, "activation_function", activations,
                                  COUNT_OF(activations), &activation, why);
    if (status == PEN_OK)
        status = pen__config_number(json, "layer_norm_epsilon", 0, 1,
                                    &model->norm_eps, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "scale_attn_weights", true, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "scale_attn_by_inverse_layer_idx",
                                    false, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "add_cross_attention", false, why);
    if (status != PEN_OK)
        return status;
    complete_gpt2(model);
    const struct pen__config_count inner = {"n_inner", 4 * model->hidden,
                                            4 * model->hidden, PEN__MAX_WIDTH};
    return pen__config_count(json, &inner, &model->intermediate, why);
}

static pen_status read_llama_heads(const struct pen_json *json,
                                   struct pen_model *model,
                                   struct pen_text *why)
{
    const struct defaults *family = &families[model->family];
    uint32_t equal = equal_head_dim(model);
    const struct pen__config_count kv_heads = {
        "num_key_value_heads",
        family->kv_heads == 0 ? model->num_heads : family->kv_heads,
        model->num_heads, PEN__MAX_HEADS};
    const struct pen__config_count head_dim = {
        "head_dim", family->head_dim == 0 ? equal : family->head_dim, equal,
        PEN__MAX_WIDTH};
    pen_status status =
        pen__config_count(json, &kv_heads, &model->num_kv_heads, why);
    if (status == PEN_OK)
        status = pen__config_count(json, &head_dim, &model->head_dim, why);
    return status;
}

static pen_status read_llama_biases(const struct pen_json *json,
                                    struct pen_model *model,
                                    struct pen_text *why)
{
    bool has_bias = false;
    pen_status status = PEN_OK;
    model->has_qk_norm = model->family == PEN_FAMILY_QWEN3;
    model->has_qkv_bias = model->family == PEN_FAMILY_QWEN2;
    if (model->family == PEN_FAMILY_LLAMA)
        status = pen__config_flag(json, "mlp_bias", &model->has_mlp_bias, why);
    bool has_choice =
        model->family == PEN_FAMILY_LLAMA || model->family == PEN_FAMILY_QWEN3;
    if (status != PEN_OK || !has_choice)
        return status;
    status = pen__config_flag(json, "attention_bias", &has_bias, why);
    model->has_qkv_bias = has_bias;
    model->has_attention_out_bias = has_bias;
    return status;
}

/* Reads Llama and the families that use its keys: Mistral, Qwen. */
static pen_status read_llama(const struct pen_json *json,
                             struct pen_model *model, struct pen_text *why)
{
    static const struct pen__config_word activations[] = {
        {"silu", PEN_ACTIVATION_SILU}, {"swish", PEN_ACTIVATION_SILU}};
    const struct required counts[] = {
        {"hidden_size", PEN__MAX_HIDDEN, &model->hidden},
        {"num_hidden_layers", PEN__MAX_BLOCKS, &model->num_blocks},
        {"num_attention_heads", PEN__MAX_HEADS, &model->num_heads},
        {"intermediate_size", PEN__MAX_WIDTH, &model->intermediate},
        {"max_position_embeddings", PEN__MAX_POSITIONS, &model->max_positions}};
    int activation = PEN_ACTIVATION_SILU;
    model->norm = PEN_MODEL_NORM_RMS;
    model->activation = PEN_ACTIVATION_SILU;
    pen_status status = read_required(json, counts, COUNT_OF(counts), why);
    if (status == PEN_OK)
        status = pen__config_word(json, "hidden_act", activations,
                                  COUNT_OF(activations), &activation, why);
    if (status == PEN_OK)
        status = pen__config_number(json, "rms_norm_eps", 0, 1,
                                    &model->norm_eps, why);
    if (status == PEN_OK)
        status = read_llama_heads(json, model, why);
    if (status == PEN_OK)
        status = read_llama_biases(json, model, why);
    model->rope = (struct pen_rope){.kind = PEN_ROPE_DEFAULT, .theta = 10000};
    if (status == PEN_OK)
        status = read_rope(json, false, &model->rope, why);
    if (status == PEN_OK)
        status = read_window(json, model, why);
    if (status == PEN_OK)
        status = pen__config_demand(json, "use_mrope", false, why);
    return status;
}

static pen_status read_tie(const struct pen__model_part *part,
                           struct pen_model *model, struct pen_text *why)
{
    static const char key[] = "tie_word_embeddings";
    return pen__config_flag(pen__model_place(part, key), key,
                            &model->has_tied_embeddings, why);
}

static pen_status read_general(const struct pen__model_part *part,
                               struct pen_model *model, struct pen_text *why)
{
    static const char *const keys[] = {"vocab_size", "padded_vocab_size",
                                       "n_vocab"};
    pen_status status = PEN_OK;
    model->has_tied_embeddings = pen__model_is_tied(part->type);
    for (size_t i = 0; i < COUNT_OF(keys) && model->vocab == 0; i++)
        if (status == PEN_OK && pen__config_has(&part->text, keys[i]))
            status = pen_json_read_integer(&part->text, keys[i], 1,
                                           PEN__MAX_VOCAB, &model->vocab, why);
    if (status == PEN_OK)
        status = read_tie(part, model, why);
    model->dtype = PEN_DTYPE_BF16;
    (void)read_dtype(part, &model->dtype, NULL);
    return status == PEN_OK
               ? pen__model_read_general(&part->text, part->type, model, why)
               : status;
}

/* Plans do without the scaling of positions: one that is not known is noted. */
static pen_status read_planned(const struct pen_json *json,
                               struct pen_model *model, struct pen_text *why)
{
    pen_status status = pen__model_read_planned(json, model, why);
    bool has_scaling = model->family == PEN_FAMILY_MIXTRAL ||
                       model->family == PEN_FAMILY_QWEN3_MOE ||
                       model->family == PEN_FAMILY_DEEPSEEK_V2 ||
                       model->family == PEN_FAMILY_DEEPSEEK_V3 ||
                       model->family == PEN_FAMILY_GPT_OSS;
    if (status != PEN_OK || !has_scaling)
        return status;
    struct pen_rope rope = model->rope;
    if (read_rope(json, true, &rope, NULL) == PEN_OK)
        model->rope = rope;
    else
        model->rope.is_unknown = true;
    return PEN_OK;
}

static pen_status read_known(const struct pen__model_part *part,
                             struct pen_model *model, struct pen_text *why)
{
    const struct pen_json *json = &part->text;
    model->dtype = PEN_DTYPE_F32;
    model->norm_eps = families[model->family].norm_eps;
    model->has_tied_embeddings = families[model->family].is_tied;
    const struct required vocab = {"vocab_size", PEN__MAX_VOCAB, &model->vocab};
    pen_status status = read_required(json, &vocab, 1, why);
    if (status == PEN_OK)
        status = read_tie(part, model, why);
    if (status == PEN_OK)
        status = read_dtype(part, &model->dtype, why);
    if (status != PEN_OK)
        return status;
    if (model->family >= PEN_FAMILY_OPT)
        return read_planned(json, model, why);
    return model->family == PEN_FAMILY_GPT2 ? read_gpt2(json, model, why)
                                            : read_llama(json, model, why);
}

static pen_status read_model(const struct pen_json *json,
                             struct pen_model *model, struct pen_text *why)
{
    struct pen__model_part part;
    pen_status status = pen__model_open_part(json, &part, why);
    if (status != PEN_OK)
        return status;
    model->family = find_family(part.type);
    status = model->family == PEN_FAMILY_GENERAL
                 ? read_general(&part, model, why)
                 : read_known(&part, model, why);
    model->is_text_part = part.is_part;
    return status == PEN_OK ? check_heads(model, why) : status;
}

pen_status pen_model_parse(const char *text, size_t length,
                           struct pen_model **out, struct pen_text *why)
{
    struct pen_json json;
    struct pen_model model = {.family = PEN_FAMILY_GPT2};
    pen_status status = pen__model_load_keys(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    status = read_model(&json, &model, why);
    json_decref(json.object);
    if (status == PEN_OK)
        return pen__model_create(&model, out, why);
    free(model.kind_of_block);
    return status;
}
