#ifndef PEN_CLI_PROGRAM_H
#define PEN_CLI_PROGRAM_H

#include "cli/program/cli.h"

/*
 * One command line, several programs. `penstock` has every command that needs
 * neither MPI nor oneDNN; the commands that compute are in `penstock-train`,
 * the one that simulates in `penstock-simulate`, which it turns into when one
 * of them is asked for.
 */
struct pen__program {
    const char *name;
    const struct pen__command *const *commands; /* the last is NULL */
};

/* Does the work of every program's main(); returns the exit code. */
int pen__program_main(const struct pen__program *program, int argc,
                      char **argv);

/*
 * Becomes the program called `sibling`: runs it with the words of argv, and
 * with `first` before them unless that is NULL. It is sought in the folder of
 * this program and in its libexec folder. Returns, with an exit code, only when
 * it is missing; then `hint` advises the user.
 */
int pen__program_become(const char *sibling, const char *first, char **argv,
                        const char *hint);

/*
 * Runs `help --json` of the program called `sibling` and returns its answer,
 * the list of its commands; NULL when that program is not installed.
 */
json_t *pen__program_ask(const char *sibling);

/* Finds the path of this program itself. */
void pen__program_find(struct pen_text *out);

/* Returns the version of all programs: "0.1.0". */
const char *pen__program_version(void);

#endif
