#ifndef PEN_TESTS_SEED_H
#define PEN_TESTS_SEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Seeds of sweeps that are too long for every day. A sweep runs a sample for
 * each seed: for those of tests/support/seeds.txt that once failed, and for
 * the one in the environment variable PEN_SEED, which CI takes from the commit
 * (1 when it is not set). Each seed is printed. With PEN_LONG in the
 * environment a sweep runs whole.
 */
enum { MOST_SEEDS = 64 };

/* Writes the seeds of this sweep and returns how many there are. */
size_t seeds_of(const char *sweep, uint64_t seeds[MOST_SEEDS]);

bool is_long_run(void);

#endif
