/*
 * Checks one file: finds its kind and the trainings in it, and runs the rules.
 */
#include "export/megatron_words.h"
#include "lint/files.h"
#include "lint/rules.h"

#include <stdlib.h>
#include <string.h>

/* ---- one training ---- */

/*
 * Makes a line of the options that the planner reads; NULL: some are unknown.
 */
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

void pen__lint_judge_config(struct pen__lint_config *config,
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
    static pen__lint_rule *const of_others[][2] = {{pen__lint_torchtitan, NULL},
                                                   {pen__lint_deepspeed, NULL},
                                                   {pen__lint_accelerate, NULL},
                                                   {pen__lint_nanotron, NULL}};
    pen__lint_rule *const *const rules[PEN_LINT_DIALECTS] = {
        [PEN_LINT_MEGATRON] = of_megatron,
        [PEN_LINT_BRIDGE] = of_megatron,
        [PEN_LINT_TORCHTITAN] = of_others[0],
        [PEN_LINT_DEEPSPEED] = of_others[1],
        [PEN_LINT_ACCELERATE] = of_others[2],
        [PEN_LINT_NANOTRON] = of_others[3]};
    struct pen__lint_judge judge = {.config = config,
                                    .report = report,
                                    .what = PEN_TEXT_EMPTY,
                                    .why = PEN_TEXT_EMPTY,
                                    .todo = PEN_TEXT_EMPTY};
    if (config->world == 0)
        config->world = question->world;
    pen__lint_rule *const *rule = rules[config->dialect];
    for (; *rule != NULL; rule++)
        (*rule)(&judge);
    report->has_failed = report->has_failed || config->has_failed;
    add_job(config, report);
    pen__lint_judge_release(&judge);
}

/* Finds the reader by the ending of the name; NULL: a script. */
static pen__lint_reader *find_reader(const char *path)
{
    static const struct {
        const char *end;
        pen__lint_reader *read;
    } readers[] = {{".json", pen__lint_json_read},
                   {".yaml", pen__lint_yaml_read},
                   {".yml", pen__lint_yaml_read},
                   {".toml", pen__lint_toml_read}};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        size_t size = strlen(readers[i].end);
        if (length > size && strcmp(path + length - size, readers[i].end) == 0)
            return readers[i].read;
    }
    return NULL;
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
    pen__lint_reader *read = find_reader(question->path);
    pen_status status = read != NULL ? pen__lint_tree_file(question, read, out)
                                     : pen__lint_script_file(question, out);
    if (status == PEN_OK && out->has_failed)
        status = PEN_NOMEM;
    if (status == PEN_NOMEM)
        pen_why(why, "%s: no memory", question->path);
    return status;
}
