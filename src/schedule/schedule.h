#ifndef PEN_SCHEDULE_SCHEDULE_H
#define PEN_SCHEDULE_SCHEDULE_H

#include "base/status.h"
#include "base/text.h"
#include "schedule/op.h"
#include "schedule/placement.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A schedule: for every rank the list of operations in execution order. It has
 * no pointers to elsewhere, no times and no sizes. Generators write compute
 * ops; pen_schedule_lower() adds communication, synchronisation and steps;
 * verifier, timer, pictures and runtime read the result.
 */

struct pen_row {
    struct pen_op *ops;
    uint32_t count;
    uint32_t capacity;
};

/* The promises of a schedule in addition to its ops. Zero means the default. */
struct pen_rules {
    uint32_t send_window; /* K: outstanding sends per channel */
    uint32_t versions;    /* weight versions that a stage keeps */
    uint32_t period;      /* micro-batches per STEP; 0: one STEP at the end */
    bool is_stale;        /* a backward may use another version than its F */
    /*
     * a STEP waits for the SYNC of every stage, and may come after weight
     * gradients of the next step
     */
    bool is_joint;
    bool is_optimistic; /* a STEP, at the end of its row, does not wait for
                           the norm of all gradients: it is validated in the
                           next step, and undone where it was wrong */
};

#define PEN_DEFAULT_SEND_WINDOW 2u
#define PEN_SCHEDULE_NAME_MAX 63

/* Bytes of a schedule's text that are read: 8 GiB, or half of all addresses. */
#define PEN_SCHEDULE_MOST_BYTES                                                \
    (SIZE_MAX / 2 < UINT64_C(8) << 30 ? SIZE_MAX / 2                           \
                                      : (size_t)(UINT64_C(8) << 30))

struct pen_schedule {
    char name[PEN_SCHEDULE_NAME_MAX + 1]; /* letters, digits, . _ - */
    struct pen_shape shape;
    struct pen_rules rules;
    struct pen_row *rows;   /* one per rank */
    bool has_recomputation; /* R has been added to a row */
};

/* Returns true for a name that the text form can carry. */
bool pen_schedule_name_is_valid(const char *name, size_t length);

/*
 * Makes a schedule without ops. The shape is checked; on failure why says what
 * does not fit and *out is untouched. Free with pen_schedule_free().
 */
pen_status pen_schedule_create(const char *name, const struct pen_shape *shape,
                               struct pen_schedule **out, struct pen_text *why);
void pen_schedule_free(struct pen_schedule *schedule);

/* Appends to the row of this rank. PEN_NOMEM leaves the schedule as it was. */
pen_status pen_schedule_add(struct pen_schedule *schedule, uint32_t rank,
                            struct pen_op op);

/* Returns a compute op with slice 0, current version and no group. */
struct pen_op pen_op_make(enum pen_op_kind kind, uint32_t stage,
                          uint32_t microbatch);

bool pen_schedule_equal(const struct pen_schedule *a,
                        const struct pen_schedule *b);

/* Returns the number of all ops of all ranks. */
uint64_t pen_schedule_count(const struct pen_schedule *schedule);

/* Returns true when any row has an op of this class. */
bool pen_schedule_has_class(const struct pen_schedule *schedule,
                            enum pen_op_class op_class);

/*
 * Returns N where a STEP waits for the SYNC of every N-th stage, its own among
 * them: of the other copies of its part, or of all stages.
 */
uint32_t pen_schedule_sync_stride(const struct pen_schedule *schedule);

/*
 * Finds the gate of each row: where a row of optimistic steps waits until the
 * last step is validated. Up to there it has forwards and their messages alone,
 * and no receive whose send comes after the gate of its own row, so that all
 * ranks can begin the rows again when the last step was wrong. `out` has a
 * place for each row; all are 0 without that rule. NOMEM is the only failure.
 */
pen_status pen_schedule_find_gates(const struct pen_schedule *schedule,
                                   uint32_t *out);

/* Sends of this kind to a rank, among the first ops of a row. */
uint32_t pen_row_count_sends(const struct pen_schedule *schedule, uint32_t row,
                             uint32_t end, enum pen_op_kind kind, uint32_t to);

/* Returns K of the waiting rules: the schedule's own, or the default. */
uint32_t pen_schedule_window(const struct pen_schedule *schedule);

/*
 * Print and parse the text form, `docs/formats.md`. Printing a parsed text
 * gives the text, and parsing a printed schedule gives the schedule, byte for
 * byte. Rows without a header are read, too, and printed with one. A refusal
 * names line, column and rank, and prints the row with the place marked.
 */
void pen_schedule_print(const struct pen_schedule *schedule,
                        struct pen_text *out);
void pen_op_print(const struct pen_op *op, struct pen_text *out);
pen_status pen_schedule_parse(const char *text, size_t length,
                              struct pen_schedule **out, struct pen_text *why);

/*
 * Returns the byte of a text at which the index-th op of a rank begins, or at
 * which its row ends when it has fewer. The text is one that
 * pen_schedule_parse() or pen_torch_csv_parse() accepts, and has the rank.
 */
size_t pen_schedule_find_op(const char *text, size_t length, uint32_t rank,
                            uint32_t index);

/* Reads a file in the text form, or in PyTorch's when it ends in .csv. */
pen_status pen_schedule_load(const char *path, struct pen_schedule **out,
                             struct pen_text *why);
pen_status pen_schedule_save(const struct pen_schedule *schedule,
                             const char *path, struct pen_text *why);

/*
 * Prints the grid of ranks around one op, with that op in brackets and a caret
 * under it: every refusal of a schedule shows it.
 */
void pen_schedule_print_around(const struct pen_schedule *schedule,
                               uint32_t rank, uint32_t position,
                               struct pen_text *out);

/*
 * Return the stage whose results of this direction a stage consumes, and the
 * one that consumes its own; PEN_NO_STAGE where there is none.
 */
static inline uint32_t pen_shape_sender(const struct pen_shape *shape,
                                        uint32_t stage,
                                        enum pen_direction direction)
{
    if (direction == PEN_DIRECTION_ACT)
        return pen_shape_previous_stage(shape, stage);
    return direction == PEN_DIRECTION_GRAD && !shape->is_local
               ? pen_shape_next_stage(shape, stage)
               : PEN_NO_STAGE;
}

static inline uint32_t pen_shape_receiver(const struct pen_shape *shape,
                                          uint32_t stage,
                                          enum pen_direction direction)
{
    if (direction == PEN_DIRECTION_ACT)
        return pen_shape_next_stage(shape, stage);
    return direction == PEN_DIRECTION_GRAD && !shape->is_local
               ? pen_shape_previous_stage(shape, stage)
               : PEN_NO_STAGE;
}

/*
 * Returns the stage whose op of the same kind feeds this one, or PEN_NO_STAGE.
 */
static inline uint32_t pen_op_feeder(const struct pen_shape *shape,
                                     const struct pen_op *op)
{
    return pen_shape_sender(shape, op->stage, pen_op_info(op->kind)->direction);
}

/*
 * Returns a number of its own for each message that ops of a schedule can send.
 */
static inline size_t pen_message_cell(const struct pen_shape *shape,
                                      enum pen_direction direction,
                                      uint32_t stage, const struct pen_op *op)
{
    size_t cell = direction == PEN_DIRECTION_GRAD;
    cell = cell * shape->num_stages + stage;
    cell = cell * shape->num_microbatches + op->microbatch;
    return cell * shape->num_slices + op->slice;
}

/*
 * Adds the ops that a compute-only schedule leaves out: each receive directly
 * before its consumer, each send directly after its producer (around an overlap
 * group as a whole), and, where the schedule has no STEP of its own, SYNC and
 * STEP of every stage after its last weight gradient. A schedule that has sends
 * or receives already is refused.
 */
pen_status pen_schedule_lower(const struct pen_schedule *compute,
                              struct pen_schedule **out, struct pen_text *why);

/*
 * Adds an R before each B or I of a compute-only schedule, ahead of its overlap
 * group, except where the F comes directly before: that F keeps its stash,
 * since there is nothing to save. INVALID, with a reason, where stashes are
 * evicted, or where a backward may have other weights than its forward.
 */
pen_status pen_schedule_recompute(const struct pen_schedule *compute,
                                  struct pen_schedule **out,
                                  struct pen_text *why);

/*
 * Sets the flag of each F that has an R. Lowering and the parser call it; a
 * caller that adds R itself calls it after the last op. NOMEM is the only
 * failure.
 */
pen_status pen_schedule_mark_recomputed(struct pen_schedule *schedule);

/* Returns whether an F of the stage has an R. */
bool pen_row_recomputes(const struct pen_row *row, uint32_t stage);

/*
 * Makes a schedule with joint steps: every STEP knows the gradients of all
 * stages, as a norm over all of them and a matrix of two stages need it. Ops
 * read the versions that they read before. INVALID, with a reason, where a
 * stage reads the result of a step before all stages have their gradients of
 * it.
 */
pen_status pen_schedule_join_steps(const struct pen_schedule *schedule,
                                   struct pen_schedule **out,
                                   struct pen_text *why);

/* Returns whether a stage has weight gradients between a SYNC and its STEP. */
bool pen_row_defers_steps(const struct pen_row *row, uint32_t stage);

/* A file, what it says, and what that became by completing. */
struct pen_schedule_file {
    struct pen_text source;
    struct pen_schedule *written;
    struct pen_schedule *lowered; /* NULL: nothing was added */
};

/*
 * Opens a schedule to be verified, timed or run; all such callers use this, so
 * that they judge a file alike. Reads as pen_schedule_load() does and
 * completes. Release in any case.
 */
pen_status pen_schedule_open(const char *path, struct pen_schedule_file *out,
                             struct pen_text *why);
void pen_schedule_file_release(struct pen_schedule_file *file);

/*
 * Like the above, without the file. *is_lowered, which may be NULL, says
 * whether completing added anything.
 */
pen_status pen_schedule_load_lowered(const char *path,
                                     struct pen_schedule **out,
                                     bool *is_lowered, struct pen_text *why);

#endif
