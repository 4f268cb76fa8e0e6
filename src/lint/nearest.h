#ifndef PEN_LINT_NEAREST_H
#define PEN_LINT_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The one name that a misspelt word stands for. Names of configurations are
 * long and resemble each other, so that few letters may differ, and two names
 * that are equally near are no answer.
 */
struct pen__lint_nearest {
    const char *word;
    const char *best;
    size_t distance; /* of the best; the first that is too far at the start */
    bool is_tied;
};

struct pen__lint_nearest pen__lint_nearest_to(const char *word);
void pen__lint_nearest_offer(struct pen__lint_nearest *nearest,
                             const char *name);

/* Returns the best name, or NULL. */
const char *pen__lint_nearest_best(const struct pen__lint_nearest *nearest);

/* Letters to insert, drop, change or swap between two names. */
size_t pen__lint_edits(const char *a, const char *b);

#endif
