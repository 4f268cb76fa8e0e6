/* Bounded staleness: the bound at every event, and nothing lost by waiting. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "ssp",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 17, .noise = 0.5},
    .rate = 0.05,
    .slow_ns = {0, 300000, 0, 2000000},
};

/* ---- the bound ---- */

struct clocks {
    pthread_mutex_t lock; /* guards all below */
    uint64_t at[REPLICAS];
    uint64_t lead; /* the most by which they differed */
};

static void note_step(void *context, uint32_t replica, uint64_t step,
                      struct pen_sync *sync)
{
    struct clocks *clocks = context;
    uint64_t least = UINT64_MAX, most = 0;
    (void)sync;
    pthread_mutex_lock(&clocks->lock);
    clocks->at[replica] = step;
    for (int i = 0; i < REPLICAS; i++) {
        least = clocks->at[i] < least ? clocks->at[i] : least;
        most = clocks->at[i] > most ? clocks->at[i] : most;
    }
    clocks->lead = most - least > clocks->lead ? most - least : clocks->lead;
    pthread_mutex_unlock(&clocks->lock);
}

static uint64_t lead_of(const char *method, const char *first,
                        const char *second)
{
    struct sync_run run = base;
    struct sync_trace traces[REPLICAS];
    /* A clock is in its first step before it says so. */
    struct clocks clocks = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .at = {1, 1, 1, 1}};
    run.method = method;
    run.options[0] = first;
    run.options[1] = second;
    run.watch = note_step;
    run.context = &clocks;
    sync_threads_run(&run, traces);
    sync_trace_release(traces, REPLICAS);
    return clocks.lead;
}

static void ssp_keeps_its_bound(void **state)
{
    (void)state;
    assert_int_equal(1, lead_of("ssp", "s=0", NULL));
    assert_int_equal(2, lead_of("ssp", "s=1", NULL));
    assert_int_equal(4, lead_of("ssp", "s=3", NULL));
    assert_in_range(lead_of("ssp", "s=49", NULL), 5, STEPS);
}

static void dssp_keeps_its_upper_bound(void **state)
{
    (void)state;
    assert_int_equal(1, lead_of("dssp", "s_low=0", "s_high=0"));
    assert_int_equal(3, lead_of("dssp", "s_low=2", "s_high=2"));
    assert_in_range(lead_of("dssp", "s_low=1", "s_high=4"), 2, 5);
    assert_in_range(lead_of("dssp", "s_low=0", "s_high=9"), 1, 10);
}

static void dssp_refuses_bounds_that_cross(void **state)
{
    (void)state;
    struct pen_sync_choice choice;
    struct pen_text why = PEN_TEXT_EMPTY;
    const char *const options[] = {"s_low=5", "s_high=4"};
    struct pen_group alone = {.size = 1};
    struct pen_sync *sync = NULL;
    assert_int_equal(
        PEN_OK, pen_sync_choose("dssp", 0, options, 2, NULL, &choice, &why));
    const struct pen_sync_setting setting = {.peers = &alone,
                                             .options = choice.options};
    assert_int_equal(PEN_INVALID,
                     pen_sync_create(choice.method, &setting, &sync, &why));
    assert_non_null(strstr(pen_text_string(&why), "s_low 5 is above"));
    pen_text_release(&why);
}

/* ---- the numbers ---- */

static void without_slack_it_is_sync_sgd(void **state)
{
    (void)state;
    static const char *const options[2][3] = {{"s=0"}, {"s_low=0", "s_high=0"}};
    for (uint32_t count = 2; count <= 5; count++)
        for (int i = 0; i < 2; i++) {
            struct sync_run run = base, sync = base;
            run.method = i == 0 ? "ssp" : "dssp";
            memcpy(run.options, options[i], sizeof options[i]);
            sync.method = "allreduce";
            run.num_replicas = sync.num_replicas = count;
            run.slow_ns[1] = 20000 * count;
            run.slow_ns[3] = 0;
            run.optimizer = sync.optimizer =
                (struct sync_optimizer){.momentum = 0.5, .is_nesterov = true};
            sync_expect_close(&sync, &run, 2e-6);
        }
}

static void without_slack_it_resumes_to_the_same_bits(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.options[0] = "s=0";
    run.optimizer.momentum = 0.9;
    run.slow_ns[3] = 0;
    sync_expect_resumable(&run, 17);
    run.num_replicas = 3;
    sync_expect_resumable(&run, STEPS);
}

/* What all pushed, at the weights that they had, is what the servers moved. */
static void expect_nothing_lost(const struct sync_run *run)
{
    struct sync_trace traces[REPLICAS];
    float start[SYNC_COUNT], g[SYNC_COUNT];
    double sum[SYNC_COUNT] = {0};
    sync_start(&run->problem, start);
    sync_threads_run(run, traces);
    for (uint32_t i = 0; i < REPLICAS; i++)
        for (uint64_t step = 1; step <= STEPS; step++) {
            const float *x =
                step == 1 ? start : sync_trace_at(&traces[i], step - 1);
            sync_gradient(&run->problem, i, step, x, g);
            for (size_t k = 0; k < SYNC_COUNT; k++)
                sum[k] += (double)g[k] / REPLICAS;
        }
    for (uint32_t i = 0; i < REPLICAS; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            assert_float_equal(((double)start[k] - run->rate * sum[k]),
                               (double)traces[i].consistent[k], 1e-5);
    sync_trace_release(traces, REPLICAS);
}

static void every_push_counts_once(void **state)
{
    (void)state;
    static const char *const options[][3] = {
        {"s=0"}, {"s=1"}, {"s=3"}, {"s_low=1", "s_high=4"}};
    for (int i = 0; i < 4; i++) {
        struct sync_run run = base;
        run.method = i == 3 ? "dssp" : "ssp";
        memcpy(run.options, options[i], sizeof options[i]);
        expect_nothing_lost(&run);
        run.resume_at = 17;
        expect_nothing_lost(&run);
    }
}

/* Heads and shares, which are not all as long; with s = 0 every answer is sent
 * in its step. */
static void sends_what_its_cost_says(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 4; count++) {
        struct sync_run run = base;
        struct sync_trace traces[REPLICAS];
        uint64_t sent = 0;
        run.num_replicas = count;
        run.options[0] = "s=0";
        run.slow_ns[3] = 0;
        sync_threads_run(&run, traces);
        for (uint32_t i = 0; i < count; i++)
            sent += traces[i].num_bytes;
        assert_int_equal(
            STEPS * (count - 1) * (2 * SYNC_COUNT * 4 + count * 16), sent);
        assert_int_equal(llround(STEPS * count * sync_run_cost(&run).bytes),
                         sent);
        sync_trace_release(traces, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ssp_keeps_its_bound),
        cmocka_unit_test(dssp_keeps_its_upper_bound),
        cmocka_unit_test(dssp_refuses_bounds_that_cross),
        cmocka_unit_test(without_slack_it_is_sync_sgd),
        cmocka_unit_test(without_slack_it_resumes_to_the_same_bits),
        cmocka_unit_test(every_push_counts_once),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
