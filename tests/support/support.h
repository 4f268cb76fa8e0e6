#ifndef PEN_TESTS_SUPPORT_H
#define PEN_TESTS_SUPPORT_H

/*
 * What several test programs need. cmocka wants these four headers before its
 * own, so they live here once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schedule/generators.h"
#include "schedule/time.h"
#include "schedule/verify.h"

/* f=1 i=1 w=1 comm=0 with the default memory. */
struct pen_costs unit_costs(void);

/* Makes (lowered) or fails the test with the generator's own words. */
struct pen_schedule *make(const char *name, uint32_t ranks,
                          uint32_t microbatches, uint32_t chunks);
struct pen_schedule *make_with(const char *name,
                               const struct pen_generator_args *args);

/* Times, or fails the test with the timer's words; free the result. */
struct pen_timing *time_of(const struct pen_schedule *schedule,
                           const struct pen_costs *costs);

/* Parses text that must be right. */
struct pen_schedule *parse(const char *text);

/* The compute ops of one row as text: "0F0 0F1 0B0 0B1". */
void compute_row(const struct pen_schedule *schedule, uint32_t rank,
                 struct pen_text *out);

/* Fails unless both are equal within 1e-9 of the larger one. */
void expect_close(double expected, double found, const char *what);

#endif
