#ifndef PEN_LINT_TREE_H
#define PEN_LINT_TREE_H

#include "lint/config.h"

/* Files of keys and values as settings, whose keys are paths: "zero.stage". */

/* The part of a file that could not be read. */
struct pen__lint_trouble {
    size_t at;
    bool is_duplicate; /* a key that is there already */
    bool is_ours;      /* the file may be right, but is not supported */
    struct pen_text why;
};

/* Read YAML, and JSON, which is checked as JSON first. */
pen_status pen__lint_yaml_read(const char *text, size_t length,
                               struct pen__lint_config *out,
                               struct pen__lint_trouble *trouble);
pen_status pen__lint_json_read(const char *text, size_t length,
                               struct pen__lint_config *out,
                               struct pen__lint_trouble *trouble);
pen_status pen__lint_toml_read(const char *text, size_t length,
                               struct pen__lint_config *out,
                               struct pen__lint_trouble *trouble);

/*
 * Returns the byte at which a reason, "line 2, column 7: ...", points; 0 where
 * it has no place.
 */
size_t pen__lint_reason_place(const char *text, size_t length,
                              const char *reason);

#endif
