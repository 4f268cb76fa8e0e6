#ifndef PEN_CLI_TRAIN_FILES_H
#define PEN_CLI_TRAIN_FILES_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

/*
 * Files that only describe a training: its log, TensorBoard's events, the
 * trace, the probe. A path that cannot be right is refused before the first
 * step; a disk that is full or broken, then or later, costs the file and never
 * the training.
 */
enum pen__train_file {
    PEN__FILE_LOG,
    PEN__FILE_TENSORBOARD, /* a folder */
    PEN__FILE_TRACE,       /* likewise */
    PEN__FILE_PROBE
};

/*
 * Judges the status of opening a file: where the disk is the cause, warns,
 * empties why and makes it PEN_OK. The caller continues without the file.
 */
pen_status pen__train_file_opened(enum pen__train_file kind, const char *path,
                                  pen_status status, struct pen_text *why);

/* Warns at the first failure of a write, noted in *is_told; empties why. */
void pen__train_file_written(enum pen__train_file kind, pen_status status,
                             bool *is_told, struct pen_text *why);

#endif
