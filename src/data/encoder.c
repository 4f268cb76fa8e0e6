/*
 * Runs the pipeline over a text, which comes in blocks. Splits are nested
 * calls, one level per step, so that no list of pieces is ever made.
 *
 *   block ─► raw ─► normalizer ─► normalized ─► levels[0] ... ─► model ─► ids
 *
 * Every station holds back the end of what it has when text that is not there
 * yet could change its decision, and nothing else. Therefore the ids do not
 * depend on where blocks end: a text in one block, which is its own end, is the
 * reference for all other ways to feed it (tests/property/data_stream.c).
 *
 * A station that is given its last block begins anew with the next one.
 * Stations pass on blocks of pieces: the next one need not see a piece whole.
 */
#include "data/nfc.h"
#include "data/normalize.h"
#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of text at a time; fewer where steps may make more text of it. */
#define BLOCK ((size_t)1 << 20)
#define GROWING_BLOCK ((size_t)128 << 10)

/* A model finds places to cut in shorter pieces; see feed_piece(). */
#define LONG_PIECE ((size_t)1 << 20)

/* Text between added tokens. */
struct cut_state {
    struct pen_text held;
    bool has_token; /* there was one in this text */
    bool swallows;  /* white space after the last match */
};

/* One level of splitting: the piece that is under way. */
struct split_state {
    struct pen_text held;    /* PATTERN */
    struct pen_text changed; /* PREFIX, META: of the last block */
    size_t behind;           /* PATTERN: held bytes that are done with */
    size_t ahead;            /* PATTERN: bytes in which no match begins */
    bool has_moved;          /* PATTERN: held does not begin with the piece */
    bool has_begun;
    bool is_first;  /* the text begins with it */
    bool has_inner; /* a piece of the next level is under way */
    bool had_inner; /* META: there was one */
};

struct pen_encoder {
    const struct pen_tokenizer *tokenizer;
    struct pen__matcher *matcher;
    struct pen__bpe_work *bpe;
    struct pen__unigram_work unigram;
    struct cut_state raw;
    struct pen__normalizer normalizer;
    bool has_part; /* text between raw added tokens is under way */
    bool is_first; /* the document begins with it */
    struct cut_state normalized;
    struct split_state levels[PEN__STEPS_MAX];
    bool has_piece; /* the model is given a piece in blocks */
    enum pen__fault fault;
    struct pen_token_list *out; /* of the call under way */
};

pen_status pen_encoder_create(const struct pen_tokenizer *tokenizer,
                              struct pen_encoder **out)
{
    struct pen_encoder *encoder = calloc(1, sizeof *encoder);
    if (encoder == NULL)
        return PEN_NOMEM;
    encoder->tokenizer = tokenizer;
    pen_status status = pen__matcher_create(&encoder->matcher);
    pen__normalizer_init(&encoder->normalizer, tokenizer, encoder->matcher);
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
    pen__normalizer_release(&encoder->normalizer);
    pen_text_release(&encoder->raw.held);
    pen_text_release(&encoder->normalized.held);
    for (size_t i = 0; i < PEN__STEPS_MAX; i++) {
        pen_text_release(&encoder->levels[i].held);
        pen_text_release(&encoder->levels[i].changed);
    }
    free(encoder);
}

static pen_status fail(struct pen_encoder *encoder, enum pen__fault fault)
{
    encoder->fault = fault;
    return PEN_INVALID;
}

static void encode_whole(struct pen_encoder *encoder,
                         const struct pen__block *block)
{
    const struct pen_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->model == PEN__MODEL_BPE)
        pen__bpe_encode(&tokenizer->bpe, encoder->bpe, block->text,
                        block->length, encoder->out);
    else
        pen__unigram_encode(&tokenizer->unigram, &encoder->unigram, block->text,
                            block->length, encoder->out);
}

/* Gives the model the next block of a piece that it does not get at once. */
static pen_status feed_piece(struct pen_encoder *encoder,
                             const struct pen__block *block)
{
    const struct pen_tokenizer *tokenizer = encoder->tokenizer;
    if (!encoder->has_piece && block->is_end)
        encode_whole(encoder, block);
    else if (tokenizer->model == PEN__MODEL_BPE)
        pen__bpe_feed(&tokenizer->bpe, encoder->bpe, block, encoder->out);
    else
        pen__unigram_feed(&tokenizer->unigram, &encoder->unigram, block,
                          encoder->out);
    encoder->has_piece = !block->is_end;
    bool is_stuck = encoder->bpe != NULL ? pen__bpe_work_is_stuck(encoder->bpe)
                                         : encoder->unigram.is_stuck;
    return is_stuck ? fail(encoder, PEN__FAULT_UNCUT) : PEN_OK;
}

/* Gives the model a piece, or the next block of the one that is under way. */
static pen_status encode_piece(struct pen_encoder *encoder,
                               struct pen__block block)
{
    bool is_whole = !encoder->has_piece && block.is_end;
    if (block.length == 0 && !encoder->has_piece)
        return PEN_OK;
    if (!is_whole || block.length > LONG_PIECE)
        return feed_piece(encoder, &block);
    encode_whole(encoder, &block);
    return PEN_OK;
}

static pen_status split(struct pen_encoder *encoder, size_t level,
                        struct pen__block block, bool is_first);

/* Passes on the text between matches, which may be incomplete. */
static pen_status split_rest(struct pen_encoder *encoder, size_t level,
                             struct pen__block rest, bool is_first)
{
    struct split_state *state = &encoder->levels[level];
    if (encoder->tokenizer->splits[level].drops_rest ||
        (rest.length == 0 && !state->has_inner))
        return PEN_OK;
    state->has_inner = !rest.is_end;
    return split(encoder, level + 1, rest, is_first);
}

/* Passes on the end of a block after its last match, from `done`. */
static pen_status end_block(struct pen_encoder *encoder, size_t level,
                            const struct pen__block *block, size_t done,
                            size_t stop)
{
    struct split_state *state = &encoder->levels[level];
    const struct pen__pattern *pattern =
        encoder->tokenizer->splits[level].pattern;
    struct pen__block rest = {block->text + done, stop - done, block->is_end};
    pen_status status =
        split_rest(encoder, level, rest,
                   state->is_first && !state->has_moved && done == 0);
    if (status != PEN_OK || block->is_end)
        return status;
    size_t kept = pen__pattern_keeps(pattern, block, stop);
    state->behind = stop - kept;
    state->has_moved |= stop > 0;
    if (!pen__hold_keep(&state->held, *block, kept))
        return fail(encoder, PEN__FAULT_UNCUT);
    return state->held.has_failed ? PEN_NOMEM : PEN_OK;
}

static pen_status split_by_pattern(struct pen_encoder *encoder, size_t level,
                                   struct pen__block block)
{
    const struct pen__split_step *step = &encoder->tokenizer->splits[level];
    struct split_state *state = &encoder->levels[level];
    bool is_first = state->is_first && !state->has_moved;
    struct pen__block all = pen__hold_join(&state->held, block);
    size_t done = state->behind;
    size_t from = done + state->ahead;
    size_t stop = all.length;
    while (from < all.length) {
        struct pen__match match;
        pen_status status = pen__pattern_find(step->pattern, encoder->matcher,
                                              &all, from, &match);
        if (status != PEN_OK)
            return fail(encoder, PEN__FAULT_STEPS);
        if (match.is_open)
            stop = match.begin;
        if (match.is_open || match.begin == all.length)
            break;
        if (match.begin == match.end) {
            from = match.begin + pen__utf8_size(all.text[match.begin]);
            continue;
        }
        struct pen__block rest = {all.text + done, match.begin - done, true};
        struct pen__block piece = {all.text + match.begin,
                                   match.end - match.begin, true};
        if (rest.length > 0 || state->has_inner)
            status = split_rest(encoder, level, rest, is_first && done == 0);
        if (status == PEN_OK && !step->drops_matches)
            status =
                split(encoder, level + 1, piece, is_first && match.begin == 0);
        if (status != PEN_OK)
            return status;
        done = from = match.end;
    }
    if (!all.is_end && !pen__pattern_may_skip(step->pattern))
        stop = done;
    state->ahead = from > stop ? from - stop : 0;
    return end_block(encoder, level, &all, done, stop);
}

static bool starts_with_meta(const char *text, size_t length)
{
    return length >= 3 && memcmp(text, PEN__META, 3) == 0;
}

static pen_status split_before_meta(struct pen_encoder *encoder, size_t level,
                                    struct pen__block block)
{
    struct split_state *state = &encoder->levels[level];
    const char *text = block.text;
    pen_status status = PEN_OK;
    if (state->has_inner && (starts_with_meta(text, block.length) ||
                             (block.is_end && block.length == 0))) {
        state->has_inner = false;
        status =
            split(encoder, level + 1, (struct pen__block){"", 0, true}, false);
    }
    for (size_t begin = 0; begin < block.length && status == PEN_OK;) {
        const char *next = pen__search(text + begin + 1,
                                       block.length - begin - 1, PEN__META, 3);
        size_t end = next == NULL ? block.length : (size_t)(next - text);
        struct pen__block piece = {text + begin, end - begin,
                                   next != NULL || block.is_end};
        status = split(encoder, level + 1, piece,
                       state->is_first && !state->had_inner);
        state->had_inner = true;
        state->has_inner = !piece.is_end;
        begin = end;
    }
    return status;
}

static pen_status split_by_meta(struct pen_encoder *encoder, size_t level,
                                struct pen__block block, bool begins)
{
    const struct pen__split_step *step = &encoder->tokenizer->splits[level];
    struct split_state *state = &encoder->levels[level];
    struct pen_text *changed = &state->changed;
    bool has_prefix = !begins || block.text[0] == ' ' ||
                      starts_with_meta(block.text, block.length);
    bool is_wanted = step->scheme == PEN__META_ALWAYS ||
                     (step->scheme == PEN__META_FIRST && state->is_first);
    pen_text_clear(changed);
    if (is_wanted && !has_prefix)
        pen_text_add_string(changed, PEN__META);
    for (size_t i = 0; i < block.length; i++) {
        if (block.text[i] == ' ')
            pen_text_add_string(changed, PEN__META);
        else
            pen_text_add_bytes(changed, block.text + i, 1);
    }
    if (changed->has_failed)
        return PEN_NOMEM;
    struct pen__block made = {pen_text_string(changed), changed->length,
                              block.is_end};
    if (step->is_split)
        return split_before_meta(encoder, level, made);
    return split(encoder, level + 1, made, state->is_first);
}

static pen_status split_with_prefix(struct pen_encoder *encoder, size_t level,
                                    struct pen__block block, bool begins)
{
    struct split_state *state = &encoder->levels[level];
    struct pen_text *changed = &state->changed;
    if (!begins || block.text[0] == ' ')
        return split(encoder, level + 1, block, state->is_first);
    pen_text_clear(changed);
    pen_text_add_string(changed, " ");
    pen_text_add_bytes(changed, block.text, block.length);
    if (changed->has_failed)
        return PEN_NOMEM;
    block.text = changed->bytes;
    block.length = changed->length;
    return split(encoder, level + 1, block, state->is_first);
}

static void end_split(struct split_state *state)
{
    pen_text_clear(&state->held);
    state->behind = 0;
    state->ahead = 0;
    state->has_moved = false;
    state->has_begun = false;
    state->has_inner = false;
    state->had_inner = false;
}

/* Splits a piece, or the next block of the one that is under way. */
static pen_status split(struct pen_encoder *encoder, size_t level,
                        struct pen__block block, bool is_first)
{
    if (level == encoder->tokenizer->num_splits)
        return encode_piece(encoder, block);
    struct split_state *state = &encoder->levels[level];
    bool begins = !state->has_begun;
    pen_status status = PEN_OK;
    if (begins && block.length == 0)
        return PEN_OK;
    if (begins)
        state->is_first = is_first;
    state->has_begun = true;
    switch (encoder->tokenizer->splits[level].kind) {
    case PEN__SPLIT_PATTERN:
        status = split_by_pattern(encoder, level, block);
        break;
    case PEN__SPLIT_PREFIX:
        status = split_with_prefix(encoder, level, block, begins);
        break;
    case PEN__SPLIT_META:
        status = split_by_meta(encoder, level, block, begins);
        break;
    }
    if (block.is_end)
        end_split(state);
    return status;
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

/* Returns where the white space in front of `end` begins. */
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

static size_t skip_spaces(const char *text, size_t at, size_t length)
{
    for (size_t size = 1; size > 0; at += size)
        size = space_size(text + at, length - at);
    return at;
}

typedef pen_status part_function(struct pen_encoder *encoder,
                                 struct pen__block block, bool is_first);

/* Returns the next place, from `at` on, where an added token may begin. */
static size_t next_added(const struct pen__added_set *set,
                         const struct pen__block *block, size_t at)
{
    while (at < block->length && set->trie.root[(uint8_t)block->text[at]] == 0)
        at++;
    return at;
}

/* Cuts added tokens out; the longest of those that begin first. */
static pen_status cut_added(struct pen_encoder *encoder,
                            const struct pen__added_set *set,
                            struct cut_state *state, struct pen__block block,
                            bool is_first, part_function *part)
{
    if (set->count == 0)
        return part(encoder, block, is_first);
    struct pen__block all = pen__hold_join(&state->held, block);
    const char *text = all.text;
    size_t done = state->swallows ? skip_spaces(text, 0, all.length) : 0;
    size_t at = next_added(set, &all, done);
    state->swallows &= done == all.length;
    while (at < all.length && (all.is_end || all.length - at >= set->longest)) {
        uint32_t index;
        size_t size =
            pen__trie_longest(&set->trie, text + at, all.length - at, &index);
        if (size == 0) {
            at = next_added(set, &all, at + 1);
            continue;
        }
        const struct pen__added *added = &set->items[index];
        size_t begin = added->strips_left ? strip_left(text, done, at) : at;
        size_t end = at + size;
        if (added->strips_right)
            end = skip_spaces(text, end, all.length);
        state->swallows = added->strips_right && end == all.length;
        struct pen__block before = {text + done, begin - done, true};
        pen_status status =
            part(encoder, before, is_first && !state->has_token);
        if (status != PEN_OK)
            return status;
        pen_token_list_add_one(encoder->out, added->id);
        state->has_token = true;
        done = end;
        at = next_added(set, &all, done);
    }
    size_t stop =
        all.is_end || !set->strips_left ? at : strip_left(text, done, at);
    struct pen__block rest = {text + done, stop - done, all.is_end};
    pen_status status = part(encoder, rest, is_first && !state->has_token);
    if (status != PEN_OK)
        return status;
    if (all.is_end) {
        state->has_token = state->swallows = false;
        pen_text_clear(&state->held);
    } else if (!pen__hold_keep(&state->held, all, stop)) {
        return fail(encoder, PEN__FAULT_UNCUT);
    }
    return state->held.has_failed ? PEN_NOMEM : PEN_OK;
}

static pen_status split_part(struct pen_encoder *encoder,
                             struct pen__block block, bool is_first)
{
    return split(encoder, 0, block, is_first);
}

/*
 * Returns whether a text is in form C already, as most are: nothing needs to be
 * copied.
 */
static bool needs_no_change(const struct pen_encoder *encoder,
                            const struct pen__block *block, bool begins)
{
    const struct pen_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->num_normal == 0)
        return true;
    return tokenizer->num_normal == 1 && begins && block->is_end &&
           tokenizer->normal[0].kind == PEN__NORMAL_NFC &&
           pen__nfc_calm(block->text, block->length) == block->length;
}

/* Encodes text between raw added tokens, or its next block. */
static pen_status encode_part(struct pen_encoder *encoder,
                              struct pen__block block, bool is_first)
{
    const struct pen_tokenizer *tokenizer = encoder->tokenizer;
    bool begins = !encoder->has_part;
    if (begins && block.length == 0)
        return PEN_OK;
    if (begins)
        encoder->is_first = is_first;
    encoder->has_part = !block.is_end;
    if (!needs_no_change(encoder, &block, begins)) {
        pen_status status = pen__normalizer_feed(&encoder->normalizer, &block);
        if (status == PEN_INVALID)
            return fail(encoder, encoder->normalizer.fault);
        if (status != PEN_OK)
            return status;
    }
    return cut_added(encoder, &tokenizer->normalized, &encoder->normalized,
                     block, encoder->is_first, split_part);
}

/* Resets after a failure: the next block begins a document. */
static void end_document(struct pen_encoder *encoder)
{
    pen__normalizer_reset(&encoder->normalizer);
    pen_text_clear(&encoder->raw.held);
    pen_text_clear(&encoder->normalized.held);
    encoder->raw.has_token = encoder->raw.swallows = false;
    encoder->normalized.has_token = encoder->normalized.swallows = false;
    encoder->has_part = encoder->has_piece = false;
    for (size_t i = 0; i < PEN__STEPS_MAX; i++)
        end_split(&encoder->levels[i]);
    if (encoder->bpe != NULL)
        pen__bpe_work_reset(encoder->bpe);
    pen__unigram_work_reset(&encoder->unigram);
}

static void name_fault(enum pen__fault fault, struct pen_text *why)
{
    switch (fault) {
    case PEN__FAULT_STEPS:
        pen_why(why, "a pattern of the tokenizer needs too many steps");
        break;
    case PEN__FAULT_GROWTH:
        pen_why(why,
                "the tokenizer's normalizer makes a text more than %u times as "
                "long; remove the Replace or Prepend that does so from "
                "tokenizer.json",
                PEN__GROWTH_MAX);
        break;
    case PEN__FAULT_UNCUT:
        pen_why(why,
                "the tokenizer has no safe place to cut this text within %zu "
                "MB; split it into shorter documents, or use a tokenizer "
                "that splits text into words",
                PEN__HOLD_MAX >> 20);
        break;
    }
}

pen_status pen__encoder_feed(struct pen_encoder *encoder,
                             struct pen__block block,
                             struct pen_token_list *out, struct pen_text *why)
{
    encoder->out = out;
    pen_status status = cut_added(encoder, &encoder->tokenizer->raw,
                                  &encoder->raw, block, true, encode_part);
    if (status == PEN_INVALID)
        name_fault(encoder->fault, why);
    if (status == PEN_OK && out->has_failed)
        status = PEN_NOMEM;
    if (status == PEN_NOMEM)
        pen_why(why, "out of memory while encoding");
    if (status != PEN_OK)
        end_document(encoder);
    else if (block.is_end)
        pen__normalizer_reset(&encoder->normalizer);
    return status;
}

static pen_status check_text(const char *text, size_t length,
                             struct pen_text *why)
{
    size_t bad = pen__utf8_check(text, length);
    if (bad == length)
        return PEN_OK;
    pen_why(why, "byte %zu is not UTF-8", bad);
    return PEN_INVALID;
}

pen_status pen_encoder_feed(struct pen_encoder *encoder, const char *text,
                            size_t length, bool is_end,
                            struct pen_token_list *out, struct pen_text *why)
{
    struct pen__block block = {length == 0 ? "" : text, length, is_end};
    pen_status status = check_text(block.text, length, why);
    if (status == PEN_OK)
        return pen__encoder_feed(encoder, block, out, why);
    end_document(encoder);
    return status;
}

size_t pen_tokenizer_block(const struct pen_tokenizer *tokenizer)
{
    bool grows = false;
    for (size_t i = 0; i < tokenizer->num_normal; i++)
        grows |= tokenizer->normal[i].kind != PEN__NORMAL_NFC;
    return grows ? GROWING_BLOCK : BLOCK;
}

pen_status pen_encoder_encode(struct pen_encoder *encoder, const char *text,
                              size_t length, struct pen_token_list *out,
                              struct pen_text *why)
{
    size_t most = 2 * pen_tokenizer_block(encoder->tokenizer);
    pen_status status = check_text(length == 0 ? "" : text, length, why);
    while (status == PEN_OK && length > most) {
        size_t size = pen__utf8_before(text, most + 1);
        status = pen__encoder_feed(
            encoder, (struct pen__block){text, size, false}, out, why);
        text += size;
        length -= size;
    }
    if (status != PEN_OK)
        return status;
    return pen__encoder_feed(
        encoder, (struct pen__block){length == 0 ? "" : text, length, true},
        out, why);
}

void pen__encoder_set_window(struct pen_encoder *encoder, size_t window)
{
    if (encoder->bpe != NULL)
        pen__bpe_work_set_window(encoder->bpe, window);
    encoder->unigram.window = window;
}
