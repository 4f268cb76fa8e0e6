#ifndef PEN_CLI_VERBS_H
#define PEN_CLI_VERBS_H

#include "cli/program/line.h"

/* Commands that have commands of their own: `penstock checkpoint ls`. */

struct pen__verb {
    const char *name;
    const char *words; /* the words that follow the verb; "" for none */
    const char *summary;
    const char *doc; /* NULL: another program has it */
    const struct pen__field *fields;
    size_t num_fields;
    size_t least_words;
    size_t most_words;
};

struct pen__verbs {
    const char *command;
    const struct pen__verb *items;
    size_t count;
    int name_width; /* of columns of the usage */
    int words_width;
    /* Like those of struct pen__line, for all verbs. */
    size_t words_offset;
    void (*check)(void *args, const struct argp_state *state);
};

/*
 * Finds the one that argv[1] names. On -1 there is nothing to run and *code is
 * the exit code: help was printed, or what is wrong.
 */
int pen__verbs_find(const struct pen__verbs *verbs, int argc, char **argv,
                    int *code);

/* Reads the words that follow the verb. False when memory runs out. */
bool pen__verbs_parse(const struct pen__verbs *verbs, int index, int argc,
                      char **argv, void *args);

/*
 * Prints the output of `penstock help`: for the verb that argv[1] names, or for
 * all.
 */
int pen__verbs_help(const struct pen__verbs *verbs, int argc, char **argv);

#endif
