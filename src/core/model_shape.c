/*
 * How many parameters the layers of a model have, for every family: sums of
 * matrices, biases and norms. What trains is listed tensor by tensor in
 * model.c, too; a test compares the two.
 */
#include "core/image_model_cost.h"
#include "core/model.h"

#include "core/model_internal.h"

#include "base/bug.h"

/* The rows that OPT has before its first position. */
#define OPT_POSITION_OFFSET 2

static bool is_latent(const struct pen_model *model)
{
    return model->kv_lora_rank > 0;
}

bool pen_model_has_gate(const struct pen_model *model)
{
    return model->activation == PEN_ACTIVATION_SILU;
}

bool pen_model_is_causal(const struct pen_model *model)
{
    return model->family != PEN_FAMILY_BERT;
}

static bool is_sparse(const struct pen_model *model, uint32_t block)
{
    return model->num_experts > 0 && block >= model->num_dense_blocks &&
           (block + 1) % model->sparse_step == 0;
}

bool pen_model_block_is_sparse(const struct pen_model *model, uint32_t block)
{
    PEN_BUG_UNLESS(block < model->num_blocks);
    return is_sparse(model, block);
}

uint32_t pen_model_window(const struct pen_model *model, uint32_t block)
{
    bool has_window = block >= model->first_window_block &&
                      (!model->has_alternate_windows || block % 2 == 0);
    return has_window ? model->window : 0;
}

static uint64_t norm_parameters(const struct pen_model *model, uint64_t width)
{
    return model->norm == PEN_MODEL_NORM_LAYER ? 2 * width : width;
}

static uint64_t queries_of(const struct pen_model *model)
{
    return (uint64_t)model->num_heads * model->head_dim;
}

static uint64_t keys_of(const struct pen_model *model)
{
    return (uint64_t)model->num_kv_heads * model->head_dim;
}

static uint64_t values_of(const struct pen_model *model)
{
    return (uint64_t)model->num_heads * model->v_head_dim;
}

/* DeepSeek-V2 (arXiv 2405.04434), section 2.1: queries, then keys and values,
 * each through a narrow layer; one rotated key serves all heads. */
static uint64_t latent_matrices(const struct pen_model *model)
{
    uint64_t hidden = model->hidden;
    uint64_t from_queries =
        model->q_lora_rank == 0
            ? hidden * queries_of(model)
            : model->q_lora_rank * (hidden + queries_of(model));
    uint64_t down = hidden * (model->kv_lora_rank + model->qk_rope_dim);
    uint64_t up =
        model->kv_lora_rank *
        ((uint64_t)model->num_heads * model->qk_nope_dim + values_of(model));
    return from_queries + down + up + values_of(model) * hidden;
}

static uint64_t attention_matrices(const struct pen_model *model)
{
    if (is_latent(model))
        return latent_matrices(model);
    uint64_t hidden = model->hidden;
    return hidden * (queries_of(model) + 2 * keys_of(model)) +
           queries_of(model) * hidden;
}

/* Biases and what else is a vector. */
static uint64_t attention_vectors(const struct pen_model *model)
{
    uint64_t qkv = is_latent(model)
                       ? (uint64_t)model->q_lora_rank + model->kv_lora_rank +
                             model->qk_rope_dim
                       : queries_of(model) + 2 * keys_of(model);
    uint64_t sum = model->has_qkv_bias ? qkv : 0;
    if (is_latent(model))
        sum += (uint64_t)model->q_lora_rank + model->kv_lora_rank;
    if (model->has_attention_out_bias)
        sum += model->hidden;
    if (model->has_qk_norm)
        sum += 2 * (uint64_t)model->head_dim;
    if (model->has_attention_sinks)
        sum += model->num_heads;
    return sum;
}

static uint64_t mlp_matrices(const struct pen_model *model, uint64_t inner)
{
    return (pen_model_has_gate(model) ? 3 : 2) * inner * model->hidden;
}

static uint64_t mlp_biases(const struct pen_model *model, uint64_t inner)
{
    return (pen_model_has_gate(model) ? 2 : 1) * inner + model->hidden;
}

static uint64_t expert_parameters(const struct pen_model *model)
{
    uint64_t inner = model->expert_intermediate;
    return mlp_matrices(model, inner) +
           (model->has_expert_bias ? mlp_biases(model, inner) : 0);
}

static uint64_t shared_matrices(const struct pen_model *model)
{
    return mlp_matrices(model, (uint64_t)model->num_shared_experts *
                                   model->expert_intermediate);
}

static uint64_t block_parameters(const struct pen_model *model,
                                 bool has_experts)
{
    uint64_t sum = attention_matrices(model) + attention_vectors(model) +
                   2 * norm_parameters(model, model->hidden);
    if (!has_experts) {
        uint64_t inner = model->intermediate;
        return sum + mlp_matrices(model, inner) +
               (model->has_mlp_bias ? mlp_biases(model, inner) : 0);
    }
    uint64_t router = (uint64_t)model->num_experts *
                      (model->hidden + (model->has_router_bias ? 1u : 0u));
    return sum + router + shared_matrices(model) +
           model->num_experts * expert_parameters(model);
}

static uint64_t learnt_positions(const struct pen_model *model)
{
    switch (model->family) {
    case PEN_FAMILY_GPT2:
    case PEN_FAMILY_BERT:
        return model->max_positions;
    case PEN_FAMILY_OPT:
        return (uint64_t)model->max_positions + OPT_POSITION_OFFSET;
    default:
        return 0;
    }
}

/* Between tokens that are narrower than the blocks, and these; or 0. */
static uint64_t width_change(const struct pen_model *model)
{
    return (uint64_t)model->embedding_dim * model->hidden;
}

uint64_t pen_model_vocab_parameters(const struct pen_model *model)
{
    uint32_t width =
        model->embedding_dim > 0 ? model->embedding_dim : model->hidden;
    return (uint64_t)model->vocab * width;
}

static uint64_t embedding_parameters(const struct pen_model *model)
{
    uint64_t rows = learnt_positions(model) + model->num_token_types;
    return pen_model_vocab_parameters(model) + width_change(model) +
           rows * model->hidden +
           (model->has_embedding_norm ? norm_parameters(model, model->hidden)
                                      : 0);
}

/* What BERT has before the output matrix. */
static uint64_t head_layer(const struct pen_model *model)
{
    return model->family == PEN_FAMILY_BERT
               ? (uint64_t)model->hidden * model->hidden
               : 0;
}

static uint64_t head_parameters(const struct pen_model *model)
{
    uint64_t hidden = model->hidden;
    uint64_t sum = width_change(model) + head_layer(model);
    if (!model->is_post_norm)
        sum += norm_parameters(model, hidden);
    if (!model->has_tied_embeddings)
        sum += pen_model_vocab_parameters(model);
    /* Bias and norm of that layer, and the bias of the output matrix. */
    if (model->family == PEN_FAMILY_BERT)
        sum += hidden + norm_parameters(model, hidden) + model->vocab;
    return sum;
}

uint64_t pen_model_layer_parameters(const struct pen_model *model,
                                    uint32_t layer)
{
    if (model->images != NULL)
        return pen_image_layer_parameters(model->images, layer);
    switch (pen_model_layer_kind(model, layer)) {
    case PEN_LAYER_EMBEDDING:
        return embedding_parameters(model);
    case PEN_LAYER_BLOCK:
        return block_parameters(model, is_sparse(model, layer - 1));
    case PEN_LAYER_HEAD:
    case PEN_LAYER_KINDS:
        break;
    }
    return head_parameters(model);
}

uint64_t pen_model_expert_parameters(const struct pen_model *model,
                                     uint32_t layer)
{
    bool has_experts = pen_model_layer_kind(model, layer) == PEN_LAYER_BLOCK &&
                       is_sparse(model, layer - 1);
    return has_experts ? model->num_experts * expert_parameters(model) : 0;
}

/* Blocks with experts. */
static uint32_t num_sparse_blocks(const struct pen_model *model)
{
    if (model->num_experts == 0 || model->num_dense_blocks > model->num_blocks)
        return 0;
    return model->num_blocks / model->sparse_step -
           model->num_dense_blocks / model->sparse_step;
}

uint64_t pen_model_active_parameters(const struct pen_model *model)
{
    uint64_t idle = model->num_experts - model->experts_per_token;
    return model->num_parameters -
           num_sparse_blocks(model) * idle * expert_parameters(model);
}

uint64_t pen_model_mtp_parameters(const struct pen_model *model)
{
    uint64_t hidden = model->hidden;
    if (model->num_mtp_layers == 0)
        return 0;
    /* Two norms side by side, a matrix over both, a block as one more of the
     * model would be, a norm. */
    return 3 * norm_parameters(model, hidden) + 2 * hidden * hidden +
           block_parameters(model, is_sparse(model, model->num_blocks));
}

uint64_t pen_model_block_products(const struct pen_model *model, uint32_t block)
{
    uint64_t sum = attention_matrices(model);
    if (!pen_model_block_is_sparse(model, block))
        return sum + mlp_matrices(model, model->intermediate);
    return sum + (uint64_t)model->num_experts * model->hidden +
           shared_matrices(model) +
           model->experts_per_token *
               mlp_matrices(model, model->expert_intermediate);
}

uint64_t pen_model_head_products(const struct pen_model *model)
{
    return pen_model_vocab_parameters(model) + width_change(model) +
           head_layer(model);
}

bool pen__model_count(const struct pen_model *model, uint64_t *out)
{
    uint32_t num_sparse = num_sparse_blocks(model);
    uint32_t num_dense = model->num_blocks - num_sparse;
    uint64_t ends = embedding_parameters(model) + head_parameters(model);
    uint64_t sparse = block_parameters(model, true);
    uint64_t dense = block_parameters(model, false);
    double estimate = (double)ends + (double)num_sparse * (double)sparse +
                      (double)num_dense * (double)dense;
    if (estimate > (double)PEN__MAX_PARAMETERS)
        return false;
    *out = ends + num_sparse * sparse + num_dense * dense;
    return true;
}
