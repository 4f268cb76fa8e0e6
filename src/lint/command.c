/*
 * The words of a program as settings: options of Megatron-LM, overrides of
 * Megatron-Bridge, options of torchtitan.
 */
#include "lint/bridge.h"
#include "lint/launch.h"
#include "lint/megatron_options.h"

#include <stdlib.h>
#include <string.h>

static bool is_option(const struct pen__lint_word *word)
{
    return word->length > 2 && word->text[0] == '-' && word->text[1] == '-';
}

/* ---- whose words ---- */

static bool is_megatron(const struct pen__lint_word *word)
{
    static const char *const names[] = {"--tensor-model-parallel-size",
                                        "--pipeline-model-parallel-size",
                                        "--num-attention-heads",
                                        "--micro-batch-size",
                                        "--expert-model-parallel-size",
                                        "--context-parallel-size",
                                        "--num-layers"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(word->text, names[i], length) == 0 &&
            (word->text[length] == '\0' || word->text[length] == '='))
            return true;
    }
    return false;
}

static bool is_bridge(const struct pen__lint_word *word)
{
    const char *text = word->text + strspn(word->text, "+");
    return (strncmp(text, "model.", 6) == 0 ||
            strncmp(text, "train.", 6) == 0) &&
           strchr(text, '=') != NULL;
}

static bool is_torchtitan(const struct pen__lint_word *word)
{
    return strncmp(word->text, "--parallelism.", 14) == 0 ||
           strncmp(word->text, "--training.", 11) == 0;
}

static bool find_dialect(const struct pen__lint_word_list *words,
                         uint32_t first, enum pen_lint_dialect *out)
{
    for (uint32_t i = first; i < words->count; i++) {
        const struct pen__lint_word *word = &words->list[i];
        if (is_megatron(word))
            *out = PEN_LINT_MEGATRON;
        else if (is_bridge(word))
            *out = PEN_LINT_BRIDGE;
        else if (is_torchtitan(word))
            *out = PEN_LINT_TORCHTITAN;
        else
            continue;
        return true;
    }
    return false;
}

/* ---- options ---- */

/* Counts the words after an option that are its values. */
static uint32_t count_values(const struct pen__lint_word_list *words,
                             uint32_t at, const char *key)
{
    const struct pen__lint_option *option = pen__lint_option_find(key);
    uint32_t most = UINT32_MAX;
    uint32_t count = 0;
    bool is_list = option != NULL &&
                   (option->values[0] == '+' || option->values[0] == '*');
    if (option != NULL && option->values[0] >= '0' && option->values[0] <= '9')
        most = (uint32_t)(option->values[0] - '0');
    /* A word after a switch is wrong, and belongs to nothing else. */
    if (most == 0 && at + 1 < words->count && words->list[at + 1].is_known)
        most = 1;
    while (count < most && at + 1 + count < words->count &&
           !is_option(&words->list[at + 1 + count])) {
        /* The first of a list is a value; others may be options. */
        if (words->list[at + 1 + count].is_many && most != 1 &&
            (count > 0 || !is_list))
            break;
        count++;
    }
    return count;
}

static void set_value(struct pen__lint_setting *setting,
                      const struct pen__lint_word *word, size_t skipped)
{
    setting->value = word->is_known ? word->text + skipped : NULL;
    if (word->length > skipped) {
        setting->value_begin = word->places[skipped];
        setting->value_end = pen__lint_part_end(word, skipped, word->length);
    }
}

/* Returns the number of words. */
static uint32_t add_option(const struct pen__lint_word_list *words, uint32_t at,
                           struct pen__lint_config *out)
{
    const struct pen__lint_word *word = &words->list[at];
    size_t length = strcspn(word->text, "=");
    char *name = strndup(word->text, length);
    uint32_t count = 1;
    if (name == NULL) {
        out->has_failed = true;
        return 1;
    }
    char none[1] = "";
    struct pen__lint_setting setting = {
        .key = name + 2,
        .name = name,
        .value = none,
        .begin = word->places[0],
        .end = pen__lint_part_end(word, 0, length)};
    if (word->text[length] == '=') {
        set_value(&setting, word, length + 1);
    } else if (!word->is_known) {
        out->is_open = true;
        free(name);
        return 1;
    } else {
        uint32_t values = count_values(words, at, setting.key);
        if (values > 0)
            set_value(&setting, &words->list[at + 1], 0);
        setting.is_list = values > 1;
        count += values;
    }
    pen__lint_config_add(out, &setting);
    free(name);
    return count;
}

static void read_options(const struct pen__lint_word_list *words,
                         uint32_t first, struct pen__lint_config *out)
{
    for (uint32_t i = first; i < words->count;) {
        const struct pen__lint_word *word = &words->list[i];
        if (is_option(word)) {
            i += add_option(words, i, out);
            continue;
        }
        if (!word->is_known)
            out->is_open = true;
        i++;
    }
}

/* ---- overrides ---- */

static void read_overrides(const struct pen__lint_word_list *words,
                           uint32_t first, struct pen__lint_config *out)
{
    for (uint32_t i = first; i < words->count; i++) {
        const struct pen__lint_word *word = &words->list[i];
        size_t plus = strspn(word->text, "+");
        size_t length = strcspn(word->text + plus, "=");
        if (word->text[plus + length] != '=' || length == 0 ||
            word->text[0] == '-') {
            out->is_open = out->is_open || word->is_many;
            continue;
        }
        char *name = strndup(word->text + plus, length);
        if (name == NULL) {
            out->has_failed = true;
            return;
        }
        struct pen__lint_setting setting = {
            .key = name,
            .name = name,
            .begin = word->places[plus],
            .end = pen__lint_part_end(word, plus, plus + length)};
        set_value(&setting, word, plus + length + 1);
        pen__lint_config_add(out, &setting);
        free(name);
    }
    /* A recipe has the settings that no override names. */
    out->is_open = true;
    pen__lint_bridge_keys(out);
}

/* Returns whether a script is Megatron-LM's own: it has no further options. */
static bool is_own_script(const char *script)
{
    static const char *const names[] = {"",
                                        "pretrain_gpt.py",
                                        "pretrain_mamba.py",
                                        "pretrain_bert.py",
                                        "pretrain_t5.py",
                                        "pretrain_hybrid.py"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], script) == 0)
            return true;
    return false;
}

bool pen__lint_read_command(const struct pen__lint_word_list *words,
                            const struct pen__lint_launch *launch,
                            struct pen__lint_config *out)
{
    *out = (struct pen__lint_config){
        .world = launch->world, .is_foreign = !is_own_script(launch->script)};
    if (!find_dialect(words, launch->first, &out->dialect))
        return false;
    if (out->dialect == PEN_LINT_BRIDGE)
        read_overrides(words, launch->first, out);
    else
        read_options(words, launch->first, out);
    uint32_t first = launch->first < words->count ? launch->first : 0;
    out->begin = pen__lint_word_begin(&words->list[first]);
    return true;
}
