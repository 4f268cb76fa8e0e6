#ifndef PEN_DATA_PATTERN_H
#define PEN_DATA_PATTERN_H

#include "base/status.h"
#include "base/text.h"

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

/* What one thread needs to match any patterns. */
struct pen__matcher;

pen_status pen__matcher_create(struct pen__matcher **out);
void pen__matcher_free(struct pen__matcher *matcher);

/*
 * The first match in checked UTF-8 at or behind `from`; *begin == length when
 * there is none. PEN_INVALID when the pattern needs more work than allowed.
 */
pen_status pen__pattern_find(const struct pen__pattern *pattern,
                             struct pen__matcher *matcher, const char *text,
                             size_t length, size_t from, size_t *begin,
                             size_t *end);

#endif
