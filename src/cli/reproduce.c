/*
 * penstock reproduce: runs the experiment of a paper that Penstock stands on,
 * and writes a page with the claim, what was run, the figures with their
 * intervals and a verdict.
 */
#include "cli/reproduce.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/parser.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PARLE "parle"
#define AT(member) offsetof(struct pen__reproduce_args, member)

static const struct pen__field fields[] = {
    {"data", "DIR",
     "a folder with the four files of MNIST; they are not shipped",
     PEN__FIELD_TEXT, AT(data), 0, 0, NULL},
    {"launcher", "COMMAND",
     "starts ranks, as 'mpirun --bind-to none'; mpirun when not given",
     PEN__FIELD_TEXT, AT(launcher), 0, 0, NULL},
    {"short", NULL,
     "a minute in place of half an hour: shows that everything works, and "
     "decides nothing",
     PEN__FIELD_FLAG, AT(is_short), 0, 0, NULL}};

#define NUM_FIELDS (sizeof fields / sizeof *fields)

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct pen__reproduce_args *args = state->input;
    switch (key) {
    case 'o':
        args->output = text;
        return 0;
    case ARGP_KEY_ARG:
        if (args->name != NULL)
            argp_error(state, "unexpected argument '%s'", text);
        args->name = text;
        return 0;
    case ARGP_KEY_END:
        if (args->name == NULL)
            argp_error(state, "name an experiment: " PARLE);
        else if (strcmp(args->name, PARLE) != 0)
            argp_error(state, "there is no experiment '%s'; there is " PARLE,
                       args->name);
        if (args->data == NULL)
            argp_error(state,
                       "--data is required: a folder with MNIST's files");
        return 0;
    default:
        return pen__fields_parse(fields, NUM_FIELDS, key, text, state);
    }
}

static void list_options(struct argp_option out[PEN__FIELDS_MAX + 1])
{
    pen__fields_list_output(
        fields, NUM_FIELDS, "DIR",
        "folder for the page, the logs and the figures, named after "
        "the experiment when not given; trainings that it has already "
        "are not repeated",
        out);
}

static struct argp parser_of(const struct argp_option *options)
{
    return (struct argp){
        .options = options,
        .parser = parse_option,
        .args_doc = PARLE,
        .doc = "Runs the experiment of a paper, and writes a page with its "
               "claim, the figures and a verdict.\vparle: do three replicas "
               "that synchronise every 25 steps learn sooner and better than "
               "SGD (Chaudhari et al., 2017)? Trains a small network on MNIST "
               "with SGD, synchronous SGD, local SGD, EASGD and both forms of "
               "Parle, 5 seeds each; takes about 30 minutes on two cores."};
}

static int run(int argc, char **argv)
{
    struct argp_option options[PEN__FIELDS_MAX + 1];
    struct pen__reproduce_args args = {.launcher = "mpirun"};
    list_options(options);
    struct argp parser = parser_of(options);
    if (!pen__parse(&parser, "penstock reproduce", ARGP_IN_ORDER, argc, argv,
                    &args))
        return PEN__EXIT_USAGE;
    if (args.output == NULL)
        args.output = args.name;
    return pen__reproduce_parle(&args);
}

const struct pen__command pen__reproduce = {
    "reproduce", "runs the experiment of a paper and judges its claim", run,
    NULL};

/* ---- what experiments share ---- */

void pen__interval_print(const struct pen_interval *interval, int digits,
                         struct pen_text *out)
{
    pen_text_add(out, "%.*f (%.*f to %.*f)", digits, interval->middle, digits,
                 interval->low, digits, interval->high);
}

pen_status pen__reproduce_folder(const char *path, struct pen_text *why)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return PEN_OK;
    return pen_file_refuse("make", path, why);
}

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
    pen_text_release(&path);
    pen_text_release(&text);
    return status;
}
