#ifndef PEN_CLI_WITHOUT_ARGP_H
#define PEN_CLI_WITHOUT_ARGP_H

/*
 * As much of GNU's <argp.h> as the commands use, for C libraries that have
 * none: same names, same order of calls, same words of errors.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

typedef int error_t;

struct argp_option {
    const char *name;
    int key;
    const char *arg; /* NULL: takes no value */
    int flags;
    const char *doc;
    int group;
};

#define OPTION_HIDDEN 0x2

struct argp_state;
typedef error_t (*argp_parser_t)(int key, char *arg, struct argp_state *state);

struct argp {
    const struct argp_option *options; /* the last is all zero */
    argp_parser_t parser;
    const char *args_doc;
    const char *doc;
    const void *children; /* none of ours has any */
};

struct argp_state {
    const struct argp *root_argp;
    int argc;
    char **argv;
    int next; /* the word of argv that comes next */
    unsigned arg_num;
    void *input;
    char *name;
};

#define ARGP_ERR_UNKNOWN E2BIG

#define ARGP_KEY_ARG 0
#define ARGP_KEY_ARGS 0x1000006
#define ARGP_KEY_END 0x1000001
#define ARGP_KEY_NO_ARGS 0x1000002

/* Words other than options are handed over in their place. */
#define ARGP_IN_ORDER 0x08

#define ARGP_HELP_STD_HELP 0x7a
#define ARGP_HELP_EXIT_OK 0x100

/* The exit code for a command line that cannot be read. */
extern error_t argp_err_exit_status;

error_t argp_parse(const struct argp *argp, int argc, char **argv,
                   unsigned flags, int *index, void *input);

/* Prints the usage, the doc and the options. */
void argp_help(const struct argp *argp, FILE *stream, unsigned flags,
               char *name);

/* Prints the message and how to get help, then ends the program. */
void argp_error(const struct argp_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same with a status of its own, unless that is 0, and errno's words. */
void argp_failure(const struct argp_state *state, int status, int errnum,
                  const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
