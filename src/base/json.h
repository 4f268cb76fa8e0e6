#ifndef PEN_BASE_JSON_H
#define PEN_BASE_JSON_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "base/units.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Strict reading of JSON files: every key is known, every number has bounds,
 * and a refusal names its place as "ranks[3].f". All functions answer
 * PEN_INVALID and fill why when the file is wrong.
 */

/* A JSON object, and the path that messages put before its keys: "ranks[3]." */
struct pen_json {
    json_t *object; /* borrowed, except from pen_json_load() */
    char path[48];
};

/* A number that an object may have. */
struct pen_json_number {
    const char *key;
    double *value; /* left alone when the key is absent */
    double least;
    double most;
};

/*
 * Reads a text that is one object, without duplicate keys. Syntax errors name
 * line and column. Drop out->object with json_decref().
 */
pen_status pen_json_load(const char *text, size_t length, struct pen_json *out,
                         struct pen_text *why);

/* Demands "format": format and a "version" from 1 to `newest`. */
pen_status pen_json_read_version(const struct pen_json *json,
                                 const char *format, uint32_t newest,
                                 uint32_t *out, struct pen_text *why);

/* Demands "format": format and "version": version. */
pen_status pen_json_check_format(const struct pen_json *json,
                                 const char *format, uint32_t version,
                                 struct pen_text *why);

/* Refuses keys that are not among `known`, words separated by one space. */
pen_status pen_json_check_keys(const struct pen_json *json, const char *known,
                               struct pen_text *why);

/* Demands each of these keys, words separated by one space. */
pen_status pen_json_require_keys(const struct pen_json *json,
                                 const char *required, struct pen_text *why);

bool pen_json_has(const struct pen_json *json, const char *key);

pen_status pen_json_read_numbers(const struct pen_json *json,
                                 const struct pen_json_number *numbers,
                                 size_t count, struct pen_text *why);

/*
 * Reads a number, or a text with a unit such as "25 Gbit/s". *out is left alone
 * when the key is absent.
 */
pen_status pen_json_read_unit(const struct pen_json *json, enum pen_unit unit,
                              const struct pen_json_number *number,
                              struct pen_text *why);

/* Reads an integer, whose key must exist. */
pen_status pen_json_read_integer(const struct pen_json *json, const char *key,
                                 uint32_t least, uint32_t most, uint32_t *out,
                                 struct pen_text *why);

/* Reads likewise a number of bytes or elements; most is at most INT64_MAX. */
pen_status pen_json_read_count(const struct pen_json *json, const char *key,
                               uint64_t least, uint64_t most, uint64_t *out,
                               struct pen_text *why);

/*
 * Reads a word, whose key must exist: 1 to size - 1 letters of printable ASCII,
 * none of them a quote or a backslash, so that it can be printed as it is.
 */
pen_status pen_json_read_word(const struct pen_json *json, const char *key,
                              char *out, size_t size, struct pen_text *why);
bool pen_json_is_word(const char *text, size_t size);

/* Reads one of these words, the last of which is NULL; the key must exist. */
pen_status pen_json_read_choice(const struct pen_json *json, const char *key,
                                const char *const *words, unsigned *out,
                                struct pen_text *why);

/* Reads a SHA-256 as base/hash.h writes it; the key must exist. */
pen_status pen_json_read_hash(const struct pen_json *json, const char *key,
                              char out[PEN_HASH_SIZE], struct pen_text *why);

/* Reads a boolean. out is left alone when the key is absent. */
pen_status pen_json_read_boolean(const struct pen_json *json, const char *key,
                                 bool *out, struct pen_text *why);

/* Opens the object under this key. */
pen_status pen_json_open(const struct pen_json *json, const char *key,
                         struct pen_json *out, struct pen_text *why);

/* Opens the object at this place of a list that is called `name`. */
pen_status pen_json_open_entry(const json_t *list, const char *name,
                               size_t index, struct pen_json *out,
                               struct pen_text *why);

#endif
