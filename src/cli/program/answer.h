#ifndef PEN_CLI_CLI_ANSWER_H
#define PEN_CLI_CLI_ANSWER_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The one JSON object that a command line with --json writes to stdout: its
 * answer, or an error. Both have "format" and "version", so that programs can
 * distinguish them; `penstock schema` has their schemas. An answer also has
 * "notes": the warnings and messages that stderr gets. A value that has a
 * "format" keeps it.
 */

/* Reads whether the line has --json; the words are not changed. */
void pen__answer_begin(int argc, char **argv);

/* Returns whether the command line has --json. */
bool pen__answer_is_json(void);

/*
 * Prints the error, unless there is an answer, or the exit code is 0. Returns
 * the code.
 */
int pen__answer_end(int code);

/* Sets the error's code, a string constant, for exit code 1. */
void pen__answer_set_code(const char *code);
const char *pen__answer_code_of(pen_status status);

/* Adds a further key of the error; takes the value, which may be NULL. */
void pen__answer_add_to_error(const char *key, json_t *value);

/* Adds an error that was printed without pen_log(). */
void pen__answer_add_error(const char *words);

/*
 * Makes an answer of this name. Takes the value, an object; NULL when it is
 * NULL or memory runs out.
 */
json_t *pen__answer_make(const char *name, json_t *value);

/* Finds "line 2, column 7" in a message; false where it has none. */
bool pen__answer_find_place(const char *words, size_t *line, size_t *column);

#endif
