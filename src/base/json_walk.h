#ifndef PEN_BASE_JSON_WALK_H
#define PEN_BASE_JSON_WALK_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Walks over the values of a large JSON text one at a time, so that memory is
 * needed for one value only. The walk finds where a value ends without reading
 * it, at any depth; pen_json_walk_read() reads it, and with it checks its
 * syntax. Values that are only skipped are checked for brackets and strings.
 */
struct pen_json_walk {
    const char *text;
    size_t length;
    size_t at;    /* next byte */
    char closing; /* of this list or object */
    bool is_first;
};

/* One value of a list or object; both texts are borrowed. */
struct pen_json_piece {
    const char *key; /* without quotes and as it is written; NULL in a list */
    size_t key_length;
    const char *text;
    size_t length;
};

/* Begins at a list or an object; says where in `whole` a mistake is. */
pen_status pen_json_walk_open(const char *text, size_t length,
                              struct pen_json_walk *out, struct pen_text *why);

/*
 * Enters a piece, which must be a list or an object, to walk over its values.
 */
pen_status pen_json_walk_enter(const struct pen_json_walk *parent,
                               const struct pen_json_piece *piece,
                               struct pen_json_walk *out, struct pen_text *why);

/* Reads the next value; *has_one is false after the last. */
pen_status pen_json_walk_next(struct pen_json_walk *walk,
                              struct pen_json_piece *out, bool *has_one,
                              struct pen_text *why);

/* Refuses anything but white space after the end of the outermost value. */
pen_status pen_json_walk_end(const struct pen_json_walk *walk,
                             struct pen_text *why);

bool pen_json_piece_is(const struct pen_json_piece *piece, const char *key);

/* Reads the value; drop it with json_decref(). */
pen_status pen_json_walk_read(const struct pen_json_walk *walk,
                              const struct pen_json_piece *piece, json_t **out,
                              struct pen_text *why);

#endif
