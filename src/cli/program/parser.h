#ifndef PEN_CLI_PARSER_H
#define PEN_CLI_PARSER_H

#include <argp.h>
#include <stdbool.h>

/*
 * Reads the words of a command, which errors call by this name, into what the
 * parser fills. Ends the program on a wrong one, and on --help or --help-all;
 * false when memory runs out, and where the parser is only described
 * (cli/program/help.h).
 */
bool pen__parse(const struct argp *parser, const char *name, unsigned flags,
                int argc, char **argv, void *args);

/* Prints what --help does. */
int pen__parser_help(const struct argp *parser, const char *name);

#endif
