#include "lint/keys.h"

#include "lint/nearest.h"

#include <stdlib.h>
#include <string.h>

/*
 * Copies the part of the key after the path of its table, up to the next dot.
 */
static bool part_of(const struct pen__lint_setting *setting, const char *path,
                    char *out, size_t size)
{
    size_t before = strlen(path);
    if (strncmp(setting->key, path, before) != 0)
        return false;
    size_t length = strcspn(setting->key + before, ".");
    if (length == 0 || length >= size)
        return false;
    memcpy(out, setting->key + before, length);
    out[length] = '\0';
    return true;
}

/*
 * Returns whether the key is known; otherwise `near` is the closest known one.
 */
static bool is_known(const char *part, const char *known, char near[64])
{
    char words[2][64]; /* the nearest so far, and the one that is compared */
    unsigned next = 0;
    struct pen__lint_nearest nearest = pen__lint_nearest_to(part);
    for (const char *at = known; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (length < sizeof words[0]) {
            memcpy(words[next], at, length);
            words[next][length] = '\0';
            if (strcmp(words[next], part) == 0)
                return true;
            pen__lint_nearest_offer(&nearest, words[next]);
            if (nearest.best == words[next])
                next = 1 - next;
        }
        at += length + (at[length] == ' ');
    }
    const char *best = pen__lint_nearest_best(&nearest);
    near[0] = '\0';
    if (best != NULL)
        memcpy(near, best, strlen(best) + 1);
    return false;
}

static void file_unknown(struct pen__lint_judge *judge, const char *program,
                         const struct pen__lint_setting *setting,
                         const char *part, const char *near)
{
    /* Only the last part of a path has its place. */
    size_t length = strlen(setting->key);
    size_t own = strlen(part);
    bool is_last =
        length >= own && strcmp(setting->key + length - own, part) == 0;
    struct pen__lint_words words = {.at = setting,
                                    .rule = near[0] != '\0'
                                                ? PEN_LINT_RULE_UNKNOWN_OPTION
                                                : PEN_LINT_RULE_OTHER_OPTION,
                                    .is_name = true};
    if (near[0] != '\0' && is_last && setting->end - setting->begin == own)
        words.fix = near;
    pen__lint_what(judge, "%s has no key '%s' here", program, part);
    if (near[0] != '\0') {
        pen__lint_why(judge, "It stops at a key that it does not know, or "
                             "ignores it without a word.");
        pen__lint_todo(judge, "Did you mean %s?", near);
    } else {
        pen__lint_why(judge, "The keys of one release are known; another "
                             "release may have it.");
        pen__lint_todo(judge, "Check the release, or delete the key.");
    }
    pen__lint_file(judge, &words);
}

void pen__lint_judge_keys(struct pen__lint_judge *judge, const char *program,
                          const struct pen__lint_table *tables)
{
    const struct pen__lint_config *config = judge->config;
    const struct pen__lint_table *last_table = NULL;
    char last[64] = "";
    for (uint32_t i = 0; i < config->count; i++)
        for (const struct pen__lint_table *table = tables; table->path != NULL;
             table++) {
            const struct pen__lint_setting *setting = &config->list[i];
            char part[64];
            char near[64];
            if (!part_of(setting, table->path, part, sizeof part) ||
                is_known(part, table->known, near))
                continue;
            /* A table with many keys is unknown once. */
            if (table != last_table || strcmp(part, last) != 0)
                file_unknown(judge, program, setting, part, near);
            last_table = table;
            memcpy(last, part, sizeof last);
        }
}

static void file_value(struct pen__lint_judge *judge,
                       const struct pen__lint_setting *setting,
                       const char *expected)
{
    pen__lint_what(judge, "%s is '%s'", setting->name, setting->value);
    pen__lint_why(judge, "It takes %s.", expected);
    pen__lint_todo(judge, "Write %s.", expected);
    pen__lint_file(judge, &(struct pen__lint_words){
                              .at = setting, .rule = PEN_LINT_RULE_BAD_VALUE});
}

void pen__lint_judge_words(struct pen__lint_judge *judge, const char *key,
                           const char *words)
{
    const struct pen__lint_setting *setting =
        pen__lint_find(judge->config, key);
    if (setting == NULL || setting->value == NULL || setting->is_list ||
        setting->value[0] == '\0' || strcmp(setting->value, "auto") == 0 ||
        strcmp(setting->value, "null") == 0)
        return;
    size_t length = strlen(setting->value);
    for (const char *at = words; *at != '\0';) {
        size_t size = strcspn(at, " ");
        if (size == length && memcmp(at, setting->value, size) == 0)
            return;
        at += size + (at[size] == ' ');
    }
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&expected, "one of: %s", words);
    file_value(judge, setting, pen_text_string(&expected));
    pen_text_release(&expected);
}

void pen__lint_judge_least(struct pen__lint_judge *judge, const char *key,
                           long least)
{
    const struct pen__lint_setting *setting =
        pen__lint_find(judge->config, key);
    char *end;
    if (setting == NULL || setting->value == NULL || setting->is_list ||
        setting->value[0] == '\0' || strcmp(setting->value, "auto") == 0 ||
        strcmp(setting->value, "null") == 0)
        return;
    long number = strtol(setting->value, &end, 10);
    if (*end != '\0')
        file_value(judge, setting, "an integer");
    else if (number < least)
        file_value(judge, setting,
                   least == 0 ? "0 or more" : "a number of 1 or more");
}
