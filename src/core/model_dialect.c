/*
 * Descriptions of models in other forms than Hugging Face's config.json. They
 * are rewritten with its keys before anything else reads them:
 *
 *   llm-analysis  {"name": "gpt2", "num_layers": 12, "hidden_dim": 768, ...}
 *   GPT-NeoX      { # comment
 *                   "num-layers": 12, "hidden-size": 768, ... }
 *
 * The second is YAML in the shape of JSON, with comments and now and then a
 * comma too many or too few. Only numbers, words and truth values of its
 * outermost braces are taken; the last of two with one name counts.
 */
#include "core/model_internal.h"

#include "core/config_keys.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define LONGEST_KEY 64

/* Tokens of GPT-NeoX-20B's tokenizer, to which its files refer; the rows of
 * the embedding are rounded up, so that tensor parallel ranks have equal ones.
 */
#define NEOX_VOCAB 50277
#define NEOX_VOCAB_STEP 128
#define NEOX_MAX_RANKS 1024

/* Gives a value the key that it has in the other dialect. */
static pen_status copy_key(json_t *to, const char *new_key,
                           const struct pen_json *from, const char *key)
{
    json_t *value = json_object_get(from->object, key);
    if (value == NULL)
        return PEN_OK;
    return json_object_set(to, new_key, value) == 0 ? PEN_OK : PEN_NOMEM;
}

/* Replaces the object that was read by a new one. */
static pen_status replace(struct pen_json *json, json_t *object,
                          pen_status status, struct pen_text *why)
{
    if (status == PEN_OK) {
        json_decref(json->object);
        json->object = object;
        return PEN_OK;
    }
    json_decref(object);
    if (status == PEN_NOMEM)
        pen_why(why, "no memory for the keys of a model");
    return status;
}

struct short_keys {
    const char *model_type;
    const char *keys[5]; /* for those below */
};

static const char *const short_names[5] = {"num_layers", "n_head", "hidden_dim",
                                           "ffn_embed_dim", "max_seq_len"};

static const struct short_keys short_families[] = {
    {"gpt2", {"n_layer", "n_head", "n_embd", "n_inner", "n_positions"}},
    {"opt",
     {"num_hidden_layers", "num_attention_heads", "hidden_size", "ffn_dim",
      "max_position_embeddings"}},
    {"bloom", {"n_layer", "n_head", "hidden_size", "n_inner", "seq_length"}},
    {"bert",
     {"num_hidden_layers", "num_attention_heads", "hidden_size",
      "intermediate_size", "max_position_embeddings"}}};

/* "facebook_opt-175b" is an OPT; what is called otherwise has GPT-2's layers,
 * as Megatron's models of that time. */
static const struct short_keys *family_by_name(const struct pen_json *json)
{
    const char *name = json_string_value(json_object_get(json->object, "name"));
    const char *behind = name == NULL ? NULL : strrchr(name, '_');
    if (behind != NULL)
        name = behind + 1;
    for (size_t i = 1; name != NULL && i < COUNT_OF(short_families); i++) {
        const char *word = short_families[i].model_type;
        if (strncmp(name, word, strlen(word)) == 0)
            return &short_families[i];
    }
    return &short_families[0];
}

static pen_status find_short_family(const struct pen_json *json,
                                    const struct short_keys **out,
                                    struct pen_text *why)
{
    struct pen__config_word words[COUNT_OF(short_families)];
    for (size_t i = 0; i < COUNT_OF(short_families); i++)
        words[i] =
            (struct pen__config_word){short_families[i].model_type, (int)i};
    int found = -1;
    pen_status status = pen__config_word(json, "model_type", words,
                                         COUNT_OF(words), &found, why);
    if (status == PEN_OK)
        *out = found < 0 ? family_by_name(json) : &short_families[found];
    return status;
}

static pen_status translate_short(struct pen_json *json, struct pen_text *why)
{
    const struct short_keys *family;
    pen_status status = find_short_family(json, &family, why);
    if (status != PEN_OK)
        return status;
    json_t *object = json_object();
    if (json_object_set_new(object, "model_type",
                            json_string(family->model_type)) != 0)
        status = PEN_NOMEM;
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(short_names); i++)
        status = copy_key(object, family->keys[i], json, short_names[i]);
    if (status == PEN_OK)
        status = copy_key(object, "vocab_size", json, "vocab_size");
    return replace(json, object, status, why);
}

/*
 * Returns where a string that begins at `at` ends: its last quote, or the end.
 */
static size_t end_of_string(const char *text, size_t length, size_t at)
{
    for (at++; at < length && text[at] != '"' && text[at] != '\n'; at++) {
        if (text[at] == '\\')
            at++;
    }
    return at < length ? at : length;
}

static size_t skip_spaces(const char *text, size_t length, size_t at)
{
    while (at < length && strchr(" \t\r\n", text[at]) != NULL &&
           text[at] != '\0')
        at++;
    return at;
}

static size_t end_of_value(const char *text, size_t length, size_t at)
{
    if (at < length && text[at] == '"') {
        size_t end = end_of_string(text, length, at);
        return end < length ? end + 1 : end;
    }
    while (at < length && text[at] != '\0' &&
           strchr(",}]{[#\r\n", text[at]) == NULL)
        at++;
    return at;
}

/* Sets key, with '_' for '-', if what follows it is a single value. */
static void take_setting(json_t *settings, const char *key, size_t key_length,
                         const char *value, size_t length)
{
    char name[LONGEST_KEY];
    if (key_length >= sizeof name || length == 0)
        return;
    for (size_t i = 0; i < key_length; i++)
        name[i] = (char)(key[i] == '-' ? '_' : key[i]);
    name[key_length] = '\0';
    json_t *found = json_loadb(value, length, JSON_DECODE_ANY, NULL);
    if (found != NULL)
        json_object_set_new(settings, name, found);
}

/*
 * Scans the string at `at`, which may be a key of the outermost braces. Returns
 * where to continue.
 */
static size_t scan_string(json_t *settings, const char *text, size_t length,
                          size_t at, int depth)
{
    size_t end = end_of_string(text, length, at);
    size_t colon = skip_spaces(text, length, end < length ? end + 1 : end);
    if (depth != 1 || colon >= length || text[colon] != ':')
        return end + 1;
    size_t value = skip_spaces(text, length, colon + 1);
    size_t after = end_of_value(text, length, value);
    take_setting(settings, text + at + 1, end - at - 1, text + value,
                 after - value);
    return after;
}

static json_t *scan_settings(const char *text, size_t length)
{
    json_t *settings = json_object();
    int depth = 0;
    for (size_t at = 0; settings != NULL && at < length;) {
        if (text[at] == '"') {
            at = scan_string(settings, text, length, at, depth);
            continue;
        }
        if (text[at] == '#') {
            while (at < length && text[at] != '\n')
                at++;
            continue;
        }
        if (text[at] == '{' || text[at] == '[')
            depth++;
        if (text[at] == '}' || text[at] == ']')
            depth--;
        at++;
    }
    return settings;
}

static bool is_neox(const json_t *settings)
{
    return json_object_get(settings, "model_type") == NULL &&
           json_object_get(settings, "num_layers") != NULL &&
           json_object_get(settings, "hidden_size") != NULL;
}

static pen_status neox_vocab(const struct pen_json *settings, json_t *object,
                             struct pen_text *why)
{
    static const struct pen__config_count ranks = {"model_parallel_size", 1, 1,
                                                   NEOX_MAX_RANKS};
    static const struct pen__config_count step = {
        "make_vocab_size_divisible_by", NEOX_VOCAB_STEP, NEOX_VOCAB_STEP,
        PEN__MAX_HIDDEN};
    static const struct pen__config_count tokens = {"vocab_size", NEOX_VOCAB,
                                                    NEOX_VOCAB, PEN__MAX_VOCAB};
    uint32_t counts[3] = {0, 0, 0};
    pen_status status = pen__config_count(settings, &ranks, &counts[0], why);
    if (status == PEN_OK)
        status = pen__config_count(settings, &step, &counts[1], why);
    if (status == PEN_OK)
        status = pen__config_count(settings, &tokens, &counts[2], why);
    if (status != PEN_OK)
        return status;
    json_int_t unit = (json_int_t)counts[0] * counts[1];
    json_int_t rows = (counts[2] + unit - 1) / unit * unit;
    return json_object_set_new(object, "vocab_size", json_integer(rows)) == 0
               ? PEN_OK
               : PEN_NOMEM;
}

static pen_status neox_flags(const struct pen_json *settings, json_t *object,
                             struct pen_text *why)
{
    bool is_untied = false;
    bool is_parallel = false;
    pen_status status =
        pen__config_flag(settings, "no_weight_tying", &is_untied, why);
    if (status == PEN_OK)
        status =
            pen__config_flag(settings, "gpt_j_residual", &is_parallel, why);
    if (status != PEN_OK)
        return status;
    int failed = json_object_set_new(object, "tie_word_embeddings",
                                     json_boolean(!is_untied));
    failed |= json_object_set_new(object, "use_parallel_residual",
                                  json_boolean(is_parallel));
    return failed == 0 ? PEN_OK : PEN_NOMEM;
}

/*
 * Reads the choices that would change the network: learnt positions, another
 * norm.
 */
static pen_status neox_choices(const struct pen_json *settings,
                               struct pen_text *why)
{
    static const struct pen__config_word positions[] = {{"rotary", 0}};
    static const struct pen__config_word norms[] = {{"layernorm", 0}};
    int found = -1;
    if (!pen__config_has(settings, "pos_emb")) {
        pen_why(why, "pos-emb must be \"rotary\"");
        return PEN_INVALID;
    }
    pen_status status =
        pen__config_word(settings, "pos_emb", positions, 1, &found, why);
    return status == PEN_OK
               ? pen__config_word(settings, "norm", norms, 1, &found, why)
               : status;
}

static pen_status neox_sizes(const struct pen_json *settings, json_t *object)
{
    static const char *const keys[][2] = {
        {"hidden_size", "hidden_size"},
        {"num_hidden_layers", "num_layers"},
        {"num_attention_heads", "num_attention_heads"},
        {"max_position_embeddings", "max_position_embeddings"},
        {"rotary_emb_base", "rotary_emb_base"},
        {"intermediate_size", "intermediate_size"}};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(keys); i++)
        status = copy_key(object, keys[i][0], settings, keys[i][1]);
    json_int_t hidden =
        json_integer_value(json_object_get(settings->object, "hidden_size"));
    if (status == PEN_OK &&
        json_object_get(object, "intermediate_size") == NULL && hidden > 0 &&
        hidden <= PEN__MAX_HIDDEN &&
        json_object_set_new(object, "intermediate_size",
                            json_integer(4 * hidden)) != 0)
        return PEN_NOMEM;
    /* All of a head is rotated unless the file says less. */
    json_t *share = json_object_get(settings->object, "rotary_pct");
    if (status == PEN_OK &&
        json_object_set_new(object, "rotary_pct",
                            share == NULL ? json_real(1)
                                          : json_incref(share)) != 0)
        return PEN_NOMEM;
    return status;
}

static pen_status translate_neox(struct pen_json *json, struct pen_text *why)
{
    json_t *object = json_object();
    pen_status status =
        json_object_set_new(object, "model_type", json_string("gpt_neox")) == 0
            ? neox_choices(json, why)
            : PEN_NOMEM;
    if (status == PEN_OK)
        status = neox_sizes(json, object);
    if (status == PEN_OK)
        status = neox_vocab(json, object, why);
    if (status == PEN_OK)
        status = neox_flags(json, object, why);
    return replace(json, object, status, why);
}

/* Loads the keys of GPT-NeoX. out is untouched if the text has none. */
static bool load_neox(const char *text, size_t length, struct pen_json *out)
{
    json_t *settings = scan_settings(text, length);
    if (!is_neox(settings)) {
        json_decref(settings);
        return false;
    }
    *out = (struct pen_json){.object = settings};
    return true;
}

pen_status pen__model_load_keys(const char *text, size_t length,
                                struct pen_json *out, struct pen_text *why)
{
    struct pen_json json = {.object = NULL};
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_json_load(text, length, &json, &reason);
    bool is_known = status == PEN_OK && (pen_json_has(&json, "model_type") ||
                                         pen_json_has(&json, "hidden_dim"));
    struct pen_json settings;
    if (!is_known && load_neox(text, length, &settings)) {
        json_decref(json.object);
        json = settings;
        status = translate_neox(&json, why);
    } else if (status != PEN_OK) {
        pen_why(why, "%s", pen_text_string(&reason));
    } else if (pen_json_has(&json, "hidden_dim")) {
        status = translate_short(&json, why);
    }
    pen_text_release(&reason);
    if (status == PEN_OK)
        *out = json;
    else
        json_decref(json.object);
    return status;
}
