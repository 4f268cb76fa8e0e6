#ifndef PEN_CLI_TRAIN_DATA_H
#define PEN_CLI_TRAIN_DATA_H

#include "cli/program/fields.h"
#include "core/any_model.h"
#include "runtime/batches.h"

/* Which samples a command wants, in the words of its options. */
struct pen__data_wish {
    const struct pen__list *data_path;
    const char *token_ids; /* NULL: data_path */
    const char *split;     /* NULL: a file of tokens is one part */
    uint64_t seq_length;   /* 0: the positions of the model, or the file's */
    uint64_t seed;
    bool is_evaluation; /* in order; the validation part, or t10k of images */
};

/*
 * Opens what the model reads: files of tokens, lines of ids, or a directory of
 * images. Options that do not fit the model are refused by their names.
 */
pen_status pen__data_open(const struct pen_any_model *model,
                          const struct pen__data_wish *wish,
                          struct pen_batches **out, struct pen_text *why);

#endif
