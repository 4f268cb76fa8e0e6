#ifndef PEN_LINT_SHELL_EXPAND_H
#define PEN_LINT_SHELL_EXPAND_H

#include "base/shell.h"
#include "lint/shell_words.h"

/* Variables of a script, as far as their values are written down in it. */
struct pen__lint_variable {
    char *name;
    struct pen__lint_word_list values; /* one, or those of an array */
    bool is_array;
    bool is_unknown;
    bool is_used; /* by a word that was expanded */
};

struct pen__lint_scope {
    const char *text; /* of the file */
    struct pen__lint_variable *list;
    uint32_t count;
    uint32_t capacity;
    struct pen__lint_budget budget;
};

void pen__lint_scope_release(struct pen__lint_scope *scope);

/* Returns the variable of this name, or NULL. */
struct pen__lint_variable *pen__lint_scope_find(struct pen__lint_scope *scope,
                                                const char *name,
                                                size_t length);

/*
 * Returns the variable likewise, and makes a missing one; NULL when memory runs
 * out.
 */
struct pen__lint_variable *pen__lint_scope_make(struct pen__lint_scope *scope,
                                                const char *name,
                                                size_t length);

/* Marks the variable's value as unknown from here on. */
void pen__lint_scope_forget(struct pen__lint_scope *scope, const char *name,
                            size_t length);

/*
 * Expands a word of the file. Unquoted values are parted at their blanks,
 * unless it is the value of an assignment.
 */
void pen__lint_expand(struct pen__lint_scope *scope,
                      const struct pen_shell_token *word, bool is_assigned,
                      struct pen__lint_word_list *out);

/* Letters of a variable's name at the place; 0: there is none. */
size_t pen__lint_name_length(const char *text, size_t most);

#endif
