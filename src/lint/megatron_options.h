#ifndef PEN_LINT_MEGATRON_OPTIONS_H
#define PEN_LINT_MEGATRON_OPTIONS_H

#include <stddef.h>

/* An option of Megatron-LM; cmake/megatron_options.cmake makes the rows. */
struct pen__lint_option {
    const char *name;    /* without dashes */
    const char *values;  /* how many: "0", "1", "3", "+", "*"; "": unknown */
    const char *kind;    /* "int", "float", "str", "true", "false" or "" */
    const char *choices; /* "a,b", or "-" for any */
};

/* The last row has no name. */
extern const struct pen__lint_option pen__lint_options[];

/* Returns the option of this name, or NULL. */
const struct pen__lint_option *pen__lint_option_find(const char *name);

/* Returns the closest name, if there is only one; otherwise NULL. */
const char *pen__lint_option_nearest(const char *name);

/* Returns whether the list of choices has the word. */
int pen__lint_has_choice(const char *choices, const char *word);

#endif
