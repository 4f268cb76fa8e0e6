/*
 * Finds which blocks of a model are alike. Every family has a list of kinds and
 * a number for each block. Families that state a first block and a step get
 * them here; a general decoder may list its blocks one by one
 * (model_block_lists.c).
 */
#include "core/model_internal.h"

#include "base/bug.h"

#include <stdlib.h>

/* ---- asking ---- */

static const struct pen_block image_block = {.mixer = PEN_MIXER_NONE};

uint32_t pen_model_block_kind(const struct pen_model *model, uint32_t block)
{
    PEN_BUG_UNLESS(block < model->num_blocks);
    return model->kind_of_block == NULL ? 0 : model->kind_of_block[block];
}

const struct pen_block *pen_model_block(const struct pen_model *model,
                                        uint32_t block)
{
    uint32_t kind = pen_model_block_kind(model, block);
    return model->kind_of_block == NULL ? &image_block : &model->kinds[kind];
}

bool pen_model_block_is_sparse(const struct pen_model *model, uint32_t block)
{
    return pen_model_block(model, block)->mlp == PEN_MLP_EXPERTS;
}

uint32_t pen_model_window(const struct pen_model *model, uint32_t block)
{
    return pen_model_block(model, block)->window;
}

/* ---- families with a first block and a step ---- */

enum { WITH_WINDOW = 1, WITH_EXPERTS = 2, USUAL_KINDS = 4 };

bool pen__model_has_experts(const struct pen_model *model, uint32_t block)
{
    return model->num_experts > 0 && block >= model->num_dense_blocks &&
           (block + 1) % model->sparse_step == 0;
}

static bool has_window(const struct pen_model *model, uint32_t block)
{
    return model->window > 0 && block >= model->first_window_block &&
           (!model->has_alternate_windows || block % 2 == 0);
}

static uint8_t usual_kind(const struct pen_model *model, uint32_t block)
{
    return (uint8_t)((has_window(model, block) ? WITH_WINDOW : 0) +
                     (pen__model_has_experts(model, block) ? WITH_EXPERTS : 0));
}

bool pen__model_fill_blocks(struct pen_model *model)
{
    if (model->kind_of_block != NULL)
        return true;
    model->kind_of_block = malloc((size_t)model->num_blocks + 1);
    if (model->kind_of_block == NULL)
        return false;
    for (uint32_t i = 0; i < USUAL_KINDS; i++)
        model->kinds[i] = (struct pen_block){
            .mlp = (i & WITH_EXPERTS) != 0 ? PEN_MLP_EXPERTS : PEN_MLP_DENSE,
            .window = (i & WITH_WINDOW) != 0 ? model->window : 0,
            .head_dim = model->head_dim,
            .num_kv_heads = model->num_kv_heads};
    model->num_kinds = USUAL_KINDS;
    for (uint32_t i = 0; i < model->num_blocks; i++)
        model->kind_of_block[i] = usual_kind(model, i);
    model->mtp_kinds[0] = usual_kind(model, model->num_blocks);
    model->num_mtp_kinds = 1;
    model->shared_intermediate =
        model->num_shared_experts * model->expert_intermediate;
    return true;
}

/* ---- printing ---- */

static const char *attention_text(const struct pen_block *block)
{
    if (block->compression > 0)
        return block->is_picked ? "compressed_sparse_attention"
                                : "heavily_compressed_attention";
    if (block->is_picked)
        return "indexed_attention";
    return block->window > 0 ? "sliding_attention" : "full_attention";
}

static const char *mixer_text(const struct pen_block *block)
{
    switch (block->mixer) {
    case PEN_MIXER_ATTENTION:
        return attention_text(block);
    case PEN_MIXER_MAMBA:
        return "mamba";
    case PEN_MIXER_DELTA:
        return "gated_delta";
    case PEN_MIXER_NONE:
        break;
    }
    return "none";
}

static const char *mlp_text(const struct pen_block *block)
{
    return block->mlp == PEN_MLP_NONE    ? "none"
           : block->mlp == PEN_MLP_DENSE ? "dense"
           : block->has_fixed_choice     ? "hash_moe"
                                         : "sparse";
}

static const char *indexer_text(const struct pen_block *block)
{
    return block->has_indexer ? "full" : "shared";
}

static void print_list(const struct pen_model *model, const char *key,
                       const char *(*text)(const struct pen_block *block),
                       struct pen_text *out)
{
    pen_text_add(out, ",\n  \"%s\": [", key);
    for (uint32_t i = 0; i < model->num_blocks; i++)
        pen_text_add(out, "%s\"%s\"", i == 0 ? "" : ", ",
                     text(pen_model_block(model, i)));
    pen_text_add_string(out, "]");
}

static void print_ratios(const struct pen_model *model, struct pen_text *out)
{
    pen_text_add_string(out, ",\n  \"compress_ratios\": [");
    for (uint32_t i = 0; i < model->num_blocks; i++)
        pen_text_add(out, "%u, ", pen_model_block(model, i)->compression);
    pen_text_add(out, "%u]", model->kinds[model->mtp_kinds[0]].compression);
}

void pen__model_print_blocks(const struct pen_model *model,
                             struct pen_text *out)
{
    bool has_ratios = false;
    for (uint32_t i = 0; i < model->num_kinds; i++)
        has_ratios = has_ratios || model->kinds[i].compression > 0;
    print_list(model, "layer_types", mixer_text, out);
    print_list(model, "mlp_layer_types", mlp_text, out);
    if (model->index_topk > 0)
        print_list(model, "indexer_types", indexer_text, out);
    if (has_ratios)
        print_ratios(model, out);
}
