#ifndef PEN_DATA_BASE64_H
#define PEN_DATA_BASE64_H

#include "base/status.h"
#include "base/text.h"

/* Appends the bytes that the letters stand for (RFC 4648, section 4). */
pen_status pen__base64_decode(const char *text, struct pen_text *out,
                              struct pen_text *why);

#endif
