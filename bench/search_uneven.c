/*
 * The search against every generator where ranks and links are uneven.
 *
 * 200 settings from a fixed seed: 2 to 8 ranks, p to 4p micro-batches; F, I and
 * W of each rank uniform in [1, 2]; half of the links take a latency uniform in
 * [0, 1.5], the others none; I frees half of the activations and W the rest; a
 * memory limit uniform in [max(1, p/3), 2p].
 *
 * Compared with: every synchronous generator with whole micro-batches (chunks
 * 2, 3 and 4 where it has chunks), also those that hold two copies of the
 * model, if it is legal there and its peak fits in the limit.
 *
 * One line per setting; then how much shorter the span of the search is.
 */
#include "measure.h"

#include "base/random.h"
#include "schedule/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUM_SETTINGS 200

static double uniform(struct pen_random *state, double from, double to)
{
    return from + (to - from) * pen_random_unit(state);
}

static uint32_t whole(struct pen_random *state, uint32_t from, uint32_t to)
{
    return from + (uint32_t)(pen_random_next(state) % (to - from + 1));
}

static void *allocate(size_t count, size_t size)
{
    void *bytes = calloc(count, size);
    if (bytes == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return bytes;
}

/* Links both ways between all ranks: a loop also uses the one that wraps. */
static void draw_links(struct pen_costs *costs, uint32_t p,
                       struct pen_random *state)
{
    costs->links = allocate((size_t)p * p, sizeof *costs->links);
    for (uint32_t a = 0; a < p; a++) {
        for (uint32_t b = a + 1; b < p; b++) {
            bool is_slow = whole(state, 0, 1) == 1;
            double latency = is_slow ? uniform(state, 0, 1.5) : 0;
            costs->links[costs->num_links++] =
                (struct pen_link){.from = a, .to = b, .latency_sec = latency};
            costs->links[costs->num_links++] =
                (struct pen_link){.from = b, .to = a, .latency_sec = latency};
        }
    }
}

static void draw(struct pen_search_args *args, struct pen_costs *costs,
                 struct pen_random *state)
{
    uint32_t p = whole(state, 2, 8);
    pen_costs_init(costs);
    costs->memory =
        (struct pen_memory){.forward = 1, .input = -0.5, .weight = -0.5};
    costs->scope = PEN_COST_PER_RANK;
    costs->items = allocate(p, sizeof *costs->items);
    costs->num_items = p;
    for (uint32_t rank = 0; rank < p; rank++) {
        costs->items[rank] = costs->uniform;
        costs->items[rank].forward_sec = uniform(state, 1, 2);
        costs->items[rank].input_sec = uniform(state, 1, 2);
        costs->items[rank].weight_sec = uniform(state, 1, 2);
    }
    draw_links(costs, p, state);
    *args = (struct pen_search_args){
        .ranks = p,
        .microbatches = whole(state, p, 4 * p),
        .memory_limit = uniform(state, fmax(1, p / 3.0), 2.0 * p),
        .has_memory = true,
        .costs = costs,
        .seed = 1};
}

struct tally {
    unsigned compared;
    unsigned ties;
    unsigned worse;
    unsigned without_generator;
    unsigned without_result;
    unsigned optimal;
    double sum;
    double least;
    double most;
    double gap;
    double gains[NUM_SETTINGS];
};

static void add(struct tally *tally, const struct pen_search_report *report)
{
    double gap = report->span_sec / report->lower_bound_sec - 1;
    tally->gap += gap;
    tally->optimal += fabs(gap) < 1e-9;
    if (report->start[0] == '\0') {
        tally->without_generator++;
        return;
    }
    double gain = 1 - report->span_sec / report->start_span_sec;
    tally->least = tally->compared == 0 ? gain : fmin(tally->least, gain);
    tally->most = fmax(tally->most, gain);
    tally->sum += gain;
    tally->gains[tally->compared++] = gain;
    tally->ties += fabs(gain) < 1e-12;
    tally->worse += gain < -1e-12;
}

int main(int argc, char **argv)
{
    struct tally tally = {.compared = 0};
    struct pen_random state = {20240607};
    double effort = argc > 1 ? atof(argv[1]) : 1;
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    printf("p\tm\tlimit\tstart\tstart_span\tspan\tgain\tbound\tplacement\n");
    for (int i = 0; i < NUM_SETTINGS; i++) {
        struct pen_costs costs;
        struct pen_search_args args;
        draw(&args, &costs, &state);
        args.effort = effort;
        struct pen_search_report report;
        struct pen_schedule *schedule = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        if (pen_schedule_search(&args, &schedule, &report, &why) != PEN_OK) {
            printf("# p %u m %u: %s\n", args.ranks, args.microbatches,
                   pen_text_string(&why));
            tally.without_result++;
        } else {
            add(&tally, &report);
            printf("%u\t%u\t%.2f\t%s\t%.3f\t%.3f\t%.2f%%\t%.3f\t%s\n",
                   args.ranks, args.microbatches, args.memory_limit,
                   report.start[0] == '\0' ? "-" : report.start,
                   report.start_span_sec, report.span_sec,
                   report.start[0] == '\0'
                       ? 0
                       : 100 * (1 - report.span_sec / report.start_span_sec),
                   report.lower_bound_sec,
                   pen_placement_text(schedule->shape.placement));
            fflush(stdout);
        }
        pen_schedule_free(schedule);
        pen_text_release(&why);
        pen_costs_release(&costs);
    }
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    unsigned found = NUM_SETTINGS - tally.without_result;
    qsort(tally.gains, tally.compared, sizeof *tally.gains, by_size);
    printf("# shorter than the best generator by: mean %.2f%%, median %.2f%%, "
           "min %.2f%%, max %.2f%% (%u settings, %u ties, %u worse)\n",
           100 * tally.sum / tally.compared,
           100 * tally.gains[tally.compared / 2], 100 * tally.least,
           100 * tally.most, tally.compared, tally.ties, tally.worse);
    printf("# no generator fits: %u, of which the search found none for %u\n",
           tally.without_generator + tally.without_result,
           tally.without_result);
    printf("# above the lower bound by: mean %.2f%%; at the bound: %u of %u\n",
           100 * tally.gap / found, tally.optimal, found);
    printf("# seconds: %.1f\n",
           (double)(end.tv_sec - begin.tv_sec) +
               (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
    return tally.worse == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
