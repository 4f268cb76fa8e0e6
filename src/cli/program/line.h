#ifndef PEN_CLI_PROGRAM_LINE_H
#define PEN_CLI_PROGRAM_LINE_H

#include "cli/program/fields.h"

/*
 * The command line of a command: its options as a table, and its other words.
 * Checks that concern more than one of them are left to `check`.
 */
struct pen__line {
    const char *name; /* as errors begin: "penstock report" */
    const struct pen__field *fields;
    size_t num_fields;
    const char *usage;    /* of the words; NULL where the line takes none */
    const char *expected; /* what an error calls them; NULL: as the usage */
    size_t words_offset;  /* of a struct pen__rest; unused without words */
    size_t least_words;
    size_t most_words;
    const char *doc; /* before the options and, following \v, after them */
    /* Options that --help has, and those that it leaves out; NULL: all. */
    const char *const *shown;
    const char *const *hidden;
    /* Called after the last word; an error ends the program. May be NULL. */
    void (*check)(void *args, const struct argp_state *state);
};

/* Words other than options; they stay part of the command line. */
struct pen__rest {
    char **words;
    size_t count;
};

/*
 * Reads the line into the struct of the command. Ends the program on a wrong
 * word, and on --help or --help-all; false when memory runs out, and where the
 * line is only described (cli/program/help.h).
 */
bool pen__line_read(const struct pen__line *line, int argc, char **argv,
                    void *args);

/* Prints what --help does; returns the exit code. */
int pen__line_help(const struct pen__line *line);

/* Ends the program where the option is not there. */
void pen__line_require(const struct argp_state *state, bool is_there,
                       const char *option);

#endif
