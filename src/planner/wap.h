#ifndef PEN_PLANNER_WAP_H
#define PEN_PLANNER_WAP_H

#include <stdint.h>

/*
 * How many devices a data-parallel step is worth: computing shrinks with their
 * number, the reduction of gradients grows, and the last devices often gain
 * next to nothing.
 */
struct pen_wap_problem {
    uint32_t num_samples; /* of a step; a device gets them whole */
    double sample_sec;    /* of one sample on one device */
    double gradient_bytes;
    double latency_sec; /* of a message */
    double bytes_per_sec;
    uint32_t most_devices; /* at least 1 */
    double tolerance;      /* 0.02: two per cent slower than the best is fine */
};

/* Computing, and a reduction in a ring. */
double pen_wap_step_sec(const struct pen_wap_problem *problem,
                        uint32_t num_devices);

/* The smallest number of devices within the tolerance of the fastest. */
uint32_t pen_wap_choose(const struct pen_wap_problem *problem);

#endif
