/*
 * A text that comes in blocks has the ids of the whole text, wherever blocks
 * end and whatever the tokenizer: those of the shared folder, and random ones
 * of every kind of step. The reference is the text in one block, with no piece
 * of it cut for a model. PEN_LONG=1 tries fifty times as many.
 */
#include "support/support.h"

#include "base/file.h"
#include "data/normalize.h"
#include "data/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA PEN_SOURCE_DIR "/../shared/data/"

static uint64_t seed = 0x2545f4914f6cdd1du;

static uint64_t draw(uint64_t limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % limit;
}

static int rounds(int usual)
{
    return getenv("PEN_LONG") != NULL ? 50 * usual : usual;
}

/* What texts are made of: what steps treat in some special way. */
static const char *const letters[] = {
    "a",
    "b",
    "c",
    "a",
    "b",
    "ab",
    " ",
    " ",
    "  ",
    "\n",
    "\r\n",
    "1",
    "22",
    "'s",
    "!",
    "\xe2\x96\x81",             /* U+2581 */
    "e\xcc\x81",                /* composes */
    "\xcc\x81\xcc\xa3",         /* marks in the wrong order */
    "\xc3\xa9",                 /* composed */
    "\xe1\x84\x92\xe1\x85\xa1", /* Hangul */
    "\xe1\x86\xab",
    "\xe6\x97\xa5\xe6\x9c\xac",
    "\xe3\x80\x80", /* a wide space */
    "\xc2\xa0",
    "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", /* a flag */
    "\xf0\x9f\x87\xab",
    "\xf0\x9f\x91\xa9\xe2\x80\x8d", /* a woman, joined to what follows */
    "\xef\xac\x81",                 /* a ligature */
    "\xef\xbc\xa1",                 /* wide A */
    "<s>",
    "<x y>",
    "xx",
    "x",
    "abcabc"};

#define NUM_LETTERS (sizeof letters / sizeof *letters)

/* Few letters in one text, so that what is alike comes side by side. */
static void random_text(struct pen_text *out, size_t length)
{
    size_t few[6];
    size_t count = 1 + draw(6);
    for (size_t i = 0; i < 6; i++)
        few[i] = draw(NUM_LETTERS);
    pen_text_clear(out);
    while (out->length < length) {
        if (draw(40) == 0)
            few[draw(6)] = draw(NUM_LETTERS);
        pen_text_add_string(out, letters[few[draw(count)]]);
    }
}

static void encode_whole(const struct pen_tokenizer *tokenizer,
                         const struct pen_text *text,
                         struct pen_token_list *out)
{
    struct pen_encoder *encoder = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    pen__encoder_set_window(encoder, SIZE_MAX / 4);
    if (pen_encoder_feed(encoder, pen_text_string(text), text->length, true,
                         out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    pen_encoder_free(encoder);
}

/* The end of a block of about `most` bytes, between two characters. */
static size_t end_of_block(const struct pen_text *text, size_t at, size_t most)
{
    size_t end = at + draw(most + 1);
    if (end >= text->length)
        return text->length;
    while (end > at && ((uint8_t)text->bytes[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static void expect_same(const struct pen_token_list *expected,
                        const struct pen_token_list *found,
                        const struct pen_text *text, const char *what)
{
    size_t same = 0;
    while (same < expected->count && same < found->count &&
           expected->ids[same] == found->ids[same])
        same++;
    if (same < expected->count || same < found->count)
        fail_msg("%s: %zu ids, expected %zu; the first %zu agree\n%.*s", what,
                 found->count, expected->count, same,
                 (int)(text->length < 2000 ? text->length : 2000),
                 pen_text_string(text));
}

/* Several ways to feed the same text; block by block also empty ones. */
static void check_text(const struct pen_tokenizer *tokenizer,
                       const struct pen_text *text, int ways, const char *what)
{
    struct pen_token_list expected = PEN_TOKEN_LIST_EMPTY;
    struct pen_token_list found = PEN_TOKEN_LIST_EMPTY;
    struct pen_encoder *encoder = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    encode_whole(tokenizer, text, &expected);
    assert_int_equal(PEN_OK, pen_encoder_create(tokenizer, &encoder));
    for (int way = 0; way < ways; way++) {
        size_t most = way == 0 ? 4 : 4 + draw(text->length / 2 + 8);
        size_t at = 0;
        bool is_end = false;
        found.count = 0;
        pen__encoder_set_window(encoder, 1 + draw(way % 2 == 0 ? 4 : 300));
        while (!is_end) {
            size_t end = end_of_block(text, at, most);
            is_end = end == text->length && draw(3) > 0;
            if (pen_encoder_feed(encoder, pen_text_string(text) + at, end - at,
                                 is_end, &found, &why) != PEN_OK)
                fail_msg("%s: %s", what, pen_text_string(&why));
            at = end;
        }
        expect_same(&expected, &found, text, what);
    }
    pen_encoder_free(encoder);
    pen_token_list_release(&expected);
    pen_token_list_release(&found);
}

/* ---- tokenizers of the shared folder ---- */

static bool is_missing(void)
{
    if (access(DATA "tokenizers", F_OK) == 0)
        return false;
    if (getenv("PEN_REQUIRE_SHARED") != NULL)
        fail_msg("%s is missing", DATA);
    print_message("%s is missing; skipped\n", DATA);
    return true;
}

static void check_tokenizer(const struct pen_tokenizer *tokenizer,
                            const char *what)
{
    static const char *const files[] = {
        "tinyshakespeare/input.txt", "wikitext-2/valid.txt",
        "tokenizers/spm-small/botchan.txt",
        "tokenizers/spm-small/wagahaiwa_nekodearu.txt"};
    struct pen_text text = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[300];
        struct pen_text all = PEN_TEXT_EMPTY;
        snprintf(path, sizeof path, DATA "%s", files[i]);
        assert_int_equal(PEN_OK, pen_file_read(path, 1 << 24, &all, NULL));
        size_t begin = draw(all.length / 2);
        while (((uint8_t)all.bytes[begin] & 0xc0) == 0x80)
            begin++;
        size_t end = begin + 60000;
        while (((uint8_t)all.bytes[end] & 0xc0) == 0x80)
            end++;
        pen_text_clear(&text);
        pen_text_add_bytes(&text, all.bytes + begin, end - begin);
        check_text(tokenizer, &text, 3, what);
        pen_text_release(&all);
    }
    for (int i = 0; i < rounds(10); i++) {
        random_text(&text, draw(3000));
        check_text(tokenizer, &text, 3, what);
    }
    pen_text_release(&text);
}

static void tokenizers_that_people_have_can_be_fed_in_blocks(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",
                                        "gpt-neox-20b",
                                        "mistral-v1",
                                        "t5-base",
                                        "spm-small/test_model.model",
                                        "tiny-llama3-style"};
    if (is_missing())
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pen_tokenizer *tokenizer = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        char path[300];
        snprintf(path, sizeof path, DATA "tokenizers/%s", names[i]);
        if (pen_tokenizer_load(path, &tokenizer, &why) != PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        check_tokenizer(tokenizer, names[i]);
        pen_tokenizer_free(tokenizer);
    }
}

/* T5's rules as the tokenizers package applies them, by graphemes. */
static void graphemes_can_be_fed_in_blocks(void **state)
{
    (void)state;
    struct pen_tokenizer *tokenizer = NULL;
    if (is_missing())
        skip();
    assert_int_equal(PEN_OK, pen_tokenizer_load(DATA "tokenizers/t5-base",
                                                &tokenizer, NULL));
    struct pen__normal_step *step = &tokenizer->normal[0];
    step->kind = PEN__NORMAL_CHARSMAP;
    assert_int_equal(PEN_OK,
                     pen__pattern_create("\\X", 2, &step->pattern, NULL));
    check_tokenizer(tokenizer, "graphemes");
    pen_tokenizer_free(tokenizer);
}

/* ---- random tokenizers ---- */

static const char *const normalizers[] = {
    "{\"type\":\"NFC\"}",
    "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
    "\"\xe2\x96\x81\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"abc\"},\"content\":\"b\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe6\x97\xa5\xe6\x9c\xac"
    "\"},\"content\":\"xx\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" "
    "\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?<=a)b+(?=c)\"},"
    "\"content\":\"1\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"^a|b$|\\\\bx\"},"
    "\"content\":\"2\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a*\"},\"content\":\"a\"}",
    "{\"type\":\"Strip\"}",
    "{\"type\":\"Strip\",\"strip_left\":false}"};

static const char *const pre_tokenizers[] = {
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"split\":false,"
    "\"prepend_scheme\":\"first\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
    "\"prepend_scheme\":\"first\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
    "\"prepend_scheme\":\"never\"}",
    "{\"type\":\"Digits\"}",
    "{\"type\":\"Digits\",\"individual_digits\":true}",
    "{\"type\":\"WhitespaceSplit\"}",
    "{\"type\":\"Split\",\"pattern\":{\"String\":\"ab\"},\"behavior\":"
    "\"Removed\"}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+\"},\"behavior\":"
    "\"Removed\",\"invert\":true}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<!a)b+|\\\\Ac| "
    "?x+(?!x)|c*\"},\"behavior\":\"Isolated\"}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+(?!\\\\S)|\\\\s+\"},"
    "\"behavior\":\"Isolated\"}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\Ga|b\"},\"behavior\":"
    "\"Isolated\"}"};

static const char *const byte_tokenizers[] = {
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}",
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}",
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}"};

static const char *const added_tokens[] = {
    "\"content\":\"<s>\"",
    "\"content\":\"xx\",\"lstrip\":true",
    "\"content\":\"<x y>\",\"rstrip\":true",
    "\"content\":\"<s><s>\",\"normalized\":true",
    "\"content\":\"abca\",\"normalized\":true,\"rstrip\":true,\"lstrip\":true",
    "\"content\":\"\xc3\xa9\",\"normalized\":true"};

/* Some of these, in any order. */
static void add_some(struct pen_text *out, const char *const *all, size_t count,
                     size_t most)
{
    for (size_t i = draw(most + 1), first = 1; i > 0; i--, first = 0)
        pen_text_add(out, "%s%s", first ? "" : ",", all[draw(count)]);
}

#define TOKENS_MAX 80

/* Tokens made by joining two others: the list of all, and all merges. */
struct vocabulary {
    char tokens[TOKENS_MAX][64];
    size_t count;
    struct pen_text merges;
};

static bool has_token(const struct vocabulary *vocabulary, const char *token)
{
    for (size_t i = 0; i < vocabulary->count; i++) {
        if (strcmp(vocabulary->tokens[i], token) == 0)
            return true;
    }
    return false;
}

/* Ranks are drawn apart from the order of making: a part may come later. */
static void random_vocabulary(struct vocabulary *vocabulary, bool is_bytes)
{
    static const char *const plain[] = {
        "a",        "b",   "c", "x", "\xe2\x96\x81", " ", "1", "\xe6\x97\xa5",
        "\xc3\xa9", "\\n", "!", "A"};
    static const char *const bytes[] = {
        "a", "b",        "c",        "x", "\xc4\xa0", "\xc4\x8a",
        "1", "\xc3\xa6", "\xc3\x83", "!", "\xc2\xa9", "\xc3\xb0"};
    size_t singles = 4 + draw(9);
    char pairs[300][140];
    size_t num_pairs = 0;
    vocabulary->count = 0;
    pen_text_clear(&vocabulary->merges);
    for (size_t i = 0; i < singles && i < 12; i++)
        strcpy(vocabulary->tokens[vocabulary->count++],
               is_bytes ? bytes[i] : plain[i]);
    for (int i = 0; i < 120 && num_pairs < 300; i++) {
        const char *left = vocabulary->tokens[draw(vocabulary->count)];
        const char *right = vocabulary->tokens[draw(vocabulary->count)];
        char joined[140];
        if (draw(3) == 0 && vocabulary->count > 6) {
            left = vocabulary->tokens[draw(6)];
            right = vocabulary->tokens[draw(6)];
        }
        sprintf(joined, "%s%s", left, right);
        if (strlen(joined) > 40 || strcmp(left, " ") == 0 ||
            strcmp(right, " ") == 0 || strlen(joined) > 12 + draw(28))
            continue;
        sprintf(pairs[num_pairs++], "[\"%s\",\"%s\"]", left, right);
        if (!has_token(vocabulary, joined)) {
            if (vocabulary->count == TOKENS_MAX) {
                num_pairs--;
                continue;
            }
            strcpy(vocabulary->tokens[vocabulary->count++], joined);
        }
    }
    bool is_mixed = draw(2) == 0;
    for (size_t i = 0; i < num_pairs; i++) {
        size_t other = is_mixed ? i + draw(num_pairs - i) : i;
        char swapped[140];
        memcpy(swapped, pairs[i], sizeof swapped);
        memmove(pairs[i], pairs[other], sizeof swapped);
        memcpy(pairs[other], swapped, sizeof swapped);
        pen_text_add(&vocabulary->merges, i == 0 ? "%s" : ",%s", pairs[i]);
    }
}

static void add_bpe(struct pen_text *json, bool is_bytes)
{
    static struct vocabulary vocabulary;
    bool has_fallback = draw(3) == 0;
    random_vocabulary(&vocabulary, is_bytes);
    pen_text_add(json,
                 "\"model\":{\"type\":\"BPE\",\"fuse_unk\":%s,"
                 "\"byte_fallback\":%s,\"ignore_merges\":%s,",
                 draw(2) == 0 ? "true" : "false",
                 has_fallback ? "true" : "false",
                 draw(4) == 0 ? "true" : "false");
    if (draw(2) == 0)
        pen_text_add_string(json, "\"unk_token\":\"<unk>\",");
    pen_text_add_string(json, "\"vocab\":{\"<unk>\":0");
    for (size_t i = 0; i < vocabulary.count; i++)
        pen_text_add(json, ",\"%s\":%zu", vocabulary.tokens[i], i + 1);
    for (unsigned i = 0; i < 256 && has_fallback; i++)
        pen_text_add(json, ",\"<0x%02X>\":%zu", i, vocabulary.count + 1 + i);
    pen_text_add(json, "},\"merges\":[%s]}",
                 pen_text_string(&vocabulary.merges));
}

static void add_unigram(struct pen_text *json)
{
    static struct vocabulary vocabulary;
    random_vocabulary(&vocabulary, false);
    pen_text_add_string(json, "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
                              "\"vocab\":[[\"<unk>\",-3]");
    for (size_t i = 0; i < vocabulary.count; i++)
        pen_text_add(json, ",[\"%s\",-%u.%u]", vocabulary.tokens[i],
                     (unsigned)draw(8), (unsigned)draw(3));
    pen_text_add_string(json, "]}");
}

static void random_json(struct pen_text *json)
{
    bool is_bytes = draw(2) == 0;
    pen_text_clear(json);
    pen_text_add_string(json, "{\"normalizer\":{\"type\":\"Sequence\","
                              "\"normalizers\":[");
    add_some(json, normalizers, sizeof normalizers / sizeof *normalizers, 3);
    pen_text_add_string(json, "]},\"pre_tokenizer\":{\"type\":\"Sequence\","
                              "\"pretokenizers\":[");
    if (is_bytes) {
        size_t before = json->length;
        add_some(json, pre_tokenizers + 4, 8, 1);
        pen_text_add(json, "%s%s", json->length > before ? "," : "",
                     byte_tokenizers[draw(4)]);
    } else {
        add_some(json, pre_tokenizers,
                 sizeof pre_tokenizers / sizeof *pre_tokenizers, 3);
    }
    pen_text_add_string(json, "]},\"added_tokens\":[");
    for (size_t i = draw(3), id = 1000; i > 0; i--, id++)
        pen_text_add(json, "{\"id\":%zu,%s}%s", id, added_tokens[draw(6)],
                     i > 1 ? "," : "");
    pen_text_add_string(json, "],");
    if (is_bytes || draw(3) > 0)
        add_bpe(json, is_bytes);
    else
        add_unigram(json);
    pen_text_add_string(json, "}");
}

static void random_tokenizers_can_be_fed_in_blocks(void **state)
{
    (void)state;
    struct pen_text json = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    int num_tried = 0;
    for (int i = 0; i < rounds(400); i++) {
        struct pen_tokenizer *tokenizer = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        random_json(&json);
        pen_status status =
            pen_tokenizer_parse_json(json.bytes, json.length, &tokenizer, &why);
        if (status != PEN_OK && strstr(pen_text_string(&why), "twice") == NULL)
            fail_msg("%s\n%s", pen_text_string(&why), json.bytes);
        pen_text_release(&why);
        for (int j = 0; j < 3 && status == PEN_OK; j++) {
            random_text(&text, draw(j == 0 ? 12 : 500));
            check_text(tokenizer, &text, 4, json.bytes);
            num_tried++;
        }
        pen_tokenizer_free(tokenizer);
    }
    print_message("%d texts\n", num_tried);
    pen_text_release(&json);
    pen_text_release(&text);
}

/* ---- random SentencePiece models ---- */

static void add_varint(struct pen_text *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        char byte = (char)(value | 0x80);
        pen_text_add_bytes(out, &byte, 1);
    }
    char last = (char)value;
    pen_text_add_bytes(out, &last, 1);
}

static void add_field(struct pen_text *out, unsigned number,
                      const struct pen_text *bytes)
{
    add_varint(out, number << 3 | 2);
    add_varint(out, bytes->length);
    pen_text_add_bytes(out, pen_text_string(bytes), bytes->length);
}

static void add_number(struct pen_text *out, unsigned number, uint64_t value)
{
    add_varint(out, number << 3);
    add_varint(out, value);
}

static void add_model_piece(struct pen_text *model, const char *text,
                            float score, unsigned type)
{
    struct pen_text piece = PEN_TEXT_EMPTY;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add_string(&name, text);
    add_field(&piece, 1, &name);
    add_varint(&piece, 2 << 3 | 5);
    pen_text_add_bytes(&piece, (const char *)&score, 4);
    add_number(&piece, 3, type);
    add_field(model, 1, &piece);
    pen_text_release(&piece);
    pen_text_release(&name);
}

static void random_model(struct pen_text *model)
{
    static struct vocabulary vocabulary;
    struct pen_text part = PEN_TEXT_EMPTY;
    bool has_fallback = draw(2) == 0;
    bool is_mixed = draw(2) == 0;
    random_vocabulary(&vocabulary, false);
    pen_text_clear(model);
    add_model_piece(model, "<unk>", 0, 2);
    for (size_t i = 0; i < vocabulary.count; i++) {
        bool is_own = i > 6 && is_mixed && draw(10) == 0;
        add_model_piece(model, vocabulary.tokens[i],
                        is_mixed ? -(float)draw(6) - 0.25f * (float)draw(3)
                                 : -(float)i,
                        is_own ? 4 : 1);
    }
    for (unsigned i = 0; i < 256 && has_fallback; i++) {
        char name[8];
        sprintf(name, "<0x%02X>", i);
        add_model_piece(model, name, 0, 6);
    }
    add_number(&part, 3, 1 + draw(2)); /* unigram or BPE */
    add_number(&part, 24, draw(4) == 0);
    add_number(&part, 35, has_fallback);
    add_field(model, 2, &part);
    pen_text_clear(&part);
    add_number(&part, 3, draw(4) > 0);
    add_number(&part, 4, draw(2));
    add_number(&part, 5, draw(4) > 0);
    add_field(model, 3, &part);
    pen_text_release(&part);
}

static void random_models_can_be_fed_in_blocks(void **state)
{
    (void)state;
    struct pen_text model = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    for (int i = 0; i < rounds(300); i++) {
        struct pen_tokenizer *tokenizer = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        char what[40];
        random_model(&model);
        snprintf(what, sizeof what, "model %d", i);
        if (pen_tokenizer_parse_sentencepiece((const uint8_t *)model.bytes,
                                              model.length, &tokenizer,
                                              &why) != PEN_OK)
            fail_msg("%s: %s", what, pen_text_string(&why));
        for (int j = 0; j < 3; j++) {
            random_text(&text, draw(j == 0 ? 12 : 500));
            check_text(tokenizer, &text, 4, what);
        }
        pen_tokenizer_free(tokenizer);
    }
    pen_text_release(&model);
    pen_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_tokenizers_can_be_fed_in_blocks),
        cmocka_unit_test(random_models_can_be_fed_in_blocks),
        cmocka_unit_test(tokenizers_that_people_have_can_be_fed_in_blocks),
        cmocka_unit_test(graphemes_can_be_fed_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
