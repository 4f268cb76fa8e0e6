/*
 * Options to a config.json, which core/model_config.c then judges. What is not
 * given has the default of Megatron-LM.
 */
#include "export/megatron_model.h"

#include "export/export_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_COUNT (1u << 30)
#define DEFAULT_VOCAB 128000u

struct shape {
    enum pen_family family;
    uint32_t num_blocks;
    uint32_t hidden;
    uint32_t intermediate;
    uint32_t num_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;
    uint32_t max_positions;
    uint32_t vocab;
    uint32_t window;
    uint32_t first_window_block;
    uint32_t rotary_base;
    uint32_t rotary_factor;
    double rope_factor;
    double norm_eps;
    bool has_rope;
    bool has_all_biases;
};

/* ---- what is given ---- */

static pen_status require(const struct pen__megatron_words *words,
                          struct pen_text *why)
{
    static const struct {
        enum pen__megatron_option option;
        const char *name;
    } needed[] = {{PEN__MEGATRON_NUM_LAYERS, "num-layers"},
                  {PEN__MEGATRON_HIDDEN_SIZE, "hidden-size"},
                  {PEN__MEGATRON_NUM_HEADS, "num-attention-heads"},
                  {PEN__MEGATRON_SEQ_LENGTH, "seq-length"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!pen__megatron_has(words, needed[i].option)) {
            pen_why(why, "--%s is missing", needed[i].name);
            return PEN_INVALID;
        }
    if (pen__megatron_has(words, PEN__MEGATRON_NUM_EXPERTS) ||
        pen__megatron_has(words, PEN__MEGATRON_LATENT)) {
        pen_why(why, "mixtures of experts and latent attention cannot be read "
                     "from a Megatron line yet");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status read_counts(const struct pen__megatron_words *words,
                              struct shape *shape, struct pen_text *why)
{
    const struct {
        enum pen__megatron_option option;
        uint32_t *out;
    } counts[] = {{PEN__MEGATRON_NUM_LAYERS, &shape->num_blocks},
                  {PEN__MEGATRON_HIDDEN_SIZE, &shape->hidden},
                  {PEN__MEGATRON_FFN_HIDDEN_SIZE, &shape->intermediate},
                  {PEN__MEGATRON_NUM_HEADS, &shape->num_heads},
                  {PEN__MEGATRON_QUERY_GROUPS, &shape->num_kv_heads},
                  {PEN__MEGATRON_KV_CHANNELS, &shape->head_dim},
                  {PEN__MEGATRON_SEQ_LENGTH, &shape->max_positions},
                  {PEN__MEGATRON_MAX_POSITIONS, &shape->max_positions},
                  {PEN__MEGATRON_PADDED_VOCAB, &shape->vocab},
                  {PEN__MEGATRON_VOCAB_SIZE, &shape->vocab},
                  {PEN__MEGATRON_ROTARY_BASE, &shape->rotary_base},
                  {PEN__MEGATRON_ROTARY_FACTOR, &shape->rotary_factor}};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < sizeof counts / sizeof *counts;
         i++)
        status = pen__megatron_count(words, counts[i].option, MAX_COUNT,
                                     counts[i].out, why);
    if (status == PEN_OK)
        status = pen__megatron_real(words, PEN__MEGATRON_NORM_EPSILON,
                                    &shape->norm_eps, why);
    if (status == PEN_OK)
        status = pen__megatron_real(words, PEN__MEGATRON_ROPE_FACTOR,
                                    &shape->rope_factor, why);
    return status;
}

/* "(4095,0)": positions before the own one. "([0]*20+[1]*4)": which blocks. */
static pen_status read_window(const struct pen__megatron_words *words,
                              struct shape *shape, struct pen_text *why)
{
    unsigned before = 0;
    unsigned first = 0;
    char end = '\0';
    const char *size = words->values[PEN__MEGATRON_WINDOW_SIZE];
    const char *skip = words->values[PEN__MEGATRON_WINDOW_SKIP];
    if (size == NULL)
        return PEN_OK;
    if (strlen(size) > 20 || sscanf(size[0] == '(' ? size + 1 : size, "%9u,0%c",
                                    &before, &end) < 1) {
        pen_why(why, "--window-size must be as (4095,0)");
        return PEN_INVALID;
    }
    shape->window = before + 1;
    if (skip == NULL)
        return PEN_OK;
    if (strlen(skip) > 60 ||
        sscanf(skip, "([0]*%9u+[1]*%c", &first, &end) < 2) {
        pen_why(why, "--window-attn-skip-freq must be as ([0]*20+[1]*4)");
        return PEN_INVALID;
    }
    shape->first_window_block = first;
    return PEN_OK;
}

/* ---- what follows ---- */

static uint32_t default_vocab(const struct pen__megatron_words *words,
                              struct pen_text *notes)
{
    if (pen__megatron_is(words, PEN__MEGATRON_TOKENIZER, "GPT2BPETokenizer"))
        return 50257;
    if (pen__megatron_is(words, PEN__MEGATRON_TOKENIZER, "Llama2Tokenizer"))
        return 32000;
    pen__note(notes, "the vocabulary is not among the options: %u is assumed",
              DEFAULT_VOCAB);
    return DEFAULT_VOCAB;
}

static void complete(const struct pen__megatron_words *words,
                     struct shape *shape, struct pen_text *notes)
{
    bool is_gated = pen__megatron_has(words, PEN__MEGATRON_SWIGLU);
    if (shape->intermediate == 0)
        shape->intermediate =
            is_gated ? shape->hidden * 8 / 3 / 64 * 64 : 4 * shape->hidden;
    if (!pen__megatron_has(words, PEN__MEGATRON_GROUP_QUERY))
        shape->num_kv_heads = shape->num_heads;
    else if (shape->num_kv_heads == 0)
        shape->num_kv_heads = 1;
    if (shape->head_dim == 0)
        shape->head_dim = shape->hidden / shape->num_heads;
    if (shape->vocab == 0)
        shape->vocab = default_vocab(words, notes);
    shape->has_rope =
        pen__megatron_is(words, PEN__MEGATRON_POSITION_TYPE, "rope") ||
        pen__megatron_has(words, PEN__MEGATRON_USE_ROTARY);
    shape->has_all_biases = !pen__megatron_has(words, PEN__MEGATRON_NO_BIAS);
}

static enum pen_family choose_family(const struct pen__megatron_words *words,
                                     const struct shape *shape)
{
    if (!pen__megatron_has(words, PEN__MEGATRON_SWIGLU))
        return PEN_FAMILY_GPT2;
    if (pen__megatron_has(words, PEN__MEGATRON_QK_NORM))
        return PEN_FAMILY_QWEN3;
    if (shape->has_all_biases)
        return PEN_FAMILY_LLAMA;
    if (pen__megatron_has(words, PEN__MEGATRON_QKV_BIAS) ||
        (shape->window > 0 && shape->first_window_block > 0))
        return PEN_FAMILY_QWEN2;
    return shape->window > 0 ? PEN_FAMILY_MISTRAL : PEN_FAMILY_LLAMA;
}

/* The family has one answer to each; a line may have another. */
static void note_family(const struct pen__megatron_words *words,
                        const struct shape *shape, struct pen_text *notes)
{
    bool is_gpt2 = shape->family == PEN_FAMILY_GPT2;
    bool has_rms =
        pen__megatron_is(words, PEN__MEGATRON_NORMALIZATION, "RMSNorm");
    const char *name = pen_family_name(shape->family);
    if (shape->has_rope == is_gpt2)
        pen__note(notes, "positions are counted as those of %s", name);
    if (has_rms == is_gpt2)
        pen__note(notes, "norms are counted as those of %s", name);
    if (is_gpt2 && shape->num_kv_heads != shape->num_heads)
        pen__note(notes, "groups of queries are not counted with %s", name);
    if (shape->window > 0 && (is_gpt2 || shape->family == PEN_FAMILY_LLAMA))
        pen__note(notes, "the window is not counted with %s", name);
    bool has_own_biases =
        is_gpt2 ? !shape->has_all_biases
                : shape->family == PEN_FAMILY_QWEN3 &&
                      (shape->has_all_biases ||
                       pen__megatron_has(words, PEN__MEGATRON_QKV_BIAS));
    if (has_own_biases)
        pen__note(notes, "biases are counted as those of %s", name);
}

/* ---- the config ---- */

static void add_count(struct pen_text *out, const char *key, uint32_t value)
{
    pen_text_add(out, ", \"%s\": %u", key, value);
}

static void add_flag(struct pen_text *out, const char *key, bool flag)
{
    pen_text_add(out, ", \"%s\": %s", key, flag ? "true" : "false");
}

static void add_real(struct pen_text *out, const char *key, double value)
{
    pen_text_add(out, ", \"%s\": ", key);
    pen_text_add_real(out, value);
}

static void add_gpt2(const struct shape *shape, struct pen_text *out)
{
    add_count(out, "n_embd", shape->hidden);
    add_count(out, "n_layer", shape->num_blocks);
    add_count(out, "n_head", shape->num_heads);
    add_count(out, "n_positions", shape->max_positions);
    add_count(out, "n_inner", shape->intermediate);
    add_real(out, "layer_norm_epsilon", shape->norm_eps);
}

static void add_rope(const struct pen__megatron_words *words,
                     const struct shape *shape, struct pen_text *out)
{
    add_count(out, "rope_theta", shape->rotary_base);
    if (pen__megatron_has(words, PEN__MEGATRON_ROPE_SCALING)) {
        pen_text_add_string(out, ", \"rope_scaling\": {\"rope_type\": "
                                 "\"llama3\", \"low_freq_factor\": 1.0, "
                                 "\"high_freq_factor\": 4.0, "
                                 "\"original_max_position_embeddings\": 8192");
        add_real(out, "factor", shape->rope_factor);
        pen_text_add_string(out, "}");
    } else if (shape->rotary_factor > 0) {
        pen_text_add(out,
                     ", \"rope_scaling\": {\"rope_type\": \"linear\", "
                     "\"factor\": %u.0}",
                     shape->rotary_factor);
    }
}

static void add_window(const struct shape *shape, struct pen_text *out)
{
    if (shape->window == 0) {
        pen_text_add_string(out, ", \"sliding_window\": null");
        return;
    }
    add_count(out, "sliding_window", shape->window);
    add_flag(out, "use_sliding_window", true);
    add_count(out, "max_window_layers", shape->first_window_block);
}

static void add_llama(const struct pen__megatron_words *words,
                      const struct shape *shape, struct pen_text *out)
{
    add_count(out, "hidden_size", shape->hidden);
    add_count(out, "num_hidden_layers", shape->num_blocks);
    add_count(out, "num_attention_heads", shape->num_heads);
    add_count(out, "num_key_value_heads", shape->num_kv_heads);
    add_count(out, "head_dim", shape->head_dim);
    add_count(out, "intermediate_size", shape->intermediate);
    add_count(out, "max_position_embeddings", shape->max_positions);
    add_real(out, "rms_norm_eps", shape->norm_eps);
    add_flag(out, "attention_bias", shape->has_all_biases);
    add_flag(out, "mlp_bias", shape->has_all_biases);
    add_rope(words, shape, out);
    add_window(shape, out);
}

static const char *dtype_of(const struct pen__megatron_words *words)
{
    return pen__megatron_has(words, PEN__MEGATRON_BF16)   ? "bfloat16"
           : pen__megatron_has(words, PEN__MEGATRON_FP16) ? "float16"
                                                          : "float32";
}

static void print_config(const struct pen__megatron_words *words,
                         const struct shape *shape, struct pen_text *out)
{
    pen_text_add(out, "{\"model_type\": \"%s\", \"torch_dtype\": \"%s\"",
                 pen_family_name(shape->family), dtype_of(words));
    add_count(out, "vocab_size", shape->vocab);
    add_flag(out, "tie_word_embeddings",
             !pen__megatron_has(words, PEN__MEGATRON_UNTIE));
    if (shape->family == PEN_FAMILY_GPT2)
        add_gpt2(shape, out);
    else
        add_llama(words, shape, out);
    pen_text_add_string(out, "}");
}

pen_status pen__megatron_model(const struct pen__megatron_words *words,
                               struct pen_model **out, struct pen_text *notes,
                               struct pen_text *why)
{
    struct shape shape = {
        .rotary_base = 10000, .rope_factor = 8, .norm_eps = 1e-5};
    struct pen_text config = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = require(words, why);
    if (status == PEN_OK)
        status = read_counts(words, &shape, why);
    if (status == PEN_OK)
        status = read_window(words, &shape, why);
    if (status != PEN_OK)
        return status;
    complete(words, &shape, notes);
    shape.family = choose_family(words, &shape);
    note_family(words, &shape, notes);
    print_config(words, &shape, &config);
    status =
        pen_model_parse(pen_text_string(&config), config.length, out, &reason);
    if (status != PEN_OK)
        pen_why(why, "the model of the line: %s", pen_text_string(&reason));
    pen_text_release(&reason);
    pen_text_release(&config);
    return status;
}
