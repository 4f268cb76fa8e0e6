/*
 * One replica is four times as slow as the others. Methods whose members do
 * not wait for each other lose little: the steps of the others take at most a
 * tenth longer than among equals. The shortest of several runs is compared with
 * the shortest of as many, in turns: other programs on the machine make a run
 * longer, never shorter. A gradient is a sleep that looks after messages, so
 * that there are cores for all; the messages are real. It is a hundred times as
 * long as the naps between two looks: who asks a sleeping server waits for one.
 */
#include "support/support.h"

#include "runtime/transport.h"
#include "runtime/transport_group.h"
#include "support/sync_run.h"

#include <math.h>
#include <stdio.h>

#define LIMIT 1.1

enum {
    STEPS = 10,
    GRADIENT_NS = 20000000,
    SLOWER = 4,
    PAIRS = 5,
    MOST_PAIRS = 40
};

static struct pen_transport *world;
static struct pen_group *peers;

/* The longest that a replica which is not the slow one took, in seconds. */
static double run_once(const struct pen_sync_method *method, int slower)
{
    uint32_t size = pen_transport_size(world);
    uint32_t rank = pen_transport_rank(world);
    struct sync_trace trace = {0};
    struct sync_run run = {.method = method->name,
                           .num_replicas = size,
                           .num_steps = STEPS,
                           .problem = {.seed = 5, .noise = 0.1},
                           .rate = 0.01};
    double secs[8] = {0};
    struct pen_request request = {0};
    for (uint32_t i = 0; i < size; i++)
        run.slow_ns[i] = (int64_t)GRADIENT_NS * (i + 1 == size ? slower : 1);
    assert_int_equal(pen_transport_meet(world), PEN_OK);
    sync_replica_run(&run, peers, &trace);
    secs[rank] = 1e-9 * (double)trace.busy_ns;
    sync_trace_release(&trace, 1);
    pen_transport_sum(world, secs, size, &request);
    assert_int_equal(pen_transport_wait(world, &request), PEN_OK);
    double longest = 0;
    for (uint32_t i = 0; i + 1 < size; i++)
        longest = secs[i] > longest ? secs[i] : longest;
    return longest;
}

static bool waits(const struct pen_sync_method *method)
{
    struct pen_sync_case of = {.num_replicas = pen_transport_size(world),
                               .shapes = sync_shapes,
                               .num_shapes = SYNC_TENSORS,
                               .num_weights = SYNC_COUNT,
                               .core_bytes_per_sec = 1e9};
    struct pen_sync_choice choice;
    struct pen_sync_cost cost;
    if (method->init == NULL || pen_sync_choose(method->name, 0, NULL, 0, NULL,
                                                &choice, NULL) != PEN_OK)
        return true;
    pen_sync_choice_cost(&choice, &of, &cost);
    return cost.waits_for_slowest;
}

/* All ranks have the same times, so all stop at the same pair. */
static double slower_by(const struct pen_sync_method *method)
{
    double equal = INFINITY, slow = INFINITY;
    for (int k = 0; k < MOST_PAIRS && (k < PAIRS || slow >= LIMIT * equal);
         k++) {
        equal = fmin(equal, run_once(method, 1));
        slow = fmin(slow, run_once(method, SLOWER));
    }
    return slow / equal;
}

static void others_lose_less_than_a_tenth(void **state)
{
    size_t num_free = 0;
    (void)state;
    for (size_t i = 0; i < pen_sync_num_methods(); i++) {
        const struct pen_sync_method *method = pen_sync_method_at(i);
        if (waits(method))
            continue;
        double ratio = slower_by(method);
        num_free++;
        if (pen_transport_rank(world) == 0)
            printf("%s: steps take %.3f times as long beside a slow one\n",
                   method->name, ratio);
        assert_true(ratio < LIMIT);
    }
    assert_true(num_free >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_lose_less_than_a_tenth)};
    struct pen_launch launch = pen_launch_read_own();
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_transport_open(&launch, &world, &why) != PEN_OK)
        return 1;
    const struct pen_transport_group_options options = {
        .transport = world, .first = {PEN_TAG_REPLICA, 0}, .num_kinds = 1};
    if (pen_transport_group_all(&options, &peers) != PEN_OK)
        return 1;
    int num_failed = cmocka_run_group_tests(tests, NULL, NULL);
    pen_transport_group_free(peers);
    pen_transport_close(world);
    return num_failed;
}
