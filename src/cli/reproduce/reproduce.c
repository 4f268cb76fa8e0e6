/*
 * penstock reproduce: runs the experiment of a paper on which Penstock is
 * built, and writes a page with the claim, the runs, the figures with their
 * intervals and a verdict.
 */
#include "cli/reproduce/reproduce.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AT(member) offsetof(struct pen__reproduce_args, member)

static const struct pen__field fields[] = {
    TEXT(
        "data", "DIR", data,
        "parle: a folder with the four files of MNIST, which are not shipped; "
        "2bw: a folder with a text as input.txt, as examples/shakespeare; wap: "
        "not needed"),
    TEXT("launcher", "COMMAND", launcher,
         "starts ranks, as 'mpirun --bind-to none'; mpirun when not given"),
    FLAG("short", is_short,
         "a minute in place of half an hour: shows that everything works, and "
         "decides nothing"),
    JSON("print JSON: the figures, as in results.json"),
    TEXT("output", "DIR", output,
         "folder for the page, the logs and the figures; trainings that it has "
         "already are not repeated; named after the experiment when not "
         "given")};

/* All experiments; `data` is what --data names, NULL: nothing. */
static const struct experiment {
    const char *name;
    const char *data;
    pen_status (*run)(const struct pen__reproduce_args *args,
                      struct pen_text *why);
} experiments[] = {{"parle", "MNIST's files", pen__reproduce_parle},
                   {"2bw", "a text as input.txt", pen__reproduce_2bw},
                   {"wap", NULL, pen__reproduce_wap}};

#define NAMES "parle, 2bw, wap"
#define NUM_EXPERIMENTS (sizeof experiments / sizeof *experiments)

static const struct experiment *find(const char *name)
{
    for (size_t i = 0; i < NUM_EXPERIMENTS; i++)
        if (strcmp(experiments[i].name, name) == 0)
            return &experiments[i];
    return NULL;
}

static void check(void *context, const struct argp_state *state)
{
    struct pen__reproduce_args *args = context;
    args->name = args->names.count == 0 ? NULL : args->names.words[0];
    const struct experiment *it = args->name == NULL ? NULL : find(args->name);
    if (args->name == NULL)
        argp_error(state, "name an experiment: " NAMES);
    else if (it == NULL)
        argp_error(state, "there is no experiment '%s'; there are " NAMES,
                   args->name);
    else if (it->data != NULL && args->data == NULL)
        argp_error(state, "--data is required: a folder with %s", it->data);
}

static const struct pen__line command_line = {
    .name = "penstock reproduce",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "parle\n2bw\nwap",
    .words_offset = AT(names),
    .most_words = 1,
    .check = check,
    .doc = "Runs the experiment of a paper, and writes a page with its "
           "claim, the figures and a verdict.\vparle: do three replicas "
           "that synchronise every 25 steps learn sooner and better than "
           "SGD (Chaudhari et al., 2017)? Trains a small network on MNIST "
           "with SGD, synchronous SGD, local SGD, EASGD and both forms of "
           "Parle, 5 seeds each; takes about 30 minutes on two cores.\n\n"
           "2bw: are pipelines with two versions of the weights fast, "
           "lean and as accurate as synchronous ones (PipeDream-2BW, "
           "Narayanan et al., 2021)? Predicts a GPT of 2.2 billion "
           "parameters on 64 V100, counts bytes, and trains a small GPT "
           "with and without cures of the delay, 5 seeds each; takes about "
           "30 minutes on two cores.\n\n"
           "wap: is a program that uses as many devices as the workload "
           "can use as fast, with less energy (WAP, Shin et al., 2018)? "
           "Predicts AlexNet, VGG-16, ResNet-50 and GPT-2 on 1 to 8 "
           "devices, and profiles, predicts and trains a small network on "
           "1 and 2 ranks; takes about 2 minutes."};

static int run(int argc, char **argv)
{
    struct pen__reproduce_args args = {.launcher = "mpirun"};
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    if (args.output == NULL)
        args.output = args.name;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = find(args.name)->run(&args, &why);
    if (status == PEN_NOMEM && why.length == 0)
        pen_why(&why, "no memory");
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, &why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__reproduce = {
    "reproduce", "runs the experiment of a paper and judges its claim", run,
    NULL};

/* ---- what experiments share ---- */

pen_status pen__reproduce_write(const char *folder,
                                const struct pen_report *page, json_t *results,
                                struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY, text = PEN_TEXT_EMPTY;
    char *json = json_dumps(results, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    pen_status status = json == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK) {
        pen_text_add(&path, "%s/results.json", folder);
        pen_text_add(&text, "%s\n", json);
        status = pen_file_write_text(pen_text_string(&path), &text, why);
    }
    free(json);
    pen_text_clear(&text);
    pen_text_clear(&path);
    if (status == PEN_OK)
        status = pen_report_print(page, &text, why);
    if (status == PEN_OK) {
        pen_text_add(&path, "%s/index.html", folder);
        status = pen_file_write_text(pen_text_string(&path), &text, why);
    }
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "the page is %s", pen_text_string(&path));
    if (status == PEN_OK && pen__answer_is_json())
        pen__print_json("reproduce",
                        json_pack("{s:s, s:s, s:O}", "folder", folder, "page",
                                  pen_text_string(&path), "results", results));
    pen_text_release(&path);
    pen_text_release(&text);
    return status;
}
