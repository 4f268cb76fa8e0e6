/*
 * Files of tokens: byte for byte the layouts of docs/formats.md, read back as
 * written, and refused with path and offset when a number in them is wrong.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "data/token_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *in_folder(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Three documents: {1, 2, 50256}, {}, {7}. */
static void write_three(const char *name, enum pen_token_format format,
                        uint32_t vocab_size)
{
    static const uint32_t first[] = {1, 2, 50256};
    static const uint32_t third[] = {7};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_token_writer *writer = NULL;
    pen_status status = pen_token_writer_create(in_folder(name), format,
                                                vocab_size, &writer, &why);
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(PEN_OK, pen_token_writer_add(writer, first, 3, &why));
    assert_int_equal(PEN_OK, pen_token_writer_end_document(writer, &why));
    assert_int_equal(PEN_OK, pen_token_writer_end_document(writer, &why));
    assert_int_equal(PEN_OK, pen_token_writer_add(writer, third, 1, &why));
    assert_int_equal(PEN_OK, pen_token_writer_end_document(writer, &why));
    assert_int_equal(PEN_OK, pen_token_writer_finish(writer, &why));
    assert_int_equal(4, pen_token_writer_tokens(writer));
    pen_token_writer_free(writer);
    pen_text_release(&why);
}

static void expect_bytes(const char *name, const void *expected, size_t length)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK,
                     pen_file_read(in_folder(name), 10000, &found, NULL));
    assert_int_equal(length, found.length);
    assert_memory_equal(expected, found.bytes, length);
    pen_text_release(&found);
}

static void expect_stream(const char *name, enum pen_token_format format,
                          uint64_t documents)
{
    static const uint32_t expected[] = {1, 2, 50256, 7};
    struct pen_token_file file;
    struct pen_text why = PEN_TEXT_EMPTY;
    uint32_t ids[4];
    if (pen_token_file_init(&file, in_folder(name), &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(format, file.format);
    assert_int_equal(4, file.num_tokens);
    assert_int_equal(documents, file.num_documents);
    pen_token_file_read(&file, 0, 4, ids);
    assert_memory_equal(expected, ids, sizeof ids);
    pen_token_file_read(&file, 2, 1, ids);
    assert_int_equal(50256, ids[0]);
    assert_int_equal(4, pen_token_file_document(&file, documents));
    pen_token_file_release(&file);
}

static void megatron_pair_is_as_published(void **state)
{
    (void)state;
    static const uint8_t idx[] =
        "MMIDIDX\0\0"
        "\1\0\0\0\0\0\0\0"
        "\x08"
        "\3\0\0\0\0\0\0\0"
        "\4\0\0\0\0\0\0\0"
        "\3\0\0\0\0\0\0\0\1\0\0\0"
        "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0";
    write_three("m", PEN_TOKENS_MEGATRON, 50257);
    expect_bytes("m_text_document.bin", "\1\0\2\0\x50\xc4\7\0", 8);
    expect_bytes("m_text_document.idx", idx, sizeof idx);
    expect_stream("m", PEN_TOKENS_MEGATRON, 3);
    expect_stream("m_text_document", PEN_TOKENS_MEGATRON, 3);
    expect_stream("m_text_document.bin", PEN_TOKENS_MEGATRON, 3);
    expect_stream("m_text_document.idx", PEN_TOKENS_MEGATRON, 3);
}

static void documents_of_megatron_are_told_apart(void **state)
{
    (void)state;
    struct pen_token_file file;
    write_three("d", PEN_TOKENS_MEGATRON, 50257);
    assert_int_equal(PEN_OK, pen_token_file_init(&file, in_folder("d"), NULL));
    assert_int_equal(0, pen_token_file_document(&file, 0));
    assert_int_equal(3, pen_token_file_document(&file, 1));
    assert_int_equal(3, pen_token_file_document(&file, 2));
    assert_int_equal(4, pen_token_file_document(&file, 3));
    pen_token_file_release(&file);
}

static void megatron_holds_65500_ids_in_32_bits(void **state)
{
    (void)state;
    write_three("w", PEN_TOKENS_MEGATRON, 65500);
    expect_bytes("w_text_document.bin", "\1\0\0\0\2\0\0\0\x50\xc4\0\0\7\0\0\0",
                 16);
    expect_stream("w", PEN_TOKENS_MEGATRON, 3);
}

static void llmc_files_are_as_published(void **state)
{
    (void)state;
    uint8_t expected[1024 + 16] = {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 4};
    memcpy(expected + 1024, "\1\0\2\0\x50\xc4\7\0", 8);
    write_three("l", PEN_TOKENS_LLMC, 50257);
    expect_bytes("l.bin", expected, 1024 + 8);
    expect_stream("l.bin", PEN_TOKENS_LLMC, 1);
    expected[0] = 0xa1;
    expected[1] = 0xd9;
    expected[4] = 7;
    memcpy(expected + 1024, "\1\0\0\0\2\0\0\0\x50\xc4\0\0\7\0\0\0", 16);
    write_three("l3", PEN_TOKENS_LLMC, 128256);
    expect_bytes("l3.bin", expected, 1024 + 16);
    expect_stream("l3.bin", PEN_TOKENS_LLMC, 1);
}

static void nanogpt_files_have_no_header(void **state)
{
    (void)state;
    write_three("n", PEN_TOKENS_NANOGPT, 50257);
    expect_bytes("n.bin", "\1\0\2\0\x50\xc4\7\0", 8);
    expect_stream("n.bin", PEN_TOKENS_NANOGPT, 1);
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_token_writer *writer = NULL;
    assert_int_equal(PEN_INVALID, pen_token_writer_create(
                                      in_folder("big"), PEN_TOKENS_NANOGPT,
                                      65537, &writer, &why));
    assert_non_null(strstr(pen_text_string(&why), "--format megatron"));
    pen_text_release(&why);
}

/* llm.c's own loader breaks here; the file is a hole, so it costs no disk. */
static void a_shard_above_2_gib_is_read(void **state)
{
    (void)state;
    const uint32_t tokens = 1200000000;
    const char *path = in_folder("big.bin");
    uint8_t header[12] = {0x88, 0xd8, 0x34, 0x01, 1};
    for (int i = 0; i < 4; i++)
        header[8 + i] = (uint8_t)(tokens >> 8 * i);
    FILE *stream = fopen(path, "wb");
    assert_int_equal(1, fwrite(header, sizeof header, 1, stream));
    assert_int_equal(0, fseek(stream, 1024 + 2L * (tokens - 1), SEEK_SET));
    assert_int_equal(1, fwrite("\x34\x12", 2, 1, stream));
    assert_int_equal(0, fclose(stream));
    struct pen_token_file file;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_token_file_init(&file, path, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    uint32_t ids[2];
    pen_token_file_read(&file, tokens - 2, 2, ids);
    assert_int_equal(0, ids[0]);
    assert_int_equal(0x1234, ids[1]);
    pen_token_file_release(&file);
    remove(path);
}

/* Pages of files that are mapped now. */
static long file_pages(void)
{
    long pages[3] = {0};
    FILE *stream = fopen("/proc/self/statm", "r");
    assert_non_null(stream);
    assert_int_equal(
        3, fscanf(stream, "%ld %ld %ld", &pages[0], &pages[1], &pages[2]));
    fclose(stream);
    return pages[2];
}

/* Not even a part of it, of 32 MB. */
static void a_file_that_was_read_does_not_stay(void **state)
{
    (void)state;
    enum { TOKENS = 16 << 20, PIECE = 4096 };
    const char *path = in_folder("long.bin");
    FILE *stream = fopen(path, "wb");
    assert_int_equal(0, fseek(stream, 2L * (TOKENS - 1), SEEK_SET));
    assert_int_equal(1, fwrite("\x34\x12", 2, 1, stream));
    assert_int_equal(0, fclose(stream));
    struct pen_token_file file;
    assert_int_equal(PEN_OK, pen_token_file_init(&file, path, NULL));
    static uint32_t ids[PIECE];
    long before = file_pages();
    for (uint64_t begin = 0; begin < TOKENS; begin += PIECE)
        pen_token_file_read(&file, begin, PIECE, ids);
    assert_in_range(file_pages() - before, 0, 64); /* code that came in */
    pen_token_file_read(&file, TOKENS - 1, 1, ids);
    assert_int_equal(0x1234, ids[0]);
    pen_token_file_release(&file);
    remove(path);
}

static void an_abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    struct pen_token_writer *writer = NULL;
    assert_int_equal(PEN_OK, pen_token_writer_create(in_folder("gone"),
                                                     PEN_TOKENS_MEGATRON, 100,
                                                     &writer, NULL));
    assert_int_equal(0, access(in_folder("gone_text_document.bin.part"), F_OK));
    pen_token_writer_free(writer);
    assert_int_not_equal(
        0, access(in_folder("gone_text_document.bin.part"), F_OK));
    assert_int_not_equal(0, access(in_folder("gone_text_document.bin"), F_OK));
}

/* Changes one byte of a good index and expects these words. */
static void expect_refusal(long offset, int byte, const char *words)
{
    struct pen_token_file file;
    struct pen_text why = PEN_TEXT_EMPTY;
    write_three("bad", PEN_TOKENS_MEGATRON, 50257);
    FILE *stream = fopen(in_folder("bad_text_document.idx"), "r+b");
    assert_int_equal(0, fseek(stream, offset, SEEK_SET));
    fputc(byte, stream);
    fclose(stream);
    assert_int_equal(PEN_INVALID,
                     pen_token_file_init(&file, in_folder("bad"), &why));
    if (strstr(pen_text_string(&why), words) == NULL ||
        strstr(pen_text_string(&why), "bad_text_document.idx") == NULL)
        fail_msg("expected '%s', found '%s'", words, pen_text_string(&why));
    pen_text_release(&why);
}

static void a_wrong_index_is_refused_with_its_offset(void **state)
{
    (void)state;
    expect_refusal(0, 'X', "offset 0: not an index of Megatron");
    expect_refusal(9, 2, "offset 9: version 2");
    expect_refusal(17, 7, "offset 17: type 7 does not hold tokens");
    expect_refusal(17, 0, "offset 17: type 0 does not hold tokens");
    expect_refusal(17, 128, "offset 17: type 128 does not hold tokens");
    expect_refusal(17, 4, "sequence 0 of 3 tokens does not fit");
    expect_refusal(18, 4, "offset 18: 4 sequences and 4 document ends");
    expect_refusal(25, 1, "offset 18");
    expect_refusal(33, 0x80, "offset 18");
    expect_refusal(34, 5, "offset 34: sequence 0 of 5 tokens does not fit");
    expect_refusal(37, 0x80, "offset 34: sequence 0");
    expect_refusal(42, 0,
                   "sequences end at byte 6, but the .bin file ends at 8");
    expect_refusal(54, 5, "offset 54: sequence 1 begins at byte 5");
    expect_refusal(70, 1, "offset 70: document end 0 is 1");
    expect_refusal(78, 4, "offset 78: document end 1 is 4");
    expect_refusal(94, 2, "offset 94: document end 3 is 2");
}

static void wrong_single_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t length;
        uint8_t head[12];
        const char *words;
    } cases[] = {
        {1024, {0x88, 0xd8, 0x34, 0x01, 2}, "offset 4: version 2"},
        {1026, {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 2}, "2 tokens need 1028"},
        {1024, {0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 0, 0, 0, 0x80}, "offset 8"},
        {3, {1, 2, 3}, "not a whole number of 16-bit tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[2000] = {0};
        struct pen_token_file file;
        struct pen_text why = PEN_TEXT_EMPTY;
        memcpy(bytes, cases[i].head, sizeof cases[i].head);
        const char *path = in_folder("single.bin");
        assert_int_equal(PEN_OK,
                         pen_file_write(path, bytes, cases[i].length, NULL));
        assert_int_equal(PEN_INVALID, pen_token_file_init(&file, path, &why));
        if (strstr(pen_text_string(&why), cases[i].words) == NULL)
            fail_msg("expected '%s', found '%s'", cases[i].words,
                     pen_text_string(&why));
        pen_text_release(&why);
    }
    struct pen_token_file file;
    assert_int_equal(PEN_INVALID, pen_token_file_init(&file, folder, NULL));
    assert_int_equal(PEN_IO,
                     pen_token_file_init(&file, in_folder("none"), NULL));
}

/* Pairs of its bytes would be tokens, if their number is even. */
static void a_text_is_no_file_of_tokens(void **state)
{
    (void)state;
    static const char *const texts[] = {"To be, or not to be.\n",
                                        "Sein oder nicht sein? Da\xc3\x9f!\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pen_token_file file;
        struct pen_text why = PEN_TEXT_EMPTY;
        const char *path = in_folder("even.txt");
        for (size_t cut = 0; cut < 2; cut++) {
            assert_int_equal(PEN_OK,
                             pen_file_write(path, texts[i] + cut,
                                            strlen(texts[i]) - cut, NULL));
            assert_int_equal(PEN_INVALID,
                             pen_token_file_init(&file, path, &why));
            assert_non_null(strstr(pen_text_string(&why), "even.txt is text"));
            assert_non_null(strstr(pen_text_string(&why), "penstock tokenize"));
            pen_text_clear(&why);
        }
        pen_text_release(&why);
    }
    /* Characters as tokens: each second byte is 0. */
    static const char tokens[] = "T\0o\0 \0b\0e\0,\0 \0o\0r\0 \0n\0o\0t\0";
    struct pen_token_file file;
    const char *path = in_folder("tokens.bin");
    assert_int_equal(PEN_OK, pen_file_write(path, tokens, 26, NULL));
    assert_int_equal(PEN_OK, pen_token_file_init(&file, path, NULL));
    assert_int_equal(13, file.num_tokens);
    pen_token_file_release(&file);
}

static void an_empty_file_is_an_empty_stream(void **state)
{
    (void)state;
    struct pen_token_file file;
    const char *path = in_folder("empty.bin");
    assert_int_equal(PEN_OK, pen_file_write(path, "", 0, NULL));
    assert_int_equal(PEN_OK, pen_token_file_init(&file, path, NULL));
    assert_int_equal(0, file.num_tokens);
    pen_token_file_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_pair_is_as_published),
        cmocka_unit_test(documents_of_megatron_are_told_apart),
        cmocka_unit_test(megatron_holds_65500_ids_in_32_bits),
        cmocka_unit_test(llmc_files_are_as_published),
        cmocka_unit_test(nanogpt_files_have_no_header),
        cmocka_unit_test(a_shard_above_2_gib_is_read),
        cmocka_unit_test(a_file_that_was_read_does_not_stay),
        cmocka_unit_test(an_abandoned_file_leaves_nothing),
        cmocka_unit_test(a_wrong_index_is_refused_with_its_offset),
        cmocka_unit_test(wrong_single_files_are_refused),
        cmocka_unit_test(a_text_is_no_file_of_tokens),
        cmocka_unit_test(an_empty_file_is_an_empty_stream),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
