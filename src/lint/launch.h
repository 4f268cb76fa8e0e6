#ifndef PEN_LINT_LAUNCH_H
#define PEN_LINT_LAUNCH_H

#include "lint/config.h"
#include "lint/shell_script.h"

/* The command that starts a training of a script. */

/* The program of a command and the number of its ranks. */
struct pen__lint_launch {
    uint32_t first;     /* index of the first word after the program's name */
    const char *script; /* "pretrain_gpt.py"; "": there is none */
    uint64_t world;     /* ranks; 0: unknown */
};

struct pen__lint_launch
pen__lint_launch_find(const struct pen__lint_script *script,
                      const struct pen__lint_word_list *words);

/* Reads one option of sbatch or srun. */
void pen__lint_sbatch_option(const char *word, const char *next,
                             struct pen__lint_sbatch *out);

/*
 * Reads the training in the words of a command, from `first` on; false when the
 * words are not of a known program. Release the configuration in either case.
 */
bool pen__lint_read_command(const struct pen__lint_word_list *words,
                            const struct pen__lint_launch *launch,
                            struct pen__lint_config *out);

#endif
