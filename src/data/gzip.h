#ifndef PEN_DATA_GZIP_H
#define PEN_DATA_GZIP_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* Returns whether the bytes begin as gzip's do. */
bool pen__gzip_is(const char *bytes, size_t length);

/*
 * Adds what gzip packed, to out; several members follow each other. Refused
 * when it is cut, damaged or would be more than `limit` bytes.
 */
pen_status pen__gzip_unpack(const char *bytes, size_t length, size_t limit,
                            struct pen_text *out, struct pen_text *why);

#endif
