/*
 * On random small settings the search answers with the plans that timing every
 * candidate finds, in the same order, for every objective; with a tolerance,
 * with the fewest devices; and with the best of fewer devices.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/candidates.h"
#include "planner/search.h"
#include "planner/timings.h"
#include "support/seed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_CASES 24
#define ALL_CASES 1000
#define TOP 5u

/* With experts there are several sets of modules to recompute. */
static void write_experts(struct pen_random *random, struct pen_text *out)
{
    uint32_t heads = 1u << pen_random_below(random, 3);
    pen_text_add(out,
                 "{\"model_type\": \"mixtral\", \"vocab_size\": %u, "
                 "\"hidden_size\": %u, \"intermediate_size\": %u, "
                 "\"num_hidden_layers\": %u, \"num_attention_heads\": %u, "
                 "\"num_key_value_heads\": %u, \"num_local_experts\": %u, "
                 "\"num_experts_per_tok\": 2, "
                 "\"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-5}",
                 1000 + pen_random_below(random, 50000), 256 * heads,
                 512 * heads, 1 + pen_random_below(random, 5), heads, heads,
                 2u << pen_random_below(random, 3));
}

static void write_dense(struct pen_random *random, struct pen_text *out)
{
    uint32_t heads = 1u << pen_random_below(random, 4);
    pen_text_add(out,
                 "{\"model_type\": \"gpt2\", \"vocab_size\": %u, "
                 "\"n_positions\": 2048, \"n_embd\": %u, \"n_layer\": %u, "
                 "\"n_head\": %u}",
                 1000 + pen_random_below(random, 50000), 128 * heads,
                 1 + pen_random_below(random, 12), heads);
}

static struct pen_model *make_model(struct pen_random *random,
                                    enum pen_target target)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    if (target == PEN_TARGET_MEGATRON && pen_random_below(random, 2) == 0)
        write_experts(random, &text);
    else
        write_dense(random, &text);
    if (pen_model_parse(pen_text_string(&text), text.length, &model, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&text);
    return model;
}

/* Slow links, where fewer devices may be faster, and kinds with prices. */
static struct pen_cluster *make_uneven_cluster(struct pen_random *random)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    pen_text_add(&text,
                 "name: uneven\ndevices:\n"
                 "  - {kind: v100-16, count: %u, price_per_hour: %u}\n"
                 "  - {kind: h100-sxm, count: %u, price_per_hour: %u}\n"
                 "links:\n"
                 "  - {level: all, bandwidth: %u MB/s, latency: 50 us}\n",
                 1 + pen_random_below(random, 4), pen_random_below(random, 3),
                 1 + pen_random_below(random, 4),
                 1 + pen_random_below(random, 9),
                 100u << pen_random_below(random, 8));
    if (pen_cluster_parse(pen_text_string(&text), text.length, &cluster,
                          &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&text);
    return cluster;
}

static struct pen_cluster *make_cluster(struct pen_random *random)
{
    if (pen_random_below(random, 3) == 0)
        return make_uneven_cluster(random);
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

/* All plans that fit. */
struct one {
    struct pen_candidate candidate;
    uint64_t devices;
    double values[PEN_OBJECTIVES];
};

struct all {
    struct one *items;
    size_t count;
    size_t capacity;
};

static void add_one(struct all *all, const struct one *one)
{
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 64;
        all->items = realloc(all->items, all->capacity * sizeof *all->items);
        assert_non_null(all->items);
    }
    all->items[all->count++] = *one;
}

static void time_candidate(const struct pen_setting *setting,
                           const struct pen_candidate *candidate,
                           struct all *out)
{
    struct pen_plan *plan = NULL;
    struct pen_prediction prediction;
    if (pen_candidate_predict(setting, candidate, true, &plan, &prediction,
                              NULL) != PEN_OK)
        return;
    struct one one = {.candidate = *candidate,
                      .devices = pen_plan_num_ranks(plan)};
    for (int i = 0; i < PEN_OBJECTIVES; i++)
        one.values[i] = pen_objective_value(
            (enum pen_objective)i, setting->cluster, plan, &prediction);
    if (prediction.fits)
        add_one(out, &one);
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
}

static void time_all(const struct pen_setting *setting, struct all *out)
{
    struct pen_candidate_filter filter = {.max_devices = 0};
    struct pen__bases bases;
    struct pen__candidate_list list = {.items = NULL};
    assert_true(pen__bases_list(setting, &filter, PEN_OBJECTIVE_TIME, &bases));
    for (size_t i = 0; i < bases.count; i++)
        do {
            assert_true(
                pen__base_expand(setting, &filter, &bases.items[i], &list));
            for (size_t j = 0; j < list.count; j++)
                time_candidate(setting, &list.items[j], out);
        } while (pen__base_next(&bases, &bases.items[i]));
    free(bases.items);
    free(list.items);
}

/* ---- what timing all finds ---- */

static enum pen_objective sorted_by;

static int compare_ones(const void *left, const void *right)
{
    double a = ((const struct one *)left)->values[sorted_by];
    double b = ((const struct one *)right)->values[sorted_by];
    return (a > b) - (a < b);
}

static double least_of(const struct all *all, enum pen_objective objective,
                       uint64_t most_devices)
{
    double least = INFINITY;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].devices <= most_devices)
            least = fmin(least, all->items[i].values[objective]);
    return least;
}

/* The fewest devices whose value is at most `most`. */
static uint64_t fewest_of(const struct all *all, enum pen_objective objective,
                          double most)
{
    uint64_t fewest = UINT64_MAX;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].values[objective] <= most &&
            all->items[i].devices < fewest)
            fewest = all->items[i].devices;
    return fewest;
}

static bool is_equal(double a, double b)
{
    return a <= b * (1 + 1e-12) && a >= b * (1 - 1e-12);
}

struct trial {
    const struct pen_setting *setting;
    struct all *all;
    unsigned number;
};

static void expect_plan(const struct trial *trial,
                        const struct pen_plan_found *found, double expected,
                        const char *what)
{
    if (is_equal(found->value, expected))
        return;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_candidate_print(&found->candidate, &text);
    fail_msg("case %u, %s on %s: %s is %s with %.9g, timing all finds %.9g",
             trial->number, pen_target_names[trial->setting->target],
             trial->setting->cluster->name, what, pen_text_string(&text),
             found->value, expected);
}

/* The table of fewer devices: each the best of as many as it has. */
static void expect_fewer(const struct trial *trial,
                         enum pen_objective objective,
                         const struct pen_plan_ranking *ranking)
{
    uint64_t before = UINT64_MAX;
    for (uint32_t i = 0; i < ranking->num_fewer; i++) {
        uint64_t devices = pen_plan_num_ranks(ranking->fewer[i].plan);
        assert_true(devices < before);
        expect_plan(trial, &ranking->fewer[i],
                    least_of(trial->all, objective, devices), "a row");
        before = devices;
    }
}

/* The sorted plans, of each layout the first, at most TOP of them. */
static uint32_t list_best(const struct all *all, enum pen_objective objective,
                          double out[TOP])
{
    const struct one *best[TOP];
    uint32_t count = 0;
    for (size_t i = 0; i < all->count && count < TOP; i++) {
        uint32_t at = 0;
        while (at < count &&
               !pen_candidate_is_same_layout(&best[at]->candidate,
                                             &all->items[i].candidate))
            at++;
        if (at < count)
            continue;
        best[count] = &all->items[i];
        out[count++] = all->items[i].values[objective];
    }
    return count;
}

static void expect_ranking(const struct trial *trial,
                           enum pen_objective objective)
{
    const struct pen_plan_search_options options = {
        .objective = objective, .top = TOP, .num_fewer = 4};
    struct pen_plan_ranking *ranking = NULL;
    assert_int_equal(PEN_OK,
                     pen_plan_search(trial->setting, &options, &ranking, NULL));
    assert_true(ranking->is_complete);
    double best[TOP];
    sorted_by = objective;
    qsort(trial->all->items, trial->all->count, sizeof *trial->all->items,
          compare_ones);
    assert_int_equal(list_best(trial->all, objective, best),
                     ranking->num_found);
    for (uint32_t i = 0; i < ranking->num_found; i++)
        expect_plan(trial, &ranking->found[i], best[i],
                    pen_objective_names[objective]);
    expect_fewer(trial, objective, ranking);
    pen_plan_ranking_free(ranking);
}

static void expect_within(const struct trial *trial,
                          enum pen_objective objective, double within,
                          uint32_t top)
{
    const struct pen_plan_search_options options = {
        .objective = objective, .within = within, .top = top};
    struct pen_plan_ranking *ranking = NULL;
    assert_int_equal(PEN_OK,
                     pen_plan_search(trial->setting, &options, &ranking, NULL));
    double best = least_of(trial->all, objective, UINT64_MAX);
    uint64_t fewest = fewest_of(trial->all, objective, best * (1 + within));
    uint64_t found = pen_plan_num_ranks(ranking->found[0].plan);
    if (found != fewest)
        fail_msg("case %u: %s within %g with %llu devices, timing all: %llu",
                 trial->number, pen_objective_names[objective], within,
                 (unsigned long long)found, (unsigned long long)fewest);
    expect_plan(trial, &ranking->found[0],
                least_of(trial->all, objective, fewest), "the fewest");
    assert_true(is_equal(ranking->best_value, best));
    for (uint32_t i = 2; i < ranking->num_found; i++)
        assert_true(ranking->found[i - 1].value <= ranking->found[i].value);
    pen_plan_ranking_free(ranking);
}

static void compare(const struct pen_setting *setting, unsigned number,
                    struct pen_random *random, unsigned *num_empty)
{
    static const double tolerances[] = {0.001, 0.05, 0.3, 2};
    struct all all = {.items = NULL};
    const struct trial trial = {setting, &all, number};
    time_all(setting, &all);
    for (int i = 0; i < PEN_OBJECTIVES && all.count > 0; i++) {
        double within = tolerances[pen_random_below(random, 4)];
        expect_ranking(&trial, (enum pen_objective)i);
        expect_within(&trial, (enum pen_objective)i, within,
                      1 + (uint32_t)pen_random_below(random, TOP));
    }
    if (all.count == 0) {
        const struct pen_plan_search_options options = {.top = TOP};
        struct pen_plan_ranking *ranking = NULL;
        assert_int_equal(PEN_INFEASIBLE,
                         pen_plan_search(setting, &options, &ranking, NULL));
        (*num_empty)++;
    }
    free(all.items);
}

static void search_cases(uint64_t seed, unsigned num_cases)
{
    struct pen_random random = {.state = seed};
    unsigned num_empty = 0;
    for (unsigned i = 0; i < num_cases; i++) {
        enum pen_target target = (enum pen_target)(i % PEN_TARGETS);
        struct pen_model *model = make_model(&random, target);
        struct pen_cluster *cluster = make_cluster(&random);
        struct pen_setting setting = {
            .model = model,
            .cluster = cluster,
            .global_batch = 1 + pen_random_below(&random, 24),
            .sequence = 256u << pen_random_below(&random, 3),
            .number = target == PEN_TARGET_PENSTOCK ? PEN_NUMBER_F32
                                                    : PEN_NUMBER_FP16,
            .target = target,
            .timings = pen_timings_create()};
        pen_practice_init(&setting.practice, setting.target, setting.number);
        setting.practice.overhead_bytes = 1e8;
        /* Every third time so little that layouts are turned down. */
        if (i % 3 == 0)
            setting.memory_limit =
                (uint64_t)(1.2e8 + 1.5e9 * pen_random_unit(&random) *
                                       pen_random_unit(&random));
        compare(&setting, i, &random, &num_empty);
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
