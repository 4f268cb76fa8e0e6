/*
 * penstock report: what trainings gave and what to do about it, on one page.
 */
#include "cli/report/report.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"

#include <stdlib.h>

struct args {
    const char *output;
    struct pen__rest runs;
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("output", "FILE", output,
         "write an HTML page to FILE; print the figures on the terminal when "
         "not given"),
    JSON("print JSON")};

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    if (args->runs.count > PEN__REPORT_MAX_RUNS)
        argp_error(state,
                   "%zu runs are too many for one report; give at most %zu",
                   args->runs.count, PEN__REPORT_MAX_RUNS);
}

static const struct pen__line command_line = {
    .name = "penstock report",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "RUN...",
    .words_offset = AT(runs),
    .least_words = 1,
    .most_words = SIZE_MAX,
    .doc = "Reports results, time and memory of trainings, and recommends "
           "changes; compares several runs.\vEach RUN is a folder that "
           "penstock train --run wrote, a file of --log, or a folder of "
           "--trace. The report lists missing parts and the option that "
           "records each of them.",
    .check = check};

static pen_status write_page(const struct pen__report *report, const char *path,
                             struct pen_text *why)
{
    struct pen_text html = PEN_TEXT_EMPTY;
    pen_status status = pen__report_html(report, &html, why);
    if (status == PEN_OK)
        status = pen_file_write_text(path, &html, why);
    pen_text_release(&html);
    return status;
}

static int show(const struct args *args, const struct pen__report *report)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    if (args->output != NULL &&
        write_page(report, args->output, &why) != PEN_OK)
        code = pen__refuse(&why);
    else if (args->output != NULL)
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    if (code == PEN__EXIT_OK && pen__answer_is_json()) {
        code = pen__print_json("report", pen__report_json(report));
    } else if (code == PEN__EXIT_OK && args->output == NULL) {
        pen__report_print(report, pen__page_width(), &text);
        code = pen__print(&text);
    }
    pen_text_release(&text);
    pen_text_release(&why);
    return code;
}

static int load_and_show(const struct args *args, struct pen__report_run *runs)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen__report report = {runs, args->runs.count};
    pen_status status = PEN_OK;
    for (size_t i = 0; i < args->runs.count && status == PEN_OK; i++)
        status = pen__report_run_load(&runs[i], args->runs.words[i], &why);
    int code = PEN__EXIT_NO;
    if (status == PEN_OK) {
        pen__report_name_runs(runs, args->runs.count);
        code = show(args, &report);
    } else {
        code = pen__refuse_as(status, &why);
    }
    pen_text_release(&why);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.output = NULL};
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    struct pen__report_run *runs = calloc(args.runs.count, sizeof *runs);
    int code = PEN__EXIT_NO;
    if (runs != NULL)
        code = load_and_show(&args, runs);
    else
        pen_log(PEN_LOG_ERROR, "out of memory");
    for (size_t i = 0; runs != NULL && i < args.runs.count; i++)
        pen__report_run_release(&runs[i]);
    free(runs);
    return code;
}

const struct pen__command pen__report = {
    "report", "reports results, time and memory of trainings", run, NULL};
