/*
 * The text of ids that no encoder would put in this order: which of the spaces
 * at the beginning go, and what special pieces are printed as, in each of the
 * ways that the judges in tests/interop know.
 */
#include "support/support.h"

#include "data/tokenizer.h"

#include <string.h>

#define META "\xe2\x96\x81"

/* The pieces of every model here, by id. */
enum { UNKNOWN, START, SPACE, WORD, LETTER, BYTE, NUM_PIECES };

static const struct {
    const char *text;
    char type; /* as SentencePiece numbers them */
} pieces[NUM_PIECES] = {{"<unk>", 2},  {"<s>", 3}, {META, 1},
                        {META "w", 1}, {"x", 1},   {"<0x20>", 6}};

/* A field of bytes, as protobuf writes it. */
static void add_field(struct pen_text *out, char key, const char *bytes,
                      size_t length)
{
    char head[2] = {key, (char)length};
    pen_text_add_bytes(out, head, 2);
    pen_text_add_bytes(out, bytes, length);
}

static struct pen_tokenizer *
make_sentencepiece(char adds_prefix, char removes_extra, const char *surface)
{
    struct pen_text model = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_tokenizer *tokenizer = NULL;
    const char spaces[] = {3 << 3, adds_prefix, 4 << 3, removes_extra};
    for (size_t i = 0; i < NUM_PIECES; i++) {
        struct pen_text piece = PEN_TEXT_EMPTY;
        const char type[] = {3 << 3, pieces[i].type};
        add_field(&piece, 1 << 3 | 2, pieces[i].text, strlen(pieces[i].text));
        pen_text_add_bytes(&piece, type, sizeof type);
        add_field(&model, 1 << 3 | 2, piece.bytes, piece.length);
        pen_text_release(&piece);
    }
    add_field(&model, 3 << 3 | 2, spaces, sizeof spaces);
    if (surface != NULL) {
        /* Field 44 needs a key of two bytes. */
        struct pen_text trainer = PEN_TEXT_EMPTY;
        pen_text_add_string(&trainer, "\xe2");
        add_field(&trainer, 2, surface, strlen(surface));
        add_field(&model, 2 << 3 | 2, trainer.bytes, trainer.length);
        pen_text_release(&trainer);
    }
    if (pen_tokenizer_parse_sentencepiece((const uint8_t *)model.bytes,
                                          model.length, &tokenizer,
                                          &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&model);
    pen_text_release(&why);
    return tokenizer;
}

static struct pen_tokenizer *make_json(const char *decoder)
{
    struct pen_text json = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_tokenizer *tokenizer = NULL;
    pen_text_add(&json,
                 "{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{");
    for (size_t i = 0; i < NUM_PIECES; i++)
        pen_text_add(&json, "%s\"%s\":%zu", i == 0 ? "" : ",", pieces[i].text,
                     i);
    pen_text_add(&json, "}},\"decoder\":%s}", decoder);
    if (pen_tokenizer_parse_json(json.bytes, json.length, &tokenizer, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&json);
    pen_text_release(&why);
    return tokenizer;
}

/* A sequence ends with UINT32_MAX. */
struct example {
    uint32_t ids[6];
    const char *text;
};

#define END UINT32_MAX

static void expect_texts(struct pen_tokenizer *tokenizer,
                         const struct example *examples, size_t num_examples)
{
    for (size_t i = 0; i < num_examples; i++) {
        struct pen_text found = PEN_TEXT_EMPTY;
        size_t count = 0;
        while (examples[i].ids[count] != END)
            count++;
        assert_int_equal(PEN_OK,
                         pen_tokenizer_decode(tokenizer, examples[i].ids, count,
                                              &found, NULL));
        assert_string_equal(examples[i].text, pen_text_string(&found));
        pen_text_release(&found);
    }
    pen_tokenizer_free(tokenizer);
}

#define EXPECT_TEXTS(tokenizer, examples)                                      \
    expect_texts(tokenizer, examples, sizeof(examples) / sizeof *(examples))

static void one_prefix_goes_when_spaces_count(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {{WORD, WORD, END}, "w w"},        {{LETTER, WORD, END}, "x w"},
        {{START, WORD, END}, "w"},         {{SPACE, SPACE, WORD, END}, "  w"},
        {{SPACE, START, WORD, END}, " w"}, {{BYTE, WORD, END}, "  w"},
    };
    EXPECT_TEXTS(make_sentencepiece(1, 0, NULL), examples);
}

static void all_prefixes_go_when_spaces_do_not_count(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {{WORD, WORD, END}, "w w"},
        {{SPACE, SPACE, WORD, SPACE, END}, "w "},
        {{SPACE, START, SPACE, LETTER, END}, "x"},
        {{BYTE, WORD, END}, "  w"},
    };
    EXPECT_TEXTS(make_sentencepiece(0, 1, NULL), examples);
}

static void no_prefix_goes_when_none_was_put(void **state)
{
    (void)state;
    static const struct example examples[] = {{{WORD, WORD, END}, " w w"}};
    EXPECT_TEXTS(make_sentencepiece(0, 0, NULL), examples);
}

static void the_unknown_piece_has_a_surface(void **state)
{
    (void)state;
    static const struct example usual[] = {
        {{LETTER, UNKNOWN, LETTER, END}, "x \xe2\x81\x87 x"},
        {{UNKNOWN, WORD, END}, " \xe2\x81\x87  w"}};
    static const struct example chosen[] = {
        {{LETTER, UNKNOWN, LETTER, END}, "x?x"}};
    static const struct example empty[] = {
        {{UNKNOWN, WORD, UNKNOWN, END}, "w"}};
    EXPECT_TEXTS(make_sentencepiece(1, 0, NULL), usual);
    EXPECT_TEXTS(make_sentencepiece(1, 0, "?"), chosen);
    EXPECT_TEXTS(make_sentencepiece(1, 0, ""), empty);
}

static void metaspace_bares_the_first_token(void **state)
{
    (void)state;
    static const struct example always[] = {
        {{WORD, WORD, END}, "w w"},
        {{SPACE, WORD, END}, " w"},
        {{START, WORD, END}, "<s> w"},
    };
    static const struct example never[] = {{{WORD, WORD, END}, " w w"}};
    EXPECT_TEXTS(make_json("{\"type\":\"Metaspace\",\"replacement\":\"" META
                           "\",\"prepend_scheme\":\"always\"}"),
                 always);
    EXPECT_TEXTS(make_json("{\"type\":\"Metaspace\",\"replacement\":\"" META
                           "\",\"prepend_scheme\":\"never\"}"),
                 never);
}

static void strip_takes_one_space_of_the_whole(void **state)
{
    (void)state;
    static const struct example examples[] = {
        {{WORD, WORD, END}, "w w"},
        {{SPACE, WORD, END}, " w"},
        {{BYTE, WORD, END}, " w"},
        {{START, WORD, END}, "<s> w"},
    };
    EXPECT_TEXTS(
        make_json("{\"type\":\"Sequence\",\"decoders\":["
                  "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" META
                  "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                  "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
                  "\"start\":1,\"stop\":0}]}"),
        examples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_prefix_goes_when_spaces_count),
        cmocka_unit_test(all_prefixes_go_when_spaces_do_not_count),
        cmocka_unit_test(no_prefix_goes_when_none_was_put),
        cmocka_unit_test(the_unknown_piece_has_a_surface),
        cmocka_unit_test(metaspace_bares_the_first_token),
        cmocka_unit_test(strip_takes_one_space_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
