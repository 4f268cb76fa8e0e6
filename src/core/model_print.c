/*
 * A model as config.json, with keys that transformers 4 and 5 both read. The
 * inverse of model_config.c.
 */
#include "core/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *architecture(enum pen_family family)
{
    static const char *const names[] = {
        [PEN_FAMILY_GPT2] = "GPT2LMHeadModel",
        [PEN_FAMILY_LLAMA] = "LlamaForCausalLM",
        [PEN_FAMILY_MISTRAL] = "MistralForCausalLM",
        [PEN_FAMILY_QWEN2] = "Qwen2ForCausalLM",
        [PEN_FAMILY_QWEN3] = "Qwen3ForCausalLM"};
    return names[family];
}

static const char *dtype_word(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_BF16  ? "bfloat16"
           : dtype == PEN_DTYPE_F16 ? "float16"
           : dtype == PEN_DTYPE_F64 ? "float64"
                                    : "float32";
}

static void add_word(struct pen_text *out, const char *key, const char *word)
{
    pen_text_add(out, ",\n  \"%s\": \"%s\"", key, word);
}

static void add_count(struct pen_text *out, const char *key, uint32_t count)
{
    pen_text_add(out, ",\n  \"%s\": %u", key, count);
}

static void add_flag(struct pen_text *out, const char *key, bool flag)
{
    pen_text_add(out, ",\n  \"%s\": %s", key, flag ? "true" : "false");
}

/* As short as it can be read back; always a float to Python. */
static void add_real(struct pen_text *out, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    pen_text_add(out, ",\n  \"%s\": %s%s", key, text, is_whole ? ".0" : "");
}

static void add_gpt2(const struct pen_model *model, struct pen_text *out)
{
    add_count(out, "n_embd", model->hidden);
    add_count(out, "n_layer", model->num_blocks);
    add_count(out, "n_head", model->num_heads);
    add_count(out, "n_positions", model->max_positions);
    add_count(out, "n_inner", model->intermediate);
    add_word(out, "activation_function", "gelu_new");
    add_real(out, "layer_norm_epsilon", model->norm_eps);
    add_real(out, "resid_pdrop", 0);
    add_real(out, "embd_pdrop", 0);
    add_real(out, "attn_pdrop", 0);
}

static void add_rope(const struct pen_rope *rope, struct pen_text *out)
{
    add_real(out, "rope_theta", rope->theta);
    if (rope->kind == PEN_ROPE_DEFAULT)
        return;
    bool is_llama3 = rope->kind == PEN_ROPE_LLAMA3;
    pen_text_add(out, ",\n  \"rope_scaling\": {\n  \"rope_type\": \"%s\"",
                 is_llama3 ? "llama3" : "linear");
    add_real(out, "factor", rope->factor);
    if (is_llama3) {
        add_real(out, "low_freq_factor", rope->low_freq_factor);
        add_real(out, "high_freq_factor", rope->high_freq_factor);
        add_count(out, "original_max_position_embeddings",
                  rope->original_positions);
    }
    pen_text_add_string(out, "\n  }");
}

static void add_window(const struct pen_model *model, struct pen_text *out)
{
    if (model->family == PEN_FAMILY_LLAMA)
        return;
    if (model->family != PEN_FAMILY_MISTRAL) {
        add_flag(out, "use_sliding_window", model->window > 0);
        add_count(out, "max_window_layers", model->first_window_block);
    }
    if (model->window > 0)
        add_count(out, "sliding_window", model->window);
    else
        pen_text_add_string(out, ",\n  \"sliding_window\": null");
}

static void add_llama(const struct pen_model *model, struct pen_text *out)
{
    add_count(out, "hidden_size", model->hidden);
    add_count(out, "num_hidden_layers", model->num_blocks);
    add_count(out, "num_attention_heads", model->num_heads);
    add_count(out, "num_key_value_heads", model->num_kv_heads);
    add_count(out, "head_dim", model->head_dim);
    add_count(out, "intermediate_size", model->intermediate);
    add_count(out, "max_position_embeddings", model->max_positions);
    add_word(out, "hidden_act", "silu");
    add_real(out, "rms_norm_eps", model->norm_eps);
    if (model->family == PEN_FAMILY_LLAMA)
        add_flag(out, "mlp_bias", model->has_mlp_bias);
    if (model->family == PEN_FAMILY_LLAMA || model->family == PEN_FAMILY_QWEN3)
        add_flag(out, "attention_bias", model->has_attention_out_bias);
    add_rope(&model->rope, out);
    add_window(model, out);
}

void pen_model_print(const struct pen_model *model, struct pen_text *out)
{
    pen_text_add(out, "{\n  \"architectures\": [\"%s\"]",
                 architecture(model->family));
    add_word(out, "model_type", pen_family_name(model->family));
    add_word(out, "torch_dtype", dtype_word(model->dtype));
    add_count(out, "vocab_size", model->vocab);
    add_flag(out, "tie_word_embeddings", model->has_tied_embeddings);
    if (model->family == PEN_FAMILY_GPT2)
        add_gpt2(model, out);
    else
        add_llama(model, out);
    pen_text_add_string(out, "\n}\n");
}
