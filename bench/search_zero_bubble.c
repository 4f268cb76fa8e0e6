/*
 * The search against the zero-bubble schedules: Qi et al., ICLR 2024, arXiv
 * 2401.10241. The paper prints, for 12 settings, profiled times in milliseconds
 * and the bubble rates of its automatic schedules with the memory of 1F1B
 * (ZB-1p: limit p) and twice that (ZB-2p). All stages are equal, T_comm is the
 * latency of a hop, I frees half of the activations and W the rest.
 *
 * One line per setting, limit and placement: the printed rate, the rate found,
 * and the rate of the lower bound.
 */
#include "schedule/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct setting {
    const char *model;
    uint32_t ranks;
    uint32_t microbatches;
    double forward, input, weight, latency;
    double rate_1p, rate_2p; /* as printed */
};

static const struct setting settings[] = {
    {"1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.1585, 0.0433},
    {"1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626, 0.1242, 0.0039},
    {"1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762, 0.0674, 0.0026},
    {"6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.1323, 0.0029},
    {"6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577, 0.1045, 0.0022},
    {"6.2B", 8, 64, 29.935, 29.621, 19.388, 0.535, 0.0554, 0.0010},
    {"14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.1397, 0.0066},
    {"14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379, 0.1088, 0.0054},
    {"14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378, 0.0576, 0.0028},
    {"28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.1421, 0.0038},
    {"28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, 0.1106, 0.0029},
    {"28.3B", 32, 256, 10.402, 10.248, 7.698, 0.460, 0.0594, 0.0018},
};

static double now_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Searches, prints a line; false when the printed rate is lower. */
static bool try(const struct setting *setting, bool is_double,
                unsigned placements, const char *words)
{
    struct pen_costs costs;
    pen_costs_init(&costs);
    costs.uniform.forward_sec = setting->forward;
    costs.uniform.input_sec = setting->input;
    costs.uniform.weight_sec = setting->weight;
    costs.latency_sec = setting->latency;
    costs.memory =
        (struct pen_memory){.forward = 1, .input = -0.5, .weight = -0.5};
    struct pen_search_args args = {.ranks = setting->ranks,
                                   .microbatches = setting->microbatches,
                                   .placements = placements,
                                   .memory_limit =
                                       (is_double ? 2.0 : 1.0) * setting->ranks,
                                   .has_memory = true,
                                   .costs = &costs,
                                   .seed = 1};
    struct pen_search_report report;
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    double begin = now_sec();
    pen_status status = pen_schedule_search(&args, &schedule, &report, &why);
    double seconds = now_sec() - begin;
    if (status != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        exit(EXIT_FAILURE);
    }
    double work = setting->microbatches *
                  (setting->forward + setting->input + setting->weight);
    double printed = is_double ? setting->rate_2p : setting->rate_1p;
    double rate = (report.span_sec - work) / report.span_sec;
    double bound = (report.lower_bound_sec - work) / report.lower_bound_sec;
    printf("%s\t%u\t%u\t%s\t%s\t%.4f\t%.5f\t%+.4f\t%.5f\t%s\t%s\t%.1f\n",
           setting->model, setting->ranks, setting->microbatches,
           is_double ? "2p" : "1p", words, printed, rate, printed - rate, bound,
           report.start, pen_placement_text(schedule->shape.placement),
           seconds);
    fflush(stdout);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return rate <= printed + 0.00005;
}

int main(void)
{
    unsigned worse = 0;
    printf("model\tp\tm\tlimit\tsearched\tprinted\tfound\tgain\tbound\tstart\t"
           "placement\tseconds\n");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        for (int is_double = 0; is_double < 2; is_double++) {
            worse += !try(&settings[i], is_double, PEN_SEARCH_LINEAR, "linear");
            worse += !try(&settings[i], is_double, PEN_SEARCH_ANY, "any");
        }
    }
    printf("# worse than printed: %u\n", worse);
    return worse == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
