#ifndef PEN_LINT_SHELL_SCRIPT_H
#define PEN_LINT_SHELL_SCRIPT_H

#include "base/status.h"
#include "lint/shell_expand.h"

/* Values of `#SBATCH` lines; 0: not given. */
struct pen__lint_sbatch {
    uint64_t nodes;
    uint64_t node_devices;
    uint64_t node_tasks;
    uint64_t tasks;
};

/* The commands of a script, each as its words. */
struct pen__lint_script {
    struct pen__lint_scope scope;
    struct pen__lint_word_list *commands;
    uint32_t count;
    uint32_t capacity;
    struct pen__lint_sbatch sbatch;
};

/*
 * Reads a script, or a file of options whose lines are one command. On success
 * release it; on failure, a quote that does not end, *broken is its place.
 */
pen_status pen__lint_script_read(const char *text, size_t length,
                                 struct pen__lint_script *out, size_t *broken);
void pen__lint_script_release(struct pen__lint_script *script);

/* Reads `#SBATCH` lines, and gives Slurm's variables their values. */
void pen__lint_sbatch_read(const char *text, size_t length,
                           struct pen__lint_script *script);

#endif
