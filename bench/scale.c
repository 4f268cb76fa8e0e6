/*
 * How large a schedule can be made, verified and timed, and how fast the
 * extrapolation answers for it.
 *
 *   build/release/bench/scale [generator p m [chunks]]
 *
 * One line per phase, tab separated: generator, p, m, phase, seconds by the
 * clock and by the processor, and the largest resident size so far in MiB.
 * Without arguments: 1F1B on 1,024 ranks with 4,096 micro-batches, 8.4 million
 * compute ops, then 256 ranks with 65,536. Each phase of the first one is
 * measured cold, as a command line would meet it.
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

/* What one phase takes: a busy machine shows in the first only. */
struct spent {
    double clock_sec;
    double processor_sec;
};

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct spent spent_now(void)
{
    return (struct spent){read_clock(CLOCK_MONOTONIC),
                          read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static struct spent spent_since(struct spent start)
{
    struct spent now = spent_now();
    return (struct spent){now.clock_sec - start.clock_sec,
                          now.processor_sec - start.processor_sec};
}

static void report(const struct job *job, const char *phase, struct spent spent)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%s\t%u\t%u\t%s\t%.6f\t%.6f\t%ld\n", job->generator, job->ranks,
           job->microbatches, phase, spent.clock_sec, spent.processor_sec,
           usage.ru_maxrss / 1024);
    fflush(stdout);
}

static int by_clock(const void *a, const void *b)
{
    const struct spent *x = a;
    const struct spent *y = b;
    return (x->clock_sec > y->clock_sec) - (x->clock_sec < y->clock_sec);
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
    struct spent spent[REPEATS];
    double makespan = 0;
    for (int i = 0; i < REPEATS; i++) {
        struct pen_timing *timing = NULL;
        struct spent start = spent_now();
        stop_unless(pen_timer_run(timer, costs, false, &timing, &why), &why);
        spent[i] = spent_since(start);
        makespan = timing->makespan_sec;
        if (!timing->is_extrapolated)
            fprintf(stderr, "scale: the timing was not extrapolated\n");
        pen_timing_free(timing);
    }
    qsort(spent, REPEATS, sizeof *spent, by_clock);
    report(job, "extrapolated", spent[REPEATS / 2]);
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
    struct spent start = spent_now();
    stop_unless(pen_generator_make(generator, &args, &schedule, &why), &why);
    report(job, "make", spent_since(start));

    start = spent_now();
    stop_unless(pen_schedule_verify(schedule, NULL, NULL, &why), &why);
    report(job, "verify", spent_since(start));

    struct pen_timer *timer = NULL;
    start = spent_now();
    stop_unless(pen_timer_create(schedule, 0, &timer, &why), &why);
    report(job, "compile", spent_since(start));

    struct pen_timing *timing = NULL;
    start = spent_now();
    stop_unless(pen_timer_run(timer, &costs, true, &timing, &why), &why);
    report(job, "time", spent_since(start));

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
    printf("generator\tp\tm\tphase\tseconds\tcpu_seconds\tmax_rss_mib\n");
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
