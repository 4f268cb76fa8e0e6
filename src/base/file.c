#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pen_status read_stream(FILE *stream, const char *path, size_t limit,
                              struct pen_text *out, struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    char block[65536];
    size_t got = 0;
    pen_text_add_bytes(&bytes, "", 0);
    while ((got = fread(block, 1, sizeof block, stream)) > 0) {
        if (got > limit - bytes.length) {
            pen_text_release(&bytes);
            pen_why(why, "%s is larger than %zu bytes, the most that is read",
                    path, limit);
            return PEN_INVALID;
        }
        pen_text_add_bytes(&bytes, block, got);
        if (bytes.has_failed) {
            pen_text_release(&bytes);
            pen_why(why, "%s does not fit in memory", path);
            return PEN_NOMEM;
        }
    }
    if (ferror(stream)) {
        pen_text_release(&bytes);
        pen_why(why, "cannot read %s: %s", path, strerror(errno));
        return PEN_IO;
    }
    *out = bytes;
    return PEN_OK;
}

pen_status pen_file_read(const char *path, size_t limit, struct pen_text *out,
                         struct pen_text *why)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "standard input", limit, out, why);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        pen_why(why, "cannot open %s: %s", path, strerror(errno));
        return PEN_IO;
    }
    pen_status status = read_stream(stream, path, limit, out, why);
    fclose(stream);
    return status;
}

static pen_status refuse_write(const char *path, struct pen_text *why)
{
    pen_why(why, "cannot write %s: %s", path, strerror(errno));
    return PEN_IO;
}

static pen_status write_stream(FILE *stream, const char *path,
                               const void *bytes, size_t length,
                               struct pen_text *why)
{
    if (fwrite(bytes, 1, length, stream) != length || fflush(stream) != 0)
        return refuse_write(path, why);
    return PEN_OK;
}

static pen_status write_in_place(const char *path, const void *bytes,
                                 size_t length, struct pen_text *why)
{
    FILE *stream = fopen(path, "wb");
    if (stream == NULL)
        return refuse_write(path, why);
    pen_status status = write_stream(stream, path, bytes, length, why);
    if (fclose(stream) != 0 && status == PEN_OK)
        return refuse_write(path, why);
    return status;
}

/*
 * A device, a pipe or a link (/dev/null, /dev/fd/3): renaming would put a file
 * in its place.
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
    /* Opening /dev/stdout anew would lose what stands in the file behind it. */
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
        return refuse_write(path, why);
    }
    pen_status status = write_stream(stream, path, bytes, length, why);
    int close_failed = fclose(stream) != 0;
    if (status == PEN_OK && (close_failed || rename(part, path) != 0))
        status = refuse_write(path, why);
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
