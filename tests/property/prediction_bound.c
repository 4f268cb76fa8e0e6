/*
 * No synchronous schedule beats its bound: thousands of plans by dice, of every
 * generator, on clusters of one kind and of two. What is refused is refused by
 * both.
 */
#include "support/layout.h"
#include "support/support.h"

#include "base/random.h"
#include "planner/timings.h"

#include <stdio.h>

#define NUM_PLANS 9000u

static uint32_t pick(struct pen_random *random, const uint32_t *from,
                     uint32_t count)
{
    return from[pen_random_below(random, count)];
}

static const char *random_model(struct pen_random *random)
{
    static const char *const models[] = {
        "preset:gpt2-medium",   "preset:gpt3-175b",   "preset:llama-3.1-8b",
        "preset:mixtral-8x7b",  "preset:deepseek-v3", "preset:gpt-oss-20b",
        "preset:llama-3.1-405b"};
    return models[pen_random_below(random, sizeof models / sizeof *models)];
}

static const char *random_cluster(struct pen_random *random)
{
    static const char *const clusters[] = {
        "preset:dgx-a100*128", "preset:dgx-h100*128", "preset:ethernet-10*256",
        "name: two kinds\n"
        "devices:\n"
        "  - {kind: a100-80, count: 100}\n"
        "  - {kind: v100-32, count: 900}\n"
        "links:\n"
        "  - {level: node, size: 8, bandwidth: 150 GB/s, latency: 3 us}\n"
        "  - {level: all, bandwidth: 12 GB/s, latency: 5 us}\n"};
    return clusters[pen_random_below(random,
                                     sizeof clusters / sizeof *clusters)];
}

/* Cuts at random places; every stage has a layer. */
static void cut_anywhere(struct pen_random *random, struct layout *layout)
{
    uint32_t counts[64];
    uint32_t stages = layout->plan->num_stages;
    for (uint32_t i = 0; i < stages; i++)
        counts[i] = 1;
    for (uint32_t i = stages; i < layout->model->num_layers; i++)
        counts[pen_random_below(random, stages)]++;
    layout_cut(layout, counts);
}

static void roll_degrees(struct pen_random *random, struct layout *layout)
{
    static const uint32_t twos[] = {1, 2, 4, 8};
    uint32_t *degrees = layout->plan->degrees;
    degrees[PEN_DEGREE_TP] = pick(random, twos, 4);
    degrees[PEN_DEGREE_CP] = pick(random, twos, 2);
    degrees[PEN_DEGREE_DP] = pick(random, twos, 4);
    if (layout->model->num_experts > 0)
        degrees[PEN_DEGREE_EP] =
            pick(random, twos, 4) < degrees[PEN_DEGREE_DP] ? 2 : 1;
    if (degrees[PEN_DEGREE_DP] % degrees[PEN_DEGREE_EP] != 0)
        degrees[PEN_DEGREE_EP] = 1;
    layout->plan->has_sequence_parallel = pen_random_below(random, 2) == 1;
    layout->plan->sharding =
        (enum pen_sharding)pen_random_below(random, PEN_SHARDINGS);
}

static void roll_practice(struct pen_random *random,
                          struct pen_practice *practice)
{
    practice->has_fused_attention = pen_random_below(random, 2) == 1;
    practice->overlaps_gradients = pen_random_below(random, 2) == 1;
    practice->overlaps_parameters = pen_random_below(random, 2) == 1;
    practice->blocks_on_messages = pen_random_below(random, 2) == 1;
    practice->overlaps_tensor = pen_random_below(random, 2) == 1;
}

static void roll(struct pen_random *random,
                 const struct pen_generator *generator, struct layout *out)
{
    static const uint32_t batches[] = {1, 2, 5};
    uint32_t pp = 1 + pen_random_below(random, 8);
    uint32_t vpp = 1 + pen_random_below(random, 2);
    if (generator->has_chunks)
        vpp += pen_random_below(random, 2);
    layout_init(out, random_model(random), random_cluster(random), pp, vpp);
    assert_true(pen_plan_set(&out->plan->schedule.name, generator->name));
    roll_degrees(random, out);
    roll_practice(random, &out->setting.practice);
    cut_anywhere(random, out);
    for (uint32_t i = 0; i < out->plan->num_stages; i++)
        out->plan->stages[i].recompute =
            (enum pen_recompute)pen_random_below(random, PEN_RECOMPUTES);
    out->plan->micro_batch = pick(random, batches, 3);
    out->plan->num_microbatches = pp * (1 + pen_random_below(random, 4));
    if (pen_random_below(random, 3) == 0)
        out->plan->num_microbatches = 1 + pen_random_below(random, 30);
    if (generator->has_slices)
        out->plan->schedule.slices = pen_random_below(random, 4);
}

/* Returns whether the plan was predicted. */
static bool check(const struct layout *layout)
{
    struct pen_prediction found;
    struct pen_prediction bound;
    const struct pen_plan *plan = layout->plan;
    if (pen_predict(&layout->setting, plan, &found, NULL) != PEN_OK)
        return false;
    layout_bound(layout, &bound);
    if (bound.step_sec > found.step_sec * (1 + 1e-9))
        fail_msg("%s: %u ranks with %u stages, %u micro-batches: %.9g s, "
                 "bound %.9g s",
                 plan->schedule.name, plan->degrees[PEN_DEGREE_PP],
                 plan->degrees[PEN_DEGREE_VPP], plan->num_microbatches,
                 found.step_sec, bound.step_sec);
    pen_prediction_release(&found);
    pen_prediction_release(&bound);
    return true;
}

static void no_schedule_beats_its_bound(void **state)
{
    (void)state;
    struct pen_random random = {6};
    struct pen_timings *timings = pen_timings_create();
    uint32_t predicted = 0;
    assert_non_null(timings);
    for (uint32_t i = 0; i < NUM_PLANS;)
        for (size_t at = 0; pen_generator_at(at) != NULL; at++) {
            const struct pen_generator *generator = pen_generator_at(at);
            /* A search leaves local updates out: their backward is no chain,
             * and the bound has one. */
            if (!generator->is_synchronous || generator->is_local)
                continue;
            struct layout layout;
            roll(&random, generator, &layout);
            layout.setting.timings = timings;
            predicted += check(&layout) ? 1u : 0u;
            layout_release(&layout);
            i++;
        }
    printf("%u plans predicted\n", predicted);
    assert_true(predicted > NUM_PLANS / 3);
    pen_timings_free(timings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_schedule_beats_its_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
