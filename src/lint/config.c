/* Settings of one training, and how findings about them are filed. */
#include "lint/config.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- settings ---- */

static void release_setting(struct pen__lint_setting *setting)
{
    free(setting->key);
    free(setting->name);
    free(setting->value);
}

void pen__lint_config_release(struct pen__lint_config *config)
{
    for (uint32_t i = 0; i < config->count; i++)
        release_setting(&config->list[i]);
    free(config->list);
    config->list = NULL;
    config->count = 0;
    config->capacity = 0;
}

static bool grow(struct pen__lint_config *config)
{
    uint32_t capacity = config->capacity == 0 ? 32 : 2 * config->capacity;
    struct pen__lint_setting *list =
        realloc(config->list, capacity * sizeof *list);
    if (list == NULL)
        return false;
    config->list = list;
    config->capacity = capacity;
    return true;
}

void pen__lint_config_add(struct pen__lint_config *config,
                          const struct pen__lint_setting *setting)
{
    if (config->count == config->capacity && !grow(config)) {
        config->has_failed = true;
        return;
    }
    struct pen__lint_setting copy = *setting;
    copy.key = strdup(setting->key);
    copy.name = strdup(setting->name);
    copy.value = setting->value == NULL ? NULL : strdup(setting->value);
    if (copy.key == NULL || copy.name == NULL ||
        (setting->value != NULL && copy.value == NULL)) {
        release_setting(&copy);
        config->has_failed = true;
        return;
    }
    config->list[config->count++] = copy;
}

const struct pen__lint_setting *
pen__lint_find(const struct pen__lint_config *config, const char *key)
{
    for (uint32_t i = config->count; i > 0; i--)
        if (strcmp(config->list[i - 1].key, key) == 0)
            return &config->list[i - 1];
    return NULL;
}

static bool is_false(const char *value)
{
    static const char *const words[] = {"false", "False", "FALSE", "no",
                                        "off",   "null",  "None",  "~"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], value) == 0)
            return true;
    return false;
}

bool pen__lint_is_on(const struct pen__lint_config *config, const char *key)
{
    const struct pen__lint_setting *found = pen__lint_find(config, key);
    return found != NULL && found->value != NULL && !is_false(found->value);
}

bool pen__lint_is_off(const struct pen__lint_config *config, const char *key)
{
    const struct pen__lint_setting *found = pen__lint_find(config, key);
    return found == NULL ? !config->is_open
                         : found->value != NULL && is_false(found->value);
}

bool pen__lint_is(const struct pen__lint_config *config, const char *key,
                  const char *value)
{
    const struct pen__lint_setting *found = pen__lint_find(config, key);
    return found != NULL && found->value != NULL &&
           strcmp(found->value, value) == 0;
}

#define MOST_DIGITS 12

uint64_t pen__lint_number(const char *text)
{
    size_t length = strspn(text, "0123456789");
    return length == 0 || length > MOST_DIGITS || text[length] != '\0'
               ? 0
               : strtoull(text, NULL, 10);
}

uint64_t pen__lint_count(const struct pen__lint_config *config, const char *key,
                         uint64_t missing)
{
    const struct pen__lint_setting *found = pen__lint_find(config, key);
    if (found == NULL)
        return config->is_open ? 0 : missing;
    if (found->value == NULL)
        return 0;
    return is_false(found->value) ? missing : pen__lint_number(found->value);
}

const char *pen__lint_name(const struct pen__lint_config *config,
                           const char *key)
{
    const struct pen__lint_setting *found = pen__lint_find(config, key);
    return found == NULL ? key : found->name;
}

/* ---- findings ---- */

#define ADD_WORDS(text)                                                        \
    do {                                                                       \
        va_list args;                                                          \
        va_start(args, format);                                                \
        pen_text_add_list(text, format, args);                                 \
        va_end(args);                                                          \
    } while (0)

void pen__lint_what(struct pen__lint_judge *judge, const char *format, ...)
{
    ADD_WORDS(&judge->what);
}

void pen__lint_why(struct pen__lint_judge *judge, const char *format, ...)
{
    ADD_WORDS(&judge->why);
}

void pen__lint_todo(struct pen__lint_judge *judge, const char *format, ...)
{
    ADD_WORDS(&judge->todo);
}

/* Names out of a file may have any letter. */
static char *take_text(struct pen_text *text)
{
    struct pen_text printable = PEN_TEXT_EMPTY;
    pen_text_add_printable(&printable, pen_text_string(text), text->length);
    char *copy = strdup(pen_text_string(&printable));
    pen_text_release(&printable);
    pen_text_clear(text);
    return copy;
}

void pen__lint_file(struct pen__lint_judge *judge,
                    const struct pen__lint_words *words)
{
    const struct pen__lint_setting *at = words->at;
    struct pen_lint_finding finding = {.rule = &pen_lint_rules[words->rule],
                                       .severity =
                                           pen_lint_rules[words->rule].severity,
                                       .begin = judge->config->begin,
                                       .end = judge->config->begin};
    if (at != NULL) {
        bool is_value = !words->is_name && at->value_end > 0;
        finding.begin = is_value ? at->value_begin : at->begin;
        finding.end = is_value ? at->value_end : at->end;
    }
    finding.what = take_text(&judge->what);
    finding.why = take_text(&judge->why);
    finding.todo = take_text(&judge->todo);
    if (words->fix != NULL && finding.end > finding.begin)
        finding.fix = strdup(words->fix);
    pen_lint_add(judge->report, &finding);
}

void pen__lint_judge_release(struct pen__lint_judge *judge)
{
    pen_text_release(&judge->what);
    pen_text_release(&judge->why);
    pen_text_release(&judge->todo);
}
