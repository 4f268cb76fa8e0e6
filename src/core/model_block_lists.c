/*
 * The blocks of a general decoder, listed or by steps, in any of the ways that
 * config.json has for it:
 *
 *   hybrid_override_pattern   "MEM*E-": Mamba, experts, attention, MLP
 *   layers_block_type         the same in words
 *   layer_types               what mixes positions
 *   mlp_layer_types           "dense", "sparse", "hash_moe"
 *   moe_layer_freq            0 and 1, or a step
 *   compress_ratios           positions that become one key
 *   ..._period, ..._offset, ..._interval, ..._pattern: every N blocks
 */
#include "core/model_internal.h"

#include "core/config_keys.h"

#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- words ---- */

/* Which keys a query sees. */
enum sight { ALL, WINDOW, PICKED, COMPRESSED_AND_PICKED, COMPRESSED };

enum { STATES = PEN_MIXER_NONE + 1 }; /* Mamba or delta net, by the keys */

static const struct word {
    const char *text;
    int mixer;
    enum sight sight;
    int mlp; /* -1: as mlp_layer_types says */
} words[] = {
    {"full_attention", PEN_MIXER_ATTENTION, ALL, -1},
    {"sliding_attention", PEN_MIXER_ATTENTION, WINDOW, -1},
    {"indexed_attention", PEN_MIXER_ATTENTION, PICKED, -1},
    {"compressed_sparse_attention", PEN_MIXER_ATTENTION, COMPRESSED_AND_PICKED,
     -1},
    {"heavily_compressed_attention", PEN_MIXER_ATTENTION, COMPRESSED, -1},
    {"mamba", PEN_MIXER_MAMBA, ALL, -1},
    {"gated_delta", PEN_MIXER_DELTA, ALL, -1},
    {"none", PEN_MIXER_NONE, ALL, -1},
    /* Other words for these; the printed words are above. */
    {"attention", PEN_MIXER_ATTENTION, ALL, -1},
    {"*", PEN_MIXER_ATTENTION, ALL, PEN_MLP_NONE},
    {"chunked_attention", PEN_MIXER_ATTENTION, WINDOW, -1},
    {"minimax_m3_sparse", PEN_MIXER_ATTENTION, PICKED, -1},
    {"linear_attention", STATES, ALL, -1},
    {"mamba2", PEN_MIXER_MAMBA, ALL, -1},
    {"M", PEN_MIXER_MAMBA, ALL, PEN_MLP_NONE},
    {"moe", PEN_MIXER_NONE, ALL, PEN_MLP_EXPERTS},
    {"E", PEN_MIXER_NONE, ALL, PEN_MLP_EXPERTS},
    {"mlp", PEN_MIXER_NONE, ALL, PEN_MLP_DENSE},
    {"-", PEN_MIXER_NONE, ALL, PEN_MLP_DENSE}};

/* Ratios of DeepSeek V4, where a file has words for them. */
enum { PICKED_RATIO = 4, HEAVY_RATIO = 128 };

/* The state of reading the blocks. */
struct reading {
    const struct pen_json *json;
    struct pen_model *model;
    const char *key;       /* of the list below */
    const json_t *mixers;  /* words, or NULL */
    const char *letters;   /* the same as letters, or NULL */
    bool has_single_parts; /* a block is a mixer or an MLP, never both */
    struct pen_text *why;
};

static const struct word *find_word(const char *text, size_t length)
{
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strlen(words[i].text) == length &&
            memcmp(words[i].text, text, length) == 0)
            return &words[i];
    return NULL;
}

static uint32_t step_of(const struct pen_json *json, const char *key,
                        uint32_t absent)
{
    json_int_t step = json_integer_value(json_object_get(json->object, key));
    return step > 0 && step <= PEN__MAX_BLOCKS ? (uint32_t)step : absent;
}

/* Returns whether a block is the N-th; Jamba's keys count from an offset. */
static bool is_turn(uint32_t block, uint32_t step, uint32_t offset)
{
    return block % step == offset % step;
}

static const struct word *word_by_step(const struct reading *reading,
                                       uint32_t block)
{
    const struct pen_json *json = reading->json;
    const struct word *all = &words[0];
    const json_t *picks = json_object_get(
        json_object_get(json->object, "sparse_attention_config"),
        "sparse_attention_freq");
    if (json_is_array(picks))
        return json_integer_value(json_array_get(picks, block)) != 0 ? &words[2]
                                                                     : all;
    uint32_t step = step_of(json, "attn_layer_period", 0);
    if (step > 0)
        return is_turn(block, step, step_of(json, "attn_layer_offset", 0))
                   ? all
                   : find_word("linear_attention", strlen("linear_attention"));
    step = step_of(json, "full_attention_interval", 0);
    if (step > 0 && reading->model->recurrence.num_heads > 0)
        return (block + 1) % step == 0
                   ? all
                   : find_word("linear_attention", strlen("linear_attention"));
    if (reading->model->index_topk > 0)
        return &words[2];
    if (reading->model->window == 0)
        return all;
    step = step_of(
        json, "sliding_window_pattern",
        step_of(json, "no_rope_layer_interval", reading->model->window_step));
    return step > 0 && (block + 1) % step == 0 ? all : &words[1];
}

static pen_status mixer_word(const struct reading *reading, uint32_t block,
                             const struct word **out)
{
    if (reading->letters != NULL) {
        *out = find_word(reading->letters + block, 1);
    } else if (reading->mixers != NULL) {
        const char *text =
            json_string_value(json_array_get(reading->mixers, block));
        *out = text == NULL ? NULL : find_word(text, strlen(text));
    } else {
        *out = word_by_step(reading, block);
    }
    if (*out == NULL && reading->model->is_guessed)
        *out = &words[0];
    if (*out != NULL)
        return PEN_OK;
    pen_why(reading->why, "%s[%u] is not supported; it must be", reading->key,
            block);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        pen_why(reading->why, "%s \"%s\"", i == 0 ? "" : ",", words[i].text);
    return PEN_INVALID;
}

/* ---- attention ---- */

static bool has_own_indexer(const struct reading *reading, uint32_t block)
{
    const struct pen_json *json = reading->json;
    const json_t *types = json_object_get(json->object, "indexer_types");
    if (json_is_array(types)) {
        const char *text = json_string_value(json_array_get(types, block));
        return text == NULL || strcmp(text, "shared") != 0;
    }
    uint32_t step = step_of(json, "index_topk_freq", 1);
    uint32_t offset = step_of(json, "index_skip_topk_offset", 2);
    uint32_t behind = block + 1 > offset ? block + 1 - offset : 0;
    return behind % step == 0;
}

static void set_sight(const struct reading *reading, uint32_t block,
                      enum sight sight, struct pen_block *out)
{
    const struct pen_model *model = reading->model;
    bool is_compressed = sight == COMPRESSED || sight == COMPRESSED_AND_PICKED;
    if (sight == WINDOW || is_compressed)
        out->window = model->window;
    out->is_picked = (sight == PICKED || sight == COMPRESSED_AND_PICKED) &&
                     model->index_topk > 0;
    out->has_indexer = out->is_picked && has_own_indexer(reading, block);
    if (is_compressed)
        out->compression = sight == COMPRESSED ? HEAVY_RATIO : PICKED_RATIO;
}

/* Heads of blocks that see all positions may differ from the others'. */
static void set_heads(const struct pen_model *model, struct pen_block *out)
{
    bool sees_all =
        out->window == 0 && !out->is_picked && out->compression == 0;
    bool is_global = sees_all && model->global_head_dim > 0;
    out->head_dim = is_global ? model->global_head_dim : model->head_dim;
    out->num_kv_heads = model->num_kv_heads;
    if (is_global && model->has_shared_values && model->global_kv_heads > 0)
        out->num_kv_heads = model->global_kv_heads;
    out->has_shared_values =
        model->has_shared_values && (is_global || model->global_head_dim == 0);
}

/*
 * Sets the ratio. DeepSeek V4's list has one number more, for the layer that
 * predicts.
 */
static void set_ratio(const struct reading *reading, uint32_t block,
                      struct pen_block *out)
{
    const json_t *list =
        json_object_get(reading->json->object, "compress_ratios");
    const json_t *ratio = json_array_get(list, block);
    json_int_t number = json_integer_value(ratio);
    bool has_word = (reading->mixers != NULL || reading->letters != NULL) &&
                    block < reading->model->num_blocks;
    if (!json_is_integer(ratio) || (has_word && number <= 0))
        return;
    enum sight sight = number <= 0              ? WINDOW
                       : number <= PICKED_RATIO ? COMPRESSED_AND_PICKED
                                                : COMPRESSED;
    out->is_picked = out->has_indexer = false;
    out->compression = 0;
    set_sight(reading, block, sight, out);
    if (number > 0 && number <= PEN__MAX_BLOCKS)
        out->compression = (uint32_t)number;
}

/* ---- MLPs ---- */

static bool is_listed(const json_t *list, uint32_t block)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) == (json_int_t)block &&
            json_is_integer(json_array_get(list, i)))
            return true;
    return false;
}

static bool has_experts_here(const struct reading *reading, uint32_t block)
{
    const struct pen_json *json = reading->json;
    const struct pen_model *model = reading->model;
    const json_t *list = json_object_get(json->object, "moe_layer_freq");
    if (model->num_experts == 0)
        return false;
    if (json_is_array(list))
        return json_integer_value(json_array_get(list, block)) != 0;
    list = json_object_get(json->object, "moe_layers");
    if (json_is_array(list))
        return is_listed(list, block);
    uint32_t period = step_of(json, "expert_layer_period", 0);
    if (period > 0)
        return is_turn(block, period, step_of(json, "expert_layer_offset", 0));
    return pen__model_has_experts(model, block) &&
           !is_listed(json_object_get(json->object, "mlp_only_layers"), block);
}

static void set_mlp(const struct reading *reading, uint32_t block,
                    const struct word *word, struct pen_block *out)
{
    const json_t *list =
        json_object_get(reading->json->object, "mlp_layer_types");
    const char *text = json_string_value(json_array_get(list, block));
    bool is_sparse = has_experts_here(reading, block);
    out->has_fixed_choice =
        text != NULL ? strcmp(text, "hash_moe") == 0
                     : block < step_of(reading->json, "num_hash_layers", 0);
    if (reading->has_single_parts)
        out->mlp = word->mlp >= 0 ? (enum pen_mlp)word->mlp : PEN_MLP_NONE;
    else if (text != NULL)
        out->mlp = strcmp(text, "none") == 0    ? PEN_MLP_NONE
                   : strcmp(text, "dense") == 0 ? PEN_MLP_DENSE
                                                : PEN_MLP_EXPERTS;
    else
        out->mlp = is_sparse ? PEN_MLP_EXPERTS : PEN_MLP_DENSE;
    if (out->mlp == PEN_MLP_EXPERTS && reading->model->num_experts == 0)
        out->mlp = PEN_MLP_DENSE;
    if (out->mlp != PEN_MLP_EXPERTS)
        out->has_fixed_choice = false;
}

/* ---- blocks ---- */

static enum pen_mixer choose_mixer(const struct reading *reading,
                                   const struct word *word)
{
    if (word->mixer == STATES)
        return pen__config_has(reading->json, "linear_num_value_heads")
                   ? PEN_MIXER_DELTA
                   : PEN_MIXER_MAMBA;
    return (enum pen_mixer)word->mixer;
}

static pen_status read_block(const struct reading *reading, uint32_t block,
                             struct pen_block *out)
{
    const struct word *word;
    pen_status status = mixer_word(reading, block, &word);
    if (status != PEN_OK)
        return status;
    memset(out, 0, sizeof *out); /* compared as bytes */
    out->mixer = choose_mixer(reading, word);
    set_mlp(reading, block, word, out);
    bool has_states =
        out->mixer == PEN_MIXER_MAMBA || out->mixer == PEN_MIXER_DELTA;
    if (has_states && reading->model->recurrence.num_heads == 0)
        out->mixer = PEN_MIXER_ATTENTION; /* of sizes that are not known */
    if (out->mixer == PEN_MIXER_NONE && out->mlp == PEN_MLP_NONE)
        out->mlp = PEN_MLP_DENSE;
    if (out->mixer != PEN_MIXER_ATTENTION)
        return PEN_OK;
    set_sight(reading, block, word->sight, out);
    set_ratio(reading, block, out);
    set_heads(reading->model, out);
    return PEN_OK;
}

static bool is_same(const struct pen_block *a, const struct pen_block *b)
{
    return a->mixer == b->mixer && a->mlp == b->mlp && a->window == b->window &&
           a->head_dim == b->head_dim && a->num_kv_heads == b->num_kv_heads &&
           a->compression == b->compression && a->is_picked == b->is_picked &&
           a->has_indexer == b->has_indexer &&
           a->has_shared_values == b->has_shared_values &&
           a->has_fixed_choice == b->has_fixed_choice;
}

static pen_status find_kind(struct pen_model *model,
                            const struct pen_block *block, uint8_t *out,
                            struct pen_text *why)
{
    for (uint32_t i = 0; i < model->num_kinds; i++) {
        if (is_same(&model->kinds[i], block)) {
            *out = (uint8_t)i;
            return PEN_OK;
        }
    }
    if (model->num_kinds == PEN_MAX_BLOCK_KINDS) {
        pen_why(why, "the blocks are of more than %u kinds",
                PEN_MAX_BLOCK_KINDS);
        return PEN_INVALID;
    }
    *out = (uint8_t)model->num_kinds;
    model->kinds[model->num_kinds++] = *block;
    return PEN_OK;
}

static bool is_single(const struct pen_block *block)
{
    return block->mixer == PEN_MIXER_NONE || block->mlp == PEN_MLP_NONE;
}

/*
 * Sets the blocks that predict further tokens: attention and experts, where
 * these are blocks of their own; otherwise like the last block.
 */
static pen_status set_prediction(const struct reading *reading)
{
    struct pen_model *model = reading->model;
    struct pen_block last = *pen_model_block(model, model->num_blocks - 1);
    model->num_mtp_kinds = 0;
    if (!is_single(&last)) {
        set_ratio(reading, model->num_blocks, &last);
        model->num_mtp_kinds = 1;
        return find_kind(model, &last, &model->mtp_kinds[0], reading->why);
    }
    for (uint32_t i = 0; i < model->num_kinds && model->num_mtp_kinds < 2; i++)
        if (model->kinds[i].mixer == PEN_MIXER_ATTENTION ||
            model->kinds[i].mlp == PEN_MLP_EXPERTS)
            model->mtp_kinds[model->num_mtp_kinds++] = (uint8_t)i;
    return PEN_OK;
}

/* Opens a list with a word for each block; further words are ignored. */
static pen_status open_list(struct reading *reading, const char *key)
{
    const json_t *list = json_object_get(reading->json->object, key);
    uint32_t num_blocks = reading->model->num_blocks;
    if (list == NULL || json_is_null(list) || reading->key != NULL)
        return PEN_OK;
    reading->key = key;
    if (json_is_array(list) && json_array_size(list) >= num_blocks)
        reading->mixers = list;
    else if (json_is_string(list) && json_string_length(list) >= num_blocks)
        reading->letters = json_string_value(list);
    else {
        pen_why(reading->why, "%s must have %u entries", key, num_blocks);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* Words for MLPs in the list of mixers: a block has one or the other. */
static void find_single_parts(struct reading *reading)
{
    reading->has_single_parts = reading->letters != NULL;
    for (size_t i = 0; i < json_array_size(reading->mixers); i++) {
        const char *text =
            json_string_value(json_array_get(reading->mixers, i));
        const struct word *word =
            text == NULL ? NULL : find_word(text, strlen(text));
        if (word != NULL && word->mlp >= 0)
            reading->has_single_parts = true;
    }
}

pen_status pen__model_read_blocks(const struct pen_json *json,
                                  struct pen_model *model, struct pen_text *why)
{
    struct reading reading = {.json = json, .model = model, .why = why};
    pen_status status = open_list(&reading, "hybrid_override_pattern");
    if (status == PEN_OK)
        status = open_list(&reading, "layers_block_type");
    if (status == PEN_OK)
        status = open_list(&reading, "layer_types");
    if (status != PEN_OK)
        return status;
    find_single_parts(&reading);
    model->kind_of_block = malloc((size_t)model->num_blocks + 1);
    if (model->kind_of_block == NULL) {
        pen_why(why, "no memory for the blocks of a model");
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; status == PEN_OK && i < model->num_blocks; i++) {
        struct pen_block block;
        status = read_block(&reading, i, &block);
        if (status == PEN_OK)
            status = find_kind(model, &block, &model->kind_of_block[i], why);
    }
    return status == PEN_OK ? set_prediction(&reading) : status;
}
