#include "planner/wap.h"

double pen_wap_step_sec(const struct pen_wap_problem *problem,
                        uint32_t num_devices)
{
    double k = num_devices;
    uint32_t share = problem->num_samples / num_devices +
                     (problem->num_samples % num_devices != 0);
    double reduce = 2 * (k - 1) *
                    (problem->latency_sec +
                     problem->gradient_bytes / k / problem->bytes_per_sec);
    return share * problem->sample_sec + (num_devices > 1 ? reduce : 0);
}

uint32_t pen_wap_choose(const struct pen_wap_problem *problem)
{
    double least = pen_wap_step_sec(problem, 1);
    for (uint32_t k = 2; k <= problem->most_devices; k++) {
        double sec = pen_wap_step_sec(problem, k);
        least = sec < least ? sec : least;
    }
    uint32_t k = 1;
    while (k < problem->most_devices &&
           pen_wap_step_sec(problem, k) > least * (1 + problem->tolerance))
        k++;
    return k;
}
