#ifndef PEN_CLI_PROGRAM_HELP_H
#define PEN_CLI_PROGRAM_HELP_H

#include "cli/program/program.h"

#include <argp.h>
#include <stdbool.h>

/*
 * `penstock help --json`: commands and options as data. While it is made, the
 * help of a command is collected instead of printed.
 */

/* Commands of other programs, and what those say of them. */
struct pen__help_others {
    const char *(*program_of)(const char *command); /* NULL: this one */
    json_t *(*ask)(const char *program);            /* NULL: not installed */
};

/* Set by a program that turns into others. */
void pen__help_set_others(const struct pen__help_others *others);

/* Prints all commands, or the one of this name; returns the exit code. */
int pen__help_print_json(const struct pen__program *program, const char *name);

/* Returns whether help is collected; then a parser is added, not run. */
bool pen__help_is_collected(void);
void pen__help_add(const struct argp *parser, const char *name);

/* Command lines of a command, up to NULL; those of one row build on others. */
struct pen__example {
    const char *command;
    const char *line;
};
extern const struct pen__example pen__examples[];

#endif
