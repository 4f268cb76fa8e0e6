/*
 * Runs the pipeline over a text. Splits are nested calls, one level per step,
 * so that no list of pieces is ever made.
 */
#include "data/nfc.h"
#include "data/pipeline.h"
#include "data/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct pen_encoder {
    const struct pen_tokenizer *tokenizer;
    struct pen__matcher *matcher;
    struct pen__bpe_work *bpe;
    struct pen__unigram_work unigram;
    struct pen_text normalized;
    struct pen_text scratch;
    struct pen_text levels[PEN__STEPS_MAX]; /* text that a split has changed */
    struct pen_token_list *out;             /* of the call under way */
};

pen_status pen_encoder_create(const struct pen_tokenizer *tokenizer,
                              struct pen_encoder **out)
{
    struct pen_encoder *encoder = calloc(1, sizeof *encoder);
    if (encoder == NULL)
        return PEN_NOMEM;
    encoder->tokenizer = tokenizer;
    pen_status status = pen__matcher_create(&encoder->matcher);
    if (status == PEN_OK && tokenizer->model == PEN__MODEL_BPE)
        status = pen__bpe_work_create(&encoder->bpe);
    if (status == PEN_OK)
        *out = encoder;
    else
        pen_encoder_free(encoder);
    return status;
}

void pen_encoder_free(struct pen_encoder *encoder)
{
    if (encoder == NULL)
        return;
    pen__matcher_free(encoder->matcher);
    pen__bpe_work_free(encoder->bpe);
    pen__unigram_work_release(&encoder->unigram);
    pen_text_release(&encoder->normalized);
    pen_text_release(&encoder->scratch);
    for (size_t i = 0; i < PEN__STEPS_MAX; i++)
        pen_text_release(&encoder->levels[i]);
    free(encoder);
}

static void encode_piece(struct pen_encoder *encoder, const char *text,
                         size_t length)
{
    const struct pen_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->model == PEN__MODEL_BPE)
        pen__bpe_encode(&tokenizer->bpe, encoder->bpe, text, length,
                        encoder->out);
    else
        pen__unigram_encode(&tokenizer->unigram, &encoder->unigram, text,
                            length, encoder->out);
}

static pen_status split(struct pen_encoder *encoder, size_t level,
                        const char *text, size_t length, bool is_first);

static pen_status split_by_pattern(struct pen_encoder *encoder, size_t level,
                                   const char *text, size_t length,
                                   bool is_first)
{
    const struct pen__split_step *step = &encoder->tokenizer->splits[level];
    size_t done = 0;
    for (size_t from = 0; from < length;) {
        size_t begin;
        size_t end;
        pen_status status = pen__pattern_find(step->pattern, encoder->matcher,
                                              text, length, from, &begin, &end);
        if (status != PEN_OK)
            return status;
        if (begin == length)
            break;
        if (begin == end) {
            from = begin + pen__utf8_size(text[begin]);
            continue;
        }
        if (!step->drops_rest)
            status = split(encoder, level + 1, text + done, begin - done,
                           is_first && done == 0);
        if (status == PEN_OK && !step->drops_matches)
            status = split(encoder, level + 1, text + begin, end - begin,
                           is_first && begin == 0);
        if (status != PEN_OK)
            return status;
        done = from = end;
    }
    if (step->drops_rest)
        return PEN_OK;
    return split(encoder, level + 1, text + done, length - done,
                 is_first && done == 0);
}

static pen_status split_before_meta(struct pen_encoder *encoder, size_t level,
                                    const char *text, size_t length,
                                    bool is_first)
{
    size_t begin = 0;
    while (begin < length) {
        const char *next =
            pen__search(text + begin + 1, length - begin - 1, PEN__META, 3);
        size_t end = next == NULL ? length : (size_t)(next - text);
        pen_status status = split(encoder, level + 1, text + begin, end - begin,
                                  is_first && begin == 0);
        if (status != PEN_OK)
            return status;
        begin = end;
    }
    return PEN_OK;
}

static pen_status split_by_meta(struct pen_encoder *encoder, size_t level,
                                const char *text, size_t length, bool is_first)
{
    const struct pen__split_step *step = &encoder->tokenizer->splits[level];
    struct pen_text *changed = &encoder->levels[level];
    bool has_prefix =
        text[0] == ' ' || (length >= 3 && memcmp(text, PEN__META, 3) == 0);
    bool is_wanted = step->scheme == PEN__META_ALWAYS ||
                     (step->scheme == PEN__META_FIRST && is_first);
    pen_text_clear(changed);
    if (is_wanted && !has_prefix)
        pen_text_add_string(changed, PEN__META);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ')
            pen_text_add_string(changed, PEN__META);
        else
            pen_text_add_bytes(changed, text + i, 1);
    }
    if (changed->has_failed)
        return PEN_NOMEM;
    if (step->is_split)
        return split_before_meta(encoder, level, changed->bytes,
                                 changed->length, is_first);
    return split(encoder, level + 1, changed->bytes, changed->length, is_first);
}

static pen_status split_with_prefix(struct pen_encoder *encoder, size_t level,
                                    const char *text, size_t length,
                                    bool is_first)
{
    struct pen_text *changed = &encoder->levels[level];
    if (text[0] == ' ')
        return split(encoder, level + 1, text, length, is_first);
    pen_text_clear(changed);
    pen_text_add_string(changed, " ");
    pen_text_add_bytes(changed, text, length);
    if (changed->has_failed)
        return PEN_NOMEM;
    return split(encoder, level + 1, changed->bytes, changed->length, is_first);
}

static pen_status split(struct pen_encoder *encoder, size_t level,
                        const char *text, size_t length, bool is_first)
{
    if (length == 0)
        return PEN_OK;
    if (level == encoder->tokenizer->num_splits) {
        encode_piece(encoder, text, length);
        return PEN_OK;
    }
    switch (encoder->tokenizer->splits[level].kind) {
    case PEN__SPLIT_PATTERN:
        return split_by_pattern(encoder, level, text, length, is_first);
    case PEN__SPLIT_PREFIX:
        return split_with_prefix(encoder, level, text, length, is_first);
    case PEN__SPLIT_META:
        return split_by_meta(encoder, level, text, length, is_first);
    }
    return PEN_OK;
}

static size_t space_size(const char *text, size_t length)
{
    static const uint32_t spaces[] = {0x85,   0xa0,   0x1680, 0x2028,
                                      0x2029, 0x202f, 0x205f, 0x3000};
    size_t size;
    if (length == 0)
        return 0;
    uint32_t character = pen__utf8_read(text, &size);
    bool is_space = character == ' ' || (character >= 9 && character <= 13) ||
                    (character >= 0x2000 && character <= 0x200a);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        is_space |= character == spaces[i];
    return is_space ? size : 0;
}

/* Where the white space in front of `end` begins. */
static size_t strip_left(const char *text, size_t begin, size_t end)
{
    while (end > begin) {
        size_t at = end - 1;
        while (at > begin && ((uint8_t)text[at] & 0xc0) == 0x80)
            at--;
        if (space_size(text + at, end - at) == 0)
            break;
        end = at;
    }
    return end;
}

typedef pen_status part_function(struct pen_encoder *encoder, const char *text,
                                 size_t length, bool is_first);

/* Cuts added tokens out; the longest of those that begin first. */
static pen_status cut_added(struct pen_encoder *encoder,
                            const struct pen__added_set *set, const char *text,
                            size_t length, bool is_first, part_function *part)
{
    size_t done = 0;
    for (size_t at = 0; set->count > 0 && at < length;) {
        uint32_t index;
        size_t size = 0;
        if (set->trie.root[(uint8_t)text[at]] != 0)
            size =
                pen__trie_longest(&set->trie, text + at, length - at, &index);
        if (size == 0) {
            at++;
            continue;
        }
        const struct pen__added *added = &set->items[index];
        size_t begin = added->strips_left ? strip_left(text, done, at) : at;
        size_t end = at + size;
        for (size_t space = 1; added->strips_right && space > 0; end += space)
            space = space_size(text + end, length - end);
        pen_status status =
            part(encoder, text + done, begin - done, is_first && done == 0);
        if (status != PEN_OK)
            return status;
        pen_token_list_add_one(encoder->out, added->id);
        done = at = end;
    }
    return part(encoder, text + done, length - done, is_first && done == 0);
}

static pen_status split_part(struct pen_encoder *encoder, const char *text,
                             size_t length, bool is_first)
{
    return split(encoder, 0, text, length, is_first);
}

/* Most text is in form C already; then nothing needs to be copied. */
static bool needs_no_change(const struct pen_tokenizer *tokenizer,
                            const char *text, size_t length)
{
    if (tokenizer->num_normal == 0)
        return true;
    return tokenizer->num_normal == 1 &&
           tokenizer->normal[0].kind == PEN__NORMAL_NFC &&
           pen__nfc_calm(text, length) == length;
}

static pen_status encode_part(struct pen_encoder *encoder, const char *text,
                              size_t length, bool is_first)
{
    const struct pen_tokenizer *tokenizer = encoder->tokenizer;
    if (length == 0)
        return PEN_OK;
    if (!needs_no_change(tokenizer, text, length)) {
        pen_status status =
            pen__normalize(tokenizer, encoder->matcher, text, length,
                           &encoder->scratch, &encoder->normalized);
        if (status != PEN_OK)
            return status;
        text = pen_text_string(&encoder->normalized);
        length = encoder->normalized.length;
    }
    return cut_added(encoder, &tokenizer->normalized, text, length, is_first,
                     split_part);
}

pen_status pen_encoder_encode(struct pen_encoder *encoder, const char *text,
                              size_t length, struct pen_token_list *out,
                              struct pen_text *why)
{
    /* Positions are kept in 32 bits; normalization may triple the text. */
    if (length > UINT32_MAX / 4) {
        pen_why(why, "a text of %zu bytes is too long to be encoded at once",
                length);
        return PEN_INVALID;
    }
    size_t bad = pen__utf8_check(text, length);
    if (bad != length) {
        pen_why(why, "byte %zu is not UTF-8", bad);
        return PEN_INVALID;
    }
    encoder->out = out;
    pen_status status = cut_added(encoder, &encoder->tokenizer->raw, text,
                                  length, true, encode_part);
    if (status == PEN_INVALID)
        pen_why(why, "a pattern of the tokenizer needs too many steps");
    if (status == PEN_OK && (out->has_failed || encoder->normalized.has_failed))
        status = PEN_NOMEM;
    if (status == PEN_NOMEM)
        pen_why(why, "out of memory while encoding");
    return status;
}
