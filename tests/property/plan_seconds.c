/*
 * More seconds never give a worse ranking: every plan of a ranking that was
 * cut short is at least as slow as the plan in the same place of a ranking
 * with more work. Settings by dice, with up to 100,000 devices.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/search.h"
#include "planner/timings.h"
#include "support/seed.h"

#include <stdio.h>

#define NUM_SETTINGS 6u   /* every day */
#define ALL_SETTINGS 200u /* with PEN_LONG */
#define TOP 10u

static const double seconds[] = {0.0005, 0.002, 0.005, 0.01, 0.03, 0.06};

#define NUM_SECONDS (sizeof seconds / sizeof *seconds)

static uint32_t below(struct pen_random *random, size_t count)
{
    return pen_random_below(random, (uint32_t)count);
}

/* Borrows the names; release the model and the cluster of the setting. */
static void setting_init(struct pen_random *random, struct pen_timings *timings,
                         struct pen_model **model, struct pen_cluster **cluster,
                         struct pen_setting *out)
{
    static const char *const models[] = {
        "preset:gpt2-xl",        "preset:llama-3.1-8b", "preset:llama-3.1-70b",
        "preset:llama-3.1-405b", "preset:mixtral-8x7b", "preset:qwen2.5-7b"};
    static const char *const kinds[] = {"h200", "h100-sxm", "a100-40"};
    static const uint32_t devices[] = {64, 1000, 4096, 16384, 100000};
    static const enum pen_target targets[] = {
        PEN_TARGET_MEGATRON, PEN_TARGET_MEGATRON, PEN_TARGET_TORCHTITAN,
        PEN_TARGET_DEEPSPEED};
    struct pen_text why = PEN_TEXT_EMPTY;
    char source[64];
    uint32_t count = devices[below(random, 5)];
    snprintf(source, sizeof source, "preset:%s*%u", kinds[below(random, 3)],
             count);
    if (pen_model_load(models[below(random, 6)], model, &why) != PEN_OK ||
        pen_cluster_load(source, cluster, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    *out = (struct pen_setting){.model = *model,
                                .cluster = *cluster,
                                .global_batch =
                                    (uint64_t)(1 + below(random, 8)) * count,
                                .sequence = 1024u << below(random, 3),
                                .number = PEN_NUMBER_BF16,
                                .target = targets[below(random, 4)],
                                .timings = timings};
    if (out->sequence > (*model)->max_positions)
        out->sequence = (*model)->max_positions;
    pen_practice_init(&out->practice, out->target, out->number);
}

static void expect_no_worse(const struct pen_setting *setting,
                            const struct pen_plan_ranking *less,
                            const struct pen_plan_ranking *more, size_t step)
{
    assert_true(less->num_found <= more->num_found);
    for (uint32_t i = 0; i < less->num_found; i++) {
        if (more->found[i].value <= less->found[i].value)
            continue;
        fail_msg("%s, batch %llu of %u: plan %u takes %.9g s after %g s of "
                 "work and %.9g s after %g s",
                 setting->cluster->name,
                 (unsigned long long)setting->global_batch, setting->sequence,
                 i, less->found[i].value, seconds[step - 1],
                 more->found[i].value, seconds[step]);
    }
}

/* Returns how many of the rankings were cut short. */
static uint32_t check_setting(const struct pen_setting *setting)
{
    struct pen_plan_ranking *less = NULL;
    uint32_t num_short = 0;
    for (size_t i = 0; i < NUM_SECONDS; i++) {
        const struct pen_plan_search_options options = {.top = TOP,
                                                        .seconds = seconds[i]};
        struct pen_plan_ranking *more = NULL;
        pen_status status = pen_plan_search(setting, &options, &more, NULL);
        if (i > 0)
            assert_int_equal(less != NULL, status == PEN_OK);
        if (status != PEN_OK)
            continue;
        num_short += more->is_complete ? 0 : 1;
        if (less != NULL)
            expect_no_worse(setting, less, more, i);
        pen_plan_ranking_free(less);
        less = more;
    }
    pen_plan_ranking_free(less);
    return num_short;
}

static void check_settings(uint64_t seed, uint32_t num_settings)
{
    struct pen_random random = {.state = seed};
    uint32_t num_short = 0;
    for (uint32_t i = 0; i < num_settings; i++) {
        struct pen_timings *timings = pen_timings_create();
        struct pen_model *model = NULL;
        struct pen_cluster *cluster = NULL;
        struct pen_setting setting;
        setting_init(&random, timings, &model, &cluster, &setting);
        num_short += check_setting(&setting);
        pen_model_free(model);
        pen_cluster_free(cluster);
        pen_timings_free(timings);
    }
    printf("%u of %zu rankings were cut short\n", num_short,
           num_settings * NUM_SECONDS);
    assert_true(num_short > num_settings);
}

static void more_seconds_give_no_worse_ranking(void **state)
{
    (void)state;
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("property/plan_seconds", seeds);
    for (size_t i = 0; i < num_seeds; i++)
        check_settings(seeds[i], is_long_run() ? ALL_SETTINGS : NUM_SETTINGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_seconds_give_no_worse_ranking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
