/*
 * Reads a SentencePiece model. The file is a protobuf message; of its wire
 * format a reader needs three kinds of field:
 *
 *   key = number << 3 | type     0: varint   1: 8 bytes   2: length, bytes
 *                                5: 4 bytes
 *
 *   ModelProto   1 pieces { 1 piece, 2 score (float), 3 type }
 *                2 trainer_spec { 3 model_type, 24 treat_whitespace_as_suffix,
 *                                 35 byte_fallback, 44 unk_surface }
 *                3 normalizer_spec { 2 precompiled_charsmap,
 *                                    3 add_dummy_prefix,
 *                                    4 remove_extra_whitespaces,
 *                                    5 escape_whitespaces }
 */
#include "data/map.h"
#include "data/pipeline.h"
#include "data/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* U+2047 between spaces, unless the file says otherwise. */
#define UNKNOWN_SURFACE " \xe2\x81\x87 "

enum piece_type {
    NORMAL = 1,
    UNKNOWN = 2,
    CONTROL = 3,
    USER_DEFINED = 4,
    UNUSED = 5,
    BYTE = 6
};

struct field {
    uint32_t number;
    uint32_t type;
    uint64_t value;       /* of types 0, 1 and 5 */
    const uint8_t *bytes; /* of type 2 */
    size_t length;
};

struct message {
    const uint8_t *bytes;
    size_t length;
    size_t at;
    size_t offset; /* of the message in the file */
};

struct reader {
    struct pen_tokenizer *tokenizer;
    struct pen_text *why;
    uint8_t *types; /* (num pieces), enum piece_type */
    uint32_t num_pieces;
    uint32_t capacity;
    uint64_t model_type;
    bool has_fallback;
    const uint8_t *charsmap;
    size_t charsmap_length;
    struct field surface; /* text of the unknown piece */
};

static pen_status refuse(struct pen_text *why, const struct message *message,
                         const char *words)
{
    pen_why(why, "offset %zu: %s", message->offset + message->at, words);
    return PEN_INVALID;
}

static pen_status read_varint(struct message *message, uint64_t *out,
                              struct pen_text *why)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (message->at == message->length)
            return refuse(why, message, "the file ends inside a number");
        uint8_t byte = message->bytes[message->at++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return PEN_OK;
        }
    }
    return refuse(why, message, "a number of more than 64 bits");
}

static pen_status read_fixed(struct message *message, size_t size,
                             uint64_t *out, struct pen_text *why)
{
    if (message->length - message->at < size)
        return refuse(why, message, "the file ends inside a number");
    const uint8_t *at = message->bytes + message->at;
    *out = size == 8 ? pen__load_u64(at) : pen__load_u32(at);
    message->at += size;
    return PEN_OK;
}

static pen_status read_field(struct message *message, struct field *out,
                             struct pen_text *why)
{
    uint64_t key;
    uint64_t length;
    pen_status status = read_varint(message, &key, why);
    if (status != PEN_OK)
        return status;
    *out = (struct field){.number = (uint32_t)(key >> 3),
                          .type = (uint32_t)(key & 7)};
    switch (out->type) {
    case 0:
        return read_varint(message, &out->value, why);
    case 1:
        return read_fixed(message, 8, &out->value, why);
    case 5:
        return read_fixed(message, 4, &out->value, why);
    case 2:
        status = read_varint(message, &length, why);
        if (status != PEN_OK)
            return status;
        if (length > message->length - message->at)
            return refuse(why, message, "a field longer than the file");
        out->bytes = message->bytes + message->at;
        out->length = (size_t)length;
        message->at += out->length;
        return PEN_OK;
    default:
        return refuse(why, message, "not a SentencePiece model");
    }
}

static struct message open_message(const struct message *parent,
                                   const struct field *field)
{
    return (struct message){.bytes = field->bytes,
                            .length = field->length,
                            .offset = parent->offset +
                                      (size_t)(field->bytes - parent->bytes)};
}

static pen_status reserve_piece(struct reader *reader)
{
    if (reader->num_pieces < reader->capacity)
        return PEN_OK;
    uint32_t capacity = reader->capacity * 2 + 1024;
    uint8_t *types = realloc(reader->types, capacity * sizeof *types);
    if (types == NULL)
        return PEN_NOMEM;
    reader->types = types;
    double *scores =
        realloc(reader->tokenizer->unigram.scores, capacity * sizeof *scores);
    if (scores == NULL)
        return PEN_NOMEM;
    reader->tokenizer->unigram.scores = scores;
    reader->capacity = capacity;
    return PEN_OK;
}

static pen_status read_piece(struct reader *reader, struct message message)
{
    struct field text = {.bytes = NULL};
    float score = 0;
    uint64_t type = NORMAL;
    while (message.at < message.length) {
        struct field field;
        pen_status status = read_field(&message, &field, reader->why);
        if (status != PEN_OK)
            return status;
        uint32_t bits = (uint32_t)field.value;
        if (field.number == 1 && field.type == 2)
            text = field;
        else if (field.number == 2 && field.type == 5)
            memcpy(&score, &bits, sizeof score);
        else if (field.number == 3 && field.type == 0)
            type = field.value;
    }
    if (text.length == 0 || !isfinite(score) || type < NORMAL || type > BYTE ||
        pen__utf8_check((const char *)text.bytes, text.length) != text.length)
        return refuse(reader->why, &message, "not a piece of text");
    if (reader->num_pieces == PEN__VOCAB_MAX)
        return refuse(reader->why, &message, "too many pieces");
    if (reserve_piece(reader) != PEN_OK)
        return PEN_NOMEM;
    uint32_t id = reader->num_pieces++;
    reader->types[id] = (uint8_t)type;
    reader->tokenizer->unigram.scores[id] = score;
    return pen__vocab_set(&reader->tokenizer->vocab, id,
                          (const char *)text.bytes, text.length);
}

static pen_status read_trainer(struct reader *reader, struct message message)
{
    while (message.at < message.length) {
        struct field field;
        pen_status status = read_field(&message, &field, reader->why);
        if (status != PEN_OK)
            return status;
        if (field.number == 3 && field.type == 0)
            reader->model_type = field.value;
        else if (field.number == 24 && field.type == 0)
            reader->tokenizer->spaces.adds_suffix = field.value != 0;
        else if (field.number == 35 && field.type == 0)
            reader->has_fallback = field.value != 0;
        else if (field.number == 44 && field.type == 2)
            reader->surface = field;
    }
    return PEN_OK;
}

static pen_status read_normalizer(struct reader *reader, struct message message)
{
    struct pen__spaces *spaces = &reader->tokenizer->spaces;
    while (message.at < message.length) {
        struct field field;
        pen_status status = read_field(&message, &field, reader->why);
        if (status != PEN_OK)
            return status;
        if (field.number == 2 && field.type == 2) {
            reader->charsmap = field.bytes;
            reader->charsmap_length = field.length;
        } else if (field.number == 3 && field.type == 0) {
            spaces->adds_prefix = field.value != 0;
        } else if (field.number == 4 && field.type == 0) {
            spaces->removes_extra = field.value != 0;
        } else if (field.number == 5 && field.type == 0) {
            spaces->escapes = field.value != 0;
        }
    }
    return PEN_OK;
}

static pen_status read_model(struct reader *reader, struct message message)
{
    while (message.at < message.length) {
        struct field field;
        pen_status status = read_field(&message, &field, reader->why);
        if (status == PEN_OK && field.type == 2) {
            struct message inner = open_message(&message, &field);
            if (field.number == 1)
                status = read_piece(reader, inner);
            else if (field.number == 2)
                status = read_trainer(reader, inner);
            else if (field.number == 3)
                status = read_normalizer(reader, inner);
        }
        if (status != PEN_OK)
            return status;
    }
    if (reader->num_pieces == 0)
        return refuse(reader->why, &message,
                      "not a SentencePiece model: no "
                      "pieces");
    return PEN_OK;
}

/* Returns whether text may become this piece. */
static bool is_reached(uint8_t type)
{
    return type == NORMAL || type == USER_DEFINED || type == UNUSED;
}

/* Publishes what may be found, and notes bytes, unknown and control pieces. */
static pen_status sort_pieces(struct reader *reader, uint32_t byte_ids[256],
                              uint32_t *unknown)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    tokenizer->is_silent =
        calloc(reader->num_pieces, sizeof *tokenizer->is_silent);
    if (tokenizer->is_silent == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < 256; i++)
        byte_ids[i] = PEN__NO_ID;
    for (uint32_t id = 0; id < reader->num_pieces; id++) {
        size_t length;
        uint8_t byte;
        const char *text = pen__vocab_string(&tokenizer->vocab, id, &length);
        if (reader->types[id] == UNKNOWN)
            *unknown = id;
        tokenizer->is_silent[id] = reader->types[id] == CONTROL;
        if (reader->types[id] == BYTE &&
            pen__is_byte_token(text, length, &byte))
            byte_ids[byte] = id;
        if (is_reached(reader->types[id]) &&
            pen__vocab_publish(&tokenizer->vocab, id) != PEN_OK)
            return PEN_NOMEM;
    }
    if (*unknown == PEN__NO_ID) {
        pen_why(reader->why, "the model has no unknown piece");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status make_trie(struct reader *reader, struct pen__trie *trie,
                            uint8_t least_type, uint8_t most_type)
{
    size_t count = 0;
    struct pen__trie_key *keys = calloc(reader->num_pieces, sizeof *keys);
    if (keys == NULL)
        return PEN_NOMEM;
    for (uint32_t id = 0; id < reader->num_pieces; id++) {
        uint8_t type = reader->types[id];
        if (type != least_type && type != most_type)
            continue;
        struct pen__trie_key *key = &keys[count++];
        key->bytes =
            pen__vocab_string(&reader->tokenizer->vocab, id, &key->length);
        key->value = id;
    }
    pen_status status = pen__trie_init(trie, keys, count);
    free(keys);
    return status;
}

/* ---- unigram ---- */

static pen_status make_unigram(struct reader *reader)
{
    struct pen__unigram *unigram = &reader->tokenizer->unigram;
    double least = INFINITY;
    double most = -INFINITY;
    reader->tokenizer->model = PEN__MODEL_UNIGRAM;
    for (uint32_t id = 0; id < reader->num_pieces; id++) {
        if (reader->types[id] != NORMAL)
            continue;
        least = fmin(least, unigram->scores[id]);
        most = fmax(most, unigram->scores[id]);
    }
    if (!isfinite(least)) {
        pen_why(reader->why, "the model has no normal pieces");
        return PEN_INVALID;
    }
    unigram->unknown_score = (double)(float)(least - 10.0);
    /* A user-defined piece always wins: it gets more than its parts could. */
    unigram->longest_piece = 4;
    for (uint32_t id = 0; id < reader->num_pieces; id++) {
        size_t length;
        pen__vocab_string(&reader->tokenizer->vocab, id, &length);
        if (length > unigram->longest_piece)
            unigram->longest_piece = length;
        if (reader->types[id] == USER_DEFINED)
            unigram->scores[id] = (double)length * most - 0.1;
    }
    unigram->has_float_sums = true;
    unigram->has_fallback = reader->has_fallback;
    return make_trie(reader, &unigram->trie, NORMAL, USER_DEFINED);
}

/* ---- byte pairs ---- */

/* Ranks by score, the higher first: floats in the order of their bits. */
static uint32_t rank_of(double score)
{
    float negative = -(float)score;
    uint32_t bits;
    memcpy(&bits, &negative, sizeof bits);
    return (bits & 1u << 31) != 0 ? ~bits : bits | 1u << 31;
}

/*
 * Adds a character inside pieces that is not a piece itself, with an id after
 * the vocabulary: such characters take part in joining, too.
 */
static pen_status publish_character(struct reader *reader, const char *text,
                                    size_t size)
{
    struct pen__vocab *vocab = &reader->tokenizer->vocab;
    if (pen__vocab_find(vocab, text, size) != PEN__NO_ID)
        return PEN_OK;
    char copy[4];
    uint32_t id = vocab->num_ids;
    if (id == PEN__VOCAB_MAX)
        return PEN_NOMEM;
    memcpy(copy, text, size);
    if (pen__vocab_set(vocab, id, copy, size) != PEN_OK)
        return PEN_NOMEM;
    return pen__vocab_publish(vocab, id);
}

static pen_status publish_characters(struct reader *reader, uint32_t id)
{
    size_t length;
    pen__vocab_string(&reader->tokenizer->vocab, id, &length);
    for (size_t at = 0; at < length;) {
        /* The string moves when the vocabulary grows. */
        const char *text =
            pen__vocab_string(&reader->tokenizer->vocab, id, &length);
        size_t size = pen__utf8_size(text[at]);
        if (publish_character(reader, text + at, size) != PEN_OK)
            return PEN_NOMEM;
        at += size;
    }
    return PEN_OK;
}

/* Adds all ways to make the piece of two others. */
static pen_status add_pairs(struct reader *reader, uint32_t id)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    const struct pen__vocab *vocab = &tokenizer->vocab;
    size_t length;
    const char *text = pen__vocab_string(vocab, id, &length);
    uint32_t rank = rank_of(tokenizer->unigram.scores[id]);
    for (size_t at = pen__utf8_size(text[0]); at < length;
         at += pen__utf8_size(text[at])) {
        uint32_t left = pen__vocab_find(vocab, text, at);
        uint32_t right = pen__vocab_find(vocab, text + at, length - at);
        if (left == PEN__NO_ID || right == PEN__NO_ID)
            continue;
        if (pen__bpe_add_pair(&tokenizer->bpe, left, right, rank, id) != PEN_OK)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

#define PIECE_MAX                                                              \
    4096u /* bytes; the pairs of a piece are quadratic in them                 \
           */

static pen_status make_pairs(struct reader *reader)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    tokenizer->model = PEN__MODEL_BPE;
    tokenizer->bpe.falls_back_late = true;
    tokenizer->bpe.num_ids = reader->num_pieces;
    for (uint32_t id = 0; id < reader->num_pieces; id++) {
        size_t length;
        pen__vocab_string(&tokenizer->vocab, id, &length);
        if (reader->types[id] == UNUSED || length > PIECE_MAX) {
            pen_why(reader->why,
                    "piece %u is %s, which is not supported in a "
                    "BPE model",
                    id, length > PIECE_MAX ? "too long" : "marked unused");
            return PEN_INVALID;
        }
        if (is_reached(reader->types[id]) &&
            publish_characters(reader, id) != PEN_OK)
            return PEN_NOMEM;
    }
    for (uint32_t id = 0; id < reader->num_pieces; id++) {
        if (is_reached(reader->types[id]) && add_pairs(reader, id) != PEN_OK)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status make_bpe(struct reader *reader)
{
    struct pen__bpe *bpe = &reader->tokenizer->bpe;
    pen_status status = make_pairs(reader);
    if (status != PEN_OK)
        return status;
    if (!reader->has_fallback) {
        for (size_t i = 0; i < 256; i++)
            bpe->byte_ids[i] = PEN__NO_ID;
    }
    status = pen__bpe_finish(bpe);
    if (status != PEN_OK)
        return status;
    const struct pen__spaces *spaces = &reader->tokenizer->spaces;
    reader->tokenizer->has_safe_cuts =
        bpe->splits_at_meta && spaces->adds_prefix && !spaces->adds_suffix &&
        !spaces->removes_extra && spaces->escapes &&
        reader->charsmap_length == 0;
    return PEN_OK;
}

static pen_status make_normal_step(struct reader *reader)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    struct pen__normal_step *step = &tokenizer->normal[0];
    step->kind = PEN__NORMAL_SENTENCEPIECE;
    tokenizer->num_normal = 1;
    if (reader->charsmap_length == 0)
        return PEN_OK;
    return pen__charsmap_init(&step->charsmap, reader->charsmap,
                              reader->charsmap_length, reader->why);
}

/* Decoding does not ask whether spaces were escaped, or put at the end. */
static void make_decoder(struct reader *reader, uint32_t unknown)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    tokenizer->decodes_meta = true;
    if (tokenizer->spaces.removes_extra)
        tokenizer->prefix_rule = PEN__PREFIX_ALL;
    else if (tokenizer->spaces.adds_prefix)
        tokenizer->prefix_rule = PEN__PREFIX_ONCE;
    tokenizer->renamed = unknown;
    if (reader->surface.bytes == NULL)
        pen_text_add_string(&tokenizer->surface, UNKNOWN_SURFACE);
    else
        pen_text_add_bytes(&tokenizer->surface,
                           (const char *)reader->surface.bytes,
                           reader->surface.length);
}

static pen_status make_tokenizer(struct reader *reader)
{
    struct pen_tokenizer *tokenizer = reader->tokenizer;
    bool is_bpe = reader->model_type == 2;
    uint32_t *byte_ids =
        is_bpe ? tokenizer->bpe.byte_ids : tokenizer->unigram.byte_ids;
    uint32_t *unknown =
        is_bpe ? &tokenizer->bpe.unknown : &tokenizer->unigram.unknown;
    tokenizer->num_ids = reader->num_pieces;
    if (reader->model_type != 1 && !is_bpe) {
        pen_why(reader->why,
                "SentencePiece model type %llu is not supported; expected 1 "
                "(unigram) or 2 (BPE)",
                (unsigned long long)reader->model_type);
        return PEN_INVALID;
    }
    pen_status status = sort_pieces(reader, byte_ids, unknown);
    for (size_t i = 0; i < 256 && reader->has_fallback && status == PEN_OK;
         i++) {
        if (byte_ids[i] == PEN__NO_ID) {
            pen_why(reader->why,
                    "the model falls back to bytes but has no "
                    "piece <0x%02zX>",
                    i);
            status = PEN_INVALID;
        }
    }
    if (status == PEN_OK)
        make_decoder(reader, *unknown);
    if (status == PEN_OK)
        status = make_normal_step(reader);
    if (status == PEN_OK)
        status = make_trie(reader, &tokenizer->bpe.frozen, USER_DEFINED,
                           USER_DEFINED);
    if (status == PEN_OK)
        status = is_bpe ? make_bpe(reader) : make_unigram(reader);
    return status;
}

pen_status pen_tokenizer_parse_sentencepiece(const uint8_t *bytes,
                                             size_t length,
                                             struct pen_tokenizer **out,
                                             struct pen_text *why)
{
    struct message message = {.bytes = bytes, .length = length};
    struct reader reader = {.why = why, .model_type = 1};
    reader.tokenizer = pen__tokenizer_create();
    pen_status status = reader.tokenizer == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK) {
        /* The defaults of the format, for files that give no values. */
        reader.tokenizer->spaces = (struct pen__spaces){
            .adds_prefix = true, .removes_extra = true, .escapes = true};
        status = read_model(&reader, message);
    }
    if (status == PEN_OK)
        status = make_tokenizer(&reader);
    if (status == PEN_OK)
        status = pen__tokenizer_finish(reader.tokenizer);
    free(reader.types);
    if (status == PEN_OK)
        *out = reader.tokenizer;
    else
        pen_tokenizer_free(reader.tokenizer);
    if (status == PEN_NOMEM)
        pen_why(why, "out of memory while reading a tokenizer");
    return status;
}
