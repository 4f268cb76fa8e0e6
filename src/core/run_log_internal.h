#ifndef PEN_CORE_RUN_LOG_INTERNAL_H
#define PEN_CORE_RUN_LOG_INTERNAL_H

#include "core/run_log.h"

#define PEN__RUN_FORMAT "penstock-run"
#define PEN__RUN_VERSION 2
#define PEN__RUN_MOST_BYTES ((size_t)2 << 30) /* some 8 million steps */

/* The head of a log and its steps up to one. */
struct pen__run_kept {
    int64_t bytes;
    double elapsed_sec; /* of the last step; 0 for none */
    uint32_t version;   /* of the head */
};

/* Refuses what pen_run_parse() would refuse up to last_step. */
pen_status pen__run_measure(const char *text, size_t length, uint64_t last_step,
                            struct pen__run_kept *out, struct pen_text *why);

#endif
