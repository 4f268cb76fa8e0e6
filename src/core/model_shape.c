/*
 * How many parameters the layers of a model have, for every family: sums of
 * matrices, biases and norms. Families that train are listed tensor by tensor
 * in model.c, too; a test compares the two.
 */
#include "core/image_model_cost.h"
#include "core/model.h"

#include "core/model_internal.h"

#include <string.h>

/* The rows that OPT has before its first position. */
#define OPT_POSITION_OFFSET 2

bool pen_model_has_gate(const struct pen_model *model)
{
    return model->activation == PEN_ACTIVATION_SILU ||
           model->activation == PEN_ACTIVATION_GELU_GATED;
}

bool pen_model_is_causal(const struct pen_model *model)
{
    return model->family != PEN_FAMILY_BERT;
}

static uint64_t norm_parameters(const struct pen_model *model, uint64_t width)
{
    return model->norm == PEN_MODEL_NORM_LAYER ? 2 * width : width;
}

static uint64_t mlp_matrices(const struct pen_model *model, uint64_t inner)
{
    return (pen_model_has_gate(model) ? 3 : 2) * inner * model->hidden;
}

static uint64_t mlp_biases(const struct pen_model *model, uint64_t inner)
{
    return (pen_model_has_gate(model) ? 2 : 1) * inner + model->hidden;
}

static uint64_t expert_matrices(const struct pen_model *model)
{
    uint64_t width =
        model->expert_hidden > 0 ? model->expert_hidden : model->hidden;
    return (pen_model_has_gate(model) ? 3 : 2) * width *
           model->expert_intermediate;
}

static uint64_t expert_parameters(const struct pen_model *model)
{
    uint64_t inner = model->expert_intermediate;
    return expert_matrices(model) +
           (model->has_expert_bias ? mlp_biases(model, inner) : 0);
}

/*
 * Returns the matrices that every token uses in addition to its experts: the
 * shared experts, the router, the way to a narrow layer and back.
 */
static uint64_t common_matrices(const struct pen_model *model)
{
    uint64_t hidden = model->hidden;
    return hidden * model->num_experts + 2 * hidden * model->expert_hidden +
           mlp_matrices(model, model->shared_intermediate) +
           (model->has_shared_gate ? hidden : 0);
}

static uint64_t common_vectors(const struct pen_model *model,
                               const struct pen_block *block)
{
    uint64_t sum = 0;
    if (model->has_router_bias && !block->has_fixed_choice)
        sum += model->num_experts;
    if (model->has_mlp_bias && model->shared_intermediate > 0)
        sum += mlp_biases(model, model->shared_intermediate);
    if (model->has_mlp_bias && model->expert_hidden > 0)
        sum += (uint64_t)model->expert_hidden + model->hidden;
    /* Scales of what the router sees and of what it says. */
    if (model->has_side_experts)
        sum += (uint64_t)model->hidden + model->num_experts;
    return sum;
}

static uint64_t mlp_parameters(const struct pen_model *model,
                               const struct pen_block *block)
{
    uint64_t inner = model->intermediate;
    switch (block->mlp) {
    case PEN_MLP_DENSE:
        return mlp_matrices(model, inner) +
               (model->has_mlp_bias ? mlp_biases(model, inner) : 0);
    case PEN_MLP_EXPERTS:
        return common_matrices(model) + common_vectors(model, block) +
               model->num_experts * expert_parameters(model);
    case PEN_MLP_NONE:
        break;
    }
    return 0;
}

static uint64_t num_parts(const struct pen_block *block)
{
    return (block->mixer != PEN_MIXER_NONE ? 1u : 0u) +
           (block->mlp != PEN_MLP_NONE ? 1u : 0u);
}

static uint64_t num_norms(const struct pen_model *model,
                          const struct pen_block *block)
{
    uint64_t sum = num_parts(block) * (model->has_output_norms ? 2 : 1);
    bool has_side = model->has_side_experts && block->mlp == PEN_MLP_EXPERTS;
    return has_side ? sum + 3 : sum;
}

/*
 * Weights of manifold-constrained hyper-connections: all residuals together
 * determine how they are mixed before and after attention or MLP.
 */
static uint64_t stream_weights(const struct pen_model *model)
{
    uint64_t count = model->num_streams;
    return (2 + count) * count;
}

static uint64_t stream_matrices(const struct pen_model *model,
                                const struct pen_block *block)
{
    return num_parts(block) * stream_weights(model) * model->num_streams *
           model->hidden;
}

static uint64_t stream_vectors(const struct pen_model *model,
                               const struct pen_block *block)
{
    return model->num_streams == 0
               ? 0
               : num_parts(block) * (stream_weights(model) + 3);
}

static uint64_t block_parameters(const struct pen_model *model,
                                 const struct pen_block *block)
{
    return pen__mixer_matrices(model, block) +
           pen__mixer_vectors(model, block) + mlp_parameters(model, block) +
           num_norms(model, block) * norm_parameters(model, model->hidden) +
           stream_matrices(model, block) + stream_vectors(model, block);
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

/*
 * Returns the matrices between tokens and blocks where tokens are narrower; or
 * 0.
 */
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

/*
 * Returns the parameters of the layer that BERT has before the output matrix.
 */
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
    if (model->num_streams > 0) /* become one */
        sum += model->num_streams * (hidden * model->num_streams + 1) + 1;
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
        return block_parameters(model, pen_model_block(model, layer - 1)) +
               (pen_model_has_local_head(model, layer)
                    ? pen_model_local_parameters(model)
                    : 0);
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
                       pen_model_block_is_sparse(model, layer - 1);
    return has_experts ? model->num_experts * expert_parameters(model) : 0;
}

/* Counts the blocks of each kind. */
static void count_kinds(const struct pen_model *model,
                        uint32_t counts[PEN_MAX_BLOCK_KINDS])
{
    memset(counts, 0, PEN_MAX_BLOCK_KINDS * sizeof *counts);
    for (uint32_t i = 0; i < model->num_blocks; i++)
        counts[pen_model_block_kind(model, i)]++;
}

uint64_t pen_model_active_parameters(const struct pen_model *model)
{
    uint64_t idle = model->num_experts - model->experts_per_token;
    uint32_t counts[PEN_MAX_BLOCK_KINDS];
    uint64_t num_sparse = 0;
    count_kinds(model, counts);
    for (uint32_t i = 0; i < model->num_kinds; i++)
        if (model->kinds[i].mlp == PEN_MLP_EXPERTS)
            num_sparse += counts[i];
    return model->num_parameters - num_sparse * idle * expert_parameters(model);
}

uint64_t pen_model_mtp_parameters(const struct pen_model *model)
{
    uint64_t hidden = model->hidden;
    if (model->num_mtp_layers == 0)
        return 0;
    /* Two norms side by side, a matrix over both, a block as one more of the
     * model would be, a norm. */
    uint64_t sum = 3 * norm_parameters(model, hidden) + 2 * hidden * hidden;
    for (uint32_t i = 0; i < model->num_mtp_kinds; i++)
        sum += block_parameters(model, &model->kinds[model->mtp_kinds[i]]);
    return sum;
}

uint64_t pen_model_block_products(const struct pen_model *model, uint32_t block)
{
    const struct pen_block *it = pen_model_block(model, block);
    uint64_t sum = pen__mixer_matrices(model, it) + stream_matrices(model, it);
    switch (it->mlp) {
    case PEN_MLP_DENSE:
        return sum + mlp_matrices(model, model->intermediate);
    case PEN_MLP_EXPERTS:
        return sum + common_matrices(model) +
               model->experts_per_token * expert_matrices(model);
    case PEN_MLP_NONE:
        break;
    }
    return sum;
}

uint64_t pen_model_head_products(const struct pen_model *model)
{
    return pen_model_vocab_parameters(model) + width_change(model) +
           head_layer(model) +
           (uint64_t)model->num_streams * model->num_streams * model->hidden;
}

bool pen__model_count(const struct pen_model *model, uint64_t *out)
{
    uint32_t counts[PEN_MAX_BLOCK_KINDS];
    uint64_t sum = embedding_parameters(model) + head_parameters(model);
    double estimate = (double)sum;
    count_kinds(model, counts);
    for (uint32_t i = 0; i < model->num_kinds; i++) {
        uint64_t each = block_parameters(model, &model->kinds[i]);
        estimate += (double)counts[i] * (double)each;
        sum += counts[i] * each;
    }
    *out = sum;
    return estimate <= (double)PEN__MAX_PARAMETERS;
}
