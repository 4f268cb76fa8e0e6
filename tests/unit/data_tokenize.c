/*
 * Text to a token file on several threads gives what one call gives for the
 * whole text, whatever their number.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "data/tokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char tokenizer_text[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,"
    "\"e\":4,\"\\u0120\":5,\"ab\":6,\"\\u010a\":7,\"abc\":8,\"\\u0120d\":9},"
    "\"merges\":[\"a b\",\"ab c\",\"\\u0120 d\"]},\"pre_tokenizer\":"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"added_tokens\":"
    "[{\"id\":10,\"content\":\"</s>\",\"normalized\":false}]}";

static struct pen_tokenizer *make_tokenizer(void)
{
    struct pen_tokenizer *tokenizer = NULL;
    assert_int_equal(PEN_OK, pen_tokenizer_parse_json(tokenizer_text,
                                                      strlen(tokenizer_text),
                                                      &tokenizer, NULL));
    return tokenizer;
}

/* Letters, spaces and line ends from a fixed seed. */
static void make_text(struct pen_text *out, size_t length)
{
    uint64_t random = 88172645463325252u;
    while (out->length < length) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        pen_text_add_bytes(out, &"abcde abcd \n"[random % 12], 1);
    }
}

static void tokenize_with(const struct pen_tokenizer *tokenizer, char *path,
                          enum pen_document_kind kind, uint32_t num_threads,
                          struct pen_token_list *out)
{
    char prefix[100];
    char *paths[] = {path, path};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_tokenize_counts counts;
    struct pen_token_file file;
    struct pen_token_writer *writer = NULL;
    snprintf(prefix, sizeof prefix, "%s/out", folder);
    assert_int_equal(PEN_OK,
                     pen_token_writer_create(prefix, PEN_TOKENS_MEGATRON, 11,
                                             &writer, &why));
    struct pen_tokenize_job job = {.tokenizer = tokenizer,
                                   .writer = writer,
                                   .paths = paths,
                                   .num_paths = 2,
                                   .kind = kind,
                                   .appends_end = true,
                                   .num_threads = num_threads};
    if (pen_tokenize(&job, &counts, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(PEN_OK, pen_token_writer_finish(writer, &why));
    pen_token_writer_free(writer);
    assert_int_equal(PEN_OK, pen_token_file_init(&file, prefix, &why));
    assert_int_equal(counts.num_documents, file.num_documents);
    out->ids = malloc(file.num_tokens * sizeof *out->ids);
    out->count = file.num_tokens;
    pen_token_file_read(&file, 0, file.num_tokens, out->ids);
    pen_token_file_release(&file);
    pen_text_release(&why);
}

static void expect_same(const struct pen_token_list *expected,
                        const struct pen_token_list *found)
{
    assert_int_equal(expected->count, found->count);
    assert_memory_equal(expected->ids, found->ids,
                        expected->count * sizeof *expected->ids);
}

/* Three parts. */
static void parts_of_a_file_are_those_of_the_whole(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = make_tokenizer();
    struct pen_encoder *encoder = NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_token_list expected = PEN_TOKEN_LIST_EMPTY;
    char path[100];
    make_text(&text, 2300000);
    snprintf(path, sizeof path, "%s/text", folder);
    assert_int_equal(PEN_OK,
                     pen_file_write(path, text.bytes, text.length, NULL));
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(PEN_OK,
                         pen_encoder_encode(encoder, text.bytes, text.length,
                                            &expected, NULL));
        pen_token_list_add_one(&expected, 10);
    }
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        struct pen_token_list found = PEN_TOKEN_LIST_EMPTY;
        tokenize_with(tokenizer, path, PEN_DOCUMENT_FILE, threads, &found);
        expect_same(&expected, &found);
        pen_token_list_release(&found);
    }
    pen_token_list_release(&expected);
    pen_text_release(&text);
    pen_encoder_free(encoder);
    pen_tokenizer_free(tokenizer);
}

static void lines_do_not_depend_on_the_threads(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = make_tokenizer();
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_token_list one = PEN_TOKEN_LIST_EMPTY;
    struct pen_token_list four = PEN_TOKEN_LIST_EMPTY;
    char path[100];
    make_text(&text, 1200000);
    snprintf(path, sizeof path, "%s/lines", folder);
    assert_int_equal(PEN_OK,
                     pen_file_write(path, text.bytes, text.length, NULL));
    tokenize_with(tokenizer, path, PEN_DOCUMENT_LINE, 1, &one);
    tokenize_with(tokenizer, path, PEN_DOCUMENT_LINE, 4, &four);
    expect_same(&one, &four);
    pen_token_list_release(&one);
    pen_token_list_release(&four);
    pen_text_release(&text);
    pen_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_file_are_those_of_the_whole),
        cmocka_unit_test(lines_do_not_depend_on_the_threads),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
