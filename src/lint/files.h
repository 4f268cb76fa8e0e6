#ifndef PEN_LINT_FILES_H
#define PEN_LINT_FILES_H

#include "lint/tree.h"

/* Readers of one kind of file; each judges the trainings that it finds. */
pen_status pen__lint_script_file(const struct pen_lint_question *question,
                                 struct pen_lint_report *report);

typedef pen_status pen__lint_reader(const char *text, size_t length,
                                    struct pen__lint_config *out,
                                    struct pen__lint_trouble *trouble);

pen_status pen__lint_tree_file(const struct pen_lint_question *question,
                               pen__lint_reader *read,
                               struct pen_lint_report *report);

/* Files what the rules of its dialect say of a training, and the training. */
void pen__lint_judge_config(struct pen__lint_config *config,
                            const struct pen_lint_question *question,
                            struct pen_lint_report *report);

/* Files a file that cannot be read, or a key that is given twice. */
void pen__lint_file_trouble(const struct pen__lint_trouble *trouble,
                            struct pen_lint_report *report);

#endif
