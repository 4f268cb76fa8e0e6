#ifndef PEN_CORE_RUN_LOG_INTERNAL_H
#define PEN_CORE_RUN_LOG_INTERNAL_H

#include "core/run_log.h"

#define PEN__RUN_FORMAT "penstock-run"
#define PEN__RUN_VERSION 1
#define PEN__RUN_MOST_BYTES ((size_t)2 << 30) /* some 8 million steps */

/*
 * How many bytes of a log are the head and the steps up to last_step. Refuses
 * what pen_run_parse() would refuse up to there.
 */
pen_status pen__run_measure(const char *text, size_t length, uint64_t last_step,
                            int64_t *out, struct pen_text *why);

#endif
