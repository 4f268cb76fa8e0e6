/* Names and values of Megatron's options, one at a time. */
#include "lint/megatron_options.h"
#include "lint/nearest.h"
#include "lint/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Options that Megatron still reads, to say that they are gone. */
static const struct {
    const char *name;
    const char *instead;
} removed[] = {{"batch-size", "--micro-batch-size"},
               {"warmup", "--lr-warmup-fraction"},
               {"model-parallel-size", "--tensor-model-parallel-size"},
               {"checkpoint-activations", "--recompute-activations"}};

static void judge_removed(struct pen__lint_judge *judge,
                          const struct pen__lint_setting *setting)
{
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        if (strcmp(removed[i].name, setting->key) != 0)
            continue;
        pen__lint_what(judge, "%s was removed", setting->name);
        pen__lint_why(judge, "Megatron-LM stops at this option with an error.");
        pen__lint_todo(judge, "Write %s instead.", removed[i].instead);
        pen__lint_file(judge, &(struct pen__lint_words){
                                  .at = setting,
                                  .rule = PEN_LINT_RULE_REMOVED_OPTION,
                                  .is_name = true});
    }
}

/* "--num_layers" is not "--num-layers" to Megatron. */
static const char *find_near(const char *key, char *dashed, size_t size)
{
    size_t length = strlen(key);
    if (length < size) {
        for (size_t i = 0; i <= length; i++)
            dashed[i] = (char)(key[i] == '_' ? '-' : key[i]);
        if (pen__lint_option_find(dashed) != NULL)
            return dashed;
    }
    return pen__lint_option_nearest(key);
}

static void judge_unknown(struct pen__lint_judge *judge,
                          const struct pen__lint_setting *setting)
{
    char dashed[96];
    char fix[100] = "--";
    const char *near = find_near(setting->key, dashed, sizeof dashed);
    struct pen__lint_words words = {
        .at = setting, .rule = PEN_LINT_RULE_UNKNOWN_OPTION, .is_name = true};
    if (near == NULL && judge->config->is_foreign)
        return;
    pen__lint_what(judge, "Megatron-LM has no option %s", setting->name);
    if (near != NULL && strlen(near) + 3 <= sizeof fix) {
        strcat(fix, near);
        words.fix = fix;
        pen__lint_why(judge, "It stops at an option that it does not know, "
                             "and takes no shortened names.");
        pen__lint_todo(judge, "Did you mean %s?", fix);
    } else {
        words.rule = PEN_LINT_RULE_OTHER_OPTION;
        pen__lint_why(judge, "The options of core 0.16.1 and of August 2026 "
                             "are known; another release may have it.");
        pen__lint_todo(judge, "Check the release, or delete the option.");
    }
    pen__lint_file(judge, &words);
}

/* Fields of recipes are more than options: only a slip of few letters counts.
 */
static void judge_field(struct pen__lint_judge *judge,
                        const struct pen__lint_setting *setting)
{
    char field[96];
    size_t length = strlen(setting->key);
    const char *near = length < 10 || strchr(setting->key, '.') != NULL
                           ? NULL
                           : pen__lint_option_nearest(setting->key);
    if (near == NULL || strlen(near) >= sizeof field ||
        length + 2 < strlen(near) || strlen(near) + 2 < length ||
        pen__lint_edits(setting->key, near) > 2)
        return;
    for (size_t i = 0; i <= strlen(near); i++)
        field[i] = (char)(near[i] == '-' ? '_' : near[i]);
    pen__lint_what(judge, "there is no field %s", setting->name);
    pen__lint_why(judge, "A field that does not exist is refused, or ignored "
                         "without a word.");
    pen__lint_todo(judge, "Did you mean %s?", field);
    pen__lint_file(
        judge,
        &(struct pen__lint_words){
            .at = setting,
            .rule = PEN_LINT_RULE_UNKNOWN_OPTION,
            .fix = setting->end - setting->begin == length ? field : NULL,
            .is_name = true});
}

/* Judges an earlier setting of the same key with another value. */
static void judge_repeated(struct pen__lint_judge *judge, uint32_t at)
{
    const struct pen__lint_config *config = judge->config;
    const struct pen__lint_setting *setting = &config->list[at];
    for (uint32_t i = 0; i < at; i++) {
        const struct pen__lint_setting *other = &config->list[i];
        if (strcmp(other->key, setting->key) != 0 || other->value == NULL ||
            setting->value == NULL ||
            strcmp(other->value, setting->value) == 0 || setting->is_list)
            continue;
        pen__lint_what(judge, "%s is given twice, as %s and as %s",
                       setting->name, other->value, setting->value);
        pen__lint_why(judge, "The last one counts.");
        pen__lint_todo(judge, "Delete one of them.");
        pen__lint_file(
            judge, &(struct pen__lint_words){
                       .at = setting, .rule = PEN_LINT_RULE_REPEATED_OPTION});
        return;
    }
}

void pen__lint_megatron_names(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    for (uint32_t i = 0; i < config->count; i++) {
        const struct pen__lint_setting *setting = &config->list[i];
        judge_removed(judge, setting);
        judge_repeated(judge, i);
        if (pen__lint_option_find(setting->key) != NULL)
            continue;
        if (setting->name[0] == '-')
            judge_unknown(judge, setting);
        else
            judge_field(judge, setting);
    }
}

/* ---- values ---- */

static bool is_integer(const char *value)
{
    const char *digits = value + (value[0] == '-' || value[0] == '+');
    size_t length = strspn(digits, "0123456789_");
    return length > 0 && digits[0] != '_' && digits[length] == '\0';
}

static bool is_real(const char *value)
{
    char *end;
    strtod(value, &end);
    return end != value && *end == '\0';
}

/* Sizes that are at least 1. */
static bool is_size(const char *key)
{
    static const char *const keys[] = {PEN__LINT_TP,
                                       PEN__LINT_PP,
                                       PEN__LINT_CP,
                                       PEN__LINT_EP,
                                       PEN__LINT_LAYERS,
                                       PEN__LINT_HIDDEN,
                                       PEN__LINT_HEADS,
                                       PEN__LINT_GROUPS,
                                       PEN__LINT_SEQUENCE,
                                       PEN__LINT_MICRO,
                                       PEN__LINT_GLOBAL,
                                       PEN__LINT_CHUNKS,
                                       PEN__LINT_ETP,
                                       PEN__LINT_CHUNK_LAYERS,
                                       "ffn-hidden-size",
                                       "kv-channels",
                                       "max-position-embeddings"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
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

static void judge_choice(struct pen__lint_judge *judge,
                         const struct pen__lint_setting *setting,
                         const char *choices)
{
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add_string(&expected, "one of ");
    for (const char *at = choices; *at != '\0'; at++) {
        pen_text_add_bytes(&expected, at, 1);
        if (*at == ',')
            pen_text_add_string(&expected, " ");
    }
    file_value(judge, setting, pen_text_string(&expected));
    pen_text_release(&expected);
}

static void judge_flag(struct pen__lint_judge *judge,
                       const struct pen__lint_setting *setting)
{
    pen__lint_what(judge, "%s has the value '%s'", setting->name,
                   setting->value);
    pen__lint_why(judge, "The option is a switch without a value; the program "
                         "refuses the word after it.");
    pen__lint_todo(judge, "Delete the value.");
    pen__lint_file(judge, &(struct pen__lint_words){
                              .at = setting, .rule = PEN_LINT_RULE_BAD_VALUE});
}

static void judge_missing(struct pen__lint_judge *judge,
                          const struct pen__lint_setting *setting)
{
    pen__lint_what(judge, "%s has no value", setting->name);
    pen__lint_why(judge, "The option needs one, and the next word is another "
                         "option or the end of the command.");
    pen__lint_todo(judge, "Write the value, or delete the option.");
    pen__lint_file(
        judge, &(struct pen__lint_words){.at = setting,
                                         .rule = PEN_LINT_RULE_MISSING_VALUE});
}

static void judge_value(struct pen__lint_judge *judge,
                        const struct pen__lint_setting *setting,
                        const struct pen__lint_option *option)
{
    const char *value = setting->value;
    bool is_line = setting->name[0] == '-';
    if (value[0] == '\0' && option->values[0] == '1' && is_line)
        judge_missing(judge, setting);
    else if (option->values[0] == '0' && value[0] != '\0' && is_line)
        judge_flag(judge, setting);
    else if (value[0] == '\0' || !is_line)
        return;
    else if (strcmp(option->kind, "int") == 0 && !is_integer(value))
        file_value(judge, setting, "an integer");
    else if (strcmp(option->kind, "float") == 0 && !is_real(value))
        file_value(judge, setting, "a number");
    else if (option->choices[0] != '-' &&
             !pen__lint_has_choice(option->choices, value))
        judge_choice(judge, setting, option->choices);
}

void pen__lint_megatron_values(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    for (uint32_t i = 0; i < config->count; i++) {
        const struct pen__lint_setting *setting = &config->list[i];
        const struct pen__lint_option *option =
            pen__lint_option_find(setting->key);
        if (setting->value == NULL || option == NULL)
            continue;
        judge_value(judge, setting, option);
        if (is_size(setting->key) && is_integer(setting->value) &&
            pen__lint_number(setting->value) == 0)
            file_value(judge, setting, "a number of 1 or more");
    }
}
