#ifndef PEN_TESTS_SIMGRID_H
#define PEN_TESTS_SIMGRID_H

#include "sim/platform.h"

#include <stdbool.h>

/*
 * SimGrid can be used once in a process, so a case has one of its own: `body`
 * runs there with SimGrid begun and no platform made. Fails the test when the
 * process does not end well; cmocka's assertions are not for inside.
 */
void in_simgrid(void (*body)(const void *context), const void *context);

/* Ends the process of a case, badly and with these words, unless it holds. */
void require(bool holds, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes it, or ends the process with the reason. */
void make_platform(const struct pen_platform_options *options);

/* A message of one rank to another that leaves at the beginning. */
struct flow {
    uint32_t from;
    uint32_t to;
    double bytes;
    double end_sec; /* set by run_flows(); -1 when it never arrived */
};

/* Runs the simulation with these messages alone. */
void run_flows(struct flow *flows, uint32_t count);

#endif
