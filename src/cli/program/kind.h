#ifndef PEN_CLI_CLI_KIND_H
#define PEN_CLI_CLI_KIND_H

#include "base/text.h"

#include <stdbool.h>

/*
 * The kinds of files and folders that Penstock writes: kind, its name in
 * messages, and the command that reads it, in which '*' stands for the path.
 */
#define PEN__KIND_TABLE(X)                                                     \
    X(UNKNOWN, "unknown", "")                                                  \
    X(RUN, "a run folder", "`penstock report *` shows it")                     \
    X(TRACE, "a trace", "`penstock view *` shows it")                          \
    X(CALLS, "a record of communication", "`penstock view *` shows it")        \
    X(LOG, "a run log", "`penstock plot *` draws it")                          \
    X(PLAN, "a plan", "`penstock view *` draws it")                            \
    X(PROFILE, "a profile", "`penstock plan --profile *` uses it")             \
    X(SCHEDULE, "a schedule", "`penstock schedule draw *` draws it")           \
    X(SAVES, "a folder of checkpoints",                                        \
      "`penstock checkpoint ls *` lists "                                      \
      "them")                                                                  \
    X(STEP, "a checkpoint", "`penstock generate --model *` uses it")           \
    X(MODEL, "a model", "`penstock train --model *` trains it")

enum pen__kind {
#define PEN__KIND_ENUM(name, words, use) PEN__KIND_##name,
    PEN__KIND_TABLE(PEN__KIND_ENUM)
#undef PEN__KIND_ENUM
};

/* The kind, by the names in a folder or the first bytes of a file. */
enum pen__kind pen__kind_of(const char *path);

/*
 * Adds "PATH is a plan; `penstock view PATH` draws it". False, and adds
 * nothing, where the kind is unknown.
 */
bool pen__kind_tell(const char *path, enum pen__kind kind,
                    struct pen_text *why);

/* Writes "FOLDER/NAME"; returns whether there is such a file or folder. */
bool pen__find_in(const char *folder, const char *name, struct pen_text *out);

#endif
