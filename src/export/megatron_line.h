#ifndef PEN_EXPORT_MEGATRON_LINE_H
#define PEN_EXPORT_MEGATRON_LINE_H

#include "base/status.h"
#include "base/text.h"
#include "core/model.h"
#include "core/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads the command line of a training with Megatron-LM, or a file of its
 * options: words as a shell parts them, with quotes, backslashes and comments;
 * "--key value" and "--key=value". Words before the options are skipped,
 * options that say nothing of model and layout are named in a note, as are
 * shell variables, which are not expanded.
 *
 * The number of ranks is not among the options. With world_size 0 it is taken
 * from torchrun's words in the line, and otherwise is that of one replica.
 *
 * Notes, a line each, list the assumptions and the options that a plan cannot
 * express. On success *model and *plan are owned by the caller; on failure both
 * are untouched and why has one line.
 */
pen_status
pen_megatron_line_parse(const char *text, size_t length, uint64_t world_size,
                        struct pen_model **model, struct pen_plan **plan,
                        struct pen_text *notes, struct pen_text *why);

/* Work that the line hides or fuses; by default it does neither. */
struct pen_megatron_overlaps {
    bool gradients;  /* --overlap-grad-reduce */
    bool parameters; /* --overlap-param-gather */
    bool loss;       /* --cross-entropy-loss-fusion */
};

/* Reads the overlaps of a line; none if it cannot be parted into words. */
void pen_megatron_line_overlaps(const char *text, size_t length,
                                struct pen_megatron_overlaps *out);

#endif
