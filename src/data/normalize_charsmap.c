/*
 * The steps of normalization that follow the rules of a SentencePiece model:
 * as the tokenizers package applies them, and as SentencePiece itself does,
 * with its treatment of spaces.
 */
#include "data/normalize.h"
#include "data/utf8.h"

#include <string.h>

/*
 * Maps a grapheme. The tokenizers package looks one of less than six bytes up
 * as a whole, by its shortest key, and only then character by character.
 */
static void map_grapheme(const struct pen__charsmap *map, const char *text,
                         size_t length, struct pen_text *out)
{
    const char *to;
    if (length < 6 && pen__charsmap_find(map, text, length, &to) > 0) {
        pen_text_add_string(out, to);
        return;
    }
    for (size_t at = 0; at < length;) {
        size_t size = pen__utf8_size(text[at]);
        if (pen__charsmap_find(map, text + at, size, &to) > 0)
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

/*
 * Flags are pairs of regional indicators, U+1F1E6 to U+1F1FF: where a pair
 * begins is known only from the first of a row.
 */
static bool is_indicator(const char *text, size_t at)
{
    return at >= 4 && memcmp(text + at - 4, "\xf0\x9f\x87", 3) == 0;
}

/* Finds the grapheme at `at`; *end == at when later text decides. */
static pen_status find_grapheme(const struct pen__normalizer *normalizer,
                                const struct pen__normal_step *step,
                                const struct pen__block *block, size_t at,
                                size_t *end)
{
    const char *text = block->text;
    size_t left = block->length - at;
    /* Two of ASCII are two graphemes, except CR LF. */
    if (is_ascii(text + at, left) && text[at] != '\r' &&
        (left == 1 ? block->is_end : is_ascii(text + at + 1, left - 1))) {
        *end = at + 1;
        return PEN_OK;
    }
    struct pen__match match = {.is_open = false};
    pen_status status = pen__pattern_find(step->pattern, normalizer->matcher,
                                          block, at, &match);
    *end = match.is_open ? at : match.end;
    if (status == PEN_OK && match.begin == at &&
        (match.is_open || match.end > at))
        return PEN_OK;
    return PEN_INVALID;
}

pen_status pen__normalize_graphemes(const struct pen__normalizer *normalizer,
                                    const struct pen__normal_step *step,
                                    struct pen__normal_state *state,
                                    const struct pen__block *block,
                                    size_t *done)
{
    struct pen_text *out = &state->out;
    size_t kept = 0; /* length of out for the text up to *done */
    for (size_t at = 0; at < block->length;) {
        size_t end;
        pen_status status = find_grapheme(normalizer, step, block, at, &end);
        if (status != PEN_OK)
            return status;
        if (end == at)
            break;
        map_grapheme(&step->charsmap, block->text + at, end - at, out);
        at = end;
        if (block->is_end || !is_indicator(block->text, at)) {
            *done = at;
            kept = out->length;
        }
        if (pen__normalize_is_full(state))
            return PEN_OK;
    }
    if (out->bytes != NULL) {
        out->length = kept;
        out->bytes[kept] = '\0';
    }
    return PEN_OK;
}

/* One unit of SentencePiece's normalizer: what it is, and what it becomes. */
struct prefix {
    size_t consumed; /* 0: what follows the block decides */
    const char *to;
    size_t length;
};

/* Called for every character, from two places. */
static inline struct prefix
normalize_prefix(const struct pen_tokenizer *tokenizer,
                 const struct pen__normal_step *step,
                 const struct pen__block *block, size_t at)
{
    const struct pen__trie *frozen = &tokenizer->bpe.frozen;
    const char *text = block->text + at;
    size_t length = block->length - at;
    uint32_t ignored;
    bool is_open = false;
    size_t size = 0;
    if (frozen->num_nodes > 0) {
        if (!block->is_end && length < tokenizer->longest_token)
            return (struct prefix){.consumed = 0};
        size = pen__trie_longest(frozen, text, length, &ignored);
    }
    if (size > 0)
        return (struct prefix){size, text, size};
    const char *to = NULL;
    if (step->charsmap.num_units > 0)
        size = pen__charsmap_find_longest(&step->charsmap, text, length, &to,
                                          &is_open);
    if (is_open && !block->is_end)
        return (struct prefix){.consumed = 0};
    if (size > 0)
        return (struct prefix){size, to, strlen(to)};
    size = (uint8_t)text[0] < 0x80 ? 1 : pen__utf8_size(text[0]);
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

/* Takes spaces from the end and returns their number. */
static size_t take_trailing(const struct pen__spaces *spaces,
                            struct pen_text *out)
{
    const char *space = spaces->escapes ? PEN__META : " ";
    size_t size = strlen(space);
    size_t count = 0;
    while (out->length >= size &&
           memcmp(out->bytes + out->length - size, space, size) == 0) {
        out->length -= size;
        out->bytes[out->length] = '\0';
        count++;
    }
    return count;
}

/* Passes over spaces at the beginning; false: the block has nothing else. */
static bool begin_text(const struct pen__normalizer *normalizer,
                       const struct pen__normal_step *step,
                       struct pen__normal_state *state,
                       const struct pen__block *block, size_t *done)
{
    const struct pen__spaces *spaces = &normalizer->tokenizer->spaces;
    while (spaces->removes_extra && *done < block->length) {
        struct prefix prefix =
            normalize_prefix(normalizer->tokenizer, step, block, *done);
        if (prefix.consumed == 0)
            return false;
        if (prefix.length != 1 || prefix.to[0] != ' ')
            break;
        *done += prefix.consumed;
    }
    if (*done == block->length)
        return false;
    if (spaces->adds_prefix && !spaces->adds_suffix)
        add_space(spaces, &state->out);
    state->was_space = spaces->removes_extra;
    state->has_begun = true;
    return true;
}

/* A stretch of text that stays as it is, not yet in the output. */
struct stretch {
    const char *text;
    size_t length;
};

static void put_stretch(struct stretch *stretch, struct pen_text *out)
{
    if (stretch->length > 0)
        pen_text_add_bytes(out, stretch->text, stretch->length);
    stretch->length = 0;
}

/* Adds what a unit becomes, as long as it is not all spaces too many. */
static void add_prefix(const struct pen__spaces *spaces,
                       struct pen__normal_state *state, struct prefix prefix)
{
    while (state->was_space && prefix.length > 0 && prefix.to[0] == ' ') {
        prefix.to++;
        prefix.length--;
    }
    if (prefix.length == 0)
        return;
    add_escaped(spaces, &prefix, &state->out);
    state->was_space =
        spaces->removes_extra && prefix.to[prefix.length - 1] == ' ';
}

void pen__normalize_sentencepiece(const struct pen__normalizer *normalizer,
                                  const struct pen__normal_step *step,
                                  struct pen__normal_state *state,
                                  const struct pen__block *block, size_t *done)
{
    const struct pen__spaces *spaces = &normalizer->tokenizer->spaces;
    struct pen_text *out = &state->out;
    struct stretch same = {.length = 0};
    if (!state->has_begun && !begin_text(normalizer, step, state, block, done))
        return;
    for (; state->num_spaces > 0; state->num_spaces--)
        add_space(spaces, out);
    while (*done < block->length && !pen__normalize_is_full(state)) {
        const char *text = block->text + *done;
        struct prefix prefix =
            normalize_prefix(normalizer->tokenizer, step, block, *done);
        if (prefix.consumed == 0)
            break;
        *done += prefix.consumed;
        if (prefix.to == text && text[0] != ' ' &&
            normalizer->tokenizer->bpe.frozen.num_nodes == 0) {
            same.text = same.length == 0 ? text : same.text;
            same.length += prefix.length;
            state->was_space = false;
        } else {
            put_stretch(&same, out);
            add_prefix(spaces, state, prefix);
        }
    }
    put_stretch(&same, out);
    /* Spaces at the end of the text go; whether this is it, shows later. */
    if (spaces->removes_extra)
        state->num_spaces = take_trailing(spaces, out);
    if (block->is_end && spaces->adds_prefix && spaces->adds_suffix)
        add_space(spaces, out);
}
