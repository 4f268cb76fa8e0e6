/*
 * Files are written whole or not at all, and what is not a regular file is
 * written in place: no run may replace a device, a pipe or a link. Only regular
 * files are read, and descriptors that the caller opened.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

/* What pen_file_read() says to a path, which must not make it wait. */
static void expect_refusal(const char *path, const char *what)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&expected, "%s is not a regular file but %s; name a file",
                 path, what);
    alarm(60); /* a pipe would keep us waiting for ever */
    assert_int_equal(PEN_INVALID, pen_file_read(path, 1000, &found, &why));
    alarm(0);
    assert_string_equal(expected.bytes, pen_text_string(&why));
    pen_text_release(&why);
    pen_text_release(&expected);
}

static void only_regular_files_are_read(void **state)
{
    (void)state;
    char pipe[100];
    assert_int_equal(0, mkfifo(in_folder("pipe", pipe), 0600));
    expect_refusal(pipe, "a named pipe");
    expect_refusal("/dev/zero", "a character device");
    expect_refusal(folder, "a directory");
    unlink(pipe);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int handle = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(handle >= 0);
    in_folder("socket", address.sun_path);
    assert_int_equal(0,
                     bind(handle, (struct sockaddr *)&address, sizeof address));
    expect_refusal(address.sun_path, "a socket");
    close(handle);
    unlink(address.sun_path);
}

static void what_is_too_large_is_not_read(void **state)
{
    (void)state;
    char path[100];
    struct pen_text found = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    in_folder("large", path);
    assert_int_equal(PEN_OK, pen_file_write(path, "x", 1, NULL));
    assert_int_equal(0, truncate(path, (off_t)1 << 40));
    assert_int_equal(PEN_INVALID,
                     pen_file_read(path, (size_t)2 << 30, &found, &why));
    assert_non_null(strstr(pen_text_string(&why), "is larger than 2147483648"));
    pen_text_release(&why);
    unlink(path);
}

static void a_link_is_refused_where_it_must_not_be_followed(void **state)
{
    (void)state;
    char link[100];
    int handle;
    uint64_t num_bytes;
    struct pen_text why = PEN_TEXT_EMPTY;
    in_folder("link", link);
    assert_int_equal(PEN_OK, pen_file_open(link, &handle, &num_bytes, NULL));
    assert_int_equal(5, num_bytes);
    close(handle);
    assert_int_equal(PEN_IO,
                     pen_file_open_no_link(link, &handle, &num_bytes, &why));
    assert_non_null(strstr(pen_text_string(&why), "a link, not a file"));
    pen_text_release(&why);
}

/* A pipe that the caller opened: standard input, or a process of the shell. */
static void descriptors_may_be_pipes(void **state)
{
    (void)state;
    int ends[2];
    char path[100];
    assert_int_equal(0, pipe(ends));
    assert_int_equal(4, write(ends[1], "text", 4));
    close(ends[1]);
    sprintf(path, "/dev/fd/%d", ends[0]);
    expect_content(path, "text");
    int kept = dup(STDIN_FILENO);
    close(ends[0]);
    static const char *const names[] = {"-", "/dev/stdin"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(0, pipe(ends));
        assert_int_equal(5, write(ends[1], "typed", 5));
        close(ends[1]);
        assert_int_equal(STDIN_FILENO, dup2(ends[0], STDIN_FILENO));
        close(ends[0]);
        expect_content(names[i], "typed");
    }
    dup2(kept, STDIN_FILENO);
    close(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_and_leaves_nothing_beside),
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(a_device_stays_a_device),
        cmocka_unit_test(a_full_disk_is_told_with_the_path),
        cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(what_is_too_large_is_not_read),
        cmocka_unit_test(a_link_is_refused_where_it_must_not_be_followed),
        cmocka_unit_test(descriptors_may_be_pipes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
