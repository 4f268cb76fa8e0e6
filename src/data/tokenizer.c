/*
 * The common part of all tokenizers, whatever file they come from: the end of a
 * document, safe places to cut, and the way back from ids to text.
 */
#include "data/tokenizer.h"

#include "data/pipeline.h"
#include "data/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_BYTE 256u

struct pen_tokenizer *pen__tokenizer_create(void)
{
    struct pen_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL)
        return NULL;
    pen__vocab_init(&tokenizer->vocab);
    pen__bpe_init(&tokenizer->bpe, &tokenizer->vocab);
    tokenizer->unigram.unknown = PEN__NO_ID;
    tokenizer->end_of_document = PEN__NO_ID;
    tokenizer->renamed = PEN__NO_ID;
    return tokenizer;
}

static void release_added(struct pen__added_set *set)
{
    free(set->items);
    pen__trie_release(&set->trie);
}

void pen_tokenizer_free(struct pen_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    for (size_t i = 0; i < PEN__STEPS_MAX; i++) {
        struct pen__normal_step *step = &tokenizer->normal[i];
        pen_text_release(&step->from);
        pen_text_release(&step->to);
        pen__pattern_free(step->pattern);
        pen__charsmap_release(&step->charsmap);
        pen__pattern_free(tokenizer->splits[i].pattern);
    }
    release_added(&tokenizer->raw);
    release_added(&tokenizer->normalized);
    pen__bpe_release(&tokenizer->bpe);
    pen__unigram_release(&tokenizer->unigram);
    pen__vocab_release(&tokenizer->vocab);
    free(tokenizer->is_added);
    free(tokenizer->is_silent);
    free(tokenizer->byte_of);
    pen_text_release(&tokenizer->surface);
    free(tokenizer);
}

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    if (letter >= 'A' && letter <= 'F')
        return letter - 'A' + 10;
    return -1;
}

bool pen__is_byte_token(const char *text, size_t length, uint8_t *byte)
{
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return false;
    int high = hex_digit(text[3]);
    int low = hex_digit(text[4]);
    if (high < 0 || low < 0)
        return false;
    *byte = (uint8_t)(high * 16 + low);
    return true;
}

static void find_end_of_document(struct pen_tokenizer *tokenizer)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>",
                                        "</s>", "<eos>", "<|end_of_sentence|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (pen_tokenizer_find(tokenizer, names[i],
                               &tokenizer->end_of_document))
            return;
    }
}

/* Returns whether an added token could span a letter and a space after it. */
static bool has_wide_added(const struct pen_tokenizer *tokenizer,
                           const struct pen__added_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        size_t length;
        const char *text =
            pen__vocab_string(&tokenizer->vocab, set->items[i].id, &length);
        if (set->items[i].strips_left || set->items[i].strips_right)
            return true;
        for (size_t at = 0; at + 1 < length; at++) {
            if (text[at] >= 'a' && text[at] <= 'z' && text[at + 1] == ' ')
                return true;
        }
    }
    return false;
}

pen_status pen__tokenizer_finish(struct pen_tokenizer *tokenizer)
{
    size_t count = tokenizer->num_ids;
    tokenizer->byte_of = malloc((count + 1) * sizeof *tokenizer->byte_of);
    if (tokenizer->byte_of == NULL)
        return PEN_NOMEM;
    bool has_bytes = !tokenizer->bpe.is_byte_level;
    for (uint32_t id = 0; id < count; id++) {
        uint8_t byte;
        size_t length;
        tokenizer->byte_of[id] = NO_BYTE;
        if (!pen__vocab_has(&tokenizer->vocab, id))
            continue;
        const char *text = pen__vocab_string(&tokenizer->vocab, id, &length);
        if (length > tokenizer->longest_token)
            tokenizer->longest_token = length;
        if (has_bytes && pen__is_byte_token(text, length, &byte))
            tokenizer->byte_of[id] = byte;
    }
    find_end_of_document(tokenizer);
    if (has_wide_added(tokenizer, &tokenizer->raw) ||
        has_wide_added(tokenizer, &tokenizer->normalized))
        tokenizer->has_safe_cuts = false;
    return PEN_OK;
}

uint32_t pen_tokenizer_vocab_size(const struct pen_tokenizer *tokenizer)
{
    return tokenizer->num_ids;
}

static bool find_added(const struct pen__added_set *set, const char *token,
                       uint32_t *id)
{
    uint32_t index;
    size_t length = strlen(token);
    if (set->count == 0 ||
        pen__trie_longest(&set->trie, token, length, &index) != length)
        return false;
    *id = set->items[index].id;
    return true;
}

bool pen_tokenizer_find(const struct pen_tokenizer *tokenizer,
                        const char *token, uint32_t *id)
{
    if (find_added(&tokenizer->raw, token, id) ||
        find_added(&tokenizer->normalized, token, id))
        return true;
    uint32_t found = pen__vocab_find(&tokenizer->vocab, token, strlen(token));
    if (found >= tokenizer->num_ids)
        return false;
    *id = found;
    return true;
}

bool pen_tokenizer_end_of_document(const struct pen_tokenizer *tokenizer,
                                   uint32_t *id)
{
    *id = tokenizer->end_of_document;
    return tokenizer->end_of_document != PEN__NO_ID;
}

static bool is_letter(char letter)
{
    return letter >= 'a' && letter <= 'z';
}

size_t pen_tokenizer_cut(const struct pen_tokenizer *tokenizer,
                         const char *text, size_t length, size_t at,
                         size_t *next)
{
    *next = length;
    if (!tokenizer->has_safe_cuts)
        return length;
    for (at = at < 1 ? 1 : at; at + 1 < length; at++) {
        if (text[at] == ' ' && is_letter(text[at - 1]) &&
            is_letter(text[at + 1])) {
            /* A tokenizer of characters puts a space in front itself. */
            *next = tokenizer->bpe.is_byte_level ? at : at + 1;
            return at;
        }
    }
    return length;
}

/* Appends text with spaces, or nothing, for U+2581. */
static void add_without_meta(const char *text, size_t length, const char *space,
                             struct pen_text *out)
{
    while (length > 0) {
        const char *meta = pen__search(text, length, PEN__META, 3);
        size_t before = meta == NULL ? length : (size_t)(meta - text);
        pen_text_add_bytes(out, text, before);
        if (meta == NULL)
            return;
        pen_text_add_string(out, space);
        text += before + 3;
        length -= before + 3;
    }
}

/* The text of some ids in the making. */
struct decoding {
    const struct pen_tokenizer *tokenizer;
    struct pen_text *out;
    size_t begin; /* of the text in out */
    bool is_past_prefix;
};

/*
 * Returns whether to drop U+2581 in front of the first text, as SentencePiece
 * does.
 */
static bool drops_prefix(struct decoding *decoding, const char *text,
                         size_t length)
{
    enum pen__prefix_rule rule = decoding->tokenizer->prefix_rule;
    if ((rule != PEN__PREFIX_ONCE && rule != PEN__PREFIX_ALL) ||
        decoding->is_past_prefix || decoding->out->length > decoding->begin ||
        length < 3 || memcmp(text, PEN__META, 3) != 0)
        return false;
    decoding->is_past_prefix = rule == PEN__PREFIX_ONCE;
    return true;
}

static void add_token(struct decoding *decoding, uint32_t id, bool is_first)
{
    const struct pen_tokenizer *tokenizer = decoding->tokenizer;
    struct pen_text *out = decoding->out;
    size_t length;
    const char *text = pen__vocab_string(&tokenizer->vocab, id, &length);
    bool is_added = tokenizer->is_added != NULL && tokenizer->is_added[id];
    if (id == tokenizer->renamed) {
        pen_text_add_bytes(out, tokenizer->surface.bytes,
                           tokenizer->surface.length);
    } else if (is_added || !tokenizer->decodes_meta) {
        pen_text_add_bytes(out, text, length);
    } else {
        bool is_bare = is_first && tokenizer->prefix_rule == PEN__PREFIX_FIRST;
        size_t skipped = drops_prefix(decoding, text, length) ? 3 : 0;
        add_without_meta(text + skipped, length - skipped, is_bare ? "" : " ",
                         out);
    }
}

static void strip_space(struct pen_text *out, size_t begin)
{
    if (out->length == begin || out->bytes[begin] != ' ')
        return;
    memmove(out->bytes + begin, out->bytes + begin + 1, out->length - begin);
    out->length--;
}

static pen_status check_id(const struct pen_tokenizer *tokenizer, uint32_t id,
                           size_t place, struct pen_text *why)
{
    if (id < tokenizer->num_ids && pen__vocab_has(&tokenizer->vocab, id))
        return PEN_OK;
    pen_why(why, "token %zu is %" PRIu32 ", which is not in the vocabulary",
            place, id);
    return PEN_INVALID;
}

pen_status pen_tokenizer_decode(const struct pen_tokenizer *tokenizer,
                                const uint32_t *ids, size_t count,
                                struct pen_text *out, struct pen_text *why)
{
    struct decoding decoding = {
        .tokenizer = tokenizer, .out = out, .begin = out->length};
    for (size_t i = 0; i < count; i++) {
        uint32_t id = ids[i];
        pen_status status = check_id(tokenizer, id, i, why);
        if (status != PEN_OK)
            return status;
        if (tokenizer->is_silent != NULL && tokenizer->is_silent[id])
            continue;
        char byte = (char)tokenizer->byte_of[id];
        if (tokenizer->byte_of[id] != NO_BYTE)
            pen_text_add_bytes(out, &byte, 1);
        else
            add_token(&decoding, id, i == 0);
    }
    if (tokenizer->prefix_rule == PEN__PREFIX_SPACE)
        strip_space(out, decoding.begin);
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}
