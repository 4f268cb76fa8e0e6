#include "lint/megatron_options.h"

#include "lint/nearest.h"

#include <string.h>

const struct pen__lint_option *pen__lint_option_find(const char *name)
{
    for (const struct pen__lint_option *option = pen__lint_options;
         option->name != NULL; option++)
        if (option->name[0] == name[0] && strcmp(option->name, name) == 0)
            return option;
    return NULL;
}

const char *pen__lint_option_nearest(const char *name)
{
    struct pen__lint_nearest nearest = pen__lint_nearest_to(name);
    for (const struct pen__lint_option *option = pen__lint_options;
         option->name != NULL; option++)
        pen__lint_nearest_offer(&nearest, option->name);
    return pen__lint_nearest_best(&nearest);
}

int pen__lint_has_choice(const char *choices, const char *word)
{
    size_t wanted = strlen(word);
    for (const char *at = choices; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (length == wanted && memcmp(at, word, length) == 0)
            return 1;
        at += length + (at[length] == ',');
    }
    return 0;
}
