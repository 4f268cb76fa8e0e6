/*
 * Decoupled DiLoCo: with all replicas it is DiLoCo, and with late ones, whose
 * lateness is made by the test, it follows plain loops over all replicas.
 */
#include "support/support.h"

#include "support/sync_run.h"
#include "sync/rounds.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPLICAS = 4, STEPS = 50, SLOW = 2 };

static const uint64_t H = 5;

static const struct sync_run base = {
    .method = "decoupled-diloco",
    .interval = 7,
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.05,
};

/* ---- all in time ---- */

static void with_all_replicas_it_is_diloco(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 5; replicas++) {
        struct sync_run run = base, diloco = base;
        diloco.method = "diloco";
        run.num_replicas = diloco.num_replicas = replicas;
        sync_expect_same_bits(&diloco, &run);
        run.options[0] = diloco.options[0] = "lr=0.4";
        run.options[1] = diloco.options[1] = "momentum=0.5";
        run.options[2] = "quorum=5";
        sync_expect_same_bits(&diloco, &run);
    }
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 17);
}

static void sends_what_it_says(void **state)
{
    (void)state;
    sync_expect_cost(&base, 7);
    struct sync_run run = base;
    run.num_replicas = 3;
    sync_expect_cost(&run, 7);
}

/* ---- the grace window ---- */

static void grace_follows_the_median(void **state)
{
    (void)state;
    const struct pen_rounds_options rules = {
        .grace = 0.5, .shortest_sec = 1, .longest_sec = 4};
    const double past[] = {100, 6, 4, 2};
    assert_true(pen_rounds_grace_sec(&rules, past, 0) == 1);
    assert_true(pen_rounds_grace_sec(&rules, past + 2, 1) == 2);
    assert_true(pen_rounds_grace_sec(&rules, past + 1, 3) == 2);
    assert_true(pen_rounds_grace_sec(&rules, past, 4) == 2.5);
    assert_true(pen_rounds_grace_sec(&rules, past, 1) == 4);
    assert_true(pen_rounds_grace_sec(&rules, past + 3, 1) == 1);
}

/* ---- late replicas ---- */

/* Steps that replicas have begun, and for whom they wait. */
struct pace {
    const struct pen_sync_method *method;
    atomic_uint_fast64_t begun[REPLICAS];
    /* Before step at[] of the slow one all others must have begun step for[],
     * and before step back_at of the others it must have begun back_for. */
    uint64_t at[2];
    uint64_t until[2];
    uint64_t back_at;
    uint64_t back_until;
};

static bool has_begun(struct pace *pace, uint32_t replica, uint64_t step)
{
    return atomic_load(&pace->begun[replica]) >= step;
}

static bool have_others_begun(struct pace *pace, uint64_t step)
{
    bool have = true;
    for (uint32_t i = 0; i < REPLICAS; i++)
        have = have && (i == SLOW || has_begun(pace, i, step));
    return have;
}

static bool may_go_on(struct pace *pace, uint32_t replica, uint64_t step)
{
    if (replica != SLOW)
        return step != pace->back_at || has_begun(pace, SLOW, pace->back_until);
    for (int i = 0; i < 2; i++)
        if (step == pace->at[i] && !have_others_begun(pace, pace->until[i]))
            return false;
    return true;
}

/* A replica that is slow looks after messages meanwhile. */
static void keep_pace(void *context, uint32_t replica, uint64_t step,
                      struct pen_sync *sync)
{
    struct pace *pace = context;
    const struct timespec nap = {.tv_nsec = 50000};
    atomic_store(&pace->begun[replica], step);
    while (!may_go_on(pace, replica, step)) {
        pace->method->poll(sync);
        nanosleep(&nap, NULL);
    }
}

static struct sync_run late_run(struct pace *pace)
{
    struct sync_run run = base;
    run.interval = H;
    run.options[0] = "quorum=3";
    run.options[1] = "grace=0";
    run.num_steps = 17;
    run.watch = keep_pace;
    run.context = pace;
    pace->method = pen_sync_find_method(run.method);
    return run;
}

/* All replicas in one array. */
struct world {
    float x[REPLICAS][SYNC_COUNT];
    float change[REPLICAS][SYNC_COUNT];
    struct sync_moments moments[REPLICAS];
    uint64_t steps[REPLICAS];
    float theta[SYNC_COUNT];
    float velocity[SYNC_COUNT];
    float (*trace)[REPLICAS][SYNC_COUNT];
};

static void take_steps(struct world *world, uint32_t i, uint64_t until)
{
    float g[SYNC_COUNT];
    while (world->steps[i] < until) {
        uint64_t step = ++world->steps[i];
        sync_gradient(&base.problem, i, step, world->x[i], g);
        sync_optimizer_step(&base.optimizer, base.rate, step, g,
                            &world->moments[i], world->x[i]);
        memcpy(world->trace[step - 1][i], world->x[i], sizeof world->x[i]);
    }
}

/* What a replica moved from `from`. */
static void add_change(struct world *world, uint32_t i, const float *from)
{
    for (size_t k = 0; k < SYNC_COUNT; k++)
        world->change[i][k] += from[k] - world->x[i][k];
}

/* It goes on from theta, behind the step that it took last. */
static void restart(struct world *world, uint32_t i)
{
    memcpy(world->x[i], world->theta, sizeof world->theta);
    memcpy(world->trace[world->steps[i] - 1][i], world->theta,
           sizeof world->theta);
}

/* A round of those whose bit is set, which count alike. */
static void merge(struct world *world, unsigned contributors)
{
    float count = (float)__builtin_popcount(contributors);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float mean = 0;
        for (uint32_t i = 0; i < REPLICAS; i++)
            if (contributors & 1u << i) {
                mean += world->change[i][k] / count;
                world->change[i][k] = 0;
            }
        world->velocity[k] = 0.9f * world->velocity[k] + mean;
        world->theta[k] -= 0.7f * (mean + 0.9f * world->velocity[k]);
    }
}

/* The others take an interval, and a round closes with these contributors. */
static void take_round(struct world *world, uint64_t until,
                       unsigned contributors)
{
    for (uint32_t i = 0; i < REPLICAS; i++)
        if (i != SLOW) {
            take_steps(world, i, until);
            add_change(world, i, world->theta);
        }
    merge(world, contributors);
    for (uint32_t i = 0; i < REPLICAS; i++)
        if (i != SLOW)
            restart(world, i);
}

static void start(struct world *world)
{
    memset(world, 0, sizeof *world);
    world->trace = calloc(17, sizeof *world->trace);
    assert_non_null(world->trace);
    sync_start(&base.problem, world->theta);
    for (int i = 0; i < REPLICAS; i++)
        memcpy(world->x[i], world->theta, sizeof world->theta);
}

enum { ALL = 15, OTHERS = 15 & ~(1 << SLOW), ALONE = 1 << SLOW };

/*
 * Rounds 1 and 2 close without the slow one. What it moved in its first
 * interval goes into round 3; it is late again with its second, and brings
 * that, with its third, to a round of its own when the others have left.
 */
static void late_changes_are_folded(void **state)
{
    (void)state;
    static struct world world;
    struct pace pace = {.at = {3, 7},
                        .until = {2 * H + 2, 3 * H + 1},
                        .back_at = 2 * H + 3,
                        .back_until = H + 1};
    struct sync_run run = late_run(&pace);
    float first[SYNC_COUNT], base_of_second[SYNC_COUNT];
    start(&world);
    memcpy(first, world.theta, sizeof first);
    take_round(&world, H, OTHERS);
    take_round(&world, 2 * H, OTHERS);
    take_steps(&world, SLOW, H);
    add_change(&world, SLOW, first);
    restart(&world, SLOW);
    memcpy(base_of_second, world.theta, sizeof first);
    take_round(&world, 3 * H, ALL);
    take_steps(&world, SLOW, 2 * H);
    add_change(&world, SLOW, base_of_second);
    restart(&world, SLOW);
    take_steps(&world, SLOW, 3 * H);
    add_change(&world, SLOW, world.theta);
    merge(&world, ALONE);
    restart(&world, SLOW);
    for (uint32_t i = 0; i < REPLICAS; i++)
        take_steps(&world, i, 17);
    sync_expect_trajectory(&run, &world.trace[0][0][0], world.theta, 3e-6);
    free(world.trace);
}

/*
 * The slow one is late until the others have taken all their steps: its first
 * interval is lost, and the two others are rounds of its own.
 */
static void late_changes_are_discarded(void **state)
{
    (void)state;
    static struct world world;
    struct pace pace = {.at = {3, 0}, .until = {17, 0}};
    struct sync_run run = late_run(&pace);
    run.options[2] = "late=1";
    start(&world);
    for (uint64_t round = 1; round <= 3; round++)
        take_round(&world, round * H, OTHERS);
    take_steps(&world, SLOW, H);
    restart(&world, SLOW);
    for (uint64_t round = 2; round <= 3; round++) {
        take_steps(&world, SLOW, round * H);
        add_change(&world, SLOW, world.theta);
        merge(&world, ALONE);
        restart(&world, SLOW);
    }
    for (uint32_t i = 0; i < REPLICAS; i++)
        take_steps(&world, i, 17);
    sync_expect_trajectory(&run, &world.trace[0][0][0], world.theta, 3e-6);
    free(world.trace);
}

/* Whatever the speeds, in the middle of an interval or not: it ends, with the
 * same model on all. */
static void any_quorum_ends_with_one_model(void **state)
{
    (void)state;
    static const char *const quorums[] = {"quorum=1", "quorum=2", "quorum=3"};
    for (int i = 0; i < 12; i++) {
        struct sync_trace traces[REPLICAS];
        struct sync_run run = base;
        run.options[0] = quorums[i % 3];
        run.options[1] = i % 2 == 0 ? "late=0" : "late=1";
        run.options[2] = i % 4 < 2 ? "grace=0" : "grace=0.5";
        run.interval = 3;
        run.resume_at = i < 6 ? 0 : 20;
        for (int k = 0; k < REPLICAS; k++)
            run.slow_ns[k] = k == i % REPLICAS ? 1500000 : 100000;
        sync_threads_run(&run, traces);
        for (int k = 0; k < REPLICAS; k++) {
            assert_memory_equal(traces[0].consistent, traces[k].consistent,
                                sizeof(float) * SYNC_COUNT);
            for (size_t at = 0; at < SYNC_COUNT; at++)
                assert_true(fabsf(traces[k].consistent[at]) < 8);
        }
        sync_trace_release(traces, REPLICAS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_all_replicas_it_is_diloco),
        cmocka_unit_test(resumes_between_synchronisations),
        cmocka_unit_test(sends_what_it_says),
        cmocka_unit_test(grace_follows_the_median),
        cmocka_unit_test(late_changes_are_folded),
        cmocka_unit_test(late_changes_are_discarded),
        cmocka_unit_test(any_quorum_ends_with_one_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
