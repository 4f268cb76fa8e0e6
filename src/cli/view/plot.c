/*
 * penstock plot: the curves of trainings, from their run logs.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "cli/program/kind.h"
#include "cli/program/parser.h"
#include "view/plot.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_WIDTH 100u /* when stdout is not a terminal */
#define SMOOTH_MAX 1000000

enum option_key { KEY_X = 256, KEY_SMOOTH, KEY_LOG_Y, KEY_TITLE };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0,
     "draw to FILE: .svg, .png or .pdf; to the terminal when not "
     "given",
     1},
    {"x", KEY_X, "NAME", 0,
     "horizontal axis: step, tokens or time; step when not given", 2},
    {"smooth", KEY_SMOOTH, "N", 0,
     "draw means over N steps, with the logged values in the "
     "background",
     3},
    {"log-y", KEY_LOG_Y, NULL, 0, "a logarithmic axis for the loss", 4},
    {"title", KEY_TITLE, "TEXT", 0,
     "title of the plot; the model's name when not given", 5},
    {NULL, 0, NULL, 0, NULL, 0}};

struct args {
    const char *output;
    struct pen_plot_options options;
    char **paths;
    size_t num_paths;
};

static uint32_t read_smooth(const char *text, const struct argp_state *state)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (*end != '\0' || end == text || number < 1 || number > SMOOTH_MAX)
        argp_error(state,
                   "--smooth must be a whole number from 1 to %d, not '%s'",
                   SMOOTH_MAX, text);
    return (uint32_t)number;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct args *args = state->input;
    switch (key) {
    case 'o':
        args->output = text;
        return 0;
    case KEY_X:
        args->options.x = pen_plot_x_find(text);
        if (args->options.x == PEN_PLOT_XS)
            argp_error(state, "--x must be step, tokens or time, not '%s'",
                       text);
        return 0;
    case KEY_SMOOTH:
        args->options.smooth = read_smooth(text, state);
        return 0;
    case KEY_LOG_Y:
        args->options.has_log_loss = true;
        return 0;
    case KEY_TITLE:
        args->options.title = text;
        return 0;
    case ARGP_KEY_ARGS:
        args->paths = state->argv + state->next;
        args->num_paths = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (args->num_paths == 0)
            argp_error(state, "expected RUN...");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "RUN...",
    .doc = "Draws loss and speed of one or several trainings.\vEach RUN "
           "is a folder that penstock train --run wrote, or a file of --log; "
           "the training may still be running."};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Names of files are enough, unless two runs have the same. */
static bool have_distinct_names(const struct args *args)
{
    for (size_t i = 0; i < args->num_paths; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(base_name(args->paths[i]), base_name(args->paths[j])) ==
                0)
                return false;
        }
    }
    return true;
}

static int print_on_terminal(const struct args *args,
                             const struct pen_plot_item *items)
{
    size_t width = pen__page_width();
    bool with_colour = width > 0 && getenv("NO_COLOR") == NULL;
    struct pen_text plot = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        pen_plot_print(items, args->num_paths, &args->options, with_colour,
                       width > 0 ? (unsigned)width : PAGE_WIDTH, &plot, &why);
    int code =
        status == PEN_OK ? pen__print(&plot) : pen__refuse_as(status, &why);
    pen_text_release(&plot);
    pen_text_release(&why);
    return code;
}

static int draw_to_file(const struct args *args,
                        const struct pen_plot_item *items)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    if (pen_plot_draw(items, args->num_paths, &args->options, args->output,
                      &why) == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    else
        code = pen__refuse(&why);
    pen_text_release(&why);
    return code;
}

static pen_status load(const char *path, struct pen_run **out,
                       struct pen_text *why)
{
    struct pen_text log = PEN_TEXT_EMPTY;
    enum pen__kind kind = pen__kind_of(path);
    pen_status status = PEN_INVALID;
    if (kind == PEN__KIND_UNKNOWN || kind == PEN__KIND_LOG)
        status = pen_run_load(path, out, why);
    else if (pen__find_in(path, "log.jsonl", &log))
        status = pen_run_load(pen_text_string(&log), out, why);
    else
        pen__kind_tell(path, kind, why);
    pen_text_release(&log);
    return status;
}

static int plot(const struct args *args, struct pen_run **runs,
                struct pen_plot_item *items)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    bool is_short = have_distinct_names(args);
    pen_status status = PEN_OK;
    for (size_t i = 0; i < args->num_paths && status == PEN_OK; i++) {
        const char *path = args->paths[i];
        status = load(path, &runs[i], &why);
        items[i] =
            (struct pen_plot_item){runs[i], is_short ? base_name(path) : path};
    }
    int code = PEN__EXIT_OK;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (args->output != NULL)
        code = draw_to_file(args, items);
    else
        code = print_on_terminal(args, items);
    pen_text_release(&why);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.options = {.x = PEN_PLOT_STEP}};
    if (!pen__parse(&parser, "penstock plot", 0, argc, argv, &args))
        return PEN__EXIT_USAGE;
    struct pen_run **runs = calloc(args.num_paths, sizeof *runs);
    struct pen_plot_item *items = calloc(args.num_paths, sizeof *items);
    int code = PEN__EXIT_NO;
    if (runs != NULL && items != NULL)
        code = plot(&args, runs, items);
    else
        pen_log(PEN_LOG_ERROR, "out of memory");
    for (size_t i = 0; runs != NULL && i < args.num_paths; i++)
        pen_run_free(runs[i]);
    free(items);
    free(runs);
    return code;
}

const struct pen__command pen__plot = {
    "plot", "draws loss and speed of trainings", run, NULL};
