/* Two-level sums are those of one level, and only heads of groups talk far. */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50, BYTES = SYNC_COUNT * (int)sizeof(float) };

static const struct sync_run base = {
    .method = "lsgd",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 7, .noise = 0.5},
    .optimizer = {.momentum = 0.9},
    .rate = 0.02,
};

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float x[SYNC_COUNT], g[SYNC_COUNT];
    struct sync_moments moments = {0};
    assert_non_null(weights);
    sync_start(&base.problem, x);
    for (uint64_t step = 1; step <= STEPS; step++) {
        float mean[SYNC_COUNT] = {0};
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&base.problem, i, step, x, g);
            for (size_t k = 0; k < SYNC_COUNT; k++)
                mean[k] += g[k] / REPLICAS;
        }
        sync_optimizer_step(&base.optimizer, base.rate, step, mean, &moments,
                            x);
        for (uint32_t i = 0; i < REPLICAS; i++)
            memcpy(weights + ((step - 1) * REPLICAS + i) * SYNC_COUNT, x,
                   sizeof x);
    }
    sync_expect_trajectory(&base, weights, x, 2e-6);
    free(weights);
}

static struct sync_run with_groups(uint32_t num_replicas, const char *group)
{
    struct sync_run run = base;
    run.num_replicas = num_replicas;
    run.num_steps = 10;
    run.options[0] = group;
    return run;
}

static struct sync_run one_level(uint32_t num_replicas)
{
    struct sync_run run = with_groups(num_replicas, NULL);
    run.method = "allreduce";
    return run;
}

static void groups_of_a_power_of_two_have_the_bits_of_sync_sgd(void **state)
{
    (void)state;
    static const char *const groups[] = {"group=1", "group=2", "group=4",
                                         "group=8"};
    for (uint32_t replicas = 1; replicas <= 8; replicas++)
        for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
            struct sync_run run = with_groups(replicas, groups[i]);
            struct sync_run sync = one_level(replicas);
            sync_expect_same_bits(&sync, &run);
        }
}

static void other_groups_are_close(void **state)
{
    (void)state;
    struct sync_run run = with_groups(8, "group=3"), sync = one_level(8);
    sync_expect_close(&sync, &run, 2e-6);
    run = with_groups(7, "group=5");
    sync = one_level(7);
    sync_expect_close(&sync, &run, 2e-6);
}

static void resumes(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 17);
}

/* The heads send what the cost says, and 2(G-1)/G of the weights per group go
 * from one to another; a member sends its gradient to its head. */
static void sends_what_it_says(void **state)
{
    (void)state;
    const struct pen_sync_case of = {.num_replicas = 8,
                                     .num_weights = SYNC_COUNT};
    struct sync_run run = with_groups(8, "group=4");
    struct sync_trace found[8];
    struct pen_sync_choice choice;
    struct pen_sync_cost cost;
    assert_int_equal(PEN_OK, pen_sync_choose(run.method, 0, run.options, 1,
                                             NULL, &choice, NULL));
    pen_sync_choice_cost(&choice, &of, &cost);
    sync_threads_run(&run, found);
    for (uint32_t i = 0; i < 8; i++)
        if (i % 4 != 0) {
            assert_int_equal(BYTES * run.num_steps, found[i].num_bytes);
            assert_int_equal(run.num_steps, found[i].num_messages);
        }
    uint64_t heads = found[0].num_bytes + found[4].num_bytes;
    assert_int_equal(2 * (uint64_t)cost.bytes * run.num_steps, heads);
    assert_int_equal(2 * (3 * BYTES + BYTES) * run.num_steps, heads);
    assert_int_equal((3 + 2) * run.num_steps, found[0].num_messages);
    sync_trace_release(found, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(groups_of_a_power_of_two_have_the_bits_of_sync_sgd),
        cmocka_unit_test(other_groups_are_close), cmocka_unit_test(resumes),
        cmocka_unit_test(sends_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
