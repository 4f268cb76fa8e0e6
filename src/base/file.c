#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A kind of file that is not a regular one, in words. */
static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a named pipe"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISSOCK(mode) ? "a socket"
                            : "something else";
}

pen_status pen_file_refuse(const char *what, const char *path,
                           struct pen_text *why)
{
    pen_why(why, "cannot %s %s: %s", what, path, strerror(errno));
    return PEN_IO;
}

pen_status pen_file_make_folder(const char *path, mode_t mode,
                                struct pen_text *why)
{
    if (mkdir(path, mode) == 0 || errno == EEXIST)
        return PEN_OK;
    return pen_file_refuse("make", path, why);
}

static pen_status refuse_open(const char *path, int error, struct pen_text *why)
{
    pen_why(why, "cannot open %s: %s", path,
            error == ELOOP ? "a link, not a file" : strerror(error));
    return PEN_IO;
}

static pen_status open_with(const char *path, int flags, int *handle,
                            uint64_t *num_bytes, struct pen_text *why)
{
    struct stat about;
    /* Without O_NONBLOCK a named pipe would wait here for its writer. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    /* A socket cannot be opened at all. */
    if (opened < 0 && (errno != ENXIO || stat(path, &about) != 0))
        return refuse_open(path, errno, why);
    if (opened >= 0 && fstat(opened, &about) != 0) {
        int error = errno;
        close(opened);
        return refuse_open(path, error, why);
    }
    if (!S_ISREG(about.st_mode)) {
        if (opened >= 0)
            close(opened);
        pen_why(why, "%s is not a regular file but %s; name a file", path,
                kind_of(about.st_mode));
        return PEN_INVALID;
    }
    *handle = opened;
    *num_bytes = (uint64_t)about.st_size;
    return PEN_OK;
}

pen_status pen_file_open(const char *path, int *handle, uint64_t *num_bytes,
                         struct pen_text *why)
{
    return open_with(path, 0, handle, num_bytes, why);
}

pen_status pen_file_open_no_link(const char *path, int *handle,
                                 uint64_t *num_bytes, struct pen_text *why)
{
    return open_with(path, O_NOFOLLOW, handle, num_bytes, why);
}

static pen_status refuse_size(const char *path, size_t limit,
                              struct pen_text *why)
{
    pen_why(why, "%s is larger than %zu bytes, the limit for this kind of file",
            path, limit);
    return PEN_INVALID;
}

static pen_status read_handle(int handle, const char *path, size_t limit,
                              struct pen_text *out, struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    char block[65536];
    ssize_t got = 0;
    pen_status status = PEN_OK;
    pen_text_add_bytes(&bytes, "", 0);
    while (status == PEN_OK && (got = read(handle, block, sizeof block)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            pen_why(why, "cannot read %s: %s", path, strerror(errno));
            status = PEN_IO;
        } else if ((size_t)got > limit - bytes.length) {
            status = refuse_size(path, limit, why);
        } else {
            pen_text_add_bytes(&bytes, block, (size_t)got);
        }
        if (bytes.has_failed) {
            pen_why(why, "%s does not fit in memory", path);
            status = PEN_NOMEM;
        }
    }
    if (status == PEN_OK)
        *out = bytes;
    else
        pen_text_release(&bytes);
    return status;
}

/*
 * Returns whether the path is a descriptor that the caller opened: /dev/fd/3.
 */
static bool is_descriptor(const char *path, int *handle)
{
    char *end;
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0) {
        *handle = STDIN_FILENO;
        return true;
    }
    if (strncmp(path, "/dev/fd/", 8) != 0)
        return false;
    long number = strtol(path + 8, &end, 10);
    *handle = (int)number;
    return end != path + 8 && *end == '\0' && number >= 0 && number < INT_MAX;
}

pen_status pen_file_read(const char *path, size_t limit, struct pen_text *out,
                         struct pen_text *why)
{
    int handle;
    uint64_t num_bytes;
    if (is_descriptor(path, &handle))
        return read_handle(handle,
                           handle == STDIN_FILENO ? "standard input" : path,
                           limit, out, why);
    pen_status status = pen_file_open(path, &handle, &num_bytes, why);
    if (status != PEN_OK)
        return status;
    status = num_bytes > limit ? refuse_size(path, limit, why)
                               : read_handle(handle, path, limit, out, why);
    close(handle);
    return status;
}

static pen_status write_stream(FILE *stream, const char *path,
                               const void *bytes, size_t length,
                               struct pen_text *why)
{
    if (fwrite(bytes, 1, length, stream) != length || fflush(stream) != 0)
        return pen_file_refuse("write", path, why);
    return PEN_OK;
}

static pen_status write_in_place(const char *path, const void *bytes,
                                 size_t length, struct pen_text *why)
{
    FILE *stream = fopen(path, "wb");
    if (stream == NULL)
        return pen_file_refuse("write", path, why);
    pen_status status = write_stream(stream, path, bytes, length, why);
    if (fclose(stream) != 0 && status == PEN_OK)
        return pen_file_refuse("write", path, why);
    return status;
}

/*
 * Returns whether the path is a device, a pipe or a link (/dev/null,
 * /dev/fd/3): renaming would put a file in its place.
 */
static int is_special(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && !S_ISREG(about.st_mode);
}

pen_status pen_file_parse(const char *path, size_t limit,
                          pen_file_parser *parse, void *out,
                          struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, limit, &bytes, why);
    if (status != PEN_OK)
        return status;
    status = parse(out, bytes.bytes, bytes.length, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    pen_text_release(&reason);
    pen_text_release(&bytes);
    return status;
}

pen_status pen_file_write(const char *path, const void *bytes, size_t length,
                          struct pen_text *why)
{
    /* Opening /dev/stdout anew would lose the earlier contents of the file. */
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return write_stream(stdout, "standard output", bytes, length, why);
    if (is_special(path))
        return write_in_place(path, bytes, length, why);
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&name, "%s.part", path);
    const char *part = pen_text_string(&name);
    FILE *stream = fopen(part, "wb");
    if (stream == NULL) {
        pen_text_release(&name);
        return pen_file_refuse("write", path, why);
    }
    pen_status status = write_stream(stream, path, bytes, length, why);
    int close_failed = fclose(stream) != 0;
    if (status == PEN_OK && (close_failed || rename(part, path) != 0))
        status = pen_file_refuse("write", path, why);
    if (status != PEN_OK)
        remove(part);
    pen_text_release(&name);
    return status;
}

pen_status pen_file_write_text(const char *path, const struct pen_text *text,
                               struct pen_text *why)
{
    if (text->has_failed) {
        pen_why(why, "out of memory while writing %s", path);
        return PEN_NOMEM;
    }
    return pen_file_write(path, text->bytes, text->length, why);
}
