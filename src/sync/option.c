#include "sync/option.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pen_sync_values_init(struct pen_sync_values *values,
                          const struct pen_sync_option *options, size_t count)
{
    PEN_BUG_UNLESS(count <= PEN_SYNC_MAX_OPTIONS);
    memset(values, 0, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values->at[i] = options[i].standard;
}

static void list_names(struct pen_text *why,
                       const struct pen_sync_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pen_why(why, "%s%s", i == 0 ? "" : ", ", options[i].name);
}

static const struct pen_sync_option *find(const struct pen_sync_option *options,
                                          size_t count, const char *name,
                                          size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(options[i].name) == length &&
            memcmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

static pen_status refuse_name(const struct pen_sync_option *options,
                              size_t count, const char *of, const char *text,
                              struct pen_text *why)
{
    if (count == 0) {
        pen_why(why, "%s has no options, but '%s' was given", of, text);
        return PEN_INVALID;
    }
    pen_why(why, "%s has no option '%s'; it has ", of, text);
    list_names(why, options, count);
    return PEN_INVALID;
}

pen_status pen_sync_values_set(struct pen_sync_values *values,
                               const struct pen_sync_option *options,
                               size_t count, const char *of, const char *text,
                               struct pen_text *why)
{
    size_t length = strcspn(text, "=");
    const struct pen_sync_option *option = find(options, count, text, length);
    if (option == NULL || text[length] == '\0')
        return refuse_name(options, count, of, text, why);
    char *end;
    double value = strtod(text + length + 1, &end);
    if (end == text + length + 1 || *end != '\0' ||
        !(value >= option->least && value <= option->most) ||
        (option->is_whole && value != floor(value))) {
        pen_why(why, "%s: '%s' must be a %snumber from %g to %g", of, text,
                option->is_whole ? "whole " : "", option->least, option->most);
        return PEN_INVALID;
    }
    values->at[option - options] = value;
    return PEN_OK;
}
