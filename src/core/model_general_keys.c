/*
 * The keys of decoders. Files of many families use the same few words for the
 * same things: a row has all of them, the one that Penstock prints first. A
 * printed model is read back as the same model.
 */
#include "core/model_internal.h"

#include "core/config_keys.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum row_kind { COUNT, FLAG, REAL };

#define MAX_NAMES 7

struct row {
    enum row_kind kind;
    size_t offset; /* of the field in a model */
    double most;
    const char *names[MAX_NAMES]; /* the first is printed */
};

#define ROW(kind, field, most, ...)                                            \
    {                                                                          \
        kind, offsetof(struct pen_model, field), most,                         \
        {                                                                      \
            __VA_ARGS__                                                        \
        }                                                                      \
    }
#define HIDDEN PEN__MAX_HIDDEN
#define BLOCKS PEN__MAX_BLOCKS
#define HEADS PEN__MAX_HEADS
#define EXPERTS PEN__MAX_EXPERTS
#define WIDTH PEN__MAX_WIDTH
#define POSITIONS PEN__MAX_POSITIONS
#define SMALL 256

/* clang-format off */
static const struct row rows[] = {
    ROW(COUNT, hidden, HIDDEN, "hidden_size", "n_embd", "d_model", "n_embed", "model_dim", "dim"),
    ROW(COUNT, num_blocks, BLOCKS, "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ROW(COUNT, num_heads, HEADS, "num_attention_heads", "n_head", "n_heads", "num_heads"),
    ROW(COUNT, num_kv_heads, HEADS, "num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    ROW(COUNT, head_dim, WIDTH, "head_dim", "attention_head_dim", "kv_channels", "d_head"),
    ROW(COUNT, intermediate, WIDTH, "dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "ffn_dim", "d_ff", "n_inner"),
    ROW(COUNT, max_positions, POSITIONS, "max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length"),
    ROW(COUNT, window, POSITIONS, "sliding_window", "attention_chunk_size", "sliding_window_size"),
    ROW(COUNT, global_head_dim, WIDTH, "global_head_dim"),
    ROW(COUNT, global_kv_heads, HEADS, "num_global_key_value_heads"),
    ROW(FLAG, has_shared_values, 1, "attention_k_eq_v"),
    ROW(REAL, rope.theta, 1e12, "rope_theta", "rotary_emb_base"),
    ROW(REAL, norm_eps, 1, "rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps", "norm_epsilon"),
    ROW(FLAG, has_qkv_bias, 1, "attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias"),
    ROW(FLAG, has_mlp_bias, 1, "mlp_bias"),
    ROW(FLAG, has_qk_norm, 1, "use_qk_norm", "qk_layernorm"),
    ROW(FLAG, has_output_gate, 1, "attn_output_gate", "attention_output_gate"),
    ROW(COUNT, num_experts, EXPERTS, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
    ROW(COUNT, experts_per_token, EXPERTS, "num_experts_per_tok", "top_k_experts", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_topk", "moe_k"),
    ROW(COUNT, expert_intermediate, WIDTH, "moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "intermediate_size", "ffn_hidden_size", "ffn_dim"),
    ROW(COUNT, shared_intermediate, WIDTH, "shared_intermediate_size", "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
    ROW(COUNT, num_shared_experts, EXPERTS, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    ROW(COUNT, num_dense_blocks, BLOCKS, "first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    ROW(COUNT, sparse_step, BLOCKS, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"),
    ROW(COUNT, expert_hidden, WIDTH, "moe_latent_size"),
    ROW(FLAG, has_router_bias, 1, "use_routing_bias", "moe_router_enable_expert_bias"),
    ROW(COUNT, num_mtp_layers, BLOCKS, "num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
    ROW(COUNT, q_lora_rank, WIDTH, "q_lora_rank"),
    ROW(COUNT, kv_lora_rank, WIDTH, "kv_lora_rank"),
    ROW(COUNT, qk_nope_dim, WIDTH, "qk_nope_head_dim"),
    ROW(COUNT, qk_rope_dim, WIDTH, "qk_rope_head_dim"),
    ROW(COUNT, v_head_dim, WIDTH, "v_head_dim"),
    ROW(COUNT, output_groups, SMALL, "o_groups"),
    ROW(COUNT, output_rank, 1 << 14, "o_lora_rank"),
    ROW(COUNT, index_heads, SMALL, "index_n_heads"),
    ROW(COUNT, index_dim, 1 << 14, "index_head_dim"),
    ROW(COUNT, index_topk, POSITIONS, "index_topk"),
    ROW(COUNT, num_streams, SMALL, "hc_mult"),
    ROW(COUNT, block_input_dim, WIDTH, "hidden_size_per_layer_input"),
    ROW(COUNT, num_kv_shared_blocks, BLOCKS, "num_kv_shared_layers"),
    ROW(COUNT, recurrence.num_heads, HEADS, "mamba_num_heads", "mamba_n_heads", "linear_num_value_heads"),
    ROW(COUNT, recurrence.head_dim, 1 << 14, "mamba_head_dim", "mamba_d_head", "linear_value_head_dim"),
    ROW(COUNT, recurrence.num_groups, SMALL, "n_groups", "mamba_n_groups", "linear_num_key_heads"),
    ROW(COUNT, recurrence.state_dim, 1 << 14, "ssm_state_size", "mamba_d_state", "linear_key_head_dim"),
    ROW(COUNT, recurrence.conv_kernel, SMALL, "conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"),
    ROW(COUNT, recurrence.chunk, 1 << 16, "chunk_size", "mamba_chunk_size"),
    ROW(FLAG, recurrence.has_conv_bias, 1, "use_conv_bias", "mamba_conv_bias"),
    ROW(FLAG, recurrence.has_bias, 1, "use_bias", "mamba_proj_bias"),
};
/* clang-format on */

/* Returns the name under which the object has the row; NULL: under none. */
static const char *find_name(const struct row *row, const struct pen_json *json)
{
    for (size_t i = 0; i < MAX_NAMES && row->names[i] != NULL; i++)
        if (pen__config_has(json, row->names[i]))
            return row->names[i];
    return NULL;
}

static pen_status read_row(const struct row *row, const struct pen_json *json,
                           const char *name, void *field, struct pen_text *why)
{
    switch (row->kind) {
    case COUNT:
        return pen_json_read_integer(json, name, 0, (uint32_t)row->most, field,
                                     why);
    case FLAG:
        return pen_json_read_boolean(json, name, field, why);
    case REAL:
        break;
    }
    return pen__config_number(json, name, 0, row->most, field, why);
}

pen_status pen__model_read_keys(const struct pen_json *json,
                                struct pen_model *model, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(rows); i++) {
        const char *name = find_name(&rows[i], json);
        if (name != NULL)
            status = read_row(&rows[i], json, name,
                              (char *)model + rows[i].offset, why);
    }
    return status;
}

static void print_row(const struct pen_model *model, const struct row *row,
                      struct pen_text *out)
{
    const void *field = (const char *)model + row->offset;
    switch (row->kind) {
    case COUNT:
        pen__config_add_count(out, row->names[0], *(const uint32_t *)field);
        return;
    case FLAG:
        pen__config_add_flag(out, row->names[0], *(const bool *)field);
        return;
    case REAL:
        pen__config_add_real(out, row->names[0], *(const double *)field);
        return;
    }
}

static const struct activation {
    const char *text; /* how its words begin */
    enum pen_activation value;
} activations[] = {{"silu", PEN_ACTIVATION_SILU},
                   {"geglu", PEN_ACTIVATION_GELU_GATED},
                   {"gelu", PEN_ACTIVATION_GELU},
                   {"relu2", PEN_ACTIVATION_RELU_SQUARE},
                   {"relu", PEN_ACTIVATION_RELU},
                   {"squared_relu", PEN_ACTIVATION_RELU_SQUARE}};

static const char *activation_text(enum pen_activation activation)
{
    size_t at = 0;
    while (activations[at].value != activation)
        at++;
    return activations[at].text;
}

/* Gated where the word is another; the name that Gemma has means it, too. */
enum pen_activation pen__model_read_activation(const struct pen_json *json)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation",
                                       "mlp_hidden_act", "activation_function",
                                       "activation"};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        const char *text =
            json_string_value(json_object_get(json->object, keys[i]));
        for (size_t j = 0; text != NULL && j < COUNT_OF(activations); j++) {
            const char *word = activations[j].text;
            if (strncmp(text, word, strlen(word)) != 0)
                continue;
            bool is_gated = strcmp(keys[i], "hidden_activation") == 0 &&
                            activations[j].value == PEN_ACTIVATION_GELU;
            return is_gated ? PEN_ACTIVATION_GELU_GATED : activations[j].value;
        }
        if (text != NULL)
            return PEN_ACTIVATION_SILU;
    }
    return PEN_ACTIVATION_SILU;
}

void pen__model_print_general(const struct pen_model *model,
                              struct pen_text *out)
{
    bool is_rms = model->norm == PEN_MODEL_NORM_RMS;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (is_rms || rows[i].offset != offsetof(struct pen_model, norm_eps))
            print_row(model, &rows[i], out);
    if (!is_rms)
        pen__config_add_real(out, "layer_norm_eps", model->norm_eps);
    pen__config_add_word(out, "hidden_act", activation_text(model->activation));
    pen__model_print_blocks(model, out);
}
