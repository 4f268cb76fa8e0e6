/*
 * How large a schedule can be made, verified and timed, and how fast the
 * extrapolation answers for it.
 *
 *   build/release/bench/scale [generator p m [chunks]]
 *
 * One line per phase, tab separated: generator, p, m, phase, seconds, and the
 * largest resident size of the process so far in MiB. Without arguments:
 * 1F1B on 1,024 ranks with 4,096 micro-batches, 8.4 million compute ops, then
 * 256 ranks with 65,536. Each phase of the first one is measured cold, as a
 * command line would meet it.
 */
#include "schedule/generators.h"
#include "schedule/time.h"
#include "schedule/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define REPEATS 7

struct job {
    const char *generator;
    uint32_t ranks;
    uint32_t microbatches;
    uint32_t chunks;
};

static double now_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void report(const struct job *job, const char *phase, double sec)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%s\t%u\t%u\t%s\t%.6f\t%ld\n", job->generator, job->ranks,
           job->microbatches, phase, sec, usage.ru_maxrss / 1024);
    fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static void stop_unless(pen_status status, const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "scale: %s\n", pen_text_string(why));
    exit(1);
}

/* The median of several runs of one timer; the makespan of the last. */
static double time_again(const struct job *job, const struct pen_timer *timer,
                         const struct pen_costs *costs)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    double seconds[REPEATS];
    double makespan = 0;
    for (int i = 0; i < REPEATS; i++) {
        struct pen_timing *timing = NULL;
        double start = now_sec();
        stop_unless(pen_timer_run(timer, costs, false, &timing, &why), &why);
        seconds[i] = now_sec() - start;
        makespan = timing->makespan_sec;
        if (!timing->is_extrapolated)
            fprintf(stderr, "scale: the timing was not extrapolated\n");
        pen_timing_free(timing);
    }
    qsort(seconds, REPEATS, sizeof *seconds, by_value);
    report(job, "extrapolated", seconds[REPEATS / 2]);
    return makespan;
}

static void run(const struct job *job)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_costs costs;
    pen_costs_init(&costs);
    const struct pen_generator *generator = pen_generator_find(job->generator);
    struct pen_generator_args args = {.ranks = job->ranks,
                                      .microbatches = job->microbatches,
                                      .chunks = job->chunks,
                                      .costs = &costs};
    if (generator == NULL) {
        fprintf(stderr, "scale: no generator is called %s\n", job->generator);
        exit(2);
    }
    struct pen_schedule *schedule = NULL;
    double start = now_sec();
    stop_unless(pen_generator_make(generator, &args, &schedule, &why), &why);
    report(job, "make", now_sec() - start);

    start = now_sec();
    stop_unless(pen_schedule_verify(schedule, NULL, NULL, &why), &why);
    report(job, "verify", now_sec() - start);

    struct pen_timer *timer = NULL;
    start = now_sec();
    stop_unless(pen_timer_create(schedule, 0, &timer, &why), &why);
    report(job, "compile", now_sec() - start);

    struct pen_timing *timing = NULL;
    start = now_sec();
    stop_unless(pen_timer_run(timer, &costs, true, &timing, &why), &why);
    report(job, "time", now_sec() - start);

    double makespan = time_again(job, timer, &costs);
    if (makespan != timing->makespan_sec) {
        fprintf(stderr, "scale: %.17g s extrapolated, %.17g s in full\n",
                makespan, timing->makespan_sec);
        exit(1);
    }
    pen_timing_free(timing);
    pen_timer_free(timer);
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

int main(int argc, char **argv)
{
    printf("generator\tp\tm\tphase\tseconds\tmax_rss_mib\n");
    if (argc >= 4) {
        struct job job = {argv[1], (uint32_t)strtoul(argv[2], NULL, 10),
                          (uint32_t)strtoul(argv[3], NULL, 10),
                          argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0};
        run(&job);
        return 0;
    }
    const struct job jobs[] = {{"1f1b", 1024, 4096, 0},
                               {"1f1b", 256, 65536, 0}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        run(&jobs[i]);
    return 0;
}
