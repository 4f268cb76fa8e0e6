/*
 * penstock view: what a traced training did, beside what was predicted.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "cli/parser.h"
#include "view/view.h"

#include <stdbool.h>
#include <stdlib.h>

enum option_key { KEY_STEP = 256, KEY_ALL_RANKS };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0,
     "draw to FILE: .svg, .png, .pdf, or .json for Perfetto", 1},
    {"step", KEY_STEP, "N", 0,
     "the step to look at; when not given, the one with the median of the "
     "seconds",
     2},
    {"all-ranks", KEY_ALL_RANKS, NULL, 0,
     "a line for every rank, also when there are more than 32", 3},
    {NULL, 0, NULL, 0, NULL, 0}};

struct args {
    const char *folder;
    const char *output;
    bool has_step;
    bool with_all_ranks;
    uint32_t step;
};

static uint32_t read_step(const char *text, const struct argp_state *state)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    if (*end != '\0' || end == text || number < 0 || number > UINT32_MAX)
        argp_error(state, "--step must be a whole number from 0 to %u",
                   UINT32_MAX);
    return (uint32_t)number;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct args *args = state->input;
    switch (key) {
    case 'o':
        args->output = text;
        return 0;
    case KEY_STEP:
        args->step = read_step(text, state);
        args->has_step = true;
        return 0;
    case KEY_ALL_RANKS:
        args->with_all_ranks = true;
        return 0;
    case ARGP_KEY_ARG:
        if (args->folder != NULL)
            argp_error(state, "'%s' is one word too many", text);
        args->folder = text;
        return 0;
    case ARGP_KEY_END:
        if (args->folder == NULL)
            argp_error(state, "expected DIR");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "DIR",
    .doc = "Shows one step of a traced training beside its prediction, and "
           "says where they differ and why.\v"
           "DIR is a folder that penstock train --trace wrote. Without a "
           "prediction in it only what was measured is shown."};

static int show(const struct args *args, const struct pen_view *view)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    if (args->output != NULL &&
        pen_view_draw(view, args->output, &why) != PEN_OK)
        code = pen__refuse(&why);
    else if (args->output != NULL)
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    if (code == PEN__EXIT_OK) {
        if (pen_view_print(view, pen__page_width(), args->with_all_ranks,
                           &text) != PEN_OK)
            text.has_failed = 1;
        code = pen__print(&text);
    }
    pen_text_release(&text);
    pen_text_release(&why);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.folder = NULL};
    if (!pen__parse(&parser, "penstock view", 0, argc, argv, &args))
        return PEN__EXIT_USAGE;
    struct pen_view *view = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_view_load(
        args.folder, args.has_step ? &args.step : NULL, &view, &why);
    int code = status == PEN_OK ? show(&args, view) : pen__refuse(&why);
    pen_view_free(view);
    pen_text_release(&why);
    return code;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return pen__parser_help(&parser, "penstock view");
}

const struct pen__command pen__view = {
    "view", "shows what a traced training did and why", run, help};
