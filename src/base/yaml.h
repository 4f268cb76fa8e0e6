#ifndef PEN_BASE_YAML_H
#define PEN_BASE_YAML_H

#include "base/status.h"
#include "base/text.h"
#include "base/units.h"

#include <stdint.h>

/*
 * Strict reading of YAML files: one document of maps, lists and scalars, in
 * block or flow style. Anchors, aliases and tags are refused, since they are
 * not needed here and let a short file expand to a huge one. Every refusal
 * begins with line and column. A scalar is its text; the reader of the value
 * decides its type.
 */
enum pen_yaml_kind { PEN_YAML_SCALAR, PEN_YAML_LIST, PEN_YAML_MAP };

struct pen_yaml_node {
    enum pen_yaml_kind kind;
    uint32_t line; /* from 1, as the column */
    uint32_t column;
    char *text; /* of a scalar, without NUL inside; otherwise NULL */
    struct pen_yaml_node *key;   /* of an entry of a map, a scalar */
    struct pen_yaml_node *first; /* entry of a list or map, or NULL */
    struct pen_yaml_node *last;
    struct pen_yaml_node *next; /* entry of the same list or map, or NULL */
    uint32_t num_entries;
};

#define PEN_YAML_MAX_DEPTH 16

/*
 * Loads a file's text. On success *out is owned by the caller; free it with
 * pen_yaml_free(). On failure it is untouched.
 */
pen_status pen_yaml_load(const char *text, size_t length,
                         struct pen_yaml_node **out, struct pen_text *why);
void pen_yaml_free(struct pen_yaml_node *root);

/* Puts line and column of the node before the reason; returns PEN_INVALID. */
pen_status pen_yaml_refuse(const struct pen_yaml_node *node,
                           struct pen_text *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Demands a map with no other keys than these, each once; NULL ends the list.
 * `name` says in a message what the map is: "a device".
 */
pen_status pen_yaml_check_map(const struct pen_yaml_node *node,
                              const char *name, const char *const *keys,
                              struct pen_text *why);

/* Demands a list of this many entries. */
pen_status pen_yaml_check_list(const struct pen_yaml_node *node,
                               const char *name, uint32_t least, uint32_t most,
                               struct pen_text *why);

/*
 * Returns the value under this key of a map, or NULL. Borrowed, as all nodes.
 */
const struct pen_yaml_node *pen_yaml_find(const struct pen_yaml_node *map,
                                          const char *key);

/* Finds the value likewise, but refuses a map without it. */
pen_status pen_yaml_require(const struct pen_yaml_node *map, const char *name,
                            const char *key, const struct pen_yaml_node **out,
                            struct pen_text *why);

/*
 * Reads a word: 1 to size - 1 letters of printable ASCII without quotes and
 * backslashes.
 */
pen_status pen_yaml_read_word(const struct pen_yaml_node *node,
                              const char *name, char *out, size_t size,
                              struct pen_text *why);

/* Reads a count: decimal digits alone. */
pen_status pen_yaml_read_count(const struct pen_yaml_node *node,
                               const char *name, uint64_t least, uint64_t most,
                               uint64_t *out, struct pen_text *why);

/* Reads a number without unit. */
pen_status pen_yaml_read_real(const struct pen_yaml_node *node,
                              const char *name, double least, double most,
                              double *out, struct pen_text *why);

/* Reads a number with a unit, like base/units.h. */
pen_status pen_yaml_read_unit(const struct pen_yaml_node *node,
                              const char *name, enum pen_unit unit,
                              double least, double most, double *out,
                              struct pen_text *why);

#endif
