/*
 * Reads tokenizer.json of the tokenizers package, and GPT-2's own pair of
 * files. Keys that do not change ids are ignored; what would change them and
 * is not known is refused.
 *
 * A byte-level vocabulary writes bytes as printable characters: those that
 * Latin-1 can print stand for themselves, the others, in order, for U+0100 and
 * on. Here tokens are kept as the bytes they mean.
 */
#include "base/bug.h"
#include "base/json.h"
#include "data/normalize.h"
#include "data/steps_json.h"
#include "data/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_printable(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

/* The byte of each character below U+0144; -1: none. */
#define ALPHABET 0x144u

static void make_alphabet(int16_t bytes[ALPHABET])
{
    uint32_t next = 0x100;
    for (uint32_t i = 0; i < ALPHABET; i++)
        bytes[i] = -1;
    for (uint32_t byte = 0; byte < 256; byte++)
        bytes[is_printable(byte) ? byte : next++] = (int16_t)byte;
}

/* Appends what a token means; false when it is not written in the alphabet. */
static bool add_meaning(const int16_t alphabet[ALPHABET], const char *token,
                        struct pen_text *out)
{
    size_t size;
    for (; *token != '\0'; token += size) {
        uint32_t character = pen__utf8_read(token, &size);
        if (character >= ALPHABET || alphabet[character] < 0)
            return false;
        char byte = (char)alphabet[character];
        pen_text_add_bytes(out, &byte, 1);
    }
    return true;
}

/*
 * jansson has no keys with a NUL inside, but vocabularies have: "\u0000" is
 * read as a character that no text may hold, and turned back in tokens.
 */
#define NUL_ESCAPE "\\u0000"
#define NUL_STAND_IN "\xef\xb7\x90" /* U+FDD0 */

struct reader {
    struct pen_tokenizer *tokenizer;
    int16_t alphabet[ALPHABET];
    struct pen_text token; /* work memory */
    struct pen_text *why;
};

static pen_status read_id(const json_t *value, const char *what, uint32_t *out,
                          struct pen_text *why)
{
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= (json_int_t)PEN__VOCAB_MAX) {
        pen_why(why, "%s must be an integer from 0 to %u", what,
                PEN__VOCAB_MAX - 1);
        return PEN_INVALID;
    }
    *out = (uint32_t)id;
    return PEN_OK;
}

static pen_status set_literal(struct pen__vocab *vocab, uint32_t id,
                              const char *key)
{
    if (strcmp(key, NUL_STAND_IN) == 0)
        return pen__vocab_set(vocab, id, "", 1);
    return pen__vocab_set(vocab, id, key, strlen(key));
}

static pen_status add_vocab_entry(struct reader *reader, const char *key,
                                  const json_t *value)
{
    struct pen__vocab *vocab = &reader->tokenizer->vocab;
    uint32_t id;
    pen_status status =
        read_id(value, "an id in model.vocab", &id, reader->why);
    if (status != PEN_OK)
        return status;
    if (pen__vocab_has(vocab, id)) {
        pen_why(reader->why, "model.vocab has id %u twice", id);
        return PEN_INVALID;
    }
    pen_text_clear(&reader->token);
    /* A token outside the alphabet is never made of bytes: print it only. */
    if (reader->tokenizer->bpe.is_byte_level &&
        !add_meaning(reader->alphabet, key, &reader->token))
        return set_literal(vocab, id, key);
    if (!reader->tokenizer->bpe.is_byte_level)
        pen_text_add_string(&reader->token, key);
    status = pen__vocab_set(vocab, id, pen_text_string(&reader->token),
                            reader->token.length);
    if (status == PEN_OK)
        status = pen__vocab_publish(vocab, id);
    return status;
}

static pen_status read_bpe_vocab(struct reader *reader, json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) {
        pen_why(reader->why, "model.vocab must be an object");
        return PEN_INVALID;
    }
    json_object_foreach(object, key, value)
    {
        pen_status status = add_vocab_entry(reader, key, value);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

/* Finds the id of a part of a merge, as the vocabulary writes it. */
static uint32_t find_part(struct reader *reader, const char *part)
{
    const struct pen_tokenizer *tokenizer = reader->tokenizer;
    pen_text_clear(&reader->token);
    if (!tokenizer->bpe.is_byte_level)
        pen_text_add_string(&reader->token, part);
    else if (!add_meaning(reader->alphabet, part, &reader->token))
        return PEN__NO_ID;
    return pen__vocab_find(&tokenizer->vocab, pen_text_string(&reader->token),
                           reader->token.length);
}

static pen_status add_merge(struct reader *reader, const char *left,
                            const char *right, uint32_t rank)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    uint32_t left_id = find_part(reader, left);
    uint32_t right_id = find_part(reader, right);
    struct pen_text joined = PEN_TEXT_EMPTY;
    pen_text_add(&joined, "%s%s", left, right);
    uint32_t id = find_part(reader, pen_text_string(&joined));
    pen_text_release(&joined);
    if (left_id == PEN__NO_ID || right_id == PEN__NO_ID || id == PEN__NO_ID) {
        pen_why(reader->why,
                "merge %u has a part that is not in the "
                "vocabulary",
                rank);
        return PEN_INVALID;
    }
    return pen__bpe_add_pair(&tokenizer->bpe, left_id, right_id, rank, id);
}

/* "a b" */
static pen_status add_merge_line(struct reader *reader, const char *line,
                                 size_t length, uint32_t rank)
{
    const char *space = memchr(line, ' ', length);
    if (space == NULL || space == line || space + 1 == line + length ||
        memchr(space + 1, ' ', length - (size_t)(space + 1 - line)) != NULL) {
        pen_why(reader->why, "merge %u is not two tokens with a space between",
                rank);
        return PEN_INVALID;
    }
    struct pen_text parts = PEN_TEXT_EMPTY;
    pen_text_add_bytes(&parts, line, length);
    if (parts.has_failed)
        return PEN_NOMEM;
    size_t at = (size_t)(space - line);
    parts.bytes[at] = '\0';
    pen_status status =
        add_merge(reader, parts.bytes, parts.bytes + at + 1, rank);
    pen_text_release(&parts);
    return status;
}

static pen_status read_merges(struct reader *reader, const json_t *list)
{
    if (!json_is_array(list)) {
        pen_why(reader->why, "model.merges must be a list");
        return PEN_INVALID;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *left = json_string_value(json_array_get(item, 0));
        const char *right = json_string_value(json_array_get(item, 1));
        pen_status status;
        if (json_is_string(item))
            status = add_merge_line(reader, json_string_value(item),
                                    json_string_length(item), (uint32_t)i);
        else if (left != NULL && right != NULL && json_array_size(item) == 2)
            status = add_merge(reader, left, right, (uint32_t)i);
        else
            status = add_merge_line(reader, "", 0, (uint32_t)i);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static void find_bytes(struct pen_tokenizer *tokenizer, uint32_t ids[256],
                       bool is_byte_level)
{
    for (unsigned i = 0; i < 256; i++) {
        char name[7];
        char byte = (char)i;
        snprintf(name, sizeof name, "<0x%02X>", i);
        ids[i] = is_byte_level ? pen__vocab_find(&tokenizer->vocab, &byte, 1)
                               : pen__vocab_find(&tokenizer->vocab, name, 6);
    }
}

/* Options of BPE that would need an algorithm of their own. */
static pen_status check_bpe(const json_t *model, struct pen_text *why)
{
    static const char *const names[] = {"continuing_subword_prefix",
                                        "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found = json_string_value(json_object_get(model, names[i]));
        if (found != NULL && found[0] != '\0') {
            pen_why(why, "model.%s is not supported", names[i]);
            return PEN_INVALID;
        }
    }
    if (json_number_value(json_object_get(model, "dropout")) != 0) {
        pen_why(why, "model.dropout makes ids random; remove it from the file");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status read_bpe(struct reader *reader, const struct pen_json *model)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    struct pen__bpe *bpe = &tokenizer->bpe;
    bool has_fallback = false;
    const char *unknown =
        json_string_value(json_object_get(model->object, "unk_token"));
    tokenizer->model = PEN__MODEL_BPE;
    pen_status status = check_bpe(model->object, reader->why);
    if (status == PEN_OK)
        status =
            read_bpe_vocab(reader, json_object_get(model->object, "vocab"));
    if (status == PEN_OK)
        status = read_merges(reader, json_object_get(model->object, "merges"));
    if (status == PEN_OK)
        status = pen_json_read_boolean(model, "byte_fallback", &has_fallback,
                                       reader->why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(model, "ignore_merges",
                                       &bpe->ignores_merges, reader->why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(model, "fuse_unk", &bpe->fuses_unknown,
                                       reader->why);
    if (status != PEN_OK)
        return status;
    if (unknown != NULL)
        bpe->unknown = find_part(reader, unknown);
    if (bpe->is_byte_level || has_fallback)
        find_bytes(tokenizer, bpe->byte_ids, bpe->is_byte_level);
    return pen__bpe_finish(bpe);
}

/* Adds one [piece, score] of a unigram vocabulary. */
static pen_status add_piece(struct reader *reader, const json_t *item,
                            uint32_t id, struct pen__trie_key *key)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    const json_t *piece = json_array_get(item, 0);
    const json_t *score = json_array_get(item, 1);
    if (!json_is_string(piece) || !json_is_number(score) ||
        !isfinite(json_number_value(score)) ||
        fabs(json_number_value(score)) > 1e30) {
        pen_why(reader->why, "model.vocab[%u] must be a piece and its score",
                id);
        return PEN_INVALID;
    }
    const char *text = json_string_value(piece);
    size_t length = json_string_length(piece);
    tokenizer->unigram.scores[id] = json_number_value(score);
    *key = (struct pen__trie_key){text, length, id};
    pen_status status = pen__vocab_set(&tokenizer->vocab, id, text, length);
    if (status == PEN_OK)
        status = pen__vocab_publish(&tokenizer->vocab, id);
    return status;
}

static pen_status add_pieces(struct reader *reader, const json_t *list,
                             struct pen__trie_key *keys)
{
    struct pen__unigram *unigram = &reader->tokenizer->unigram;
    size_t count = json_array_size(list);
    size_t num_keys = 0;
    double least = INFINITY;
    unigram->longest_piece = 4; /* a character */
    for (size_t i = 0; i < count; i++) {
        pen_status status = add_piece(reader, json_array_get(list, i),
                                      (uint32_t)i, &keys[num_keys]);
        if (status != PEN_OK)
            return status;
        /* An empty piece can be printed but never chosen. */
        if (keys[num_keys].length > unigram->longest_piece)
            unigram->longest_piece = keys[num_keys].length;
        num_keys += keys[num_keys].length > 0;
        if (unigram->scores[i] < least)
            least = unigram->scores[i];
    }
    /* The penalty of an unknown character, as both references have it. */
    unigram->unknown_score = count == 0 ? 0 : least - 10.0;
    return pen__trie_init(&unigram->trie, keys, num_keys);
}

static pen_status read_unigram(struct reader *reader,
                               const struct pen_json *model)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    struct pen__unigram *unigram = &tokenizer->unigram;
    const json_t *list = json_object_get(model->object, "vocab");
    const json_t *unknown = json_object_get(model->object, "unk_id");
    size_t count = json_array_size(list);
    bool has_fallback = false;
    tokenizer->model = PEN__MODEL_UNIGRAM;
    if (!json_is_array(list) || count > PEN__VOCAB_MAX ||
        (json_is_integer(unknown) &&
         (json_integer_value(unknown) < 0 ||
          json_integer_value(unknown) >= (json_int_t)count))) {
        pen_why(reader->why, "model.vocab must be a list and model.unk_id "
                             "inside it");
        return PEN_INVALID;
    }
    if (json_is_integer(unknown))
        unigram->unknown = (uint32_t)json_integer_value(unknown);
    struct pen__trie_key *keys = calloc(count + 1, sizeof *keys);
    unigram->scores = calloc(count + 1, sizeof *unigram->scores);
    pen_status status = PEN_NOMEM;
    if (keys != NULL && unigram->scores != NULL)
        status = add_pieces(reader, list, keys);
    free(keys);
    if (status == PEN_OK)
        status = pen_json_read_boolean(model, "byte_fallback", &has_fallback,
                                       reader->why);
    if (status != PEN_OK || !has_fallback)
        return status;
    find_bytes(tokenizer, unigram->byte_ids, false);
    unigram->has_fallback = true;
    for (size_t i = 0; i < 256; i++)
        unigram->has_fallback &= unigram->byte_ids[i] != PEN__NO_ID;
    return PEN_OK;
}

/* Sets an added token; its id may be that of the model's own vocabulary. */
static pen_status set_added(struct reader *reader, uint32_t id,
                            const json_t *content)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    const char *text = json_string_value(content);
    size_t length = json_string_length(content);
    if (!pen__vocab_has(&tokenizer->vocab, id))
        return pen__vocab_set(&tokenizer->vocab, id, text, length);
    size_t held_length;
    const char *held = pen__vocab_string(&tokenizer->vocab, id, &held_length);
    if (held_length == length && memcmp(held, text, length) == 0)
        return PEN_OK;
    pen_why(reader->why, "added token %u has another text in the vocabulary",
            id);
    return PEN_INVALID;
}

static pen_status check_added(const json_t *item, size_t index,
                              struct pen_text *why)
{
    if (json_string_length(json_object_get(item, "content")) == 0) {
        pen_why(why, "added_tokens[%zu].content is missing", index);
        return PEN_INVALID;
    }
    if (json_is_true(json_object_get(item, "single_word"))) {
        pen_why(why, "added_tokens[%zu].single_word is not supported", index);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* The state for filling a set of added tokens. */
struct added_reader {
    struct reader *reader;
    struct pen__added_set *set;
    bool is_normalized; /* the set is that of normalized tokens */
    struct pen__matcher *matcher;
    struct pen__normalizer normalizer;
    struct pen_text texts; /* texts to look for, one after the other */
    size_t *ends;          /* (set->count) in texts */
};

static pen_status add_added(struct added_reader *added, const json_t *item,
                            size_t index)
{
    struct reader *reader = added->reader;
    struct pen__added_set *set = added->set;
    const json_t *text = json_object_get(item, "content");
    uint32_t id;
    pen_status status = check_added(item, index, reader->why);
    if (status == PEN_OK)
        status = read_id(json_object_get(item, "id"), "added_tokens.id", &id,
                         reader->why);
    if (status == PEN_OK)
        status = set_added(reader, id, text);
    if (status != PEN_OK)
        return status;
    struct pen__block content = {json_string_value(text),
                                 json_string_length(text), true};
    if (added->is_normalized) {
        pen__normalizer_reset(&added->normalizer);
        status = pen__normalizer_feed(&added->normalizer, &content);
    }
    if (status == PEN_INVALID)
        pen_why(reader->why,
                "added_tokens[%zu] cannot be normalized: the normalizer %s",
                index,
                added->normalizer.fault == PEN__FAULT_GROWTH
                    ? "makes it too long"
                    : "has a pattern that needs too many steps");
    if (status != PEN_OK || content.length == 0)
        return status;
    pen_text_add_bytes(&added->texts, content.text, content.length);
    added->ends[set->count] = added->texts.length;
    struct pen__added *made = &set->items[set->count++];
    *made = (struct pen__added){
        .id = id,
        .strips_left = json_is_true(json_object_get(item, "lstrip")),
        .strips_right = json_is_true(json_object_get(item, "rstrip"))};
    set->strips_left |= made->strips_left;
    if (content.length > set->longest)
        set->longest = content.length;
    return added->texts.has_failed ? PEN_NOMEM : PEN_OK;
}

static pen_status make_added_trie(const struct added_reader *added)
{
    struct pen__added_set *set = added->set;
    struct pen__trie_key *keys = calloc(set->count + 1, sizeof *keys);
    if (keys == NULL)
        return PEN_NOMEM;
    size_t begin = 0;
    for (size_t i = 0; i < set->count; i++) {
        keys[i] = (struct pen__trie_key){added->texts.bytes + begin,
                                         added->ends[i] - begin, (uint32_t)i};
        begin = added->ends[i];
    }
    pen_status status = pen__trie_init(&set->trie, keys, set->count);
    free(keys);
    return status;
}

/* Takes those of the list that are, or are not, to be normalized. */
static pen_status read_added(struct reader *reader, struct pen__added_set *set,
                             const json_t *list, bool is_normalized)
{
    size_t count = json_array_size(list);
    struct added_reader added = {
        .reader = reader, .set = set, .is_normalized = is_normalized};
    added.ends = calloc(count + 1, sizeof *added.ends);
    set->items = calloc(count + 1, sizeof *set->items);
    pen_status status = pen__matcher_create(&added.matcher);
    pen__normalizer_init(&added.normalizer, reader->tokenizer, added.matcher);
    if (added.ends == NULL || set->items == NULL)
        status = PEN_NOMEM;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        const json_t *item = json_array_get(list, i);
        if (json_is_true(json_object_get(item, "normalized")) == is_normalized)
            status = add_added(&added, item, i);
    }
    if (status == PEN_OK)
        status = make_added_trie(&added);
    pen__matcher_free(added.matcher);
    pen_text_release(&added.texts);
    pen__normalizer_release(&added.normalizer);
    free(added.ends);
    return status;
}

static pen_status mark_added(struct pen_tokenizer *tokenizer)
{
    tokenizer->num_ids = tokenizer->vocab.num_ids;
    tokenizer->bpe.num_ids = tokenizer->num_ids;
    tokenizer->is_added =
        calloc(tokenizer->num_ids + 1, sizeof *tokenizer->is_added);
    if (tokenizer->is_added == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < tokenizer->raw.count; i++)
        tokenizer->is_added[tokenizer->raw.items[i].id] = true;
    for (size_t i = 0; i < tokenizer->normalized.count; i++)
        tokenizer->is_added[tokenizer->normalized.items[i].id] = true;
    return PEN_OK;
}

static pen_status read_model(struct reader *reader, const struct pen_json *json)
{
    struct pen_json model;
    pen_status status = pen_json_open(json, "model", &model, reader->why);
    if (status != PEN_OK)
        return status;
    const char *type = json_string_value(json_object_get(model.object, "type"));
    if (type != NULL && strcmp(type, "Unigram") == 0)
        return read_unigram(reader, &model);
    /* Old files have no type; only BPE has merges. */
    if ((type != NULL && strcmp(type, "BPE") == 0) ||
        (type == NULL && pen_json_has(&model, "merges")))
        return read_bpe(reader, &model);
    pen_why(reader->why, "model.type must be BPE or Unigram");
    return PEN_INVALID;
}

static pen_status read_all(struct reader *reader, const struct pen_json *json)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    const json_t *object = json->object;
    const json_t *added = json_object_get(object, "added_tokens");
    pen_status status = pen__read_normalizer(
        json_object_get(object, "normalizer"), tokenizer, reader->why);
    if (status == PEN_OK)
        status = pen__read_pre_tokenizer(
            json_object_get(object, "pre_tokenizer"), tokenizer, reader->why);
    if (status == PEN_OK)
        status = pen__read_decoder(json_object_get(object, "decoder"),
                                   tokenizer, reader->why);
    if (status == PEN_OK)
        status = read_model(reader, json);
    if (status == PEN_OK)
        status = read_added(reader, &tokenizer->raw, added, false);
    if (status == PEN_OK)
        status = read_added(reader, &tokenizer->normalized, added, true);
    if (status == PEN_OK)
        status = mark_added(tokenizer);
    return status;
}

static pen_status init_reader(struct reader *reader, struct pen_text *why)
{
    reader->why = why;
    pen_text_init(&reader->token);
    make_alphabet(reader->alphabet);
    reader->tokenizer = pen__tokenizer_create();
    return reader->tokenizer == NULL ? PEN_NOMEM : PEN_OK;
}

/* Ends the reading: hands the tokenizer over, or frees it. */
static pen_status close_reader(struct reader *reader, pen_status status,
                               struct pen_tokenizer **out)
{
    if (status == PEN_OK)
        status = pen__tokenizer_finish(reader->tokenizer);
    if (status == PEN_OK)
        *out = reader->tokenizer;
    else
        pen_tokenizer_free(reader->tokenizer);
    if (status == PEN_NOMEM)
        pen_why(reader->why, "out of memory while reading a tokenizer");
    pen_text_release(&reader->token);
    return status;
}

/* Cuts are safe when nothing but the first split sees more than a word. */
static void judge_cuts(struct pen_tokenizer *tokenizer)
{
    bool is_local = tokenizer->bpe.is_byte_level && tokenizer->num_splits > 0 &&
                    tokenizer->splits[0].kind == PEN__SPLIT_PATTERN;
    for (size_t i = 0; i < tokenizer->num_normal; i++)
        is_local &= tokenizer->normal[i].kind == PEN__NORMAL_NFC;
    tokenizer->has_safe_cuts &= is_local;
}

static void hide_nul(const char *text, size_t length, struct pen_text *out)
{
    for (size_t at = 0; at < length;) {
        const char *slash = memchr(text + at, '\\', length - at);
        size_t end = slash == NULL ? length : (size_t)(slash - text);
        pen_text_add_bytes(out, text + at, end - at);
        if (slash == NULL)
            return;
        bool is_nul = length - end >= 6 && memcmp(slash, NUL_ESCAPE, 6) == 0;
        size_t size = is_nul ? 6 : length - end < 2 ? 1 : 2;
        if (is_nul)
            pen_text_add_string(out, NUL_STAND_IN);
        else
            pen_text_add_bytes(out, slash, size);
        at = end + size;
    }
}

static pen_status load_json(const char *text, size_t length,
                            struct pen_json *out, struct pen_text *why)
{
    if (pen__search(text, length, NUL_ESCAPE, 6) == NULL)
        return pen_json_load(text, length, out, why);
    struct pen_text hidden = PEN_TEXT_EMPTY;
    hide_nul(text, length, &hidden);
    pen_status status =
        hidden.has_failed
            ? PEN_NOMEM
            : pen_json_load(hidden.bytes, hidden.length, out, why);
    pen_text_release(&hidden);
    return status;
}

pen_status pen_tokenizer_parse_json(const char *text, size_t length,
                                    struct pen_tokenizer **out,
                                    struct pen_text *why)
{
    struct reader reader;
    struct pen_json json;
    pen_status status = init_reader(&reader, why);
    if (status == PEN_OK)
        status = load_json(text, length, &json, why);
    if (status != PEN_OK)
        return close_reader(&reader, status, out);
    status = read_all(&reader, &json);
    judge_cuts(reader.tokenizer);
    json_decref(json.object);
    return close_reader(&reader, status, out);
}

static pen_status read_merge_lines(struct reader *reader, const char *text,
                                   size_t length)
{
    uint32_t rank = 0;
    for (size_t at = 0; at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t end = newline == NULL ? length : (size_t)(newline - text);
        size_t size = end - at;
        if (size > 0 && text[end - 1] == '\r')
            size--;
        bool is_comment =
            at == 0 && size >= 8 && memcmp(text, "#version", 8) == 0;
        if (size > 0 && !is_comment) {
            pen_status status = add_merge_line(reader, text + at, size, rank++);
            if (status != PEN_OK)
                return status;
        }
        at = end + 1;
    }
    return PEN_OK;
}

static pen_status read_gpt2(struct reader *reader, const struct pen_json *json,
                            const char *merges, size_t length)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    pen_status status = pen__add_gpt2_split(tokenizer, reader->why);
    if (status == PEN_OK)
        status = read_bpe_vocab(reader, json->object);
    if (status == PEN_OK)
        status = read_merge_lines(reader, merges, length);
    if (status != PEN_OK)
        return status;
    find_bytes(tokenizer, tokenizer->bpe.byte_ids, true);
    status = pen__bpe_finish(&tokenizer->bpe);
    if (status != PEN_OK)
        return status;
    json_t *added = json_array();
    uint32_t end = pen__vocab_find(&tokenizer->vocab, "<|endoftext|>", 13);
    if (end != PEN__NO_ID)
        json_array_append_new(added, json_pack("{s:i,s:s}", "id", (int)end,
                                               "content", "<|endoftext|>"));
    status = read_added(reader, &tokenizer->raw, added, false);
    json_decref(added);
    if (status == PEN_OK)
        status = mark_added(tokenizer);
    return status;
}

pen_status pen__parse_gpt2(const char *vocab, size_t vocab_length,
                           const char *merges, size_t merges_length,
                           struct pen_tokenizer **out, struct pen_text *why)
{
    struct reader reader;
    struct pen_json json;
    pen_status status = init_reader(&reader, why);
    size_t bad = pen__utf8_check(merges, merges_length);
    if (status == PEN_OK && bad != merges_length) {
        pen_why(why, "byte %zu of the merges is not UTF-8", bad);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = pen_json_load(vocab, vocab_length, &json, why);
    if (status != PEN_OK)
        return close_reader(&reader, status, out);
    status = read_gpt2(&reader, &json, merges, merges_length);
    json_decref(json.object);
    return close_reader(&reader, status, out);
}
