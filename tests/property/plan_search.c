/*
 * On random small settings the search answers with the plans that timing every
 * candidate finds, in the same order.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/candidates.h"
#include "planner/search.h"
#include "planner/timings.h"
#include "support/seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_CASES 60
#define ALL_CASES 1000
#define TOP 5u

static struct pen_model *make_model(struct pen_random *random)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    uint32_t heads = 1u << pen_random_below(random, 4);
    pen_text_add(&text,
                 "{\"model_type\": \"gpt2\", \"vocab_size\": %u, "
                 "\"n_positions\": 2048, \"n_embd\": %u, \"n_layer\": %u, "
                 "\"n_head\": %u}",
                 1000 + pen_random_below(random, 50000), 128 * heads,
                 1 + pen_random_below(random, 12), heads);
    if (pen_model_parse(pen_text_string(&text), text.length, &model, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&text);
    return model;
}

static struct pen_cluster *make_cluster(struct pen_random *random)
{
    static const char *const kinds[] = {"h100-sxm", "a100-40", "v100-16"};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    char source[64];
    snprintf(source, sizeof source, "preset:%s*%u",
             kinds[pen_random_below(random, 3)],
             1 + pen_random_below(random, 16));
    if (pen_cluster_load(source, &cluster, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return cluster;
}

/* Steps of all candidates that fit, quickest first. */
struct all_steps {
    double *items;
    size_t count;
    size_t capacity;
};

static void add_step(struct all_steps *steps, double step_sec)
{
    if (steps->count == steps->capacity) {
        steps->capacity = 2 * steps->capacity + 64;
        steps->items =
            realloc(steps->items, steps->capacity * sizeof *steps->items);
        assert_non_null(steps->items);
    }
    steps->items[steps->count++] = step_sec;
}

static int compare_steps(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void time_all(const struct pen_setting *setting, struct all_steps *out)
{
    struct pen_candidate_filter filter = {.max_devices = 0};
    struct pen__bases bases;
    struct pen__candidate_list list = {.items = NULL};
    assert_true(pen__bases_list(setting, &filter, &bases));
    for (size_t i = 0; i < bases.count; i++) {
        assert_true(pen__base_expand(setting, &filter, &bases.items[i], &list));
        for (size_t j = 0; j < list.count; j++) {
            struct pen_plan *plan = NULL;
            struct pen_prediction prediction;
            if (pen_candidate_predict(setting, &list.items[j], true, &plan,
                                      &prediction, NULL) != PEN_OK)
                continue;
            if (prediction.fits)
                add_step(out, prediction.step_sec);
            pen_prediction_release(&prediction);
            pen_plan_free(plan);
        }
    }
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_steps);
    free(bases.items);
    free(list.items);
}

static void compare(const struct pen_setting *setting, unsigned number,
                    unsigned *num_empty)
{
    struct all_steps steps = {.items = NULL};
    struct pen_plan_ranking *ranking = NULL;
    const struct pen_plan_search_options options = {.top = TOP};
    pen_status status = pen_plan_search(setting, &options, &ranking, NULL);
    time_all(setting, &steps);
    if (steps.count == 0) {
        assert_int_equal(PEN_INFEASIBLE, status);
        (*num_empty)++;
        return;
    }
    assert_int_equal(PEN_OK, status);
    assert_true(ranking->is_complete);
    assert_int_equal(steps.count < TOP ? steps.count : TOP, ranking->num_found);
    for (uint32_t i = 0; i < ranking->num_found; i++) {
        const struct pen_plan_found *found = &ranking->found[i];
        if (found->prediction.step_sec <= steps.items[i] * (1 + 1e-12) &&
            found->prediction.step_sec >= steps.items[i] * (1 - 1e-12))
            continue;
        struct pen_text text = PEN_TEXT_EMPTY;
        pen_candidate_print(&found->candidate, &text);
        fail_msg("case %u, %s on %s: place %u is %s with %.9g s, timing all "
                 "finds %.9g s",
                 number, pen_target_names[setting->target],
                 setting->cluster->name, i, pen_text_string(&text),
                 found->prediction.step_sec, steps.items[i]);
    }
    pen_plan_ranking_free(ranking);
    free(steps.items);
}

static void search_cases(uint64_t seed, unsigned num_cases)
{
    struct pen_random random = {.state = seed};
    unsigned num_empty = 0;
    for (unsigned i = 0; i < num_cases; i++) {
        struct pen_model *model = make_model(&random);
        struct pen_cluster *cluster = make_cluster(&random);
        struct pen_setting setting = {
            .model = model,
            .cluster = cluster,
            .global_batch = 1 + pen_random_below(&random, 24),
            .sequence = 256u << pen_random_below(&random, 3),
            .number = i % PEN_TARGETS == PEN_TARGET_PENSTOCK ? PEN_NUMBER_F32
                                                             : PEN_NUMBER_FP16,
            .target = (enum pen_target)(i % PEN_TARGETS),
            .timings = pen_timings_create()};
        pen_practice_init(&setting.practice, setting.target, setting.number);
        setting.practice.overhead_bytes = 1e8;
        /* Every third time so little that layouts are turned down. */
        if (i % 3 == 0)
            setting.memory_limit =
                (uint64_t)(1.2e8 + 1.5e9 * pen_random_unit(&random) *
                                       pen_random_unit(&random));
        compare(&setting, i, &num_empty);
        pen_timings_free(setting.timings);
        pen_cluster_free(cluster);
        pen_model_free(model);
    }
    print_message("%u of %u cases have no plan\n", num_empty, num_cases);
    assert_true(num_empty < num_cases / 2);
}

static void search_finds_what_timing_all_finds(void **state)
{
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("property/plan_search", seeds);
    (void)state;
    for (size_t i = 0; i < num_seeds; i++)
        search_cases(seeds[i], is_long_run() ? ALL_CASES : NUM_CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_finds_what_timing_all_finds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
