/*
 * The name that somebody meant when a word is no name.
 */
#ifndef PEN_BASE_NEAREST_H
#define PEN_BASE_NEAREST_H

#include <stddef.h>

/*
 * Finds the name that somebody meant: offer all names, then read `best`,
 * which stays NULL when none is near.
 */
struct pen_nearest {
    const char *word;
    const char *best;
    size_t distance;
};

struct pen_nearest pen_nearest_to(const char *word);
void pen_nearest_offer(struct pen_nearest *nearest, const char *name);

#endif
