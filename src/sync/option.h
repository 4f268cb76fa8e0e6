#ifndef PEN_SYNC_OPTION_H
#define PEN_SYNC_OPTION_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* A number that a method or a compressor lets its users choose. */
struct pen_sync_option {
    const char *name;
    double standard; /* default; the method's file says which are published */
    double least;
    double most;
    bool is_whole;
    const char *help; /* one line */
};

enum { PEN_SYNC_MAX_OPTIONS = 12 };

/* Their values, in their order. */
struct pen_sync_values {
    double at[PEN_SYNC_MAX_OPTIONS];
};

void pen_sync_values_init(struct pen_sync_values *values,
                          const struct pen_sync_option *options, size_t count);

/*
 * Sets one from "name=number"; `of` says whose options they are. INVALID when
 * there is none of this name, or the number is not one it can have.
 */
pen_status pen_sync_values_set(struct pen_sync_values *values,
                               const struct pen_sync_option *options,
                               size_t count, const char *of, const char *text,
                               struct pen_text *why);

#endif
