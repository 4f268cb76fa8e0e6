#ifndef PEN_TESTS_FUZZ_TOKENIZER_CHECKS_H
#define PEN_TESTS_FUZZ_TOKENIZER_CHECKS_H

/*
 * Whatever was accepted encodes text to ids of its vocabulary, the same ids
 * every time, also when the text comes in blocks of a few bytes, and decodes
 * what it has encoded. Shared by the targets of the two file formats.
 */
#include "base/bug.h"
#include "data/pipeline.h"

#include <stdlib.h>
#include <string.h>

static const char *const texts[] = {
    "the cat's 123 <s>\r\n  x\xe2\x96\x81y", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\xc3\xa9 e\xcc\x81 \xea\xb0\x81\xe3\x81\x8b\xe3\x82\x99 \xf0\x9f\x98\x80"};

/* Blocks of about `size` bytes; a normalizer may be refused only so. */
static void check_blocks(struct pen_encoder *encoder, const char *text,
                         size_t size, const struct pen_token_list *expected)
{
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    size_t length = strlen(text);
    pen_status status = PEN_OK;
    pen__encoder_set_window(encoder, size);
    for (size_t at = 0; at <= length && status == PEN_OK;) {
        size_t end = at + size < length ? at + size : length;
        while (end < length && ((uint8_t)text[end] & 0xc0) == 0x80)
            end++;
        status = pen_encoder_feed(encoder, text + at, end - at, end == length,
                                  &ids, NULL);
        at = end == length ? length + 1 : end;
    }
    PEN_BUG_UNLESS(status != PEN_OK || ids.count == expected->count);
    for (size_t i = 0; i < ids.count && status == PEN_OK; i++)
        PEN_BUG_UNLESS(ids.ids[i] == expected->ids[i]);
    pen_token_list_release(&ids);
    pen__encoder_set_window(encoder, 65536);
}

static void check_text(const struct pen_tokenizer *tokenizer,
                       struct pen_encoder *encoder, const char *text)
{
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    struct pen_token_list again = PEN_TOKEN_LIST_EMPTY;
    struct pen_text out = PEN_TEXT_EMPTY;
    size_t length = strlen(text);
    pen_status status = pen_encoder_encode(encoder, text, length, &ids, NULL);
    if (status == PEN_OK) {
        status = pen_encoder_encode(encoder, text, length, &again, NULL);
        PEN_BUG_UNLESS(status == PEN_OK && ids.count == again.count);
        for (size_t i = 0; i < ids.count; i++)
            PEN_BUG_UNLESS(ids.ids[i] == again.ids[i] &&
                           ids.ids[i] < pen_tokenizer_vocab_size(tokenizer));
        check_blocks(encoder, text, 1, &ids);
        check_blocks(encoder, text, 7, &ids);
        PEN_BUG_UNLESS(pen_tokenizer_decode(tokenizer, ids.ids, ids.count, &out,
                                            NULL) == PEN_OK);
    }
    pen_token_list_release(&ids);
    pen_token_list_release(&again);
    pen_text_release(&out);
}

/* Accepted tokenizers encode what they are given, always in the same way. */
static void check_tokenizer(const struct pen_tokenizer *tokenizer)
{
    struct pen_encoder *encoder = NULL;
    PEN_BUG_UNLESS(pen_encoder_create(tokenizer, &encoder) == PEN_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_text(tokenizer, encoder, texts[i]);
    pen_encoder_free(encoder);
}

#endif
