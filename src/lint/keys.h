#ifndef PEN_LINT_KEYS_H
#define PEN_LINT_KEYS_H

#include "lint/rules.h"

/* Keys that a table of a file may have. */
struct pen__lint_table {
    const char *path;  /* "training."; "" for the file itself */
    const char *known; /* words separated by one space */
};

/*
 * Files each key that is not known: near one that is, unknown-option with its
 * fix, and otherwise other-option. Tables that are not in the list are not
 * judged. The last table has no path.
 */
void pen__lint_judge_keys(struct pen__lint_judge *judge, const char *program,
                          const struct pen__lint_table *tables);

/*
 * Files a bad value unless it is one of these words; "auto" counts as absent.
 */
void pen__lint_judge_words(struct pen__lint_judge *judge, const char *key,
                           const char *words);

/* Files a bad value unless it is an integer from `least` on, or unknown. */
void pen__lint_judge_least(struct pen__lint_judge *judge, const char *key,
                           long least);

#endif
