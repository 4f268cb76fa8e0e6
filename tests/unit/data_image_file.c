/*
 * Files of images: read as MNIST and CIFAR-10 lay them out, plain or packed by
 * gzip, and refused with path and reason when they are cut, damaged or do not
 * fit.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "data/image_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"
#define BATCH(number) "data_batch_" #number ".bin"

/* Three images of 2 x 3, and what they show. */
static const uint8_t images[] = {0, 0,  8,  3,  0,  0,  0,  3,  0,  0,  0, 2,
                                 0, 0,  0,  3,  1,  2,  3,  4,  5,  6,  7, 8,
                                 9, 10, 11, 12, 13, 14, 15, 16, 17, 255};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9};

static const char *in_folder(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t length)
{
    assert_int_equal(PEN_OK,
                     pen_file_write(in_folder(name), bytes, length, NULL));
}

static void put_packed(const char *name, const void *bytes, size_t length)
{
    gzFile file = gzopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(length, gzwrite(file, bytes, (unsigned)length));
    assert_int_equal(Z_OK, gzclose(file));
}

static void clear(void)
{
    static const char *const names[] = {
        IMAGES,   LABELS,   IMAGES ".gz", LABELS ".gz",
        BATCH(1), BATCH(2), BATCH(3),     BATCH(2) ".gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
}

static void put_both(void)
{
    clear();
    put(IMAGES, images, sizeof images);
    put(LABELS, labels, sizeof labels);
}

static void expect_three(void)
{
    struct pen_image_set set;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_image_set_load(&set, folder, "train", &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(3, set.num_images);
    assert_int_equal(2, set.height);
    assert_int_equal(3, set.width);
    assert_memory_equal(images + 16, set.pixels, sizeof images - 16);
    assert_memory_equal(labels + 8, set.labels, 3);
    pen_image_set_release(&set);
    pen_text_release(&why);
}

static void expect_refused(const char *part, const char *words)
{
    struct pen_image_set set;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_not_equal(PEN_OK, pen_image_set_load(&set, folder, part, &why));
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("expected '%s', found '%s'", words, pen_text_string(&why));
    assert_non_null(strstr(pen_text_string(&why), folder));
    pen_text_release(&why);
}

static void plain_and_packed_files_are_read_alike(void **state)
{
    (void)state;
    put_both();
    expect_three();
    clear();
    put_packed(IMAGES ".gz", images, sizeof images);
    put_packed(LABELS ".gz", labels, sizeof labels);
    expect_three();
    /* The name does not decide, the bytes do. */
    put_packed(IMAGES, images, sizeof images);
    expect_three();
}

/* cat a.gz b.gz is a file of gzip, too. */
static void members_of_gzip_follow_each_other(void **state)
{
    (void)state;
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    put_both();
    put_packed("a", images, 20);
    put_packed("b", images + 20, sizeof images - 20);
    assert_int_equal(PEN_OK, pen_file_read(in_folder("a"), 1000, &first, NULL));
    assert_int_equal(PEN_OK,
                     pen_file_read(in_folder("b"), 1000, &second, NULL));
    pen_text_add_bytes(&first, second.bytes, second.length);
    put(IMAGES, first.bytes, first.length);
    expect_three();
    pen_text_release(&first);
    pen_text_release(&second);
}

/* Images with one byte of the head replaced. */
static void put_changed(size_t at, uint8_t value)
{
    uint8_t changed[sizeof images];
    memcpy(changed, images, sizeof images);
    changed[at] = value;
    put(IMAGES, changed, sizeof changed);
}

static void heads_that_lie_are_refused(void **state)
{
    (void)state;
    put_both();
    put_changed(3, 1);
    expect_refused("train",
                   "the magic number is 2049; the one of images is 2051");
    put_changed(7, 4);
    expect_refused("train",
                   "18 bytes follow the header, but its 4 images take 24");
    put_changed(7, 2);
    expect_refused("train",
                   "18 bytes follow the header, but its 2 images take 12");
    put_changed(7, 0);
    expect_refused("train", "0 x 2 x 3");
    put_changed(8, 255);
    expect_refused("train", "more than a file can hold: 3 x 4278190082 x 3");
    put(IMAGES, images, 15);
    expect_refused(
        "train",
        "the file has 15 bytes; the header of a file of images has 16");
    put(IMAGES, images, 0);
    expect_refused("train", "0 bytes");
    put(IMAGES, images, sizeof images);
    put(LABELS, images, sizeof images);
    expect_refused("train", LABELS ": the magic number is 2051");
    static const uint8_t two[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 0};
    put(LABELS, two, sizeof two);
    expect_refused("train", "3 images");
    expect_refused("train", "2 labels");
}

static void wide_images_are_refused(void **state)
{
    (void)state;
    static uint8_t wide[16 + 4097] = {0, 0, 8, 3, 0, 0, 0,  1,
                                      0, 0, 0, 1, 0, 0, 16, 1};
    put_both();
    put(IMAGES, wide, sizeof wide);
    expect_refused("train", "images of 1 x 4097; at most 4096");
}

static void damaged_gzip_is_refused(void **state)
{
    (void)state;
    struct pen_text packed = PEN_TEXT_EMPTY;
    put_both();
    put_packed("a", images, sizeof images);
    assert_int_equal(PEN_OK,
                     pen_file_read(in_folder("a"), 1000, &packed, NULL));
    for (size_t length = 2; length < packed.length; length++) {
        put(IMAGES, packed.bytes, length);
        expect_refused("train", "the gzip data ends too early");
    }
    packed.bytes[packed.length - 5] ^= 1; /* of the CRC */
    put(IMAGES, packed.bytes, packed.length);
    expect_refused("train", "the gzip data is damaged: incorrect data check");
    pen_text_release(&packed);
}

static void missing_files_are_named(void **state)
{
    (void)state;
    put_both();
    expect_refused("t10k", "has neither t10k-images-idx3-ubyte nor "
                           "t10k-images-idx3-ubyte.gz");
    unlink(in_folder(LABELS));
    expect_refused("train", "has neither " LABELS " nor " LABELS ".gz");
}

/* ---- CIFAR-10 ---- */

enum { PIXELS = 3 * 32 * 32, RECORD = PIXELS + 1 };

static uint8_t records[3 * RECORD];

/* Record i has the label i + first, and pixels that depend on both. */
static void fill_records(uint8_t first)
{
    for (size_t i = 0; i < sizeof records; i++)
        records[i] =
            (uint8_t)(i % RECORD == 0 ? i / RECORD + first : i * 31 + first);
}

static void expect_records(const struct pen_image_set *set, uint32_t from,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(records[i * RECORD], set->labels[from + i]);
        assert_memory_equal(records + i * RECORD + 1,
                            set->pixels + (size_t)(from + i) * PIXELS, PIXELS);
    }
}

static void colours_of_all_files_follow_each_other(void **state)
{
    (void)state;
    struct pen_image_set set;
    put_both(); /* CIFAR-10 goes first */
    fill_records(0);
    put(BATCH(1), records, sizeof records);
    fill_records(5);
    put_packed(BATCH(2) ".gz", records, 2 * RECORD);
    assert_int_equal(PEN_OK, pen_image_set_load(&set, folder, "train", NULL));
    assert_int_equal(5, set.num_images);
    assert_int_equal(3, set.channels);
    assert_int_equal(32, set.height);
    assert_int_equal(32, set.width);
    expect_records(&set, 3, 2);
    fill_records(0);
    expect_records(&set, 0, 3);
    pen_image_set_release(&set);
    /* The tests are another part, and MNIST's here. */
    expect_refused("t10k", "folder with the files of MNIST or CIFAR-10");
    clear();
}

static void records_that_are_cut_or_have_no_label_are_refused(void **state)
{
    (void)state;
    clear();
    fill_records(0);
    put(BATCH(1), records, 0);
    expect_refused("train", "0 bytes, which are not whole records of 3073");
    put(BATCH(1), records, sizeof records - 1);
    expect_refused("train", "9218 bytes, which are not whole records of 3073");
    put(BATCH(1), records, sizeof records);
    fill_records(8);
    put(BATCH(2), records, sizeof records);
    expect_refused("train", BATCH(2) ": record 2 has the label 10; CIFAR-10 "
                                     "has 0 to 9");
    clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_packed_files_are_read_alike),
        cmocka_unit_test(members_of_gzip_follow_each_other),
        cmocka_unit_test(heads_that_lie_are_refused),
        cmocka_unit_test(wide_images_are_refused),
        cmocka_unit_test(damaged_gzip_is_refused),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(colours_of_all_files_follow_each_other),
        cmocka_unit_test(records_that_are_cut_or_have_no_label_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
