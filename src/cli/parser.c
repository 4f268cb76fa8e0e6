#include "cli/parser.h"

#include "cli/cli.h"
#include "cli/parser_once.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME_SIZE 64

/* Without the note that short options take the arguments of long ones. */
static void shorten_help(void)
{
    setenv("ARGP_HELP_FMT", "no-dup-args-note", /*overwrite*/ 0);
}

bool pen__parse(const struct argp *parser, const char *name, unsigned flags,
                int argc, char **argv, void *args)
{
    char copy[NAME_SIZE];
    char *first = argv[0];
    snprintf(copy, sizeof copy, "%s", name);
    argv[0] = copy;
    shorten_help();
    argp_err_exit_status = PEN__EXIT_USAGE;
    pen__once_begin();
    error_t error = argp_parse(parser, argc, argv, flags, NULL, args);
    pen__once_end();
    argv[0] = first;
    return error == 0;
}

int pen__parser_help(const struct argp *parser, const char *name)
{
    char copy[NAME_SIZE];
    snprintf(copy, sizeof copy, "%s", name);
    shorten_help();
    argp_help(parser, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK,
              copy);
    return PEN__EXIT_OK;
}
