#ifndef PEN_SUPERVISE_LAST_WORDS_H
#define PEN_SUPERVISE_LAST_WORDS_H

#include "supervise/policy.h"

#include <stddef.h>

/*
 * The end of what a launch printed to stderr, and what its ranks said there of
 * their end: docs/running.md has these lines.
 */
enum { PEN_LAST_LINES = 16, PEN_LAST_LINE_BYTES = 512 };

struct pen_last_words {
    char lines[PEN_LAST_LINES][PEN_LAST_LINE_BYTES]; /* a ring */
    size_t num_lines;                                /* in all */
    size_t length;                   /* of the line that has no end yet */
    char error[PEN_LAST_LINE_BYTES]; /* the first that penstock reported */
    struct pen_fault fault;          /* cause RANK_DIED or HANG once told */
    bool is_told;
};

void pen_last_words_init(struct pen_last_words *words);

/* Adds bytes as they were read, whole lines or not. */
void pen_last_words_add(struct pen_last_words *words, const char *bytes,
                        size_t length);

/* Return how many whole lines are kept, and the i-th of them, oldest first. */
size_t pen_last_words_count(const struct pen_last_words *words);
const char *pen_last_words_line(const struct pen_last_words *words, size_t i);

#endif
