#ifndef PEN_LINT_SHELL_ASSIGN_H
#define PEN_LINT_SHELL_ASSIGN_H

#include "lint/shell_expand.h"

/* An assignment before the command that it belongs to, if there is one. */
struct pen__lint_pending {
    size_t name;
    size_t name_length;
    struct pen_shell_token value; /* of an array: between its parentheses */
    bool is_array;
    bool is_added; /* += */
};

/*
 * Returns whether the word is NAME=VALUE, NAME+=VALUE or NAME=(VALUES). The
 * scanner, which is past the word, is moved past the values of an array.
 */
bool pen__lint_assignment_parse(struct pen_shell_scanner *scanner,
                                const struct pen_shell_token *word,
                                struct pen__lint_pending *out);

/* Gives the variable its value; one that may be skipped makes it unknown. */
void pen__lint_assign(struct pen__lint_scope *scope,
                      const struct pen__lint_pending *pending, bool may_skip);

#endif
