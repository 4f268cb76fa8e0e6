/*
 * Mixers of the positions of a sequence: parameters and flops of attention in
 * all its forms, of Mamba-2 and of gated delta nets.
 *
 * Sources: DeepSeek-V2 (arXiv 2405.04434) for latent attention; DeepSeek-V3.2's
 * report for the indexer; transformers 5.22 for the shapes of DeepSeek V4, GLM
 * 5, MiniMax M3, Nemotron-H and Qwen3.5. A test compares the counts.
 */
#include "core/model.h"

#include "core/model_internal.h"

#include <math.h>

static bool is_latent(const struct pen_model *model)
{
    return model->kv_lora_rank > 0;
}

/* Returns the width of all heads together. */
static uint64_t queries_of(const struct pen_model *model,
                           const struct pen_block *block)
{
    return (uint64_t)model->num_heads * block->head_dim;
}

static uint64_t keys_of(const struct pen_block *block)
{
    return (uint64_t)block->num_kv_heads * block->head_dim;
}

static uint64_t values_of(const struct pen_model *model,
                          const struct pen_block *block)
{
    return is_latent(model) ? (uint64_t)model->num_heads * model->v_head_dim
                            : queries_of(model, block);
}

/* ---- attention ---- */

static uint64_t query_matrices(const struct pen_model *model,
                               const struct pen_block *block)
{
    uint64_t hidden = model->hidden;
    uint64_t queries = queries_of(model, block);
    if (model->q_lora_rank > 0)
        return model->q_lora_rank * (hidden + queries);
    return hidden * queries * (model->has_output_gate ? 2 : 1);
}

/* Keys and values through a narrow layer; one rotated key serves all heads. */
static uint64_t key_matrices(const struct pen_model *model,
                             const struct pen_block *block)
{
    uint64_t hidden = model->hidden;
    if (!is_latent(model))
        return hidden * keys_of(block) * (block->has_shared_values ? 1 : 2);
    uint64_t up = (uint64_t)model->num_heads * model->qk_nope_dim +
                  values_of(model, block);
    return hidden * (model->kv_lora_rank + model->qk_rope_dim) +
           model->kv_lora_rank * up;
}

static uint64_t output_matrices(const struct pen_model *model,
                                const struct pen_block *block)
{
    uint64_t values = values_of(model, block);
    if (model->output_rank == 0)
        return values * model->hidden;
    return model->output_rank *
           (values + (uint64_t)model->output_groups * model->hidden);
}

/* Keys of several positions become one, weighed by a gate; where they are
 * picked, too, neighbours overlap. */
static uint64_t compressor_matrices(const struct pen_model *model,
                                    const struct pen_block *block,
                                    uint64_t width)
{
    uint64_t sides = block->has_indexer ? 2 : 1;
    return 2 * sides * width * model->hidden;
}

static uint64_t compressor_vectors(const struct pen_block *block,
                                   uint64_t width)
{
    uint64_t sides = block->has_indexer ? 2 : 1;
    return sides * width * block->compression + width;
}

/*
 * Returns the matrices of narrow heads that score all keys, so that few need be
 * read.
 */
static uint64_t indexer_matrices(const struct pen_model *model,
                                 const struct pen_block *block)
{
    uint64_t hidden = model->hidden;
    uint64_t from = model->q_lora_rank > 0 ? model->q_lora_rank : hidden;
    uint64_t sum = from * model->index_heads * model->index_dim;
    sum += block->compression > 0
               ? compressor_matrices(model, block, model->index_dim)
               : hidden * model->index_dim;
    return model->has_index_weights ? sum + hidden * model->index_heads : sum;
}

static uint64_t attention_matrices(const struct pen_model *model,
                                   const struct pen_block *block)
{
    uint64_t sum = query_matrices(model, block) + key_matrices(model, block) +
                   output_matrices(model, block);
    if (block->compression > 0)
        sum += compressor_matrices(model, block, block->head_dim);
    return block->has_indexer ? sum + indexer_matrices(model, block) : sum;
}

static uint64_t norm_vectors(const struct pen_model *model,
                             const struct pen_block *block)
{
    uint64_t sum = model->q_lora_rank + (uint64_t)model->kv_lora_rank;
    if (model->has_qk_norm)
        sum += 2 * (uint64_t)block->head_dim;
    if (model->has_wide_qk_norm)
        sum += queries_of(model, block) + keys_of(block);
    if (model->has_key_norm)
        sum += block->head_dim;
    return sum;
}

/* Biases and what else is a vector. */
static uint64_t attention_vectors(const struct pen_model *model,
                                  const struct pen_block *block)
{
    uint64_t keys = keys_of(block) * (block->has_shared_values ? 1 : 2);
    uint64_t queries =
        queries_of(model, block) * (model->has_output_gate ? 2 : 1);
    uint64_t qkv = is_latent(model)
                       ? (uint64_t)model->q_lora_rank + model->kv_lora_rank +
                             model->qk_rope_dim
                       : queries + keys;
    uint64_t sum = norm_vectors(model, block);
    if (model->has_qkv_bias)
        sum += qkv;
    if (model->has_attention_out_bias)
        sum += model->hidden;
    if (model->has_attention_sinks)
        sum += model->num_heads;
    if (block->compression > 0)
        sum += compressor_vectors(block, block->head_dim);
    if (block->has_indexer)
        sum += block->compression > 0
                   ? compressor_vectors(block, model->index_dim)
                   : 2 * (uint64_t)model->index_dim;
    return sum;
}

/* ---- recurrences ---- */

static uint64_t inner_of(const struct pen_recurrence *it)
{
    return (uint64_t)it->num_heads * it->head_dim;
}

/*
 * Returns the width of values, keys and queries, over which a short convolution
 * runs.
 */
static uint64_t conv_width(const struct pen_recurrence *it)
{
    return inner_of(it) + 2 * (uint64_t)it->num_groups * it->state_dim;
}

/* Returns the width above, with a gate and one or two numbers for each head. */
uint64_t pen_model_recurrence_width(const struct pen_model *model,
                                    enum pen_mixer mixer)
{
    const struct pen_recurrence *it = &model->recurrence;
    uint64_t steps =
        (mixer == PEN_MIXER_DELTA ? 2 : 1) * (uint64_t)it->num_heads;
    return conv_width(it) + inner_of(it) + steps;
}

static uint64_t recurrence_matrices(const struct pen_model *model,
                                    enum pen_mixer mixer)
{
    return model->hidden * (pen_model_recurrence_width(model, mixer) +
                            inner_of(&model->recurrence));
}

static uint64_t recurrence_vectors(const struct pen_model *model,
                                   enum pen_mixer mixer)
{
    const struct pen_recurrence *it = &model->recurrence;
    uint64_t sum =
        conv_width(it) * (it->conv_kernel + (it->has_conv_bias ? 1u : 0u));
    if (it->has_bias)
        sum += pen_model_recurrence_width(model, mixer) + model->hidden;
    if (mixer == PEN_MIXER_DELTA)
        return sum + 2 * (uint64_t)it->num_heads + it->head_dim;
    return sum + 3 * (uint64_t)it->num_heads + inner_of(it);
}

/* ---- either ---- */

uint64_t pen__mixer_matrices(const struct pen_model *model,
                             const struct pen_block *block)
{
    switch (block->mixer) {
    case PEN_MIXER_ATTENTION:
        return attention_matrices(model, block);
    case PEN_MIXER_MAMBA:
    case PEN_MIXER_DELTA:
        return recurrence_matrices(model, block->mixer);
    case PEN_MIXER_NONE:
        break;
    }
    return 0;
}

uint64_t pen__mixer_vectors(const struct pen_model *model,
                            const struct pen_block *block)
{
    switch (block->mixer) {
    case PEN_MIXER_ATTENTION:
        return attention_vectors(model, block);
    case PEN_MIXER_MAMBA:
    case PEN_MIXER_DELTA:
        return recurrence_vectors(model, block->mixer);
    case PEN_MIXER_NONE:
        break;
    }
    return 0;
}

/* ---- flops ---- */

/* Pairs (query, key) of one sequence, if a query sees at most `most` keys of
 * those that `step` positions make one of. */
static double seen_pairs(double sequence, double step, double most)
{
    double keys = sequence / step;
    if (most <= 0 || most >= keys)
        return sequence * (keys + 1 / step) / 2;
    double early = most * step; /* positions that see fewer */
    return early * (most + 1 / step) / 2 + (sequence - early) * most;
}

static double attention_pairs(const struct pen_model *model,
                              const struct pen_block *block, double sequence)
{
    if (!pen_model_is_causal(model))
        return sequence * sequence;
    double most = block->is_picked ? model->index_topk : block->window;
    if (block->compression == 0)
        return seen_pairs(sequence, 1, most);
    return seen_pairs(sequence, 1, block->window) +
           seen_pairs(sequence, block->compression,
                      block->is_picked ? model->index_topk : 0);
}

static double attention_flops(const struct pen_model *model,
                              const struct pen_block *block, double sequence)
{
    double width = (double)(queries_of(model, block) + values_of(model, block));
    double flops = 2 * width * attention_pairs(model, block, sequence);
    if (block->has_indexer)
        flops += 2.0 * model->index_heads * model->index_dim *
                 seen_pairs(sequence, fmax(1, block->compression), 0);
    return flops;
}

/* Pairs within a chunk, and the state of each head into it and out of it. */
static double recurrence_flops(const struct pen_recurrence *it, double sequence)
{
    double chunk = fmin(it->chunk, sequence);
    double state = it->state_dim;
    double pairs = chunk * (state + it->head_dim);
    return 2 * sequence * it->num_heads * (pairs + 2 * state * it->head_dim);
}

double pen_model_mixer_flops(const struct pen_model *model,
                             const struct pen_block *block, double sequence)
{
    switch (block->mixer) {
    case PEN_MIXER_ATTENTION:
        return attention_flops(model, block, sequence);
    case PEN_MIXER_MAMBA:
    case PEN_MIXER_DELTA:
        return recurrence_flops(&model->recurrence, sequence);
    case PEN_MIXER_NONE:
        break;
    }
    return 0;
}
