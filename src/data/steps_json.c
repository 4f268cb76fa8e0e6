#include "data/steps_json.h"

#include "base/base64.h"

#include <string.h>

/* Radford et al., 2019; the source writes it with these alternatives. */
#define GPT2_PATTERN                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"       \
    "\\s+(?!\\S)|\\s+"

#define LLAMA3_PATTERN(digits)                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits       \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* No match of these patterns has a space after a letter. */
static bool has_safe_cuts(const char *pattern)
{
    static const char *const known[] = {
        GPT2_PATTERN, LLAMA3_PATTERN("\\p{N}{1,3}"), LLAMA3_PATTERN("\\p{N}")};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(pattern, known[i]) == 0)
            return true;
    }
    return false;
}

static const char *string_in(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool flag_in(const json_t *object, const char *key, bool otherwise)
{
    const json_t *found = json_object_get(object, key);
    return json_is_boolean(found) ? json_is_true(found) : otherwise;
}

static pen_status refuse(struct pen_text *why, const char *what,
                         const char *found)
{
    pen_why(why, "%s ", what);
    if (found == NULL)
        pen_why(why, "is missing");
    else if (why != NULL)
        pen_text_add_printable(why, found, strlen(found));
    pen_why(why, found == NULL ? "" : " is not supported");
    return PEN_INVALID;
}

static pen_status refuse_count(struct pen_text *why, const char *what)
{
    pen_why(why, "more than %d steps in the %s", PEN__STEPS_MAX, what);
    return PEN_INVALID;
}

typedef pen_status step_reader(const json_t *value,
                               struct pen_tokenizer *tokenizer,
                               struct pen_text *why);

/*
 * A Sequence may hold sequences, but real files nest them no deeper than this.
 */
static pen_status read_sequence(const json_t *value, const char *key,
                                struct pen_tokenizer *tokenizer,
                                step_reader *reader, struct pen_text *why)
{
    const json_t *list = json_object_get(value, key);
    if (!json_is_array(list))
        return refuse(why, key, NULL);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *type = string_in(item, "type");
        if (type != NULL && strcmp(type, "Sequence") == 0)
            return refuse(why, "a Sequence inside a", type);
        pen_status status = reader(item, tokenizer, why);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

/* ---- normalizer ---- */

static pen_status read_charsmap(const json_t *value,
                                struct pen__normal_step *step,
                                struct pen_text *why)
{
    const char *text = string_in(value, "precompiled_charsmap");
    struct pen_text bytes = PEN_TEXT_EMPTY;
    if (text == NULL)
        return refuse(why, "precompiled_charsmap", NULL);
    pen_status status = pen_base64_decode(text, &bytes, why);
    if (status == PEN_OK)
        status = pen__charsmap_init(&step->charsmap,
                                    (const uint8_t *)pen_text_string(&bytes),
                                    bytes.length, why);
    if (status == PEN_OK)
        status = pen__pattern_create("\\X", 2, &step->pattern, why);
    step->kind = PEN__NORMAL_CHARSMAP;
    pen_text_release(&bytes);
    return status;
}

static pen_status read_replace(const json_t *value,
                               struct pen__normal_step *step,
                               struct pen_text *why)
{
    const json_t *pattern = json_object_get(value, "pattern");
    const char *string = string_in(pattern, "String");
    const char *regex = string_in(pattern, "Regex");
    const char *content = string_in(value, "content");
    if (content == NULL || (string == NULL && regex == NULL) ||
        (string != NULL && string[0] == '\0'))
        return refuse(why, "pattern or content of Replace", NULL);
    pen_text_add_string(&step->to, content);
    if (string != NULL) {
        step->kind = PEN__NORMAL_REPLACE;
        pen_text_add_string(&step->from, string);
        return PEN_OK;
    }
    step->kind = PEN__NORMAL_PATTERN;
    return pen__pattern_create(regex, strlen(regex), &step->pattern, why);
}

static pen_status read_strip(const json_t *value, struct pen__normal_step *step,
                             struct pen_text *why)
{
    bool is_left = flag_in(value, "strip_left", true);
    bool is_right = flag_in(value, "strip_right", true);
    const char *pattern = is_left && is_right ? "\\A\\s+|\\s+\\z"
                          : is_left           ? "\\A\\s+"
                          : is_right          ? "\\s+\\z"
                                              : "(?!)";
    step->kind = PEN__NORMAL_PATTERN;
    return pen__pattern_create(pattern, strlen(pattern), &step->pattern, why);
}

pen_status pen__read_normalizer(const json_t *value,
                                struct pen_tokenizer *tokenizer,
                                struct pen_text *why)
{
    if (value == NULL || json_is_null(value))
        return PEN_OK;
    const char *type = string_in(value, "type");
    if (type != NULL && strcmp(type, "Sequence") == 0)
        return read_sequence(value, "normalizers", tokenizer,
                             pen__read_normalizer, why);
    if (tokenizer->num_normal == PEN__STEPS_MAX)
        return refuse_count(why, "normalizer");
    struct pen__normal_step *step = &tokenizer->normal[tokenizer->num_normal++];
    if (type != NULL && strcmp(type, "NFC") == 0) {
        step->kind = PEN__NORMAL_NFC;
        return PEN_OK;
    }
    if (type != NULL && strcmp(type, "Prepend") == 0) {
        const char *to = string_in(value, "prepend");
        if (to == NULL)
            return refuse(why, "prepend", NULL);
        step->kind = PEN__NORMAL_PREPEND;
        pen_text_add_string(&step->to, to);
        return PEN_OK;
    }
    if (type != NULL && strcmp(type, "Replace") == 0)
        return read_replace(value, step, why);
    if (type != NULL && strcmp(type, "Strip") == 0)
        return read_strip(value, step, why);
    if (type != NULL && strcmp(type, "Precompiled") == 0)
        return read_charsmap(value, step, why);
    return refuse(why, "normalizer", type);
}

/* ---- pre_tokenizer ---- */

static pen_status add_split(struct pen_tokenizer *tokenizer,
                            enum pen__split_kind kind,
                            struct pen__split_step **out, struct pen_text *why)
{
    if (tokenizer->num_splits == PEN__STEPS_MAX)
        return refuse_count(why, "pre_tokenizer");
    *out = &tokenizer->splits[tokenizer->num_splits++];
    (*out)->kind = kind;
    return PEN_OK;
}

static pen_status add_pattern(struct pen_tokenizer *tokenizer,
                              const char *pattern, struct pen__split_step **out,
                              struct pen_text *why)
{
    pen_status status = add_split(tokenizer, PEN__SPLIT_PATTERN, out, why);
    if (status != PEN_OK)
        return status;
    /* Further splits only make pieces smaller; the first one decides. */
    if (tokenizer->num_splits == 1)
        tokenizer->has_safe_cuts = has_safe_cuts(pattern);
    return pen__pattern_create(pattern, strlen(pattern), &(*out)->pattern, why);
}

pen_status pen__add_gpt2_split(struct pen_tokenizer *tokenizer,
                               struct pen_text *why)
{
    struct pen__split_step *step;
    tokenizer->bpe.is_byte_level = true;
    return add_pattern(tokenizer, GPT2_PATTERN, &step, why);
}

static pen_status read_byte_level(const json_t *value,
                                  struct pen_tokenizer *tokenizer,
                                  struct pen_text *why)
{
    struct pen__split_step *step;
    pen_status status = PEN_OK;
    tokenizer->bpe.is_byte_level = true;
    if (flag_in(value, "add_prefix_space", true))
        status = add_split(tokenizer, PEN__SPLIT_PREFIX, &step, why);
    if (status == PEN_OK && flag_in(value, "use_regex", true))
        status = pen__add_gpt2_split(tokenizer, why);
    return status;
}

/*
 * Quotes a fixed string as a pattern: escapes every character but those of
 * words.
 */
static void quote(const char *string, struct pen_text *out)
{
    for (; *string != '\0'; string++) {
        if (strchr("\\^$.[|()?*+{}]&-", *string) != NULL)
            pen_text_add_string(out, "\\");
        pen_text_add_bytes(out, string, 1);
    }
}

static pen_status read_split(const json_t *value,
                             struct pen_tokenizer *tokenizer,
                             struct pen_text *why)
{
    const json_t *pattern = json_object_get(value, "pattern");
    const char *regex = string_in(pattern, "Regex");
    const char *string = string_in(pattern, "String");
    const char *behavior = string_in(value, "behavior");
    bool is_removed = behavior != NULL && strcmp(behavior, "Removed") == 0;
    bool is_inverted = flag_in(value, "invert", false);
    if (behavior == NULL || (!is_removed && strcmp(behavior, "Isolated") != 0))
        return refuse(why, "behavior of Split", behavior);
    if (regex == NULL && string == NULL)
        return refuse(why, "pattern of Split", NULL);
    struct pen_text quoted = PEN_TEXT_EMPTY;
    if (regex == NULL)
        quote(string, &quoted);
    struct pen__split_step *step = NULL;
    pen_status status =
        add_pattern(tokenizer, regex != NULL ? regex : pen_text_string(&quoted),
                    &step, why);
    pen_text_release(&quoted);
    if (status == PEN_OK) {
        step->drops_matches = is_removed && !is_inverted;
        step->drops_rest = is_removed && is_inverted;
    }
    return status;
}

static pen_status read_meta(const json_t *value,
                            struct pen_tokenizer *tokenizer,
                            struct pen_text *why)
{
    const char *replacement = string_in(value, "replacement");
    const char *scheme = string_in(value, "prepend_scheme");
    if (replacement == NULL || strcmp(replacement, PEN__META) != 0)
        return refuse(why, "replacement of Metaspace", replacement);
    struct pen__split_step *step;
    pen_status status = add_split(tokenizer, PEN__SPLIT_META, &step, why);
    if (status != PEN_OK)
        return status;
    step->is_split = flag_in(value, "split", true);
    bool has_prefix = flag_in(value, "add_prefix_space", true);
    step->scheme = has_prefix ? PEN__META_ALWAYS : PEN__META_NEVER;
    if (scheme == NULL || strcmp(scheme, "always") == 0)
        return PEN_OK;
    if (strcmp(scheme, "first") == 0)
        step->scheme = PEN__META_FIRST;
    else if (strcmp(scheme, "never") == 0)
        step->scheme = PEN__META_NEVER;
    else
        return refuse(why, "prepend_scheme", scheme);
    return PEN_OK;
}

pen_status pen__read_pre_tokenizer(const json_t *value,
                                   struct pen_tokenizer *tokenizer,
                                   struct pen_text *why)
{
    if (value == NULL || json_is_null(value))
        return PEN_OK;
    const char *type = string_in(value, "type");
    struct pen__split_step *step;
    if (type == NULL)
        return refuse(why, "type of the pre_tokenizer", type);
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(value, "pretokenizers", tokenizer,
                             pen__read_pre_tokenizer, why);
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(value, tokenizer, why);
    if (strcmp(type, "Split") == 0)
        return read_split(value, tokenizer, why);
    if (strcmp(type, "Metaspace") == 0)
        return read_meta(value, tokenizer, why);
    if (strcmp(type, "Digits") == 0)
        return add_pattern(
            tokenizer,
            flag_in(value, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
            &step, why);
    if (strcmp(type, "WhitespaceSplit") == 0) {
        pen_status status = add_pattern(tokenizer, "\\s+", &step, why);
        if (status == PEN_OK)
            step->drops_matches = true;
        return status;
    }
    return refuse(why, "pre_tokenizer", type);
}

/* ---- decoder ---- */

pen_status pen__read_decoder(const json_t *value,
                             struct pen_tokenizer *tokenizer,
                             struct pen_text *why)
{
    if (value == NULL || json_is_null(value))
        return PEN_OK;
    const char *type = string_in(value, "type");
    if (type == NULL)
        return refuse(why, "type of the decoder", type);
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(value, "decoders", tokenizer, pen__read_decoder,
                             why);
    if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = string_in(value, "prepend_scheme");
        tokenizer->decodes_meta = true;
        if (flag_in(value, "add_prefix_space", true) &&
            (scheme == NULL || strcmp(scheme, "never") != 0))
            tokenizer->prefix_rule = PEN__PREFIX_FIRST;
        return PEN_OK;
    }
    if (strcmp(type, "Replace") == 0) {
        const char *from =
            string_in(json_object_get(value, "pattern"), "String");
        const char *to = string_in(value, "content");
        if (from == NULL || strcmp(from, PEN__META) != 0 || to == NULL ||
            strcmp(to, " ") != 0)
            return refuse(why, "Replace in the decoder of", from);
        tokenizer->decodes_meta = true;
        return PEN_OK;
    }
    if (strcmp(type, "Strip") == 0) {
        json_int_t start = json_integer_value(json_object_get(value, "start"));
        json_int_t stop = json_integer_value(json_object_get(value, "stop"));
        const char *content = string_in(value, "content");
        if (content == NULL || strcmp(content, " ") != 0 || start < 0 ||
            start > 1 || stop != 0)
            return refuse(why, "Strip in the decoder of", content);
        if (start == 1)
            tokenizer->prefix_rule = PEN__PREFIX_SPACE;
        return PEN_OK;
    }
    if (strcmp(type, "ByteLevel") == 0 || strcmp(type, "ByteFallback") == 0 ||
        strcmp(type, "Fuse") == 0)
        return PEN_OK;
    return refuse(why, "decoder", type);
}
