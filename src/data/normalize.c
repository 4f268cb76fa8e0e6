/*
 * Steps from text to normalized text. Each appends to its output; what goes in
 * is checked UTF-8 and so is what comes out.
 */
#include "data/nfc.h"
#include "data/pipeline.h"
#include "data/utf8.h"

#include <string.h>

static void replace_string(const struct pen__normal_step *step,
                           const char *text, size_t length,
                           struct pen_text *out)
{
    const struct pen_text *from = &step->from;
    size_t done = 0;
    while (done < length) {
        const char *found =
            pen__search(text + done, length - done, from->bytes, from->length);
        size_t at = found == NULL ? length : (size_t)(found - text);
        pen_text_add_bytes(out, text + done, at - done);
        if (found == NULL)
            break;
        pen_text_add_bytes(out, pen_text_string(&step->to), step->to.length);
        done = at + from->length;
    }
}

static pen_status replace_pattern(const struct pen__normal_step *step,
                                  struct pen__matcher *matcher,
                                  const char *text, size_t length,
                                  struct pen_text *out)
{
    size_t done = 0;
    for (size_t from = 0; from < length;) {
        size_t begin;
        size_t end;
        pen_status status = pen__pattern_find(step->pattern, matcher, text,
                                              length, from, &begin, &end);
        if (status != PEN_OK)
            return status;
        if (begin == length)
            break;
        if (begin == end) {
            from = begin + pen__utf8_size(text[begin]);
            continue;
        }
        pen_text_add_bytes(out, text + done, begin - done);
        pen_text_add_bytes(out, pen_text_string(&step->to), step->to.length);
        done = from = end;
    }
    pen_text_add_bytes(out, text + done, length - done);
    return PEN_OK;
}

/*
 * The tokenizers package looks a grapheme of less than six bytes up as a
 * whole, by its shortest key, and only then character by character.
 */
static void map_grapheme(const struct pen__charsmap *map, const char *text,
                         size_t length, struct pen_text *out)
{
    const char *to;
    if (length < 6 && pen__charsmap_find(map, text, length, false, &to) > 0) {
        pen_text_add_string(out, to);
        return;
    }
    for (size_t at = 0; at < length;) {
        size_t size = pen__utf8_size(text[at]);
        if (pen__charsmap_find(map, text + at, size, false, &to) > 0)
            pen_text_add_string(out, to);
        else
            pen_text_add_bytes(out, text + at, size);
        at += size;
    }
}

static bool is_ascii(const char *text, size_t left)
{
    return left > 0 && (uint8_t)text[0] < 0x80;
}

static pen_status map_graphemes(const struct pen__normal_step *step,
                                struct pen__matcher *matcher, const char *text,
                                size_t length, struct pen_text *out)
{
    for (size_t at = 0; at < length;) {
        size_t begin = at;
        size_t end = at + 1;
        /* Two of ASCII are two graphemes, except CR LF. */
        bool is_plain = is_ascii(text + at, length - at) && text[at] != '\r' &&
                        (end == length || is_ascii(text + end, length - end));
        if (!is_plain) {
            pen_status status = pen__pattern_find(step->pattern, matcher, text,
                                                  length, at, &begin, &end);
            if (status != PEN_OK || begin != at || end == at)
                return PEN_INVALID;
        }
        map_grapheme(&step->charsmap, text + at, end - at, out);
        at = end;
    }
    return PEN_OK;
}

/* One unit of SentencePiece's normalizer: what it is, and what it becomes. */
struct prefix {
    size_t consumed;
    const char *to;
    size_t length;
};

static struct prefix normalize_prefix(const struct pen_tokenizer *tokenizer,
                                      const struct pen__normal_step *step,
                                      const char *text, size_t length)
{
    const struct pen__trie *frozen = &tokenizer->bpe.frozen;
    uint32_t ignored;
    size_t size = 0;
    if (frozen->num_nodes > 0)
        size = pen__trie_longest(frozen, text, length, &ignored);
    if (size > 0)
        return (struct prefix){size, text, size};
    const char *to;
    size = pen__charsmap_find(&step->charsmap, text, length, true, &to);
    if (size > 0)
        return (struct prefix){size, to, strlen(to)};
    size = pen__utf8_size(text[0]);
    return (struct prefix){size, text, size};
}

static void add_space(const struct pen__spaces *spaces, struct pen_text *out)
{
    pen_text_add_string(out, spaces->escapes ? PEN__META : " ");
}

static void add_escaped(const struct pen__spaces *spaces,
                        const struct prefix *prefix, struct pen_text *out)
{
    for (size_t i = 0; i < prefix->length; i++) {
        if (prefix->to[i] == ' ')
            add_space(spaces, out);
        else
            pen_text_add_bytes(out, prefix->to + i, 1);
    }
}

static void drop_trailing(const struct pen__spaces *spaces, size_t begin,
                          struct pen_text *out)
{
    const char *space = spaces->escapes ? PEN__META : " ";
    size_t size = strlen(space);
    while (out->length >= begin + size &&
           memcmp(out->bytes + out->length - size, space, size) == 0) {
        out->length -= size;
        out->bytes[out->length] = '\0';
    }
}

static void normalize_sentencepiece(const struct pen_tokenizer *tokenizer,
                                    const struct pen__normal_step *step,
                                    const char *text, size_t length,
                                    struct pen_text *out)
{
    const struct pen__spaces *spaces = &tokenizer->spaces;
    size_t begin = out->length;
    size_t at = 0;
    while (spaces->removes_extra && at < length) {
        struct prefix prefix =
            normalize_prefix(tokenizer, step, text + at, length - at);
        if (prefix.length != 1 || prefix.to[0] != ' ')
            break;
        at += prefix.consumed;
    }
    if (at == length)
        return;
    if (spaces->adds_prefix && !spaces->adds_suffix)
        add_space(spaces, out);
    bool was_space = spaces->removes_extra;
    while (at < length) {
        struct prefix prefix =
            normalize_prefix(tokenizer, step, text + at, length - at);
        at += prefix.consumed;
        while (was_space && prefix.length > 0 && prefix.to[0] == ' ') {
            prefix.to++;
            prefix.length--;
        }
        if (prefix.length == 0)
            continue;
        add_escaped(spaces, &prefix, out);
        was_space =
            spaces->removes_extra && prefix.to[prefix.length - 1] == ' ';
    }
    if (spaces->removes_extra)
        drop_trailing(spaces, begin, out);
    if (spaces->adds_prefix && spaces->adds_suffix)
        add_space(spaces, out);
}

static pen_status apply(const struct pen_tokenizer *tokenizer,
                        const struct pen__normal_step *step,
                        struct pen__matcher *matcher, const char *text,
                        size_t length, struct pen_text *out)
{
    switch (step->kind) {
    case PEN__NORMAL_NFC:
        pen__nfc_add(out, text, length);
        break;
    case PEN__NORMAL_PREPEND:
        if (length > 0)
            pen_text_add_bytes(out, pen_text_string(&step->to),
                               step->to.length);
        pen_text_add_bytes(out, text, length);
        break;
    case PEN__NORMAL_REPLACE:
        replace_string(step, text, length, out);
        break;
    case PEN__NORMAL_PATTERN:
        return replace_pattern(step, matcher, text, length, out);
    case PEN__NORMAL_CHARSMAP:
        return map_graphemes(step, matcher, text, length, out);
    case PEN__NORMAL_SENTENCEPIECE:
        normalize_sentencepiece(tokenizer, step, text, length, out);
        break;
    }
    return PEN_OK;
}

pen_status pen__normalize(const struct pen_tokenizer *tokenizer,
                          struct pen__matcher *matcher, const char *text,
                          size_t length, struct pen_text *scratch,
                          struct pen_text *out)
{
    pen_text_clear(out);
    pen_text_add_bytes(out, text, tokenizer->num_normal == 0 ? length : 0);
    for (size_t i = 0; i < tokenizer->num_normal; i++) {
        const char *from = i == 0 ? text : pen_text_string(out);
        pen_text_clear(scratch);
        pen_text_add_bytes(scratch, "", 0);
        pen_status status = apply(tokenizer, &tokenizer->normal[i], matcher,
                                  from, i == 0 ? length : out->length, scratch);
        if (status != PEN_OK)
            return status;
        struct pen_text swapped = *out;
        *out = *scratch;
        *scratch = swapped;
    }
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}
