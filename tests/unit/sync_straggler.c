/*
 * One replica of four takes four times as long: those who do not wait for it
 * lose less than a tenth of their speed, those who do wait lose most of it.
 */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>

enum { REPLICAS = 4, STEPS = 20, SLOW = 2, GRADIENT_NS = 10000000 };

static struct sync_run run_of(const char *method)
{
    return (struct sync_run){.method = method,
                             .num_replicas = REPLICAS,
                             .num_steps = STEPS,
                             .problem = {.seed = 19, .noise = 0.5},
                             .rate = 0.02};
}

/* How long the others took for their steps, on average. */
static double others_sec(struct sync_run run, int64_t slow_ns)
{
    struct sync_trace traces[REPLICAS];
    double sum = 0;
    for (int i = 0; i < REPLICAS; i++)
        run.slow_ns[i] = i == SLOW ? slow_ns : GRADIENT_NS;
    sync_threads_run(&run, traces);
    for (int i = 0; i < REPLICAS; i++)
        sum += i == SLOW ? 0 : (double)traces[i].busy_ns * 1e-9;
    sync_trace_release(traces, REPLICAS);
    return sum / (REPLICAS - 1);
}

/* Throughput with the slow one against that without. A machine that does other
 * things may disturb a run: the best of eight. */
static double rest_of(struct sync_run run)
{
    double best = 0;
    for (int i = 0; i < 8 && best < 0.9; i++) {
        double alike = others_sec(run, GRADIENT_NS);
        double slowed = others_sec(run, 4 * GRADIENT_NS);
        best = alike / slowed > best ? alike / slowed : best;
    }
    print_message("%s: the others keep %.3f of their speed\n", run.method,
                  best);
    return best;
}

static void who_does_not_wait_keeps_his_speed(void **state)
{
    (void)state;
    static const char *const methods[] = {"eventgrad", "asgd", "dc-asgd"};
    for (int i = 0; i < 3; i++)
        assert_true(rest_of(run_of(methods[i])) > 0.9);
}

static void who_waits_for_a_quorum_keeps_his_speed(void **state)
{
    (void)state;
    struct sync_run run = run_of("decoupled-diloco");
    run.interval = 5;
    run.options[0] = "quorum=3";
    run.options[1] = "grace=0";
    assert_true(rest_of(run) > 0.9);
}

static void who_waits_does_not(void **state)
{
    (void)state;
    assert_true(others_sec(run_of("d-psgd"), 4 * GRADIENT_NS) >
                2 * STEPS * 1e-9 * GRADIENT_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_wait_keeps_his_speed),
        cmocka_unit_test(who_waits_for_a_quorum_keeps_his_speed),
        cmocka_unit_test(who_waits_does_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
