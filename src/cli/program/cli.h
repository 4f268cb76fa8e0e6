#ifndef PEN_CLI_CLI_H
#define PEN_CLI_CLI_H

#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stddef.h>

/*
 * Declarations shared by all commands. Results go to stdout, messages to
 * stderr, and the exit code says what happened; man penstock lists all codes.
 */
enum pen__exit {
    PEN__EXIT_OK = 0,
    PEN__EXIT_NO = 1,    /* the answer is no: refused, infeasible, bad file */
    PEN__EXIT_USAGE = 2, /* wrong command line */
    PEN__EXIT_STOPPED = 130 /* by SIGINT, after a step of training */
};

/*
 * One command: the word that follows `penstock`; it may have commands of its
 * own.
 */
struct pen__command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);  /* argv[0] is the name */
    int (*help)(int argc, char **argv); /* NULL: run, with --help added */
};

/* Commands of penstock; listed in main.c. */
extern const struct pen__command pen__checkpoint;
extern const struct pen__command pen__cluster; /* but for detect */
extern const struct pen__command pen__export;
extern const struct pen__command pen__lint;
extern const struct pen__command pen__models;
extern const struct pen__command pen__plan;
extern const struct pen__command pen__predict;
extern const struct pen__command pen__probe;
extern const struct pen__command pen__schedule;
extern const struct pen__command pen__schema;
extern const struct pen__command pen__ring;
extern const struct pen__command pen__supervise;
extern const struct pen__command pen__sync;
extern const struct pen__command pen__tokenize;
extern const struct pen__command pen__partition;
extern const struct pen__command pen__plot;
extern const struct pen__command pen__report;
extern const struct pen__command pen__reproduce;
extern const struct pen__command pen__view;

/* Commands of penstock-train; listed in train_main.c, and by name in main.c. */
extern const struct pen__command pen__generate;
extern const struct pen__command pen__train;
extern const struct pen__command pen__eval;
extern const struct pen__command pen__doctor;
extern const struct pen__command pen__hold;
extern const struct pen__command pen__profile;
extern const struct pen__command pen__cluster_detect;

/*
 * Commands of penstock-simulate; listed in simulate_main.c, and by name in
 * main.c.
 */
extern const struct pen__command pen__simulate;

/* Prints the reason as an error; prints nothing when another process does. */
int pen__refuse(const struct pen_text *why);

/*
 * Refuses likewise, and the status becomes the error's code
 * (cli/program/answer.h).
 */
int pen__refuse_as(pen_status status, const struct pen_text *why);

/*
 * Warns when a run was opened and steps were skipped that are newer than the
 * one that is used. NULL is fine.
 */
struct pen_checkpoint;
void pen__warn_skipped(const struct pen_checkpoint *checkpoint);

/* Writes a result to stdout, and releases it. */
int pen__print(struct pen_text *text);

/*
 * Prints the value as the answer of that name (cli/program/answer.h), and takes
 * it; NULL means that memory ran out.
 */
int pen__print_json(const char *name, json_t *value);

/* Appends and takes the item. A failure makes *array NULL for good. */
void pen__json_append(json_t **array, json_t *item);

/* Letters in a line of the terminal; 0 when stdout is not one. */
size_t pen__page_width(void);

#endif
