/*
 * penstock lint: what is wrong in files that start a training with another
 * program.
 */
#include "cli/lint/lint.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "core/cluster.h"

#include <stdlib.h>
#include <string.h>

struct args {
    struct pen__rest paths;
    uint64_t world;
    const char *cluster;
    uint64_t num_devices; /* of the cluster */
    bool is_fixed;
    bool is_sarif;
    bool lists_rules;
};

#define AT(member) offsetof(struct args, member)
#define MOST_RANKS 1e9

static const struct pen__field fields[] = {
    COUNT("world-size", world, 1, MOST_RANKS,
          "number of ranks, where a file does not say it"),
    TEXT("cluster", "CLUSTER", cluster,
         "a cluster file, or KIND*COUNT: predict memory and time of options "
         "of Megatron-LM there"),
    FLAG("fix", is_fixed,
         "write the sure fixes into the files, and print them as a diff"),
    FLAG("rules", lists_rules, "print the rules and end"),
    JSON("print JSON"),
    FLAG("sarif", is_sarif, "print SARIF 2.1.0")};

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    if (args->paths.count == 0 && !args->lists_rules)
        argp_error(state, "expected FILE...");
}

static const struct pen__line command_line = {
    .name = "penstock lint",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "FILE...",
    .words_offset = AT(paths),
    .most_words = SIZE_MAX,
    .doc = "Finds faults in files that start a training with another program: "
           "scripts of Megatron-LM, Megatron-Bridge and torchtitan, DeepSpeed "
           "JSON, torchtitan TOML, YAML of Megatron, accelerate and nanotron.\v"
           "Nothing is executed. Values that only a shell knows are not "
           "judged. Exit code 0: no errors or warnings; 1: some; 2: a file "
           "cannot be read, or the command line is wrong.",
    .check = check};

/* ---- files ---- */

/*
 * Returns the number of devices: that of ranks, unless a file gives another
 * one.
 */
static uint64_t world_of(const struct args *args)
{
    return args->world > 0 ? args->world : args->num_devices;
}

static pen_status count_devices(struct args *args, struct pen_text *why)
{
    struct pen_cluster *cluster = NULL;
    if (args->cluster == NULL)
        return PEN_OK;
    pen_status status = pen_cluster_load(args->cluster, &cluster, why);
    if (status == PEN_OK)
        args->num_devices = pen_cluster_num_devices(cluster);
    pen_cluster_free(cluster);
    return status;
}

static pen_status lint_file(const struct args *args, struct pen__linted *file,
                            struct pen_text *why)
{
    pen_status status =
        pen_file_read(file->path, PEN_LINT_MAX_BYTES, &file->text, why);
    if (status != PEN_OK)
        return status;
    struct pen_lint_question question = {file->path,
                                         pen_text_string(&file->text),
                                         file->text.length, world_of(args)};
    status = pen_lint_file(&question, &file->report, why);
    if (status == PEN_OK && file->report.num_jobs == 0 &&
        file->report.num_findings == 0)
        pen_log(PEN_LOG_WARN, "%s: no training of a known program is in it",
                file->path);
    return status;
}

/* Prints the diff of the file, whose findings are then those that remain. */
static pen_status fix_file(const struct args *args, struct pen__linted *file,
                           struct pen_text *diff, struct pen_text *why)
{
    struct pen_text fixed = PEN_TEXT_EMPTY;
    struct pen_lint_question question = {file->path,
                                         pen_text_string(&file->text),
                                         file->text.length, world_of(args)};
    pen_status status = PEN_OK;
    if (!pen_lint_fix(&question, &file->report, &fixed)) {
        pen_text_release(&fixed);
        return PEN_OK;
    }
    pen_lint_diff(file->path, &file->text, &fixed, diff);
    status = pen_file_write_text(file->path, &fixed, why);
    pen_text_release(&file->text);
    pen_lint_report_release(&file->report);
    file->text = fixed;
    if (status == PEN_OK) {
        question.text = pen_text_string(&file->text);
        question.length = file->text.length;
        status = pen_lint_file(&question, &file->report, why);
    }
    return status;
}

static pen_status lint_all(const struct args *args,
                           struct pen__lint_answer *answer,
                           struct pen_text *diff, struct pen_text *why)
{
    pen_status status = PEN_OK;
    answer->files = calloc(args->paths.count, sizeof *answer->files);
    if (answer->files == NULL) {
        pen_why(why, "no memory for %zu files", args->paths.count);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; status == PEN_OK && i < args->paths.count; i++) {
        struct pen__linted *file = &answer->files[answer->count++];
        file->path = args->paths.words[i];
        status = lint_file(args, file, why);
        if (status == PEN_OK && args->is_fixed)
            status = fix_file(args, file, diff, why);
        if (status == PEN_OK && args->cluster != NULL)
            pen__lint_predict(file, args->cluster, args->num_devices);
    }
    return status;
}

/* ---- answers ---- */

static int print_rules(void)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    for (int i = 0; i < PEN_LINT_RULES; i++)
        pen_text_add(&text, "%-18s %-8s %s\n", pen_lint_rules[i].name,
                     pen_lint_severity_names[pen_lint_rules[i].severity],
                     pen_lint_rules[i].summary);
    return pen__print(&text);
}

static int print_sarif(const struct pen__lint_answer *answer)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    json_t *log = pen__lint_sarif(answer);
    char *bytes = log == NULL ? NULL : json_dumps(log, JSON_INDENT(2));
    if (bytes != NULL)
        pen_text_add(&text, "%s\n", bytes);
    int code = pen__print(&text);
    free(bytes);
    json_decref(log);
    pen_text_release(&text);
    return code;
}

static int print_text(const struct pen__lint_answer *answer,
                      const struct pen_text *diff)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add_string(&text, pen_text_string(diff));
    pen__lint_print(answer, &text);
    return pen__print(&text);
}

static int print_answer(const struct args *args,
                        const struct pen__lint_answer *answer,
                        const struct pen_text *diff)
{
    int code = args->is_sarif ? print_sarif(answer)
               : pen__answer_is_json()
                   ? pen__print_json("lint", pen__lint_json(answer))
                   : print_text(answer, diff);
    bool is_clean = pen__lint_answer_count(answer, PEN_LINT_ERROR) == 0 &&
                    pen__lint_answer_count(answer, PEN_LINT_WARNING) == 0;
    return code != PEN__EXIT_OK ? code : is_clean ? PEN__EXIT_OK : PEN__EXIT_NO;
}

static int run(int argc, char **argv)
{
    struct args args = {.cluster = NULL};
    struct pen__lint_answer answer = {.files = NULL};
    struct pen_text diff = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    if (args.lists_rules)
        return print_rules();
    pen_status status = count_devices(&args, &why);
    if (status == PEN_OK)
        status = lint_all(&args, &answer, &diff, &why);
    int code = PEN__EXIT_USAGE;
    if (status == PEN_OK)
        code = print_answer(&args, &answer, &diff);
    else
        pen__refuse_as(status, &why);
    for (uint32_t i = 0; i < answer.count; i++) {
        pen_text_release(&answer.files[i].text);
        pen_lint_report_release(&answer.files[i].report);
    }
    free(answer.files);
    pen_text_release(&diff);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__lint = {
    "lint", "finds faults in files that start a training", run, NULL};
