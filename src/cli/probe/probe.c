/*
 * penstock probe diff: the first layer and pass in which two trainings differ.
 */
#include "cli/probe/probe.h"

#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/verbs.h"

struct args {
    const char *output;
    double tolerance;
    struct pen__rest words;
};

#define AT(member) offsetof(struct args, member)
#define TOLERANCE 1e-4

static const struct pen__field fields[] = {
    REAL("tolerance", tolerance, 0, 1,
         "largest relative difference that counts as equal; 0: only "
         "bit-identical numbers do; 1e-4 when not given"),
    TEXT("output", "FILE", output,
         "picture of the differences along the layers: .svg, .png or .pdf"),
    JSON("print JSON")};

static const struct pen__verb verbs[] = {
    {"diff", "A B", "Finds the first layer in which two trainings differ",
     "A and B are files of penstock train --probe, or of penstock_probe.py for "
     "a training with PyTorch. Compares what both have, in the order of "
     "execution: weights, outputs of layers from the first, loss, gradients "
     "from the last layer, updated weights. Exit code 0: equal within the "
     "tolerance; 1: different; 2: a file cannot be read or the two have "
     "nothing in common.",
     fields, sizeof fields / sizeof *fields, 2, 2}};

static const struct pen__verbs commands = {.command = "probe",
                                           .items = verbs,
                                           .count =
                                               sizeof verbs / sizeof *verbs,
                                           .name_width = 6,
                                           .words_width = 5,
                                           .words_offset = AT(words)};

static pen_status load(struct args *args, struct pen__probe_answer *answer,
                       struct pen_text *why)
{
    char **paths = args->words.words;
    pen_status status = PEN_OK;
    *answer = (struct pen__probe_answer){.paths = {paths[0], paths[1]},
                                         .tolerance = args->tolerance};
    if (args->output != NULL)
        status = pen_chart_check(args->output, why);
    for (int i = 0; i < 2 && status == PEN_OK; i++)
        status = pen_probe_load(paths[i], &answer->probes[i], why);
    if (status == PEN_OK)
        status = pen_probe_diff_init(&answer->diff, answer->probes[0],
                                     answer->probes[1], args->tolerance, why);
    return status;
}

static int answer_with(const struct pen__probe_answer *answer)
{
    int code = pen__answer_is_json() ? pen__probe_print_json(answer)
                                     : pen__probe_print_text(answer);
    bool is_equal = answer->diff.first == answer->diff.num_pairs;
    return code != PEN__EXIT_OK ? code : is_equal ? PEN__EXIT_OK : PEN__EXIT_NO;
}

static int compare(struct args *args)
{
    struct pen__probe_answer answer;
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_USAGE;
    pen_status status = load(args, &answer, &why);
    if (status == PEN_OK && args->output != NULL) {
        status = pen__probe_draw(&answer, args->output, &why);
        if (status == PEN_OK)
            pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    }
    if (status == PEN_OK)
        code = answer_with(&answer);
    else
        pen__refuse_as(status, &why);
    pen_probe_diff_release(&answer.diff);
    for (int i = 0; i < 2; i++)
        pen_probe_free(answer.probes[i]);
    pen_text_release(&why);
    return code;
}

static int run(int argc, char **argv)
{
    int code = PEN__EXIT_USAGE;
    struct args args = {.tolerance = TOLERANCE};
    int verb = pen__verbs_find(&commands, argc, argv, &code);
    if (verb >= 0 && pen__verbs_parse(&commands, verb, argc, argv, &args))
        code = compare(&args);
    return code;
}

static int help(int argc, char **argv)
{
    return pen__verbs_help(&commands, argc, argv);
}

const struct pen__command pen__probe = {
    "probe", "finds the first layer in which two trainings differ", run, help};
