/*
 * Suggests the known name that is closest to a misspelt word.
 */
#ifndef PEN_BASE_NEAREST_H
#define PEN_BASE_NEAREST_H

#include <stddef.h>

/*
 * Offer every known name, then read `best`: the name with the fewest edits to
 * the word, or NULL if all need too many.
 */
struct pen_nearest {
    const char *word;
    const char *best;
    size_t distance;
};

struct pen_nearest pen_nearest_to(const char *word);
void pen_nearest_offer(struct pen_nearest *nearest, const char *name);

#endif
