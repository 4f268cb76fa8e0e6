#ifndef PEN_BASE_BASE64_H
#define PEN_BASE_BASE64_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>

/* Bytes as letters: RFC 4648, section 4. */

/* Appends the letters that stand for the bytes. */
void pen_base64_encode(const void *bytes, size_t length, struct pen_text *out);

/* Appends the bytes that the letters stand for. */
pen_status pen_base64_decode(const char *text, struct pen_text *out,
                             struct pen_text *why);

#endif
