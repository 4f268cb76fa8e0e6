/* Schedules that are kept give the bits of those that are made anew. */
#include "support/support.h"

#include "base/random.h"
#include "planner/timings.h"

#include <string.h>

/* Costs by dice, the same for all stages. */
static struct pen_costs random_costs(struct pen_random *random)
{
    struct pen_costs costs = unit_costs();
    costs.uniform.forward_sec = 0.5 + pen_random_unit(random);
    costs.uniform.input_sec = 0.5 + pen_random_unit(random);
    costs.uniform.weight_sec = 0.5 + pen_random_unit(random);
    costs.uniform.sync_sec = pen_random_unit(random);
    costs.uniform.step_sec = pen_random_unit(random);
    costs.latency_sec = 0.1 * pen_random_unit(random);
    return costs;
}

/* Fails unless both say the same, to the last bit. */
static void expect_same(const struct pen_timing *a, const struct pen_timing *b,
                        const char *name)
{
    if (a->num_ranks != b->num_ranks ||
        memcmp(&a->makespan_sec, &b->makespan_sec, sizeof a->makespan_sec) ||
        memcmp(&a->bubble, &b->bubble, sizeof a->bubble))
        fail_msg("%s: %.17g and %.17g s", name, a->makespan_sec,
                 b->makespan_sec);
    for (uint32_t i = 0; i < a->num_ranks; i++) {
        assert_memory_equal(&a->ranks[i].end_sec, &b->ranks[i].end_sec,
                            sizeof a->ranks[i].end_sec);
        assert_memory_equal(&a->ranks[i].peak, &b->ranks[i].peak,
                            sizeof a->ranks[i].peak);
    }
}

/* Runs with and without the cache; both refuse, or both say the same. */
static bool compare(struct pen_timings *timings,
                    const struct pen_generator *generator,
                    const struct pen_generator_args *args)
{
    struct pen_timing *kept = NULL;
    struct pen_timing *fresh = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_timings_run(timings, generator, args, &kept, &why);
    assert_int_equal(status,
                     pen_timings_run(NULL, generator, args, &fresh, NULL));
    if (status == PEN_OK)
        expect_same(fresh, kept, generator->name);
    else
        assert_true(why.length > 0);
    pen_timing_free(kept);
    pen_timing_free(fresh);
    pen_text_release(&why);
    return status == PEN_OK;
}

static void kept_schedules_give_the_same_bits(void **state)
{
    (void)state;
    struct pen_timings *timings = pen_timings_create();
    struct pen_random random = {1};
    uint32_t timed = 0;
    assert_non_null(timings);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
            const struct pen_generator *generator = pen_generator_at(i);
            struct pen_costs costs = random_costs(&random);
            struct pen_generator_args args = {
                .ranks = 4, .microbatches = 8, .costs = &costs};
            timed += compare(timings, generator, &args) ? 1u : 0u;
            pen_costs_release(&costs);
        }
    assert_true(timed >= 60);
    pen_timings_free(timings);
}

/* More shapes than are kept, in an order that lets go of each of them. */
static void what_was_let_go_is_made_again(void **state)
{
    (void)state;
    struct pen_timings *timings = pen_timings_create();
    const struct pen_generator *generator = pen_generator_find("1f1b");
    assert_non_null(timings);
    for (int round = 0; round < 2; round++)
        for (uint32_t m = 1; m <= 100; m++) {
            struct pen_costs costs = unit_costs();
            struct pen_generator_args args = {
                .ranks = 3, .microbatches = m, .costs = &costs};
            assert_true(compare(timings, generator, &args));
            pen_costs_release(&costs);
        }
    pen_timings_free(timings);
}

/* Few large ones take the room of all the others. */
static void large_schedules_push_out_small_ones(void **state)
{
    (void)state;
    struct pen_timings *timings = pen_timings_create();
    const struct pen_generator *generator = pen_generator_find("1f1b");
    assert_non_null(timings);
    for (uint32_t m = 8000; m <= 14000; m += 1000) {
        struct pen_costs costs = unit_costs();
        struct pen_generator_args args = {
            .ranks = 12, .microbatches = m, .costs = &costs};
        assert_true(compare(timings, generator, &args));
        args.microbatches = 8;
        assert_true(compare(timings, generator, &args));
        pen_costs_release(&costs);
    }
    pen_timings_free(timings);
}

static void arguments_that_differ_are_told_apart(void **state)
{
    (void)state;
    struct pen_timings *timings = pen_timings_create();
    struct pen_costs costs = unit_costs();
    assert_non_null(timings);
    for (uint32_t k = 1; k <= 4; k++) {
        struct pen_generator_args args = {
            .ranks = 4, .microbatches = 8, .warmup = k, .costs = &costs};
        assert_true(compare(timings, pen_generator_find("kfkb"), &args));
        args.warmup = 0;
        args.chunks = k;
        assert_true(compare(timings, pen_generator_find("interleaved"), &args));
        args.chunks = 0;
        args.slices = k;
        assert_true(compare(timings, pen_generator_find("seq1f1b"), &args));
    }
    pen_costs_release(&costs);
    pen_timings_free(timings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_schedules_give_the_same_bits),
        cmocka_unit_test(what_was_let_go_is_made_again),
        cmocka_unit_test(large_schedules_push_out_small_ones),
        cmocka_unit_test(arguments_that_differ_are_told_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
