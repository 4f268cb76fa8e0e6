/*
 * No candidate of a search beats the value by which it waits for its turn:
 * hundreds of layouts by dice, of all targets, with little memory and with
 * much. A floor above the true time would let a slower plan come out first.
 * Floors are found with the layers that the search keeps, and equal those of
 * layers that are predicted anew.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/candidates.h"
#include "planner/memo.h"
#include "planner/timings.h"
#include "support/seed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEW_LAYOUTS 150u   /* every day, of the seed of the day */
#define NUM_LAYOUTS 400u   /* of a seed that failed once */
#define ALL_LAYOUTS 10000u /* with PEN_LONG */
#define PER_SETTING 100u
#define MOST_TRIES 4000u
#define MOST_OPS 2000u /* of one schedule: longer ones prove no more */

struct world {
    const char *name; /* of the model */
    struct pen_model *model;
    struct pen_cluster *cluster;
    struct pen_setting setting; /* without a memo */
    struct pen_setting kept;    /* the same with one */
};

static const char *const models[] = {"gpt2-medium",  "llama-3.1-8b",
                                     "gpt-neox-20b", "llama-3.1-70b",
                                     "mixtral-8x7b", "qwen2.5-7b"};
static const char *const kinds[] = {"h200", "h100-sxm", "a100-40", "rtx4090",
                                    "v100-16"};

static uint32_t below(struct pen_random *random, size_t count)
{
    return pen_random_below(random, (uint32_t)count);
}

static void world_init(struct pen_random *random, struct pen_timings *timings,
                       struct world *out)
{
    static const enum pen_target targets[] = {
        PEN_TARGET_MEGATRON, PEN_TARGET_TORCHTITAN, PEN_TARGET_PENSTOCK,
        PEN_TARGET_DEEPSPEED};
    struct pen_text why = PEN_TEXT_EMPTY;
    char model[64];
    char cluster[64];
    out->name = models[below(random, sizeof models / sizeof *models)];
    snprintf(model, sizeof model, "preset:%s", out->name);
    snprintf(cluster, sizeof cluster, "preset:%s*%u",
             kinds[below(random, sizeof kinds / sizeof *kinds)],
             8u << below(random, 4));
    if (pen_model_load(model, &out->model, &why) != PEN_OK ||
        pen_cluster_load(cluster, &out->cluster, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    out->setting = (struct pen_setting){
        .model = out->model,
        .cluster = out->cluster,
        .global_batch = 1u << (3 + below(random, 6)),
        .sequence = 1024u << below(random, 3),
        .number = PEN_NUMBER_BF16,
        .target = targets[below(random, sizeof targets / sizeof *targets)],
        .timings = timings};
    if (out->setting.sequence > out->model->max_positions)
        out->setting.sequence = out->model->max_positions;
    pen_practice_init(&out->setting.practice, out->setting.target,
                      out->setting.number);
    /* Cuts are made to fit: the floor must hold for the last of them, too. */
    if (below(random, 2) == 0)
        out->setting.memory_limit = (uint64_t)(4 + below(random, 76)) << 30;
    out->kept = out->setting;
    out->kept.memo = pen__memo_create();
    assert_non_null(out->kept.memo);
}

static void world_release(struct world *world)
{
    pen__memo_free(world->kept.memo);
    pen_model_free(world->model);
    pen_cluster_free(world->cluster);
}

static void tell(const struct world *world,
                 const struct pen_candidate *candidate, double floor_sec,
                 const char *other, double other_sec)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_candidate_print(candidate, &text);
    print_error("%s on %s for %s, batch %llu of %u, limit %llu: %s, %s: floor "
                "%.9g s, %s %.9g s\n",
                world->name, world->cluster->name,
                pen_target_names[world->setting.target],
                (unsigned long long)world->setting.global_batch,
                world->setting.sequence,
                (unsigned long long)world->setting.memory_limit,
                pen_text_string(&text),
                pen_optimizer_names[candidate->recipe.optimizer], floor_sec,
                other, other_sec);
    pen_text_release(&text);
}

/* Seconds and bytes of the bound, from layers that are kept or made anew. */
static bool bound(const struct pen_setting *setting,
                  const struct pen_candidate *candidate,
                  const struct pen__base *base, double *floor_sec,
                  uint64_t *peak_bytes)
{
    struct pen_plan *plan = NULL;
    struct pen_prediction prediction;
    if (pen_candidate_predict(setting, candidate, false, &plan, &prediction,
                              NULL) != PEN_OK)
        return false;
    *floor_sec = pen__candidate_floor(base, candidate, &prediction);
    *peak_bytes = prediction.peak_bytes;
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    return true;
}

/* What a sweep found. Failures are counted, so that all memory is freed. */
struct tally {
    uint32_t checked; /* layouts that were timed and fit */
    uint32_t failed;
};

static void check(const struct world *world, const struct pen__base *base,
                  const struct pen_candidate *candidate, struct tally *tally)
{
    struct pen_plan *plan = NULL;
    struct pen_prediction prediction;
    const struct pen_setting *setting = &world->setting;
    double floor_sec;
    double kept_sec = 0;
    uint64_t bytes;
    uint64_t kept_bytes = 0;
    if (!bound(setting, candidate, base, &floor_sec, &bytes))
        return;
    if (!bound(&world->kept, candidate, base, &kept_sec, &kept_bytes) ||
        memcmp(&floor_sec, &kept_sec, sizeof floor_sec) != 0 ||
        bytes != kept_bytes) {
        tell(world, candidate, floor_sec, "with kept layers", kept_sec);
        tally->failed++;
        return;
    }
    if (pen_candidate_predict(setting, candidate, true, &plan, &prediction,
                              NULL) != PEN_OK)
        return;
    double step_sec = prediction.step_sec;
    bool fits = prediction.fits;
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    tally->checked += fits ? 1 : 0;
    if (fits && floor_sec > step_sec * (1 + 1e-9)) {
        tell(world, candidate, floor_sec, "timed", step_sec);
        tally->failed++;
    }
}

static bool is_short(const struct pen_candidate *candidate)
{
    const uint32_t *degrees = candidate->degrees;
    return (uint64_t)degrees[PEN_DEGREE_PP] * degrees[PEN_DEGREE_VPP] *
               candidate->num_microbatches <=
           MOST_OPS;
}

static void check_setting(struct pen_random *random, const struct world *world,
                          struct tally *tally)
{
    struct pen_candidate_filter filter = {
        .recipe = {.optimizer =
                       (enum pen_optimizer_kind)below(random, PEN_OPTIMIZERS)}};
    struct pen__bases bases;
    struct pen__candidate_list list = {.items = NULL};
    const uint32_t enough = tally->checked + PER_SETTING;
    assert_true(
        pen__bases_list(&world->setting, &filter, PEN_OBJECTIVE_TIME, &bases));
    for (uint32_t i = 0; bases.count > 0 && i < MOST_TRIES &&
                         tally->checked < enough && tally->failed == 0;
         i++) {
        struct pen__base base = bases.items[below(random, bases.count)];
        for (uint32_t down = below(random, 3); down > 0; down--)
            pen__base_next(&bases, &base);
        assert_true(pen__base_expand(&world->setting, &filter, &base, &list));
        if (list.count == 0)
            continue;
        const struct pen_candidate *candidate =
            &list.items[below(random, list.count)];
        if (is_short(candidate))
            check(world, &base, candidate, tally);
    }
    free(list.items);
    free(bases.items);
}

static void check_settings(uint64_t seed, uint32_t num_layouts)
{
    struct pen_random random = {.state = seed};
    struct pen_timings *timings = pen_timings_create();
    struct tally tally = {.checked = 0};
    uint32_t settings = 0;
    assert_non_null(timings);
    for (; tally.checked < num_layouts && tally.failed == 0; settings++) {
        struct world world;
        world_init(&random, timings, &world);
        check_setting(&random, &world, &tally);
        world_release(&world);
    }
    printf("%u layouts of %u settings\n", tally.checked, settings);
    pen_timings_free(timings);
    assert_int_equal(tally.failed, 0);
}

static void no_layout_beats_the_value_it_waits_with(void **state)
{
    (void)state;
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("property/search_bound", seeds);
    for (size_t i = 0; i < num_seeds; i++) {
        uint32_t of_seed = i + 1 < num_seeds ? NUM_LAYOUTS : NEW_LAYOUTS;
        check_settings(seeds[i], is_long_run() ? ALL_LAYOUTS : of_seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_layout_beats_the_value_it_waits_with)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
