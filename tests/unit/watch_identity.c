/* Ranks that are not the same are told apart, with what differs and where. */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "watch/launch_identity.h"

#include <stdio.h>
#include <string.h>

static void set(struct pen_launch_identity *identity,
                enum pen_identity_part part, const char *words,
                const char *bytes)
{
    assert_int_equal(pen_launch_identity_set(identity, part, words, bytes,
                                             strlen(bytes), NULL),
                     PEN_OK);
}

static struct pen_launch_identity make_identity(uint32_t rank, const char *host)
{
    struct pen_launch_identity identity;
    pen_launch_identity_init(&identity, rank, host);
    assert_int_equal(pen_launch_identity_set_build(
                         &identity, "0.1.0", "oneDNN 2.6.3", "avx512", NULL),
                     PEN_OK);
    set(&identity, PEN_IDENTITY_PLAN, "1f1b, 4 ranks", "rows");
    set(&identity, PEN_IDENTITY_MODEL, "gpt2", "{}");
    set(&identity, PEN_IDENTITY_OPTIONS, "AdamW", "lr 0.1");
    return identity;
}

static void expect_difference(const struct pen_launch_identity *own,
                              const struct pen_launch_identity *other,
                              const char *expected)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_launch_identity_compare(own, other, &why),
                     PEN_INVALID);
    assert_string_equal(pen_text_string(&why), expected);
    pen_text_release(&why);
}

static void equal_ranks_are_equal(void **state)
{
    (void)state;
    struct pen_launch_identity first = make_identity(0, "n1");
    struct pen_launch_identity other = make_identity(5, "n7");
    assert_int_equal(pen_launch_identity_compare(&other, &first, NULL), PEN_OK);
    assert_non_null(strstr(first.parts[PEN_IDENTITY_BUILD].words,
                           "penstock 0.1.0, oneDNN 2.6.3, avx512, "));
}

static void all_that_differs_is_named(void **state)
{
    (void)state;
    struct pen_launch_identity first = make_identity(0, "n1");
    struct pen_launch_identity other = make_identity(5, "n7");
    set(&other, PEN_IDENTITY_MODEL, "llama", "[]");
    expect_difference(&other, &first,
                      "rank 5 on n7 differs from rank 0 on n1 in model (llama "
                      "against gpt2)");
    set(&other, PEN_IDENTITY_OPTIONS, "AdamW", "lr 0.2");
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_launch_identity_compare(&other, &first, &why);
    char expected[256];
    snprintf(expected, sizeof expected,
             "rank 5 on n7 differs from rank 0 on n1 in model (llama against "
             "gpt2), options (%.12s against %.12s)",
             other.parts[PEN_IDENTITY_OPTIONS].hash,
             first.parts[PEN_IDENTITY_OPTIONS].hash);
    assert_string_equal(pen_text_string(&why), expected);
    pen_text_release(&why);
}

static void write_file(const char *name, const char *bytes, char *path,
                       size_t size)
{
    snprintf(path, size, "%s/%s", folder, name);
    assert_int_equal(pen_file_write(path, bytes, strlen(bytes), NULL), PEN_OK);
}

static void files_differ_by_name_and_size(void **state)
{
    (void)state;
    struct pen_launch_identity first = make_identity(0, "n1");
    struct pen_launch_identity other = make_identity(5, "n7");
    char path[64];
    const char *const paths[] = {path};
    write_file("a.bin", "1234", path, sizeof path);
    assert_int_equal(pen_launch_identity_set_files(&first, paths, 1, NULL),
                     PEN_OK);
    assert_int_equal(pen_launch_identity_set_files(&other, paths, 1, NULL),
                     PEN_OK);
    assert_int_equal(pen_launch_identity_compare(&other, &first, NULL), PEN_OK);
    write_file("a.bin", "12345", path, sizeof path);
    assert_int_equal(pen_launch_identity_set_files(&other, paths, 1, NULL),
                     PEN_OK);
    expect_difference(&other, &first,
                      "rank 5 on n7 differs from rank 0 on n1 in data (1 file, "
                      "5 bytes against 1 file, 4 bytes)");
    struct pen_text why = PEN_TEXT_EMPTY;
    snprintf(path, sizeof path, "%s/none", folder);
    assert_int_equal(pen_launch_identity_set_files(&other, paths, 1, &why),
                     PEN_IO);
    assert_non_null(strstr(pen_text_string(&why), "/none: No such file"));
    pen_text_release(&why);
}

static void another_build_may_send_anything(void **state)
{
    (void)state;
    struct pen_launch_identity own = make_identity(3, "n1");
    struct pen_launch_identity other;
    memset(&other, 'x', sizeof other);
    expect_difference(
        &own, &other,
        "rank 3 on n1 runs another version of penstock than the first "
        "rank; install the same version on all nodes");
    other.magic = own.magic;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_launch_identity_compare(&own, &other, &why),
                     PEN_INVALID);
    assert_true(why.length < 2048);
    pen_text_release(&why);
}

static void long_words_are_cut(void **state)
{
    (void)state;
    char words[500];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    struct pen_launch_identity identity;
    pen_launch_identity_init(&identity, 0, words);
    set(&identity, PEN_IDENTITY_PLAN, words, "rows");
    assert_true(strlen(identity.host) < sizeof identity.host);
    assert_true(strlen(identity.parts[PEN_IDENTITY_PLAN].words) < 112);
    assert_true(pen_hash_is_valid(identity.parts[PEN_IDENTITY_PLAN].hash));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ranks_are_equal),
        cmocka_unit_test(all_that_differs_is_named),
        cmocka_unit_test(files_differ_by_name_and_size),
        cmocka_unit_test(another_build_may_send_anything),
        cmocka_unit_test(long_words_are_cut),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
