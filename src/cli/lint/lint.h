#ifndef PEN_CLI_LINT_H
#define PEN_CLI_LINT_H

#include "base/text.h"
#include "lint/lint.h"

#include <jansson.h>

/* A file that `penstock lint` read, and what was found in it. */
struct pen__linted {
    const char *path;
    struct pen_text text;
    struct pen_lint_report report;
};

/* All files of the command line. */
struct pen__lint_answer {
    struct pen__linted *files;
    uint32_t count;
};

/* Findings of this severity in all files. */
uint32_t pen__lint_answer_count(const struct pen__lint_answer *answer,
                                enum pen_lint_severity severity);

/*
 * Files what the planner predicts of the trainings on this cluster: that they
 * do not fit, or that another layout is faster. A warning says why one is not
 * predicted.
 */
void pen__lint_predict(struct pen__linted *file, const char *cluster,
                       uint64_t num_devices);

/* Prints for readers: place, sentence, rule, line, reason, advice. */
void pen__lint_print(const struct pen__lint_answer *answer,
                     struct pen_text *out);

/* Makes the JSON of `penstock schema lint`; NULL when memory runs out. */
json_t *pen__lint_json(const struct pen__lint_answer *answer);

/* Makes a log of SARIF 2.1.0; NULL when memory runs out. */
json_t *pen__lint_sarif(const struct pen__lint_answer *answer);

#endif
