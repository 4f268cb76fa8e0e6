/*
 * Turns options into the sizes of a model, and those into a config.json, which
 * core/model_config.c then checks. A missing option has the default of
 * Megatron-LM.
 */
#include "export/megatron_model.h"

#include "export/export_internal.h"
#include "export/megatron_pattern.h"
#include "export/megatron_shape.h"

#include <stdio.h>
#include <string.h>

#define MAX_COUNT (1u << 30)
#define DEFAULT_VOCAB 128000u

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
    if (pen__megatron_has(words, PEN__MEGATRON_LATENT) &&
        !pen__megatron_has(words, PEN__MEGATRON_NUM_EXPERTS)) {
        pen_why(why, "latent attention is supported with experts only");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status read_counts(const struct pen__megatron_words *words,
                              struct pen__megatron_shape *shape,
                              struct pen_text *why)
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
                  {PEN__MEGATRON_ROTARY_FACTOR, &shape->rotary_factor},
                  {PEN__MEGATRON_NUM_EXPERTS, &shape->num_experts},
                  {PEN__MEGATRON_TOP_EXPERTS, &shape->experts_per_token},
                  {PEN__MEGATRON_EXPERT_SIZE, &shape->expert_intermediate},
                  {PEN__MEGATRON_SHARED_SIZE, &shape->shared_intermediate},
                  {PEN__MEGATRON_Q_RANK, &shape->q_lora_rank},
                  {PEN__MEGATRON_KV_RANK, &shape->kv_lora_rank},
                  {PEN__MEGATRON_QK_DIM, &shape->qk_nope_dim},
                  {PEN__MEGATRON_QK_ROPE_DIM, &shape->qk_rope_dim},
                  {PEN__MEGATRON_V_DIM, &shape->v_head_dim}};
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

/*
 * Reads which blocks have a part; a family may be able to say only that they
 * do.
 */
static pen_status read_blocks(const struct pen__megatron_words *words,
                              enum pen__megatron_option option,
                              const char *name, uint32_t num_blocks,
                              struct pen__megatron_pattern *out,
                              struct pen_text *notes, struct pen_text *why)
{
    *out = (struct pen__megatron_pattern){0, 1, true};
    if (!pen__megatron_has(words, option))
        return PEN_OK;
    pen_status status = pen__megatron_pattern_parse(words->values[option], name,
                                                    num_blocks, out, why);
    if (status == PEN_OK && !out->is_exact)
        pen__note(notes, "--%s is counted as every %u. block", name, out->step);
    return status;
}

/* "(4095,0)": positions before the own one. */
static pen_status read_window(const struct pen__megatron_words *words,
                              struct pen__megatron_shape *shape,
                              struct pen_text *notes, struct pen_text *why)
{
    struct pen__megatron_pattern pattern;
    unsigned before = 0;
    const char *size = words->values[PEN__MEGATRON_WINDOW_SIZE];
    if (size == NULL)
        return PEN_OK;
    if (strlen(size) > 20 ||
        sscanf(size[0] == '(' ? size + 1 : size, "%9u,0", &before) < 1) {
        pen_why(why, "--window-size must have the form (4095,0)");
        return PEN_INVALID;
    }
    shape->window = before + 1;
    pen_status status =
        read_blocks(words, PEN__MEGATRON_WINDOW_SKIP, "window-attn-skip-freq",
                    shape->num_blocks, &pattern, notes, why);
    if (status == PEN_OK)
        shape->first_window_block = pattern.num_first;
    return status;
}

static pen_status read_experts(const struct pen__megatron_words *words,
                               struct pen__megatron_shape *shape,
                               struct pen_text *notes, struct pen_text *why)
{
    struct pen__megatron_pattern pattern;
    if (shape->num_experts == 0)
        return PEN_OK;
    pen_status status =
        read_blocks(words, PEN__MEGATRON_EXPERT_BLOCKS, "moe-layer-freq",
                    shape->num_blocks, &pattern, notes, why);
    if (status == PEN_OK) {
        shape->num_dense_blocks = pattern.num_first;
        shape->sparse_step = pattern.step;
    }
    return status;
}

/* ---- what follows ---- */

static uint32_t default_vocab(const struct pen__megatron_words *words,
                              struct pen_text *notes)
{
    if (pen__megatron_is(words, PEN__MEGATRON_TOKENIZER, "GPT2BPETokenizer"))
        return 50257;
    if (pen__megatron_is(words, PEN__MEGATRON_TOKENIZER, "Llama2Tokenizer"))
        return 32000;
    pen__note(notes,
              "the options do not have the vocabulary size: %u is assumed",
              DEFAULT_VOCAB);
    return DEFAULT_VOCAB;
}

static void complete(const struct pen__megatron_words *words,
                     struct pen__megatron_shape *shape, struct pen_text *notes)
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
    if (shape->expert_intermediate == 0)
        shape->expert_intermediate = shape->intermediate;
    if (shape->vocab == 0)
        shape->vocab = default_vocab(words, notes);
    shape->has_rope =
        pen__megatron_is(words, PEN__MEGATRON_POSITION_TYPE, "rope") ||
        pen__megatron_has(words, PEN__MEGATRON_USE_ROTARY);
    shape->has_all_biases = !pen__megatron_has(words, PEN__MEGATRON_NO_BIAS);
}

static enum pen_family choose_family(const struct pen__megatron_words *words,
                                     const struct pen__megatron_shape *shape)
{
    bool has_qk_norm = pen__megatron_has(words, PEN__MEGATRON_QK_NORM);
    if (pen__megatron_has(words, PEN__MEGATRON_LATENT))
        return PEN_FAMILY_DEEPSEEK_V3;
    if (shape->num_experts > 0)
        return has_qk_norm ? PEN_FAMILY_QWEN3_MOE : PEN_FAMILY_MIXTRAL;
    if (!pen__megatron_has(words, PEN__MEGATRON_SWIGLU))
        return PEN_FAMILY_GPT2;
    if (has_qk_norm)
        return PEN_FAMILY_QWEN3;
    if (shape->has_all_biases)
        return PEN_FAMILY_LLAMA;
    if (pen__megatron_has(words, PEN__MEGATRON_QKV_BIAS) ||
        (shape->window > 0 && shape->first_window_block > 0))
        return PEN_FAMILY_QWEN2;
    return shape->window > 0 ? PEN_FAMILY_MISTRAL : PEN_FAMILY_LLAMA;
}

static void note_experts(const struct pen__megatron_words *words,
                         const struct pen__megatron_shape *shape,
                         struct pen_text *notes)
{
    const char *name = pen_family_name(shape->family);
    if (shape->num_experts == 0)
        return;
    if (!pen__megatron_has(words, PEN__MEGATRON_SWIGLU))
        pen__note(notes, "experts are counted as those of %s, with a gate",
                  name);
    if (shape->family == PEN_FAMILY_DEEPSEEK_V3) {
        if (shape->shared_intermediate % shape->expert_intermediate != 0)
            pen__note(notes, "shared experts are counted as wide as others");
        return;
    }
    if (shape->shared_intermediate > 0)
        pen__note(notes, "shared experts are not counted with %s", name);
    if (shape->family == PEN_FAMILY_MIXTRAL &&
        (shape->num_dense_blocks > 0 || shape->sparse_step > 1))
        pen__note(notes, "experts are counted in all blocks, as in %s", name);
}

/* The family has one answer to each; a line may have another. */
static void note_family(const struct pen__megatron_words *words,
                        const struct pen__megatron_shape *shape,
                        struct pen_text *notes)
{
    bool is_gpt2 = shape->family == PEN_FAMILY_GPT2;
    bool has_rms =
        pen__megatron_is(words, PEN__MEGATRON_NORMALIZATION, "RMSNorm");
    const char *name = pen_family_name(shape->family);
    note_experts(words, shape, notes);
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
                : shape->family >= PEN_FAMILY_QWEN3 &&
                      (shape->has_all_biases ||
                       pen__megatron_has(words, PEN__MEGATRON_QKV_BIAS));
    if (has_own_biases)
        pen__note(notes, "biases are counted as those of %s", name);
}

pen_status pen__megatron_model(const struct pen__megatron_words *words,
                               struct pen_model **out, struct pen_text *notes,
                               struct pen_text *why)
{
    struct pen__megatron_shape shape = {.rotary_base = 10000,
                                        .rope_factor = 8,
                                        .norm_eps = 1e-5,
                                        .experts_per_token = 2,
                                        .kv_lora_rank = 32,
                                        .qk_nope_dim = 128,
                                        .qk_rope_dim = 64,
                                        .v_head_dim = 128};
    struct pen_text config = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = require(words, why);
    if (status == PEN_OK)
        status = read_counts(words, &shape, why);
    if (status == PEN_OK)
        status = read_window(words, &shape, notes, why);
    if (status == PEN_OK)
        status = read_experts(words, &shape, notes, why);
    if (status != PEN_OK)
        return status;
    complete(words, &shape, notes);
    if (shape.intermediate == 0) {
        pen_why(why,
                "--ffn-hidden-size is missing, and --hidden-size %u is "
                "too small for its default",
                shape.hidden);
        return PEN_INVALID;
    }
    shape.family = choose_family(words, &shape);
    note_family(words, &shape, notes);
    pen__megatron_shape_print(words, &shape, &config);
    status =
        pen_model_parse(pen_text_string(&config), config.length, out, &reason);
    if (status != PEN_OK)
        pen_why(why, "the model of the command line: %s",
                pen_text_string(&reason));
    pen_text_release(&reason);
    pen_text_release(&config);
    return status;
}
