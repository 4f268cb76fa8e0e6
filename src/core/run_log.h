#ifndef PEN_CORE_RUN_LOG_H
#define PEN_CORE_RUN_LOG_H

#include "base/journal.h"
#include "base/status.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The log of a training: JSON lines, the first of which says what was trained,
 * each other what one step gave (docs/formats.md, "Run log").
 *
 *   {"format":"penstock-run","version":2,"model":"preset:gpt2","settings":{}}
 *   {"step":1,"loss":10.98,"grad_norm":3.1,...}
 *   {"step":2,...
 */

/* The log of one step. Reals may be NaN: unknown. */
struct pen_run_step {
    uint64_t step; /* from 1; larger than that of the line before */
    double loss;
    double grad_norm; /* before clipping */
    double lr;
    uint64_t tokens; /* trained on since step 1, this step included */
    double tokens_per_sec;
    double share_of_peak; /* 0 to 1 */
    double step_ms;
    uint64_t memory_bytes;
    double elapsed_sec;  /* since the training began */
    double val_loss;     /* NaN, and not written: not evaluated here */
    double val_accuracy; /* 0 to 1, of images; else likewise */
    /* The median of the steps before, where this one is a spike (spikes.h);
     * NaN, and not written: it is none. Since version 2. */
    double loss_usual;
    double grad_norm_usual;
    /* Seconds of a move (--move) before this step, and bytes that ranks sent;
     * NaN, and not written, where there was no move. Since version 2. */
    double move_sec;
    double move_bytes;
    /* 1: it was not finite when computed first, and was computed again; and it
     * was not finite then either, and updated nothing. NaN, and not written:
     * not so. Since version 2. */
    double repeated;
    double skipped;
    /*
     * At the last step of a round between islands (--ring): the round that was
     * committed, the islands in it, the epoch of their membership, and the
     * seconds that this one waited. NaN, and not written: no round ended here.
     * Since version 2.
     */
    double round;
    double round_islands;
    double round_epoch;
    double round_wait_sec;
    /* Tokens of the busiest expert of a block over those of a mean one; NaN,
     * and not written: no experts. Since version 2. */
    double expert_imbalance;
    /* Copies of tokens that experts had no room for, over all blocks; NaN, and
     * not written: no experts. Since version 2. */
    double dropped_tokens;
};

/* The longest line that a step can have, its newline and a NUL included. */
#define PEN_RUN_LINE_SIZE 1000

/*
 * Prints the step as one line; returns its length. Reals read back as the same
 * number. JSON has neither NaN nor infinity: both are written as null, which is
 * read as NaN. Does not allocate.
 */
size_t pen_run_step_print(const struct pen_run_step *step,
                          char line[PEN_RUN_LINE_SIZE]);

/* A log that is being written. */
struct pen_run_log {
    double elapsed_sec; /* of the last line that was kept; 0 for none */
    uint32_t version;   /* that the head says */
    struct pen_journal journal;
    char line[PEN_RUN_LINE_SIZE];
};

/* The contents of the first line. */
struct pen_run_head {
    const char *model;      /* as the user named it */
    const json_t *settings; /* an object; NULL: an empty one */
};

/*
 * Opens a log for a training that did `last_step` steps before. If that is 0,
 * or the file is missing or empty, begins with the head; else keeps the head
 * and the lines up to that step, so that each step has one line. A log whose
 * head has an older version continues without newer keys. A file that is not
 * such a log is refused and left alone.
 *
 * On success end with pen_run_log_close().
 */
pen_status pen_run_log_open(struct pen_run_log *log, const char *path,
                            const struct pen_run_head *head, uint64_t last_step,
                            struct pen_text *why);

/*
 * Adds a line, which a reader sees at once. Does not allocate. When it fails
 * (the disk is full) the file keeps its whole lines and a later step may be
 * appended.
 */
pen_status pen_run_log_append(struct pen_run_log *log,
                              const struct pen_run_step *step,
                              struct pen_text *why);

void pen_run_log_close(struct pen_run_log *log);

/* A log that was read. */
struct pen_run {
    char *model;
    json_t *settings;
    struct pen_run_step *steps; /* their numbers increase */
    size_t num_steps;
    bool is_cut; /* there was a last line without its end; it is left out */
};

/*
 * Reads a log. Anything but the format is refused with line and column, except
 * a last line without its newline: that one is still being written, or its
 * writer was killed.
 *
 * On success *out is owned by the caller; free it with pen_run_free().
 */
pen_status pen_run_load(const char *path, struct pen_run **out,
                        struct pen_text *why);
pen_status pen_run_parse(const char *text, size_t length, struct pen_run **out,
                         struct pen_text *why);

void pen_run_free(struct pen_run *run);

#endif
