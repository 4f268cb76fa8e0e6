#ifndef PEN_CALLS_PICKLE_H
#define PEN_CALLS_PICKLE_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Reads the data of a Python pickle as JSON: lists and tuples become lists,
 * dicts with keys of text or whole numbers objects, bytes that are no UTF-8
 * null. Nothing is executed: an opcode that imports a name, calls something or
 * makes an object is refused. Containers may be shared but never hold
 * themselves, so that the result can be freed by counting references.
 */

/* More values than this are refused; each takes less than 600 bytes. */
#define PEN__PICKLE_MOST_CONTAINERS 1000000u
#define PEN__PICKLE_MOST_VALUES 16000000u

/* Returns whether the bytes begin as pickles of protocol 2 to 5 do. */
bool pen__pickle_is(const char *bytes, size_t length);

/* Reads a pickle. Drop *out with json_decref(). Reasons name the byte. */
pen_status pen__pickle_read(const char *bytes, size_t length, json_t **out,
                            struct pen_text *why);

#endif
