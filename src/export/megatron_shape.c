#include "export/megatron_shape.h"

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

static void add_gpt2(const struct pen__megatron_shape *shape,
                     struct pen_text *out)
{
    add_count(out, "n_embd", shape->hidden);
    add_count(out, "n_layer", shape->num_blocks);
    add_count(out, "n_head", shape->num_heads);
    add_count(out, "n_positions", shape->max_positions);
    add_count(out, "n_inner", shape->intermediate);
    add_real(out, "layer_norm_epsilon", shape->norm_eps);
}

static void add_rope(const struct pen__megatron_words *words,
                     const struct pen__megatron_shape *shape,
                     struct pen_text *out)
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

static void add_window(const struct pen__megatron_shape *shape,
                       struct pen_text *out)
{
    if (shape->window == 0) {
        pen_text_add_string(out, ", \"sliding_window\": null");
        return;
    }
    add_count(out, "sliding_window", shape->window);
    add_flag(out, "use_sliding_window", true);
    add_count(out, "max_window_layers", shape->first_window_block);
}

static void add_latent(const struct pen__megatron_words *words,
                       const struct pen__megatron_shape *shape,
                       struct pen_text *out)
{
    if (pen__megatron_has(words, PEN__MEGATRON_Q_RANK))
        add_count(out, "q_lora_rank", shape->q_lora_rank);
    else
        pen_text_add_string(out, ", \"q_lora_rank\": null");
    add_count(out, "kv_lora_rank", shape->kv_lora_rank);
    add_count(out, "qk_nope_head_dim", shape->qk_nope_dim);
    add_count(out, "qk_rope_head_dim", shape->qk_rope_dim);
    add_count(out, "v_head_dim", shape->v_head_dim);
    add_count(out, "n_routed_experts", shape->num_experts);
    if (shape->shared_intermediate > 0)
        add_count(
            out, "n_shared_experts",
            (shape->shared_intermediate - 1) / shape->expert_intermediate + 1);
    else
        pen_text_add_string(out, ", \"n_shared_experts\": null");
    add_count(out, "first_k_dense_replace", shape->num_dense_blocks);
}

static void add_experts(const struct pen__megatron_words *words,
                        const struct pen__megatron_shape *shape,
                        struct pen_text *out)
{
    if (shape->num_experts == 0)
        return;
    add_count(out, "num_experts_per_tok", shape->experts_per_token);
    if (shape->family == PEN_FAMILY_DEEPSEEK_V3)
        add_latent(words, shape, out);
    else
        add_count(out, "num_experts", shape->num_experts);
    if (shape->family == PEN_FAMILY_MIXTRAL)
        return;
    add_count(out, "moe_intermediate_size", shape->expert_intermediate);
    if (shape->family != PEN_FAMILY_QWEN3_MOE)
        return;
    add_count(out, "decoder_sparse_step", shape->sparse_step);
    pen_text_add_string(out, ", \"mlp_only_layers\": [");
    for (uint32_t i = 0; i < shape->num_dense_blocks; i++)
        pen_text_add(out, "%s%u", i == 0 ? "" : ", ", i);
    pen_text_add_string(out, "]");
}

static void add_llama(const struct pen__megatron_words *words,
                      const struct pen__megatron_shape *shape,
                      struct pen_text *out)
{
    add_count(out, "hidden_size", shape->hidden);
    add_count(out, "num_hidden_layers", shape->num_blocks);
    add_count(out, "num_attention_heads", shape->num_heads);
    add_count(out, "num_key_value_heads", shape->num_kv_heads);
    add_count(out, "head_dim", shape->head_dim);
    add_count(out, "intermediate_size",
              shape->family == PEN_FAMILY_MIXTRAL ? shape->expert_intermediate
                                                  : shape->intermediate);
    add_count(out, "max_position_embeddings", shape->max_positions);
    add_real(out, "rms_norm_eps", shape->norm_eps);
    add_flag(out, "attention_bias", shape->has_all_biases);
    add_flag(out, "mlp_bias", shape->has_all_biases);
    add_rope(words, shape, out);
    add_window(shape, out);
    add_experts(words, shape, out);
}

static const char *dtype_of(const struct pen__megatron_words *words)
{
    return pen__megatron_has(words, PEN__MEGATRON_BF16)   ? "bfloat16"
           : pen__megatron_has(words, PEN__MEGATRON_FP16) ? "float16"
                                                          : "float32";
}

void pen__megatron_shape_print(const struct pen__megatron_words *words,
                               const struct pen__megatron_shape *shape,
                               struct pen_text *out)
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
