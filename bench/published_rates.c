/*
 * How well are the bubble rates of the zero-bubble paper reproduced?
 *
 *   build/release/bench/published_rates
 *
 * One line per configuration and schedule, tab separated: stages,
 * micro-batches, schedule, printed rate, computed rate, the difference in
 * units of the fourth decimal, and milliseconds to generate and time it.
 */
#include "measure.h"

#include "schedule/generators.h"
#include "schedule/time.h"

#include "../tests/support/zero_bubble_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double rate_of(const struct published *row, const char *name,
                      uint32_t chunks, double memory_limit)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_costs costs;
    pen_costs_init(&costs);
    costs.uniform.forward_sec = row->forward_ms;
    costs.uniform.input_sec = row->input_ms;
    costs.uniform.weight_sec = row->weight_ms;
    costs.latency_sec = row->hop_ms;
    struct pen_generator_args args = {.ranks = row->stages,
                                      .microbatches = row->microbatches,
                                      .chunks = chunks,
                                      .memory_limit = memory_limit,
                                      .costs = &costs};
    struct pen_schedule *schedule = NULL;
    struct pen_timing *timing = NULL;
    if (pen_generator_make(pen_generator_find(name), &args, &schedule, &why) !=
            PEN_OK ||
        pen_schedule_time(schedule, &costs, NULL, &timing, &why) != PEN_OK) {
        fprintf(stderr, "published_rates: %s\n", pen_text_string(&why));
        exit(1);
    }
    double rate = timing->bubble;
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    return rate;
}

static void report(const struct published *row, const char *column,
                   double printed, const char *name, uint32_t chunks,
                   double memory_limit)
{
    double start_ms = now_ms();
    double found = rate_of(row, name, chunks, memory_limit);
    printf("%u\t%u\t%s\t%.4f\t%.4f\t%lld\t%.3f\n", row->stages,
           row->microbatches, column, printed, found,
           llround(found * 1e4) - llround(printed * 1e4), now_ms() - start_ms);
}

int main(void)
{
    printf("stages\tmicrobatches\tschedule\tprinted\tcomputed\tdifference\t"
           "ms\n");
    for (size_t i = 0; i < NUM_PUBLISHED; i++) {
        const struct published *row = &published[i];
        uint32_t chunks = (row->layers + 2) / row->stages;
        report(row, "1F1B", row->one_f_one_b, "1f1b", 1, 0);
        report(row, "1F1B-I", row->interleaved, "interleaved", chunks, 0);
        report(row, "ZB-H1", row->zb_h1, "zb-h1", 1, 0);
        report(row, "ZB-H2", row->zb_h2, "zb-h2", 1, 0);
        report(row, "ZB-1p", row->zb_1p, "zb-auto", 1, row->stages);
        report(row, "ZB-2p", row->zb_2p, "zb-auto", 1, 2.0 * row->stages);
    }
    return 0;
}
