#ifndef PEN_CORE_RUN_RANKS_H
#define PEN_CORE_RUN_RANKS_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The memory and time that the ranks of a training took, reported at its end:
 * ranks.json (docs/formats.md, "Ranks of a run").
 */

#define PEN_RUN_MAX_RANKS 1048576u
#define PEN_RUN_MAX_BYTES ((uint64_t)1 << 53) /* of one rank */

/* Neither is 0. */
struct pen_run_rank {
    uint64_t predicted_bytes; /* before the first step */
    uint64_t peak_bytes;
};

struct pen_run_ranks {
    struct pen_run_rank *ranks; /* by number */
    uint32_t count;             /* at least 1 */
};

/*
 * Reads a file. On success *out is owned by the caller; free it with
 * pen_run_ranks_free().
 */
pen_status pen_run_ranks_load(const char *path, struct pen_run_ranks **out,
                              struct pen_text *why);
pen_status pen_run_ranks_parse(const char *text, size_t length,
                               struct pen_run_ranks **out,
                               struct pen_text *why);
void pen_run_ranks_free(struct pen_run_ranks *ranks);

/* Prints the file, which is read back as the same. */
void pen_run_ranks_print(const struct pen_run_ranks *ranks,
                         struct pen_text *out);

#endif
