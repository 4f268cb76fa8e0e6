#ifndef PEN_BASE_FILE_H
#define PEN_BASE_FILE_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>

/*
 * Reads a whole file ("-" is standard input) of at most `limit` bytes. On
 * success *out holds its bytes and a NUL behind them. On failure *out is
 * untouched and why says which file and what was wrong.
 */
pen_status pen_file_read(const char *path, size_t limit, struct pen_text *out,
                         struct pen_text *why);

/* Reads what the bytes of a file say; reasons do not name the file. */
typedef pen_status pen_file_parser(void *out, const char *bytes, size_t length,
                                   struct pen_text *why);

/* Both: reads the file and parses it; a refusal begins with the path. */
pen_status pen_file_parse(const char *path, size_t limit,
                          pen_file_parser *parse, void *out,
                          struct pen_text *why);

/*
 * Writes the bytes to path ("-" is standard output). A file appears whole or
 * not at all: the bytes go to a temporary name beside it, which is renamed.
 * Devices, pipes and links (/dev/null, /dev/stdout) are written in place.
 */
pen_status pen_file_write(const char *path, const void *bytes, size_t length,
                          struct pen_text *why);

/* The same of a text, which is refused when memory ran out while it grew. */
pen_status pen_file_write_text(const char *path, const struct pen_text *text,
                               struct pen_text *why);

#endif
