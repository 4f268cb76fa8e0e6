#include "support/sync_problem.h"

#include "base/random.h"

#include <math.h>

const size_t sync_shapes[SYNC_TENSORS][2] = {{8, 6}, {1, 7}, {5, 4}, {12, 9}};

static double draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    struct pen_random random = {seed * 1000003 + a * 7919 + b * 104729 + c};
    (void)pen_random_next(&random);
    return 2 * pen_random_unit(&random) - 1;
}

void sync_start(const struct sync_problem *problem, float x[SYNC_COUNT])
{
    for (size_t k = 0; k < SYNC_COUNT; k++)
        x[k] = (float)draw(problem->seed, 1, 0, k);
}

void sync_gradient(const struct sync_problem *problem, uint32_t replica,
                   uint64_t step, const float x[SYNC_COUNT],
                   float out[SYNC_COUNT])
{
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float steepness =
            (float)(1.25 + 0.75 * draw(problem->seed, 2, replica, k));
        float minimum = (float)(3 * draw(problem->seed, 3, replica, k));
        float noise =
            (float)(problem->noise * draw(problem->seed, 4 + step, replica, k));
        out[k] = steepness * (x[k] - minimum) + noise;
    }
}

static float adam_change(double rate, uint64_t step, float gradient,
                         float *first, float *second)
{
    const double beta1 = 0.9, beta2 = 0.95;
    *first = (float)(beta1 * *first + (1 - beta1) * gradient);
    *second = (float)(beta2 * *second + (1 - beta2) * gradient * gradient);
    double mean = *first / (1 - pow(beta1, (double)step));
    double square = *second / (1 - pow(beta2, (double)step));
    return (float)(rate * mean / (sqrt(square) + 1e-8));
}

void sync_optimizer_step(const struct sync_optimizer *optimizer, double rate,
                         uint64_t step, const float gradient[SYNC_COUNT],
                         struct sync_moments *moments, float x[SYNC_COUNT])
{
    float momentum = (float)optimizer->momentum;
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float g = gradient[k];
        if (optimizer->is_adam) {
            x[k] -= adam_change(rate, step, g, &moments->first[k],
                                &moments->second[k]);
            continue;
        }
        if (momentum > 0) {
            moments->first[k] = momentum * moments->first[k] + g;
            g = optimizer->is_nesterov ? g + momentum * moments->first[k]
                                       : moments->first[k];
        }
        x[k] -= (float)rate * g;
    }
}
