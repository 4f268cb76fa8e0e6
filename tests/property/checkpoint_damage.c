/*
 * No damage to a checkpoint goes unseen: any single bit of any file flipped,
 * any file cut at any length, files swapped, doubled, renamed, taken out, or
 * mixed with those of another step.
 *
 * Each seed flips two bits of each byte, four seeds in a row all; PEN_LONG=1
 * flips every bit, also of a file of 64 KiB.
 */
#include "support/folder.h"
#include "support/seed.h"
#include "support/support.h"

#include "base/file.h"
#include "checkpoint/share.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 16, SHARES = 2, TENSORS = 4 };

static char run[sizeof folder + 16];
static char directory[sizeof run + 16]; /* of the step under test */

/* A file of the step, and what must be there. */
static struct file {
    const char *name;
    struct pen_text bytes;
    struct pen_text other; /* of the file of this name in another step */
} files[MOST_FILES];
static size_t num_files;
static size_t num_cases;

/* ----------------------------------------------------------- the steps */

static const uint64_t shape[] = {4};
static uint64_t large_shape[] = {16384};
static const struct pen_checkpoint_tensor all[TENSORS] = {
    {{"a", PEN_DTYPE_F32, 1, shape}, true, 1},
    {{"b", PEN_DTYPE_F32, 1, shape}, true, 0},
    {{"c", PEN_DTYPE_F32, 1, shape}, true, 1},
    {{"d", PEN_DTYPE_F32, 1, shape}, false, 0}};

/* One of each share. */
static const struct pen_tensor_spec extras[SHARES] = {
    {"a.replica0.weight", PEN_DTYPE_F32, 1, shape},
    {"sync.replica1.ratio", PEN_DTYPE_F64, 1, shape}};

static float values[16384];

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    float first = *(const float *)context;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = first + (float)part + 0.1f * (float)tensor;
    return values;
}

static const void *extra_of(void *context, size_t extra)
{
    return bytes_of(context, 9, extra);
}

/* Every number of the step follows from `value`. */
static void save(const struct pen_checkpoint_tensor *tensors, size_t count,
                 uint32_t num_shares, float value)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    const struct pen_checkpoint_source source = {bytes_of, extra_of, &value};
    pen_status status =
        pen_checkpoint_begin(run, 5, tensors, count, 1, &writer, &why);
    for (uint32_t i = 0; i < num_shares && status == PEN_OK; i++) {
        struct pen_text record = PEN_TEXT_EMPTY;
        const struct pen_checkpoint_share_args args = {
            .run = run,
            .step = 5,
            .number = i,
            .tensors = tensors + i * (count / num_shares),
            .count = count / num_shares,
            .num_moments = 1,
            .extras = extras + i,
            .num_extras = 1};
        status = pen_checkpoint_share_write(&args, &source, &record, &why);
        if (status == PEN_OK)
            status = pen_checkpoint_add_record(writer, record.bytes,
                                               record.length, &why);
        pen_text_release(&record);
    }
    if (status == PEN_OK)
        status = pen_checkpoint_add_file(writer, "config.json", "{\"a\": 1}\n",
                                         9, &why);
    if (status == PEN_OK)
        status = pen_checkpoint_finish(writer, 0, &why);
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static const char *path_of(const char *name)
{
    static char path[sizeof directory + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void read_into(const char *name, struct pen_text *out)
{
    assert_int_equal(PEN_OK, pen_file_read(path_of(name), 1 << 20, out, NULL));
}

/* The small step in eleven files, the other one behind the scenes. */
static void make_steps(void)
{
    static const char *const names[] = {"MANIFEST.json",
                                        "config.json",
                                        "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors",
                                        "model.safetensors.index.json",
                                        "optimizer-00001-of-00002.safetensors",
                                        "optimizer-00002-of-00002.safetensors",
                                        "optimizer.safetensors.index.json",
                                        "sync-00001-of-00002.safetensors",
                                        "sync-00002-of-00002.safetensors",
                                        "sync.safetensors.index.json"};
    snprintf(run, sizeof run, "%s/run", folder);
    snprintf(directory, sizeof directory, "%s/step-00000005", run);
    num_files = sizeof names / sizeof *names;
    save(all, TENSORS, SHARES, 7);
    for (size_t i = 0; i < num_files; i++) {
        files[i].name = names[i];
        read_into(names[i], &files[i].other);
    }
    save(all, TENSORS, SHARES, 3);
    for (size_t i = 0; i < num_files; i++)
        read_into(names[i], &files[i].bytes);
}

static void expect_whole(void)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_verify(directory, NULL, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static void expect_found(const char *what, const char *name, size_t at)
{
    num_cases++;
    if (pen_checkpoint_verify(directory, NULL, NULL) == PEN_OK)
        fail_msg("%s of %s at %zu went unseen", what, name, at);
}

static void write_bytes(const char *name, const struct pen_text *bytes,
                        size_t length)
{
    int handle = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(handle >= 0);
    assert_int_equal(length, write(handle, bytes->bytes, length));
    close(handle);
}

static void restore(const struct file *file)
{
    write_bytes(file->name, &file->bytes, file->bytes.length);
}

/* --------------------------------------------------------------- damage */

static uint64_t seeds[MOST_SEEDS];
static size_t num_seeds;

/* Whether a seed has this bit of the byte at this place. */
static bool is_drawn(off_t at, int bit)
{
    for (size_t i = 0; i < num_seeds; i++) {
        if (((uint64_t)at + (uint64_t)bit + seeds[i]) % 4 == 0)
            return true;
    }
    return is_long_run();
}

static void flip_bits(const char *name)
{
    struct stat about;
    int handle = open(path_of(name), O_RDWR);
    assert_true(handle >= 0);
    assert_int_equal(0, fstat(handle, &about));
    for (off_t at = 0; at < about.st_size; at++) {
        unsigned char byte = 0;
        assert_int_equal(1, pread(handle, &byte, 1, at));
        for (int bit = 0; bit < 8; bit++) {
            if (!is_drawn(at, bit))
                continue;
            unsigned char wrong = (unsigned char)(byte ^ (1 << bit));
            assert_int_equal(1, pwrite(handle, &wrong, 1, at));
            expect_found("a flipped bit", name, (size_t)at);
        }
        assert_int_equal(1, pwrite(handle, &byte, 1, at));
    }
    close(handle);
}

static void flipped_bits_are_found(void **state)
{
    (void)state;
    num_cases = 0;
    expect_whole();
    for (size_t i = 0; i < num_files; i++)
        flip_bits(files[i].name);
    expect_whole();
    print_message("%zu bits\n", num_cases);
}

static void every_cut_is_found(void **state)
{
    (void)state;
    num_cases = 0;
    for (size_t i = 0; i < num_files; i++) {
        for (size_t length = 0; length < files[i].bytes.length; length++) {
            write_bytes(files[i].name, &files[i].bytes, length);
            expect_found("a cut", files[i].name, length);
        }
        /* One byte more than there should be: its own NUL. */
        write_bytes(files[i].name, &files[i].bytes, files[i].bytes.length + 1);
        expect_found("a further byte", files[i].name, files[i].bytes.length);
        restore(&files[i]);
    }
    expect_whole();
    print_message("%zu lengths\n", num_cases);
}

static bool is_same(const struct pen_text *a, const struct pen_text *b)
{
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

static void every_swap_and_double_is_found(void **state)
{
    (void)state;
    num_cases = 0;
    for (size_t i = 0; i < num_files; i++) {
        for (size_t j = 0; j < num_files; j++) {
            if (i == j || is_same(&files[i].bytes, &files[j].bytes))
                continue;
            write_bytes(files[i].name, &files[j].bytes, files[j].bytes.length);
            expect_found("the double of another", files[i].name, j);
            write_bytes(files[j].name, &files[i].bytes, files[i].bytes.length);
            expect_found("a swap", files[i].name, j);
            restore(&files[i]);
            restore(&files[j]);
        }
    }
    expect_whole();
    print_message("%zu swaps and doubles\n", num_cases);
}

static void every_name_counts(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "model.safetensors",
                                        "model-00003-of-00003.safetensors",
                                        "optimizer.safetensors"};
    char from[sizeof directory + 64];
    for (size_t i = 0; i < num_files; i++) {
        snprintf(from, sizeof from, "%s", path_of(files[i].name));
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            assert_int_equal(0, rename(from, path_of(names[j])));
            expect_found("another name", files[i].name, j);
            assert_int_equal(0, rename(path_of(names[j]), from));
            write_bytes(names[j], &files[i].bytes, files[i].bytes.length);
            expect_found("a further copy", files[i].name, j);
            assert_int_equal(0, unlink(path_of(names[j])));
        }
        assert_int_equal(0, unlink(from));
        expect_found("the absence", files[i].name, 0);
        assert_int_equal(0, symlink("config.json", from));
        expect_found("a link in place", files[i].name, 0);
        assert_int_equal(0, unlink(from));
        restore(&files[i]);
    }
    expect_whole();
}

/* Of two steps with the same names and sizes; some files are in fact equal. */
static void every_mixture_of_two_steps_is_found(void **state)
{
    (void)state;
    size_t differing[MOST_FILES];
    size_t count = 0;
    num_cases = 0;
    for (size_t i = 0; i < num_files; i++) {
        assert_int_equal(files[i].bytes.length, files[i].other.length);
        if (!is_same(&files[i].bytes, &files[i].other))
            differing[count++] = i;
    }
    assert_true(count >= 7);
    for (size_t mask = 1; mask < ((size_t)1 << count) - 1; mask++) {
        for (size_t j = 0; j < count; j++) {
            const struct file *file = &files[differing[j]];
            write_bytes(file->name, mask >> j & 1 ? &file->other : &file->bytes,
                        file->bytes.length);
        }
        expect_found("a mixture", "two steps", mask);
    }
    for (size_t i = 0; i < num_files; i++)
        restore(&files[i]);
    expect_whole();
    print_message("%zu mixtures\n", num_cases);
}

/* One shard of 64 KiB and its manifest. */
static void flipped_bits_of_a_large_file_are_found(void **state)
{
    (void)state;
    const struct pen_checkpoint_tensor large = {
        {"a", PEN_DTYPE_F32, 1, large_shape}, false, 0};
    if (!is_long_run())
        skip();
    num_cases = 0;
    snprintf(run, sizeof run, "%s/large", folder);
    snprintf(directory, sizeof directory, "%s/step-00000005", run);
    save(&large, 1, 1, 1);
    expect_whole();
    flip_bits("model.safetensors");
    flip_bits("sync.safetensors");
    flip_bits("MANIFEST.json");
    expect_whole();
    print_message("%zu bits\n", num_cases);
}

static int make_all(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    num_seeds = seeds_of("property/checkpoint_damage", seeds);
    make_steps();
    return 0;
}

static int remove_all(void **state)
{
    for (size_t i = 0; i < num_files; i++) {
        pen_text_release(&files[i].bytes);
        pen_text_release(&files[i].other);
    }
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flipped_bits_are_found),
        cmocka_unit_test(every_cut_is_found),
        cmocka_unit_test(every_swap_and_double_is_found),
        cmocka_unit_test(every_name_counts),
        cmocka_unit_test(every_mixture_of_two_steps_is_found),
        cmocka_unit_test(flipped_bits_of_a_large_file_are_found)};
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
