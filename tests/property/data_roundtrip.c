/*
 * decode(encode(x)) = x: for the texts of the shared folder with every
 * tokenizer that keeps text as it is, and for random UTF-8 with those of
 * bytes; a million strings where PEN_LONG is set. Skipped without the folder.
 */
#include "support/support.h"

#include "base/file.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "support/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA PEN_SOURCE_DIR "/../shared/data/"

enum { NUM_STRINGS = 10000, ALL_STRINGS = 1000000 };

static bool is_missing(void)
{
    if (access(DATA "tokenizers", F_OK) == 0)
        return false;
    if (getenv("PEN_REQUIRE_SHARED") != NULL)
        fail_msg("%s is missing", DATA);
    print_message("%s is missing; skipped\n", DATA);
    return true;
}

struct coder {
    struct pen_tokenizer *tokenizer;
    struct pen_encoder *encoder;
    struct pen_token_list ids;
    struct pen_text text;
};

static void coder_init(struct coder *coder, const char *path)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    *coder = (struct coder){.tokenizer = NULL};
    if (pen_tokenizer_load(path, &coder->tokenizer, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(PEN_OK,
                     pen_encoder_create(coder->tokenizer, &coder->encoder));
}

static void coder_release(struct coder *coder)
{
    pen_encoder_free(coder->encoder);
    pen_tokenizer_free(coder->tokenizer);
    pen_token_list_release(&coder->ids);
    pen_text_release(&coder->text);
}

static void expect_round_trip(struct coder *coder, const char *text,
                              size_t length, const char *what)
{
    coder->ids.count = 0;
    pen_text_clear(&coder->text);
    assert_int_equal(PEN_OK, pen_encoder_encode(coder->encoder, text, length,
                                                &coder->ids, NULL));
    assert_int_equal(
        PEN_OK, pen_tokenizer_decode(coder->tokenizer, coder->ids.ids,
                                     coder->ids.count, &coder->text, NULL));
    if (coder->text.length != length ||
        memcmp(pen_text_string(&coder->text), text, length) != 0)
        fail_msg("%s comes back differently: %zu bytes, expected %zu", what,
                 coder->text.length, length);
}

static void texts_come_back(void **state)
{
    (void)state;
    static const char *const tokenizers[] = {DATA "tokenizers/gpt2",
                                             DATA "tokenizers/gpt-neox-20b",
                                             DATA "tokenizers/mistral-v1"};
    static const char *const texts[] = {
        "tinyshakespeare/input.txt",
        "names/names.txt",
        "wikitext-2/valid.txt",
        "wikitext-2/test.txt",
        "tokenizers/spm-small/botchan.txt",
        "tokenizers/spm-small/wagahaiwa_nekodearu.txt"};
    if (is_missing())
        skip();
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        struct coder coder;
        coder_init(&coder, tokenizers[i]);
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
            char path[300];
            struct pen_text text = PEN_TEXT_EMPTY;
            snprintf(path, sizeof path, DATA "%s", texts[j]);
            assert_int_equal(PEN_OK, pen_file_read(path, 1 << 24, &text, NULL));
            expect_round_trip(&coder, text.bytes, text.length, texts[j]);
            pen_text_release(&text);
        }
        coder_release(&coder);
    }
}

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Up to 40 characters of all planes, half of them of ASCII. */
static size_t random_string(uint64_t *random, char out[160])
{
    size_t length = 0;
    uint64_t count = next_random(random) % 41;
    for (uint64_t i = 0; i < count; i++) {
        static const uint32_t limits[] = {0x80, 0x80, 0x800, 0x110000};
        uint32_t limit = limits[next_random(random) % 4];
        uint32_t character = (uint32_t)(next_random(random) >> 11) % limit;
        if (character >= 0xd800 && character < 0xe000)
            character = ' ';
        length += pen__utf8_write(character, out + length);
    }
    return length;
}

static void random_strings_come_back(void **state)
{
    (void)state;
    if (is_missing())
        skip();
    const long num_strings = is_long_run() ? ALL_STRINGS : NUM_STRINGS;
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("property/data_roundtrip", seeds);
    struct coder coder;
    coder_init(&coder, DATA "tokenizers/gpt2");
    for (size_t s = 0; s < num_seeds; s++) {
        uint64_t random = seeds[s] ^ 0x9e3779b97f4a7c15u;
        for (long i = 0; i < num_strings; i++) {
            char text[160];
            size_t length = random_string(&random, text);
            expect_round_trip(&coder, text, length, "a random string");
        }
    }
    print_message("%ld random strings came back for each seed\n", num_strings);
    coder_release(&coder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(random_strings_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
