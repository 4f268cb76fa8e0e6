#ifndef PEN_BASE_FILE_H
#define PEN_BASE_FILE_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes "cannot WHAT PATH: " and the reason in errno; returns PEN_IO. */
pen_status pen_file_refuse(const char *what, const char *path,
                           struct pen_text *why);

/* Makes the folder with this mode, unless it exists. */
pen_status pen_file_make_folder(const char *path, mode_t mode,
                                struct pen_text *why);

/*
 * Opens a regular file for reading, without waiting: a directory, a named
 * pipe, a device or a socket is refused, since it has no size or no end. Every
 * reader of input files opens them here. The caller closes *handle.
 */
pen_status pen_file_open(const char *path, int *handle, uint64_t *num_bytes,
                         struct pen_text *why);

/* Opens a file likewise, but refuses a symbolic link. */
pen_status pen_file_open_no_link(const char *path, int *handle,
                                 uint64_t *num_bytes, struct pen_text *why);

/*
 * Reads a whole regular file of at most `limit` bytes. "-" and /dev/stdin are
 * standard input and /dev/fd/N is a descriptor of the caller: these may be
 * pipes. On success *out holds the bytes and a final NUL. On failure *out is
 * untouched and why says which file and what was wrong.
 */
pen_status pen_file_read(const char *path, size_t limit, struct pen_text *out,
                         struct pen_text *why);

/* Reads what the bytes of a file say; reasons do not name the file. */
typedef pen_status pen_file_parser(void *out, const char *bytes, size_t length,
                                   struct pen_text *why);

/* Reads the file and parses it; a refusal begins with the path. */
pen_status pen_file_parse(const char *path, size_t limit,
                          pen_file_parser *parse, void *out,
                          struct pen_text *why);

/*
 * Writes the bytes to path ("-" is standard output). A file appears whole or
 * not at all: the bytes go to a temporary name in the same folder, which is
 * renamed. Devices, pipes and links (/dev/null, /dev/stdout) are written in
 * place.
 */
pen_status pen_file_write(const char *path, const void *bytes, size_t length,
                          struct pen_text *why);

/*
 * Writes a text likewise; refuses one for which memory ran out while it grew.
 */
pen_status pen_file_write_text(const char *path, const struct pen_text *text,
                               struct pen_text *why);

#endif
