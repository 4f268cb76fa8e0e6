/*
 * Files are written whole or not at all, and what is not a regular file is
 * written in place: no run may replace a device, a pipe or a link.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *in_folder(const char *name, char *path)
{
    sprintf(path, "%s/%s", folder, name);
    return path;
}

static void expect_content(const char *path, const char *expected)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_file_read(path, 1000, &found, NULL));
    assert_string_equal(expected, pen_text_string(&found));
    pen_text_release(&found);
}

static void a_file_is_replaced_and_leaves_nothing_beside(void **state)
{
    (void)state;
    char path[100];
    in_folder("file", path);
    assert_int_equal(PEN_OK, pen_file_write(path, "one", 3, NULL));
    assert_int_equal(PEN_OK, pen_file_write(path, "two", 3, NULL));
    expect_content(path, "two");
    char part[100];
    assert_int_equal(-1, access(in_folder("file.part", part), F_OK));
}

static void a_link_stays_a_link(void **state)
{
    (void)state;
    char file[100];
    char link[100];
    assert_int_equal(0,
                     symlink(in_folder("file", file), in_folder("link", link)));
    assert_int_equal(PEN_OK, pen_file_write(link, "three", 5, NULL));
    struct stat about;
    assert_int_equal(0, lstat(link, &about));
    assert_true(S_ISLNK(about.st_mode));
    expect_content(file, "three");
}

static void a_device_stays_a_device(void **state)
{
    (void)state;
    assert_int_equal(PEN_OK, pen_file_write("/dev/null", "x", 1, NULL));
    struct stat about;
    assert_int_equal(0, lstat("/dev/null", &about));
    assert_true(S_ISCHR(about.st_mode));
}

static void a_full_disk_is_told_with_the_path(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO, pen_file_write("/dev/full", "x", 1, &why));
    assert_non_null(strstr(pen_text_string(&why), "/dev/full"));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_and_leaves_nothing_beside),
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(a_device_stays_a_device),
        cmocka_unit_test(a_full_disk_is_told_with_the_path),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
