#include "cli/program/parser.h"

#include "cli/program/cli.h"
#include "cli/program/help.h"
#include "cli/program/parser_error.h"
#include "cli/program/parser_once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64

/* Leaves out the note that short options take the arguments of long ones. */
static void shorten_help(void)
{
    setenv("ARGP_HELP_FMT", "no-dup-args-note", /*overwrite*/ 0);
}

static bool is_last_option(const struct argp_option *option)
{
    return option->name == NULL && option->key == 0 && option->doc == NULL;
}

static bool wants_all(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help-all") == 0)
            return true;
    return false;
}

/* Shows, for --help-all, the options that --help leaves out. */
static void show_all(const struct argp *parser, const char *name)
{
    size_t count = 0;
    while (parser->options != NULL && !is_last_option(&parser->options[count]))
        count++;
    struct argp_option *options = calloc(count + 1, sizeof *options);
    struct argp whole = *parser;
    if (options == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        options[i] = parser->options[i];
        options[i].flags &= ~OPTION_HIDDEN;
    }
    whole.options = options;
    pen__parser_help(&whole, name);
    free(options);
    exit(PEN__EXIT_OK);
}

bool pen__parse(const struct argp *parser, const char *name, unsigned flags,
                int argc, char **argv, void *args)
{
    if (pen__help_is_collected()) {
        pen__help_add(parser, name);
        return false;
    }
    char copy[NAME_SIZE];
    char *first = argv[0];
    snprintf(copy, sizeof copy, "%s", name);
    argv[0] = copy;
    shorten_help();
    argp_err_exit_status = PEN__EXIT_USAGE;
    pen__once_begin();
    if (wants_all(argc, argv))
        show_all(parser, name);
    pen__parser_error_begin();
    error_t error = argp_parse(parser, argc, argv, flags, NULL, args);
    pen__parser_error_end();
    pen__once_end();
    argv[0] = first;
    return error == 0;
}

int pen__parser_help(const struct argp *parser, const char *name)
{
    char copy[NAME_SIZE];
    if (pen__help_is_collected()) {
        pen__help_add(parser, name);
        return PEN__EXIT_OK;
    }
    snprintf(copy, sizeof copy, "%s", name);
    shorten_help();
    argp_help(parser, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK,
              copy);
    return PEN__EXIT_OK;
}
