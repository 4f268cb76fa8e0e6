#ifndef PEN_TESTS_SYNC_PROBLEM_H
#define PEN_TESTS_SYNC_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What replicas learn in tests: each has a bowl of its own with a minimum of
 * its own, and every step shakes it,
 *
 *   f_i(x) = sum_k a_ik (x_k - c_ik)^2 / 2      g = a (x - c) + noise(i, step)
 *
 * The weights are a few tensors of different shapes. All numbers follow from
 * the seed, so that a reference that knows nothing of methods computes the same
 * gradients, with the same bits.
 */
struct sync_problem {
    uint64_t seed;
    double noise; /* its deviation, about */
};

enum { SYNC_TENSORS = 4, SYNC_COUNT = 8 * 6 + 7 + 5 * 4 + 12 * 9 };

/* Rows and columns of each. */
extern const size_t sync_shapes[SYNC_TENSORS][2];

void sync_start(const struct sync_problem *problem, float x[SYNC_COUNT]);

/* `step` is 1 for the first. */
void sync_gradient(const struct sync_problem *problem, uint32_t replica,
                   uint64_t step, const float x[SYNC_COUNT],
                   float out[SYNC_COUNT]);

/* The optimizer of a run, in plain loops, with its moments. */
struct sync_optimizer {
    bool is_adam; /* betas 0.9 and 0.95, no decay */
    double momentum;
    bool is_nesterov;
};

struct sync_moments {
    float first[SYNC_COUNT];
    float second[SYNC_COUNT];
};

void sync_optimizer_step(const struct sync_optimizer *optimizer, double rate,
                         uint64_t step, const float gradient[SYNC_COUNT],
                         struct sync_moments *moments, float x[SYNC_COUNT]);

#endif
