#ifndef PEN_DATA_PATTERN_H
#define PEN_DATA_PATTERN_H

#include "base/status.h"
#include "base/text.h"
#include "data/hold.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Regular expressions of tokenizers, by PCRE2 with its compiler to machine
 * code. They are written for Oniguruma; what means something else there is
 * translated or refused.
 */
struct pen__pattern;

pen_status pen__pattern_create(const char *text, size_t length,
                               struct pen__pattern **out, struct pen_text *why);
void pen__pattern_free(struct pen__pattern *pattern);

/* The buffers with which one thread matches any patterns. */
struct pen__matcher;

pen_status pen__matcher_create(struct pen__matcher **out);
void pen__matcher_free(struct pen__matcher *matcher);

struct pen__match {
    size_t begin; /* the length of the block: there is none */
    size_t end;
    bool is_open; /* what follows the block decides; begin is known */
};

/*
 * Finds the first match in checked UTF-8 from `from` on. In a block that is not
 * the last, a match is found only if no later text could change it. PEN_INVALID
 * when the pattern needs more work than allowed.
 */
pen_status pen__pattern_find(const struct pen__pattern *pattern,
                             struct pen__matcher *matcher,
                             const struct pen__block *block, size_t from,
                             struct pen__match *out);

/*
 * Returns the place in a block from which on its text must be kept for later
 * matches: `done` less the characters that the pattern looks back at, at least
 * one, so that no later block is taken for the beginning of the text.
 */
size_t pen__pattern_keeps(const struct pen__pattern *pattern,
                          const struct pen__block *block, size_t done);

/* Returns whether a search may skip text in which no match begins. */
bool pen__pattern_may_skip(const struct pen__pattern *pattern);

#endif
