#include "export/megatron_options.h"

#include <inttypes.h>
#include <math.h>

#define PROGRAM "Megatron-LM"

/* ---- what has no option ---- */

static bool has_even_biases(const struct pen_model *model)
{
    return model->has_attention_out_bias == model->has_mlp_bias &&
           (!model->has_mlp_bias || model->has_qkv_bias);
}

static bool is_whole(double value)
{
    return value == floor(value);
}

static bool has_own_scaling(const struct pen_rope *rope)
{
    return rope->kind == PEN_ROPE_LLAMA3 &&
           (rope->low_freq_factor != 1 || rope->high_freq_factor != 4 ||
            rope->original_positions != 8192);
}

static bool has_odd_rope(const struct pen_rope *rope)
{
    return !is_whole(rope->theta) ||
           (rope->kind == PEN_ROPE_LINEAR && !is_whole(rope->factor));
}

/* Notes parts on which no layout depends. */
static void note_parts(const struct pen_plan *plan,
                       const struct pen_model *model, struct pen_text *notes)
{
    const struct {
        bool is_there;
        const char *note;
    } parts[] = {
        {!has_even_biases(model),
         "biases exist in all projections, in queries, keys and values, "
         "or in none: other biases are left out"},
        {has_odd_rope(&model->rope),
         "base and factor of rotary positions are integers: they are "
         "rounded"},
        {has_own_scaling(&model->rope),
         "rotary positions are scaled from 8192 on, with factors 1 and "
         "4: only the overall factor is exported"},
        {model->activation == PEN_ACTIVATION_RELU,
         "there is no ReLU: the export uses GELU"},
        {model->family == PEN_FAMILY_BLOOM,
         "there is no ALiBi: the export uses learned positions"},
        {model->has_embedding_norm || model->embedding_dim > 0,
         "there is neither norm nor projection after the embedding: "
         "they are left out"},
        {model->is_post_norm,
         "norms come before the residual sums, not after them"},
        {model->has_parallel_residual,
         "attention and MLP run one after the other, not in parallel"},
        {model->has_attention_sinks, "attention has no sinks"},
        {model->num_mtp_layers > 0 && plan->recipe.mtp_blocks == 0,
         "multi-token prediction layers are left out, because the plan does "
         "not have them (recipe.mtp_blocks)"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].is_there)
            pen__note(notes, "in %s %s", PROGRAM, parts[i].note);
}

pen_status pen__megatron_note_model(const struct pen_plan *plan,
                                    const struct pen_model *model,
                                    struct pen_text *notes,
                                    struct pen_text *why)
{
    if (!pen_model_is_causal(model)) {
        pen_why(why, "%s export supports decoders only; %s is not a decoder",
                PROGRAM, plan->model);
        return PEN_INVALID;
    }
    pen_status status = pen__check_blocks(plan, model, PROGRAM, notes, why);
    if (status == PEN_OK)
        note_parts(plan, model, notes);
    return status;
}

/* ---- options ---- */

void pen__megatron_add_flag(struct pen_text *out, const char *name)
{
    pen_text_add(out, "%s\n", name);
}

void pen__megatron_add_count(struct pen_text *out, const char *name,
                             uint64_t value)
{
    pen_text_add(out, "%s %" PRIu64 "\n", name, value);
}

static void add_real(struct pen_text *out, const char *name, double value)
{
    pen_text_add(out, "%s ", name);
    pen_text_add_real(out, value);
    pen_text_add_string(out, "\n");
}

static void add_positions(const struct pen_model *model, struct pen_text *out)
{
    const struct pen_rope *rope = &model->rope;
    pen__megatron_add_count(out, "--max-position-embeddings",
                            model->max_positions);
    if (rope->kind == PEN_ROPE_NONE) {
        pen__megatron_add_flag(out,
                               "--position-embedding-type learned_absolute");
        return;
    }
    pen__megatron_add_flag(out, "--position-embedding-type rope");
    pen__megatron_add_count(out, "--rotary-base", (uint64_t)round(rope->theta));
    if (rope->share > 0 && rope->share < 1)
        add_real(out, "--rotary-percent", rope->share);
    if (rope->kind == PEN_ROPE_LINEAR)
        pen__megatron_add_count(out, "--rotary-seq-len-interpolation-factor",
                                (uint64_t)round(rope->factor));
    if (rope->kind == PEN_ROPE_LLAMA3) {
        pen__megatron_add_flag(out, "--use-rope-scaling");
        add_real(out, "--rope-scaling-factor", rope->factor);
    }
}

/* Ones and zeros of all blocks, as a list that Python adds up. */
static void add_blocks(const struct pen_model *model, const char *name,
                       bool (*is_one)(const struct pen_model *, uint32_t),
                       struct pen_text *out)
{
    pen_text_add(out, "%s \"(", name);
    for (uint32_t first = 0; first < model->num_blocks;) {
        bool one = is_one(model, first);
        uint32_t last = first + 1;
        while (last < model->num_blocks && is_one(model, last) == one)
            last++;
        pen_text_add(out, "%s[%d]*%u", first == 0 ? "" : "+", one,
                     last - first);
        first = last;
    }
    pen_text_add_string(out, ")\"\n");
}

static bool has_window(const struct pen_model *model, uint32_t block)
{
    return pen_model_window(model, block) > 0;
}

static uint32_t count_blocks(const struct pen_model *model,
                             bool (*is_one)(const struct pen_model *, uint32_t))
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < model->num_blocks; block++)
        count += is_one(model, block);
    return count;
}

static void add_windows(const struct pen_model *model, struct pen_text *out)
{
    uint32_t count = count_blocks(model, has_window);
    if (count == 0)
        return;
    /* The positions before the own one, and after it. */
    pen_text_add(out, "--window-size \"(%u,0)\"\n", model->window - 1);
    if (count < model->num_blocks)
        add_blocks(model, "--window-attn-skip-freq", has_window, out);
}

static void add_latent(const struct pen_model *model, struct pen_text *out)
{
    pen__megatron_add_flag(out, "--multi-latent-attention");
    if (model->q_lora_rank > 0)
        pen__megatron_add_count(out, "--q-lora-rank", model->q_lora_rank);
    pen__megatron_add_count(out, "--kv-lora-rank", model->kv_lora_rank);
    pen__megatron_add_count(out, "--qk-head-dim", model->qk_nope_dim);
    pen__megatron_add_count(out, "--qk-pos-emb-head-dim", model->qk_rope_dim);
    pen__megatron_add_count(out, "--v-head-dim", model->v_head_dim);
}

static void add_attention(const struct pen_model *model, struct pen_text *out)
{
    pen__megatron_add_count(out, "--num-attention-heads", model->num_heads);
    if (model->kv_lora_rank > 0)
        add_latent(model, out);
    else
        pen__megatron_add_count(out, "--kv-channels", model->head_dim);
    if (model->num_kv_heads != model->num_heads && model->kv_lora_rank == 0) {
        pen__megatron_add_flag(out, "--group-query-attention");
        pen__megatron_add_count(out, "--num-query-groups", model->num_kv_heads);
    }
    /*
     * With latent attention this option means the norms of the small vectors.
     */
    if (model->has_qk_norm || model->kv_lora_rank > 0)
        pen__megatron_add_flag(out, "--qk-layernorm");
    add_windows(model, out);
}

static void add_experts(const struct pen_model *model, struct pen_text *out)
{
    if (model->num_experts == 0)
        return;
    pen__megatron_add_count(out, "--num-experts", model->num_experts);
    pen__megatron_add_count(out, "--moe-router-topk", model->experts_per_token);
    pen__megatron_add_count(out, "--moe-ffn-hidden-size",
                            model->expert_intermediate);
    if (count_blocks(model, pen_model_block_is_sparse) < model->num_blocks)
        add_blocks(model, "--moe-layer-freq", pen_model_block_is_sparse, out);
    if (model->num_shared_experts > 0)
        pen__megatron_add_count(out, "--moe-shared-expert-intermediate-size",
                                model->shared_intermediate);
    /*
     * With one expert per token, a softmax after the choice would always give
     * 1.
     */
    if (model->experts_per_token == 1)
        pen__megatron_add_flag(out, "--moe-router-pre-softmax");
    pen__megatron_add_flag(out, "--moe-grouped-gemm");
}

static void add_biases(const struct pen_model *model, struct pen_text *out)
{
    bool has_all = model->has_mlp_bias && has_even_biases(model);
    if (!has_all)
        pen__megatron_add_flag(out, "--disable-bias-linear");
    if (model->has_qkv_bias && !has_all)
        pen__megatron_add_flag(out, "--add-qkv-bias");
}

void pen__megatron_add_model(const struct pen_model *model,
                             struct pen_text *out)
{
    pen__megatron_add_count(out, "--num-layers", model->num_blocks);
    pen__megatron_add_count(out, "--hidden-size", model->hidden);
    if (model->intermediate > 0)
        pen__megatron_add_count(out, "--ffn-hidden-size", model->intermediate);
    add_attention(model, out);
    add_experts(model, out);
    add_positions(model, out);
    pen__megatron_add_count(out, "--vocab-size", model->vocab);
    if (model->norm == PEN_MODEL_NORM_RMS)
        pen__megatron_add_flag(out, "--normalization RMSNorm");
    add_real(out, "--norm-epsilon", model->norm_eps);
    if (model->activation == PEN_ACTIVATION_SILU)
        pen__megatron_add_flag(out, "--swiglu");
    add_biases(model, out);
    if (!model->has_tied_embeddings)
        pen__megatron_add_flag(out, "--untie-embeddings-and-output-weights");
    pen__megatron_add_flag(out, "--attention-dropout 0.0");
    pen__megatron_add_flag(out, "--hidden-dropout 0.0");
}
