/* A script or a file of options: each command that starts a training. */
#include "lint/files.h"
#include "lint/launch.h"

#include <string.h>

/* Opens the words of `bash -c '...'` and `eval`, which are in one word. */
static void open_quoted(struct pen__lint_script *script,
                        const struct pen__lint_word_list *words,
                        struct pen__lint_word_list *out)
{
    struct pen__lint_budget *budget = &script->scope.budget;
    for (uint32_t i = 0; i < words->count; i++) {
        const struct pen__lint_word *word = &words->list[i];
        bool is_line = i > 0 && strchr(word->text, ' ') != NULL &&
                       (strcmp(words->list[i - 1].text, "-c") == 0 ||
                        strcmp(words->list[i - 1].text, "-lc") == 0 ||
                        strcmp(words->list[i - 1].text, "eval") == 0);
        if (is_line)
            pen__lint_words_split(out, budget, word);
        else
            pen__lint_words_add_copy(out, budget, word);
    }
}

static bool prints_only(const struct pen__lint_word_list *words)
{
    const char *first = words->list[0].text;
    return strcmp(first, "echo") == 0 || strcmp(first, "printf") == 0;
}

static void judge_words(struct pen__lint_script *script,
                        const struct pen__lint_word_list *given, bool is_whole,
                        const struct pen_lint_question *question,
                        struct pen_lint_report *report)
{
    struct pen__lint_word_list words = {.list = NULL};
    struct pen__lint_config config = {.list = NULL};
    open_quoted(script, given, &words);
    if (words.count > 0) {
        struct pen__lint_launch launch = pen__lint_launch_find(script, &words);
        if (pen__lint_read_command(&words, &launch, &config)) {
            config.is_open = config.is_open || !is_whole;
            pen__lint_judge_config(&config, question, report);
        }
    }
    pen__lint_config_release(&config);
    pen__lint_words_release(&words);
}

/* Options that a file assigns and does not use are used by another one. */
static void judge_unused(struct pen__lint_script *script,
                         const struct pen_lint_question *question,
                         struct pen_lint_report *report)
{
    for (uint32_t i = 0; i < script->scope.count; i++) {
        const struct pen__lint_variable *variable = &script->scope.list[i];
        struct pen__lint_word_list words = {.list = NULL};
        if (variable->is_used || variable->is_unknown)
            continue;
        for (uint32_t j = 0; j < variable->values.count; j++)
            if (variable->is_array)
                pen__lint_words_add_copy(&words, &script->scope.budget,
                                         &variable->values.list[j]);
            else
                pen__lint_words_split(&words, &script->scope.budget,
                                      &variable->values.list[j]);
        judge_words(script, &words, false, question, report);
        pen__lint_words_release(&words);
    }
}

pen_status pen__lint_script_file(const struct pen_lint_question *question,
                                 struct pen_lint_report *report)
{
    struct pen__lint_script script;
    size_t broken = 0;
    pen_status status = pen__lint_script_read(question->text, question->length,
                                              &script, &broken);
    if (status == PEN_INVALID) {
        struct pen__lint_trouble trouble = {.at = broken,
                                            .why = PEN_TEXT_EMPTY};
        pen_text_add_string(&trouble.why,
                            "a quote or a substitution does not end");
        pen__lint_file_trouble(&trouble, report);
        pen_text_release(&trouble.why);
        return PEN_OK;
    }
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < script.count; i++)
        if (!prints_only(&script.commands[i]))
            judge_words(&script, &script.commands[i], true, question, report);
    judge_unused(&script, question, report);
    pen__lint_script_release(&script);
    return PEN_OK;
}
