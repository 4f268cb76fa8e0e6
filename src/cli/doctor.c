/*
 * penstock doctor: what this machine offers, what is installed, and what to
 * change.
 */
#include "cli/cli.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

enum option_key { KEY_JSON = 256 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "print JSON", 1}, {NULL, 0, NULL, 0, NULL, 0}};

struct args {
    bool has_json;
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct args *args = state->input;
    (void)text;
    switch (key) {
    case KEY_JSON:
        args->has_json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .doc = "Tells what this machine offers, what is installed, what is "
           "measured, and what to change."};

static int run(int argc, char **argv)
{
    struct args args = {0};
    char name[] = "penstock doctor";
    argv[0] = name;
    argp_err_exit_status = PEN__EXIT_USAGE;
    if (argp_parse(&parser, argc, argv, 0, NULL, &args) != 0)
        return PEN__EXIT_USAGE;
    return PEN__EXIT_OK;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    char name[] = "penstock doctor";
    argp_help(&parser, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, name);
    return PEN__EXIT_OK;
}

const struct pen__command pen__doctor = {
    "doctor", "tells what this machine offers and what to change", run, help};
