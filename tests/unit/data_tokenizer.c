/*
 * Small tokenizers, written here, whose ids can be checked by hand: each rule
 * of the pipeline once, and each refusal with its words.
 */
#include "support/support.h"

#include "data/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* A tokenizer of the letters a to e with the merges ab, cd, abcd. */
#define MODEL                                                                  \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,"  \
    "\"e\":4,\"ab\":5,\"cd\":6,\"abcd\":7,\"\\u0120\":8,\"\\u0120a\":9},"      \
    "\"merges\":[\"c d\",[\"a\",\"b\"],\"ab cd\",\"\\u0120 a\"]}"
#define BYTE_LEVEL                                                             \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define META "\xe2\x96\x81"

static struct pen_tokenizer *parse_text(const char *text)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_tokenizer_parse_json(text, strlen(text), &tokenizer, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return tokenizer;
}

/* Encodes and prints: "0 1 2". */
static void expect_ids(const struct pen_tokenizer *tokenizer, const char *text,
                       const char *expected)
{
    struct pen_encoder *encoder = NULL;
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text found = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    if (pen_encoder_encode(encoder, text, strlen(text), &ids, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (size_t i = 0; i < ids.count; i++)
        pen_text_add(&found, i == 0 ? "%u" : " %u", ids.ids[i]);
    assert_string_equal(expected, pen_text_string(&found));
    pen_text_release(&found);
    pen_text_release(&why);
    pen_token_list_release(&ids);
    pen_encoder_free(encoder);
}

static void expect_text(const struct pen_tokenizer *tokenizer,
                        const uint32_t *ids, size_t count, const char *expected)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK,
                     pen_tokenizer_decode(tokenizer, ids, count, &found, NULL));
    assert_string_equal(expected, pen_text_string(&found));
    pen_text_release(&found);
}

static void pairs_are_joined_by_rank_then_from_the_left(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text("{" MODEL "," BYTE_LEVEL "}");
    expect_ids(tokenizer, "abcd", "7");
    expect_ids(tokenizer, "abc", "5 2");
    expect_ids(tokenizer, "aab", "0 5");
    expect_ids(tokenizer, "a a", "0 9");
    expect_ids(tokenizer, "", "");
    /* Bytes without a token vanish when there is no unknown token. */
    expect_ids(tokenizer, "axb", "5");
    assert_int_equal(10, pen_tokenizer_vocab_size(tokenizer));
    pen_tokenizer_free(tokenizer);
}

static void long_words_are_joined_as_short_ones(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text("{" MODEL "," BYTE_LEVEL "}");
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    for (int i = 0; i < 100; i++) {
        pen_text_add(&text, "abcdeaab");
        pen_text_add(&expected, i == 0 ? "7 4 0 5" : " 7 4 0 5");
    }
    expect_ids(tokenizer, text.bytes, expected.bytes);
    pen_text_release(&text);
    pen_text_release(&expected);
    pen_tokenizer_free(tokenizer);
}

static void added_tokens_are_cut_out_first(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{" MODEL "," BYTE_LEVEL ",\"added_tokens\":["
        "{\"id\":10,\"content\":\"<ab>\",\"normalized\":false},"
        "{\"id\":11,\"content\":\"<ab>c\",\"normalized\":false},"
        "{\"id\":12,\"content\":\"<m>\",\"lstrip\":true,\"rstrip\":true,"
        "\"normalized\":true}]}");
    expect_ids(tokenizer, "ab<ab>d", "5 10 3");
    expect_ids(tokenizer, "ab<ab>cd", "5 11 3");
    expect_ids(tokenizer, "a <m>  b<m>", "0 12 1 12");
    assert_int_equal(13, pen_tokenizer_vocab_size(tokenizer));
    uint32_t id;
    assert_true(pen_tokenizer_find(tokenizer, "<ab>c", &id));
    assert_int_equal(11, id);
    assert_false(pen_tokenizer_find(tokenizer, "<none>", &id));
    assert_false(pen_tokenizer_end_of_document(tokenizer, &id));
    static const uint32_t ids[] = {10, 7, 9};
    expect_text(tokenizer, ids, 3, "<ab>abcd a");
    pen_tokenizer_free(tokenizer);
}

static void a_word_of_the_vocabulary_may_be_taken_whole(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":"
        "{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3},\"merges\":[\"a b\"]}," BYTE_LEVEL
        "}");
    expect_ids(tokenizer, "aba", "3");
    expect_ids(tokenizer, "abab", "2 2");
    pen_tokenizer_free(tokenizer);
}

static void unknown_characters_fall_back_to_bytes(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text, "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                        "\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":256,"
                        "\"" META "\":257,\"a\":258,\"" META "a\":259");
    for (unsigned i = 0; i < 256; i++)
        pen_text_add(&text, ",\"<0x%02X>\":%u", i, i);
    pen_text_add(&text,
                 "},\"merges\":[\"" META " a\"]},"
                 "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
                 "{\"type\":\"Prepend\",\"prepend\":\"" META "\"},"
                 "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                 "\"content\":\"" META "\"}]},"
                 "\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                 "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" META "\"},"
                 "\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                 "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
                 "\"start\":1,\"stop\":0}]}}");
    struct pen_tokenizer *tokenizer = parse_text(text.bytes);
    expect_ids(tokenizer, "a\xc3\xa9 a", "259 195 169 259");
    static const uint32_t ids[] = {259, 195, 169, 259};
    expect_text(tokenizer, ids, 4, "a\xc3\xa9 a");
    pen_text_release(&text);
    pen_tokenizer_free(tokenizer);
}

static void unigram_takes_the_largest_sum(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["
        "[\"<unk>\",0],[\"a\",-1],[\"b\",-1],[\"ab\",-1.5],[\"abb\",-2.6],"
        "[\"bb\",-1.4]]}}");
    expect_ids(tokenizer, "ab", "3");
    expect_ids(tokenizer, "abb", "1 5");
    expect_ids(tokenizer, "aba", "3 1");
    /* Unknown characters side by side are one token. */
    expect_ids(tokenizer, "axya", "1 0 1");
    pen_tokenizer_free(tokenizer);
}

static void metaspace_marks_the_beginning_of_words(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["
        "[\"<unk>\",0],[\"" META "a\",-1],[\"a\",-2],[\"" META "\",-3]]},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\","
        "\"replacement\":\"" META "\",\"prepend_scheme\":\"always\"}]},"
        "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"" META "\"}}");
    expect_ids(tokenizer, "  a\taa ", "1 1 2");
    static const uint32_t ids[] = {1, 1, 2};
    expect_text(tokenizer, ids, 3, "a aa");
    pen_tokenizer_free(tokenizer);
}

/* e + acute, Hangul from its letters, marks in a wrong order, an exclusion. */
static void nfc_composes(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\","
        "\"merges\":[],\"vocab\":{\"\xc3\xa9\":0,\"\xea\xb0\x81\":1,"
        "\"\xe1\xba\xad\":2,\"\xe0\xa4\x95\":3,\"\xe0\xa4\xbc\":4,"
        "\"\xe2\x80\x99\":5,\"e\":6,\"\xcc\x81\":7}}}");
    expect_ids(tokenizer, "e\xcc\x81", "0");
    expect_ids(tokenizer, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "1");
    expect_ids(tokenizer, "\xea\xb0\x80\xe1\x86\xa8", "1");
    expect_ids(tokenizer, "a\xcc\x82\xcc\xa3", "2");
    expect_ids(tokenizer, "\xe0\xa5\x98", "3 4");
    expect_ids(tokenizer,
               "\xe2\x80\x99"
               "e\xcc\x81"
               "e",
               "5 0 6");
    expect_ids(tokenizer, "\xcc\x81", "7");
    pen_tokenizer_free(tokenizer);
}

/* A hundred thousand marks in a wrong order take no longer than others. */
static void nfc_orders_any_number_of_marks(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{\"normalizer\":{\"type\":\"NFC\"},\"model\":{\"type\":\"BPE\","
        "\"merges\":[],\"vocab\":{\"x\":0,\"\xcc\x8d\":1,\"\xcc\xa5\":2}}}");
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&text, "x");
    pen_text_add(&expected, "0");
    for (int i = 0; i < 50000; i++)
        pen_text_add(&text, "\xcc\x8d\xcc\xa5");
    for (int i = 0; i < 100000; i++)
        pen_text_add(&expected, i < 50000 ? " 2" : " 1");
    expect_ids(tokenizer, text.bytes, expected.bytes);
    pen_text_release(&text);
    pen_text_release(&expected);
    pen_tokenizer_free(tokenizer);
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *place;
    } cases[] = {{"ab\x80", "byte 2"},       {"abcdefghi\xff", "byte 9"},
                 {"\xc0\x80", "byte 0"},     {"\xe0\x80\x80", "byte 0"},
                 {"\xed\xa0\x80", "byte 0"}, {"\xf4\x90\x80\x80", "byte 0"},
                 {"a\xe2\x96", "byte 1"}};
    struct pen_tokenizer *tokenizer = parse_text("{" MODEL "," BYTE_LEVEL "}");
    struct pen_encoder *encoder = NULL;
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_INVALID,
                         pen_encoder_encode(encoder, cases[i].text,
                                            strlen(cases[i].text), &ids, &why));
        assert_non_null(strstr(pen_text_string(&why), cases[i].place));
        pen_text_release(&why);
        pen_token_list_release(&ids);
    }
    pen_encoder_free(encoder);
    pen_tokenizer_free(tokenizer);
}

static void ids_outside_the_vocabulary_are_refused(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text("{" MODEL "," BYTE_LEVEL "}");
    static const uint32_t ids[] = {0, 10};
    struct pen_text out = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_tokenizer_decode(tokenizer, ids, 2, &out, &why));
    assert_string_equal("token 1 is 10, which is not in the vocabulary",
                        pen_text_string(&why));
    pen_text_release(&out);
    pen_text_release(&why);
    pen_tokenizer_free(tokenizer);
}

/* Eight steps of which each makes sixteen letters of one. */
static void a_normalizer_that_makes_a_text_explode_is_refused(void **state)
{
    (void)state;
#define STEP                                                                   \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"                    \
    "\"content\":\"aaaaaaaaaaaaaaaa\"}"
    static const char steps[] =
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" STEP "," STEP
        "," STEP "," STEP "," STEP "," STEP "," STEP "," STEP "]}";
    struct pen_text json = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    struct pen_encoder *encoder = NULL;
    pen_text_add(&json, "{%s,%s}", MODEL, steps);
    struct pen_tokenizer *tokenizer = parse_text(json.bytes);
    pen_text_add_repeat(&text, 'a', 1000);
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    assert_int_equal(PEN_INVALID, pen_encoder_encode(encoder, text.bytes,
                                                     text.length, &ids, &why));
    assert_string_equal(
        "the tokenizer's normalizer makes a text more than 32 times as long; "
        "remove the Replace or Prepend that does so from tokenizer.json",
        pen_text_string(&why));
    /* Another text, which has no such letter, is not affected. */
    assert_int_equal(PEN_OK, pen_encoder_encode(encoder, "bcd", 3, &ids, NULL));
    /* An added token that would explode is refused with the file. */
    struct pen_tokenizer *other = NULL;
    pen_text_clear(&json);
    pen_text_clear(&why);
    pen_text_add(&json,
                 "{%s,%s,\"added_tokens\":[{\"id\":20,\"content\":\"aa\","
                 "\"normalized\":true}]}",
                 MODEL, steps);
    assert_int_equal(PEN_INVALID, pen_tokenizer_parse_json(
                                      json.bytes, json.length, &other, &why));
    assert_string_equal("added_tokens[0] cannot be normalized: the normalizer "
                        "makes it too long",
                        pen_text_string(&why));
    pen_text_release(&json);
    pen_text_release(&text);
    pen_text_release(&why);
    pen_token_list_release(&ids);
    pen_encoder_free(encoder);
    pen_tokenizer_free(tokenizer);
}

/* A pattern that takes all of a text at once. */
static void a_text_without_a_safe_cut_is_refused(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = parse_text(
        "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
        "{\"Regex\":\"[\\\\s\\\\S]+\"},\"behavior\":\"Isolated\"}}");
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_token_list ids = PEN_TOKEN_LIST_EMPTY;
    struct pen_encoder *encoder = NULL;
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    pen_text_add_repeat(&text, 'e', (size_t)16 << 20);
    assert_int_equal(PEN_OK, pen_encoder_encode(encoder, text.bytes,
                                                text.length, &ids, &why));
    assert_int_equal(text.length, ids.count);
    pen_text_add_repeat(&text, 'e', (size_t)4 << 20);
    assert_int_equal(PEN_INVALID, pen_encoder_encode(encoder, text.bytes,
                                                     text.length, &ids, &why));
    assert_string_equal(
        "the tokenizer has no safe place to cut this text within 16 MB; split "
        "it into shorter documents, or use a tokenizer that splits text into "
        "words",
        pen_text_string(&why));
    pen_text_release(&text);
    pen_text_release(&why);
    pen_token_list_release(&ids);
    pen_encoder_free(encoder);
    pen_tokenizer_free(tokenizer);
}

static void wrong_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"[]", "must be one JSON object"},
        {"{", "line 1, column 1"},
        {"{}", "model must be an object"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", "must be BPE or Unigram"},
        {"{\"model\":{\"type\":\"BPE\",\"merges\":[]}}",
         "model.vocab must be an object"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
         "must be an integer from 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},"
         "\"merges\":[]}}",
         "has id 0 twice"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":"
         "[\"a b\"]}}",
         "merge 0 has a part that is not in the vocabulary"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}"
         "}",
         "merge 0 is not two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}}",
         "merge 0 is not two tokens"},
        {"{" MODEL ",\"normalizer\":{\"type\":\"Magic\"}}",
         "normalizer Magic is not supported"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Magic\"}}",
         "pre_tokenizer Magic is not supported"},
        {"{" MODEL ",\"decoder\":{\"type\":\"Magic\"}}",
         "decoder Magic is not supported"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":"
         "\"Isolated\",\"pattern\":{\"Regex\":\"(\"}}}",
         "bad pattern"},
        {"{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":"
         "\"Isolated\",\"pattern\":{\"Regex\":\"[a&&b]\"}}}",
         "class inside a class"},
        {"{" MODEL ",\"added_tokens\":[{\"id\":0,\"content\":\"x\"}]}",
         "added token 0 has another text"},
        {"{" MODEL ",\"added_tokens\":[{\"content\":\"x\"}]}",
         "added_tokens.id must be an integer"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
         "model.vocab[0] must be a piece and its score"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}"
         "}",
         "model.unk_id"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_tokenizer *tokenizer = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_INVALID, pen_tokenizer_parse_json(
                                          cases[i].text, strlen(cases[i].text),
                                          &tokenizer, &why));
        if (strstr(pen_text_string(&why), cases[i].words) == NULL)
            fail_msg("expected '%s', found '%s'", cases[i].words,
                     pen_text_string(&why));
        pen_text_release(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_joined_by_rank_then_from_the_left),
        cmocka_unit_test(long_words_are_joined_as_short_ones),
        cmocka_unit_test(added_tokens_are_cut_out_first),
        cmocka_unit_test(a_word_of_the_vocabulary_may_be_taken_whole),
        cmocka_unit_test(unknown_characters_fall_back_to_bytes),
        cmocka_unit_test(unigram_takes_the_largest_sum),
        cmocka_unit_test(metaspace_marks_the_beginning_of_words),
        cmocka_unit_test(nfc_composes),
        cmocka_unit_test(nfc_orders_any_number_of_marks),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
        cmocka_unit_test(a_normalizer_that_makes_a_text_explode_is_refused),
        cmocka_unit_test(a_text_without_a_safe_cut_is_refused),
        cmocka_unit_test(wrong_files_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
