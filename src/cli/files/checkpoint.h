#ifndef PEN_CLI_CHECKPOINT_H
#define PEN_CLI_CHECKPOINT_H

#include "checkpoint/checkpoint.h"
#include "cli/program/line.h"
#include "cli/program/progress.h"

/* The common part of the commands of `penstock checkpoint`. */
struct pen__checkpoint_args {
    struct pen__rest paths;
    bool has_weights_only;
    bool needs_output;
    const char *output;
    unsigned is_bf16;         /* --dtype: the second of its words */
    const char *max_shard;    /* NULL: not given */
    uint64_t max_shard_bytes; /* of it */
};

/* A step that is open, and the line that shows how far the reading is. */
struct pen__step {
    struct pen__progress progress;
    struct pen_checkpoint_watch watch;
    struct pen_checkpoint *checkpoint;
    struct pen_any_model model;
};

/*
 * Opens a step, or of a run the newest that is whole; says which were passed
 * over. Close it in either case.
 */
pen_status pen__step_open(struct pen__step *step, const char *path,
                          struct pen_text *why);
void pen__step_close(struct pen__step *step);

/* Gives the model the heads in the middle that the step has (model_local.c). */
pen_status pen__step_add_heads(struct pen__step *step, struct pen_text *why);

/* Parses "5GB", "200MiB" or "0"; false for anything else. */
bool pen__parse_size(const char *text, uint64_t *out);

int pen__checkpoint_reshard(const struct pen__checkpoint_args *args);
int pen__checkpoint_export(const struct pen__checkpoint_args *args);

#endif
