/*
 * A model as config.json, with keys that transformers 4 and 5 both read. The
 * inverse of model_config.c.
 */
#include "core/model.h"

#include "core/config_keys.h"
#include "core/image_model.h"
#include "core/model_internal.h"

static const char *architecture(enum pen_family family)
{
    static const char *const names[] = {
        [PEN_FAMILY_GPT2] = "GPT2LMHeadModel",
        [PEN_FAMILY_LLAMA] = "LlamaForCausalLM",
        [PEN_FAMILY_MISTRAL] = "MistralForCausalLM",
        [PEN_FAMILY_QWEN2] = "Qwen2ForCausalLM",
        [PEN_FAMILY_QWEN3] = "Qwen3ForCausalLM",
        [PEN_FAMILY_OPT] = "OPTForCausalLM",
        [PEN_FAMILY_BLOOM] = "BloomForCausalLM",
        [PEN_FAMILY_GPT_NEOX] = "GPTNeoXForCausalLM",
        [PEN_FAMILY_BERT] = "BertForMaskedLM",
        [PEN_FAMILY_MIXTRAL] = "MixtralForCausalLM",
        [PEN_FAMILY_QWEN3_MOE] = "Qwen3MoeForCausalLM",
        [PEN_FAMILY_DEEPSEEK_V2] = "DeepseekV2ForCausalLM",
        [PEN_FAMILY_DEEPSEEK_V3] = "DeepseekV3ForCausalLM",
        [PEN_FAMILY_GPT_OSS] = "GptOssForCausalLM",
        [PEN_FAMILY_GENERAL] = "DecoderForCausalLM"};
    return names[family];
}

static const char *dtype_word(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_BF16  ? "bfloat16"
           : dtype == PEN_DTYPE_F16 ? "float16"
           : dtype == PEN_DTYPE_F64 ? "float64"
                                    : "float32";
}

static void add_gpt2(const struct pen_model *model, struct pen_text *out)
{
    pen__config_add_count(out, "n_embd", model->hidden);
    pen__config_add_count(out, "n_layer", model->num_blocks);
    pen__config_add_count(out, "n_head", model->num_heads);
    pen__config_add_count(out, "n_positions", model->max_positions);
    pen__config_add_count(out, "n_inner", model->intermediate);
    pen__config_add_word(out, "activation_function", "gelu_new");
    pen__config_add_real(out, "layer_norm_epsilon", model->norm_eps);
    pen__config_add_real(out, "resid_pdrop", 0);
    pen__config_add_real(out, "embd_pdrop", 0);
    pen__config_add_real(out, "attn_pdrop", 0);
}

static void add_yarn(const struct pen_rope *rope, struct pen_text *out)
{
    pen__config_add_count(out, "original_max_position_embeddings",
                          rope->original_positions);
    pen__config_add_real(out, "beta_fast", rope->beta_fast);
    pen__config_add_real(out, "beta_slow", rope->beta_slow);
    if (rope->mscale > 0)
        pen__config_add_real(out, "mscale", rope->mscale);
    if (rope->mscale_all_dim > 0)
        pen__config_add_real(out, "mscale_all_dim", rope->mscale_all_dim);
    if (rope->attention_factor > 0)
        pen__config_add_real(out, "attention_factor", rope->attention_factor);
    if (rope->has_exact_ends)
        pen__config_add_flag(out, "truncate", false);
}

static void add_scaling(const struct pen_model *model, struct pen_text *out)
{
    const struct pen_rope *rope = &model->rope;
    static const char *const types[] = {[PEN_ROPE_LINEAR] = "linear",
                                        [PEN_ROPE_LLAMA3] = "llama3",
                                        [PEN_ROPE_YARN] = "yarn"};
    if (rope->kind < PEN_ROPE_LINEAR) {
        if (model->family == PEN_FAMILY_GPT_OSS) /* else it is YaRN */
            pen_text_add_string(
                out, ",\n  \"rope_scaling\": {\"rope_type\": \"default\"}");
        return;
    }
    bool is_llama3 = rope->kind == PEN_ROPE_LLAMA3;
    pen_text_add(out, ",\n  \"rope_scaling\": {\n  \"rope_type\": \"%s\"",
                 types[rope->kind]);
    pen__config_add_real(out, "factor", rope->factor);
    if (is_llama3) {
        pen__config_add_real(out, "low_freq_factor", rope->low_freq_factor);
        pen__config_add_real(out, "high_freq_factor", rope->high_freq_factor);
        pen__config_add_count(out, "original_max_position_embeddings",
                              rope->original_positions);
    }
    if (rope->kind == PEN_ROPE_YARN)
        add_yarn(rope, out);
    pen_text_add_string(out, "\n  }");
}

static void add_window(const struct pen_model *model, struct pen_text *out)
{
    if (model->family == PEN_FAMILY_LLAMA)
        return;
    if (model->family != PEN_FAMILY_MISTRAL) {
        pen__config_add_flag(out, "use_sliding_window", model->window > 0);
        pen__config_add_count(out, "max_window_layers",
                              model->first_window_block);
    }
    if (model->window > 0)
        pen__config_add_count(out, "sliding_window", model->window);
    else
        pen_text_add_string(out, ",\n  \"sliding_window\": null");
}

static void add_llama(const struct pen_model *model, struct pen_text *out)
{
    pen__config_add_count(out, "hidden_size", model->hidden);
    pen__config_add_count(out, "num_hidden_layers", model->num_blocks);
    pen__config_add_count(out, "num_attention_heads", model->num_heads);
    pen__config_add_count(out, "num_key_value_heads", model->num_kv_heads);
    pen__config_add_count(out, "head_dim", model->head_dim);
    pen__config_add_count(out, "intermediate_size", model->intermediate);
    pen__config_add_count(out, "max_position_embeddings", model->max_positions);
    pen__config_add_word(out, "hidden_act", "silu");
    pen__config_add_real(out, "rms_norm_eps", model->norm_eps);
    if (model->family == PEN_FAMILY_LLAMA)
        pen__config_add_flag(out, "mlp_bias", model->has_mlp_bias);
    if (model->family == PEN_FAMILY_LLAMA || model->family == PEN_FAMILY_QWEN3)
        pen__config_add_flag(out, "attention_bias",
                             model->has_attention_out_bias);
    pen__config_add_real(out, "rope_theta", model->rope.theta);
    add_scaling(model, out);
    add_window(model, out);
}

void pen_model_print(const struct pen_model *model, struct pen_text *out)
{
    if (model->images != NULL) {
        pen_image_model_print(model->images, out);
        return;
    }
    pen_text_add(out, "{\n  \"architectures\": [\"%s\"]",
                 architecture(model->family));
    pen__config_add_word(out, "model_type", pen_model_type(model));
    pen__config_add_word(out, "torch_dtype", dtype_word(model->dtype));
    pen__config_add_count(out, "vocab_size", model->vocab);
    pen__config_add_flag(out, "tie_word_embeddings",
                         model->has_tied_embeddings);
    if (model->family == PEN_FAMILY_GENERAL)
        pen__model_print_general(model, out);
    else if (model->family >= PEN_FAMILY_OPT) {
        pen__model_print_planned(model, out);
        add_scaling(model, out);
    } else if (model->family == PEN_FAMILY_GPT2)
        add_gpt2(model, out);
    else
        add_llama(model, out);
    pen_text_add_string(out, "\n}\n");
}
