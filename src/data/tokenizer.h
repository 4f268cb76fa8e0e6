#ifndef PEN_DATA_TOKENIZER_H
#define PEN_DATA_TOKENIZER_H

#include "base/status.h"
#include "base/text.h"
#include "data/token_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Text to ids and back, as the tokenizers and sentencepiece packages do it,
 * without the tokens that a model's template adds at the ends.
 */
struct pen_tokenizer;

/*
 * Loads tokenizer.json, a SentencePiece .model, or a directory with one of
 * tokenizer.json, tokenizer.model, spiece.model, encoder.json + vocab.bpe and
 * vocab.json + merges.txt. On success *out is the caller's; on failure it is
 * untouched and why has the path.
 */
pen_status pen_tokenizer_load(const char *path, struct pen_tokenizer **out,
                              struct pen_text *why);

/* Parses a tokenizer in memory likewise. */
pen_status pen_tokenizer_parse_json(const char *text, size_t length,
                                    struct pen_tokenizer **out,
                                    struct pen_text *why);
pen_status pen_tokenizer_parse_sentencepiece(const uint8_t *bytes,
                                             size_t length,
                                             struct pen_tokenizer **out,
                                             struct pen_text *why);

void pen_tokenizer_free(struct pen_tokenizer *tokenizer);

/* Returns the highest id plus one; some ids below may have no token. */
uint32_t pen_tokenizer_vocab_size(const struct pen_tokenizer *tokenizer);

/* The id of a token by its text, added and control tokens included. */
bool pen_tokenizer_find(const struct pen_tokenizer *tokenizer,
                        const char *token, uint32_t *id);

/* The token that ends a document: <|endoftext|>, </s> and their like. */
bool pen_tokenizer_end_of_document(const struct pen_tokenizer *tokenizer,
                                   uint32_t *id);

/*
 * Finds a place from `at` on where a long text may be cut so that the ids of
 * the parts are the ids of the whole. The first part ends there; the next one
 * begins at *next, for a space between them may be implied. `length` for both
 * when there is no such place.
 */
size_t pen_tokenizer_cut(const struct pen_tokenizer *tokenizer,
                         const char *text, size_t length, size_t at,
                         size_t *next);

/*
 * Appends the text of the ids, special tokens included; PEN_INVALID when an id
 * has no token. Ids that end inside a character give its bytes so far, where
 * the packages would show U+FFFD: the next ids may complete it.
 */
pen_status pen_tokenizer_decode(const struct pen_tokenizer *tokenizer,
                                const uint32_t *ids, size_t count,
                                struct pen_text *out, struct pen_text *why);

/* Encodes. One per thread; the tokenizer is shared and must outlive it. */
struct pen_encoder;

pen_status pen_encoder_create(const struct pen_tokenizer *tokenizer,
                              struct pen_encoder **out);
void pen_encoder_free(struct pen_encoder *encoder);

/*
 * Appends the ids of a text in UTF-8; PEN_INVALID with the place of the first
 * byte that is not. After a failure the end of *out is undefined.
 */
pen_status pen_encoder_encode(struct pen_encoder *encoder, const char *text,
                              size_t length, struct pen_token_list *out,
                              struct pen_text *why);

/*
 * The same for a text that comes in blocks, which begin and end between
 * characters: the ids of all calls, up to the one with is_end, are those of the
 * whole text. Memory does not depend on its length. PEN_INVALID, too, when the
 * tokenizer has no safe place to cut the text within 16 MB. After a failure
 * the next block begins another text.
 */
pen_status pen_encoder_feed(struct pen_encoder *encoder, const char *text,
                            size_t length, bool is_end,
                            struct pen_token_list *out, struct pen_text *why);

/* A good length for such blocks, in bytes. */
size_t pen_tokenizer_block(const struct pen_tokenizer *tokenizer);

#endif
