#ifndef PEN_EXPORT_EXPORT_H
#define PEN_EXPORT_EXPORT_H

#include "base/status.h"
#include "base/text.h"
#include "core/model.h"
#include "core/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Exports: a plan as files of another program, for a named version of it.
 *
 * Not every program can run every plan. An exporter first turns a copy of the
 * plan into the nearest one that its program can express, with a note for each
 * change, and refuses where there is none; then it writes that plan. A note is
 * a line of its own, and the files have it as a comment, too.
 *
 * Files are texts here; docs/exports.md lists how each setting is translated.
 */

#define PEN_EXPORT_MAX_FILES 6u

struct pen_export_file {
    const char *name; /* a constant: "megatron.args" */
    struct pen_text text;
};

struct pen_export_files {
    struct pen_export_file list[PEN_EXPORT_MAX_FILES];
    uint32_t count;
};

#define PEN_EXPORT_NO_FILES                                                    \
    {                                                                          \
        .count = 0                                                             \
    }

/* The input of an exporter: the nearest plan, its model and the notes. */
struct pen_export_job {
    const struct pen_plan *plan;
    const struct pen_model *model;
    const char *notes;
};

struct pen_export {
    const char *name;    /* "torchtitan" */
    const char *version; /* "0.3.0"; NULL where it makes no difference */
    const char *program; /* in words, for the head of a file */
    pen_status (*fit)(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why);
    pen_status (*write)(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why);
    bool is_unjudged; /* only names of options were checked: only on demand */
};

/*
 * Returns an export; NULL after the last one. Among exports of one name, the
 * first is the default version.
 */
const struct pen_export *pen_export_at(size_t index);

/*
 * Finds "megatron" or "torchtitan@0.2.2". NULL for an unknown name, and why
 * lists all.
 */
const struct pen_export *pen_export_find(const char *word,
                                         struct pen_text *why);

/*
 * Makes the plan that the files will express. Its prediction is kept if there
 * are no notes. On success *out is owned by the caller; free it with
 * pen_plan_free().
 */
pen_status pen_export_nearest(const struct pen_export *exporter,
                              const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_plan **out, struct pen_text *notes,
                              struct pen_text *why);

/*
 * Makes the files of a plan from pen_export_nearest(), with its notes. On
 * success release them; on failure *out is untouched and why has one line.
 */
pen_status pen_export_write(const struct pen_export *exporter,
                            const struct pen_export_job *job,
                            struct pen_export_files *out, struct pen_text *why);

/* Does both: makes the files of any plan of this model. */
pen_status pen_export_make(const struct pen_export *exporter,
                           const struct pen_plan *plan,
                           const struct pen_model *model,
                           struct pen_export_files *out, struct pen_text *notes,
                           struct pen_text *why);

void pen_export_files_release(struct pen_export_files *files);

#endif
