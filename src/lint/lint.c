/* One file: what it is, the trainings in it, and what rules say of them. */
#include "export/megatron_words.h"
#include "lint/launch.h"
#include "lint/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- one training ---- */

/* The options that the planner reads, as a line; NULL: some are unknown. */
static char *make_line(const struct pen__lint_config *config)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    bool is_known = !config->is_open;
    for (int i = 0; is_known && i < PEN__MEGATRON_OPTIONS; i++) {
        const char *key = pen__megatron_name((enum pen__megatron_option)i);
        const struct pen__lint_setting *found = pen__lint_find(config, key);
        if (found == NULL ||
            (found->value != NULL && pen__lint_is_off(config, key)))
            continue;
        is_known = found->value != NULL && !found->is_list;
        pen_text_add(&line, "--%s ", key);
        if (is_known && found->value[0] != '\0' &&
            strcmp(found->value, "true") != 0) {
            pen_text_add_quoted(&line, found->value);
            pen_text_add_string(&line, " ");
        }
    }
    char *copy = is_known && !line.has_failed && line.length > 0
                     ? strdup(pen_text_string(&line))
                     : NULL;
    pen_text_release(&line);
    return copy;
}

static void add_job(const struct pen__lint_config *config,
                    struct pen_lint_report *report)
{
    if (report->num_jobs == report->job_capacity) {
        uint32_t capacity =
            report->job_capacity == 0 ? 4 : 2 * report->job_capacity;
        struct pen_lint_job *jobs =
            realloc(report->jobs, capacity * sizeof *jobs);
        if (jobs == NULL) {
            report->has_failed = true;
            return;
        }
        report->jobs = jobs;
        report->job_capacity = capacity;
    }
    bool is_megatron = config->dialect == PEN_LINT_MEGATRON;
    report->jobs[report->num_jobs++] =
        (struct pen_lint_job){.dialect = config->dialect,
                              .begin = config->begin,
                              .line = is_megatron ? make_line(config) : NULL,
                              .world = config->world};
}

static void judge_config(struct pen__lint_config *config,
                         const struct pen_lint_question *question,
                         struct pen_lint_report *report)
{
    static pen__lint_rule *const of_megatron[] = {pen__lint_megatron_names,
                                                  pen__lint_megatron_values,
                                                  pen__lint_megatron_batch,
                                                  pen__lint_megatron_model,
                                                  pen__lint_megatron_pipeline,
                                                  pen__lint_megatron_needs,
                                                  NULL};
    pen__lint_rule *const *const rules[PEN_LINT_DIALECTS] = {
        [PEN_LINT_MEGATRON] = of_megatron};
    struct pen__lint_judge judge = {.config = config,
                                    .report = report,
                                    .what = PEN_TEXT_EMPTY,
                                    .why = PEN_TEXT_EMPTY,
                                    .todo = PEN_TEXT_EMPTY};
    if (config->world == 0)
        config->world = question->world;
    pen__lint_rule *const *rule = rules[config->dialect];
    for (; rule != NULL && *rule != NULL; rule++)
        (*rule)(&judge);
    report->has_failed = report->has_failed || config->has_failed;
    add_job(config, report);
    pen__lint_judge_release(&judge);
}

/* ---- scripts ---- */

/* The words of `bash -c '...'` and `eval` are in one word. */
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
            judge_config(&config, question, report);
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

static void file_broken(const struct pen_lint_question *question, size_t at,
                        struct pen_lint_report *report)
{
    struct pen__lint_config config = {.begin = at};
    struct pen__lint_judge judge = {.config = &config,
                                    .report = report,
                                    .what = PEN_TEXT_EMPTY,
                                    .why = PEN_TEXT_EMPTY,
                                    .todo = PEN_TEXT_EMPTY};
    (void)question;
    pen__lint_what(&judge, "a quote or a substitution does not end");
    pen__lint_why(&judge, "The shell would read to the end of the file.");
    pen__lint_todo(&judge, "Close it.");
    pen__lint_file(&judge,
                   &(struct pen__lint_words){.rule = PEN_LINT_RULE_UNREADABLE});
    pen__lint_judge_release(&judge);
}

static pen_status lint_script(const struct pen_lint_question *question,
                              struct pen_lint_report *report)
{
    struct pen__lint_script script;
    size_t broken = 0;
    pen_status status = pen__lint_script_read(question->text, question->length,
                                              &script, &broken);
    if (status == PEN_INVALID) {
        file_broken(question, broken, report);
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

pen_status pen_lint_file(const struct pen_lint_question *question,
                         struct pen_lint_report *out, struct pen_text *why)
{
    *out = (struct pen_lint_report){.findings = NULL};
    if (question->length > PEN_LINT_MAX_BYTES ||
        (question->length > 0 &&
         memchr(question->text, '\0', question->length) != NULL)) {
        pen_why(why, "%s: not a text of at most 4 MiB", question->path);
        return PEN_INVALID;
    }
    pen_status status = lint_script(question, out);
    if (status == PEN_OK && out->has_failed)
        status = PEN_NOMEM;
    if (status == PEN_NOMEM)
        pen_why(why, "%s: no memory", question->path);
    return status;
}
