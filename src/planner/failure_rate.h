#ifndef PEN_PLANNER_FAILURE_RATE_H
#define PEN_PLANNER_FAILURE_RATE_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * How often a job is interrupted. Failures are independent and exponentially
 * distributed.
 *
 *   llama3  419 unplanned interruptions in 54 days on 16,384 H100 (The Llama 3
 *           Herd of Models, arXiv 2407.21783), in proportion to the devices
 *   meta    mean time to failure 7.9 h with 1,024 GPUs, 1.8 h with 16,384, 14
 *           min with 131,072 (arXiv 2410.21680, figures from an article about
 *           it, the last one a projection): straight lines between their
 *           logarithms, in proportion to the devices outside
 *   RATE    failures per device and day, or a time: the mean time between
 *           failures of the whole job
 */
enum pen_failure_source {
    PEN_FAILURE_LLAMA3,
    PEN_FAILURE_META,
    PEN_FAILURE_PER_DEVICE,
    PEN_FAILURE_OF_JOB
};

struct pen_failure_rate {
    enum pen_failure_source source;
    double per_device_sec; /* failures of one device in a second */
};

/*
 * Shares of the 419 interruptions: those that take a node and its neighbour
 * together (35, switches and cables: an upper bound, for one cable takes one
 * node), and those of hardware, after which a node is exchanged (78 %).
 */
#define PEN_FAILURE_PAIR_SHARE (35.0 / 419)
#define PEN_FAILURE_NODE_SHARE 0.78

/* "llama3", "meta", "0.0005" or "3h"; a time is that of this many devices. */
pen_status pen_failure_rate_parse(const char *text, uint64_t devices,
                                  struct pen_failure_rate *out,
                                  struct pen_text *why);

/* Mean seconds between failures of a job. */
double pen_failure_mtbf(const struct pen_failure_rate *rate, uint64_t devices);

/* Where the figures come from, for people. */
const char *pen_failure_rate_origin(const struct pen_failure_rate *rate);

#endif
