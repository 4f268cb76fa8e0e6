/*
 * A tokenizer made of the characters of a text numbers them in the order of
 * Unicode, and gives that text back.
 */
#include "support/support.h"

#include "base/file.h"
#include "data/tokenizer.h"
#include "data/train_chars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One to four bytes, what JSON must escape, and twice some of them. */
static const char text[] = "To be,\r\n\tor \"not\" \\ \x01\x7f to be? "
                           "\xc3\xa9\xe2\x96\x81\xef\xb7\x90\xf0\x9f\x98\x80";

static struct pen_tokenizer *train(const char *bytes, uint32_t *num_chars)
{
    char path[] = "/tmp/penstock-train-chars-XXXXXX";
    char *const paths[] = {path, path};
    struct pen_text json = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_tokenizer *tokenizer = NULL;
    close(mkstemp(path));
    pen_status status = pen_file_write(path, bytes, strlen(bytes), &why);
    if (status == PEN_OK)
        status = pen_train_chars(paths, 2, &json, num_chars, &why);
    unlink(path);
    if (status == PEN_OK)
        status =
            pen_tokenizer_parse_json(json.bytes, json.length, &tokenizer, &why);
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&json);
    return tokenizer;
}

static void encode(const struct pen_tokenizer *tokenizer, const char *bytes,
                   struct pen_token_list *out)
{
    struct pen_encoder *encoder = NULL;
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    assert_int_equal(
        PEN_OK, pen_encoder_encode(encoder, bytes, strlen(bytes), out, NULL));
    pen_encoder_free(encoder);
}

static void ids_follow_the_order_of_unicode(void **state)
{
    (void)state;
    uint32_t num_chars;
    struct pen_tokenizer *tokenizer = train("b\xc3\xa9"
                                            "a\nab",
                                            &num_chars);
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    static const uint32_t expected[] = {1, 2, 0, 3};
    encode(tokenizer, "ab\n\xc3\xa9", &ids);
    assert_int_equal(4, num_chars);
    assert_int_equal(4, pen_tokenizer_vocab_size(tokenizer));
    assert_int_equal(4, ids.count);
    assert_memory_equal(expected, ids.ids, sizeof expected);
    pen_token_list_release(&ids);
    pen_tokenizer_free(tokenizer);
}

static void the_text_comes_back(void **state)
{
    (void)state;
    uint32_t num_chars;
    struct pen_tokenizer *tokenizer = train(text, &num_chars);
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    struct pen_text back = PEN_TEXT_EMPTY;
    encode(tokenizer, text, &ids);
    assert_int_equal(PEN_OK, pen_tokenizer_decode(tokenizer, ids.ids, ids.count,
                                                  &back, NULL));
    assert_string_equal(text, pen_text_string(&back));
    pen_text_release(&back);
    pen_token_list_release(&ids);
    pen_tokenizer_free(tokenizer);
}

static void an_empty_file_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/penstock-train-chars-XXXXXX";
    char *const paths[] = {path};
    uint32_t num_chars;
    struct pen_text json = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    close(mkstemp(path));
    assert_int_equal(PEN_INVALID,
                     pen_train_chars(paths, 1, &json, &num_chars, &why));
    unlink(path);
    assert_non_null(strstr(pen_text_string(&why),
                           " is empty: a tokenizer needs at least one "
                           "character; name a file with text"));
    assert_int_equal(0, json.length);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_follow_the_order_of_unicode),
        cmocka_unit_test(the_text_comes_back),
        cmocka_unit_test(an_empty_file_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
