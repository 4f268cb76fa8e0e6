/*
 * An event file is whole records whose checks hold, one per step behind the
 * version; what TensorBoard makes of them is judged by
 * tests/interop/run_tensorboard.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "runtime/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL when the library was built without protobuf-c, which it must say. */
static struct pen_tensorboard *create(const char *directory, uint64_t last_step)
{
    struct pen_tensorboard *board = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, directory);
    if (pen_tensorboard_create(path, last_step, &board, &why) != PEN_OK) {
        print_message("%s\n", pen_text_string(&why));
        assert_non_null(strstr(pen_text_string(&why), "libprotobuf-c-dev"));
    }
    pen_text_release(&why);
    return board;
}

static uint64_t little_endian(const char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return value;
}

static void expect_masked(const char *bytes, size_t length, const char *check)
{
    uint32_t crc = pen_crc32c(bytes, length);
    uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    assert_int_equal(masked, little_endian(check, 4));
}

/* Returns how many records there are; puts the first into `first`. */
static size_t check_records(const char *path, char first[100])
{
    struct pen_text file = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_file_read(path, 1000000, &file, NULL));
    size_t count = 0;
    size_t at = 0;
    while (at < file.length) {
        const char *record = file.bytes + at;
        assert_in_range(file.length - at, 16, file.length);
        uint64_t length = little_endian(record, 8);
        assert_in_range(length, 1, file.length - at - 16);
        expect_masked(record, 8, record + 8);
        expect_masked(record + 12, length, record + 12 + length);
        if (count++ == 0) {
            assert_in_range(length, 1, 99);
            memcpy(first, record + 12, length);
            first[length] = '\0';
        }
        at += 16 + length;
    }
    assert_int_equal(file.length, at);
    pen_text_release(&file);
    return count;
}

static void records_are_whole_and_checked(void **state)
{
    (void)state;
    struct pen_tensorboard *board = create("runs/a", 0);
    if (board == NULL)
        skip();
    for (uint64_t number = 1; number <= 300; number++) {
        struct pen_run_step step = {.step = number,
                                    .loss = 1,
                                    .val_loss = number == 5 ? 2 : NAN,
                                    .val_accuracy = number == 5 ? 0.5 : NAN};
        assert_int_equal(PEN_OK, pen_tensorboard_add(board, &step, NULL));
    }
    char first[100];
    assert_int_equal(301, check_records(pen_tensorboard_path(board), first));
    /* Behind wall_time, a double: field 3, 13 letters. The step is 0. */
    assert_int_equal((1 << 3) | 1, first[0]);
    assert_string_equal("\x1a\x0d"
                        "brain.Event:2",
                        first + 9);
    pen_tensorboard_free(board);
}

static void each_writer_has_a_file_of_its_own(void **state)
{
    (void)state;
    struct pen_tensorboard *one = create("b", 0);
    if (one == NULL)
        skip();
    struct pen_tensorboard *two = create("b", 37);
    assert_non_null(two);
    assert_true(strcmp(pen_tensorboard_path(one), pen_tensorboard_path(two)) <
                0);
    char first[100];
    assert_int_equal(1, check_records(pen_tensorboard_path(one), first));
    assert_int_equal(2, check_records(pen_tensorboard_path(two), first));
    pen_tensorboard_free(one);
    pen_tensorboard_free(two);
}

static void a_directory_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct pen_tensorboard *board = create("c", 0);
    if (board == NULL)
        skip();
    struct pen_text below = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_tensorboard *other = NULL;
    pen_text_add(&below, "%s/d", pen_tensorboard_path(board));
    pen_text_add(&expected, "cannot make the folder %s: Not a directory",
                 pen_text_string(&below));
    assert_int_equal(PEN_IO, pen_tensorboard_create(pen_text_string(&below), 0,
                                                    &other, &why));
    assert_string_equal(pen_text_string(&expected), pen_text_string(&why));
    assert_null(other);
    pen_tensorboard_free(board);
    pen_text_release(&below);
    pen_text_release(&expected);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_whole_and_checked),
        cmocka_unit_test(each_writer_has_a_file_of_its_own),
        cmocka_unit_test(a_directory_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
