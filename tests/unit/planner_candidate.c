/* What a candidate becomes: a plan that the runtime takes. */
#include "support/setting.h"
#include "support/support.h"

#include "planner/candidate.h"

/* Of the model, each a logical replica at least. */
static uint32_t count_copies(const struct pen_generator *generator)
{
    struct pen_schedule *schedule = make(generator->name, 4, 16, 0);
    uint32_t copies = schedule->shape.num_copies;
    pen_schedule_free(schedule);
    return copies;
}

static void check_replicas(const struct pen_setting *setting,
                           const struct pen_generator *generator)
{
    struct pen_candidate candidate = {.degrees = {1, 1, 1, 1, 1, 1},
                                      .micro_batch = 1,
                                      .num_microbatches = 16,
                                      .generator = generator};
    struct pen_plan *plan;
    candidate.degrees[PEN_DEGREE_PP] = 4;
    candidate.degrees[PEN_DEGREE_DP] = 2;
    if (pen_candidate_plan(setting, &candidate, &plan, NULL) != PEN_OK)
        fail_msg("%s is no plan", generator->name);
    if (plan->logical_replicas != 2 * count_copies(generator))
        fail_msg("%s: %u logical replicas", generator->name,
                 plan->logical_replicas);
    pen_plan_free(plan);
}

static void copies_of_a_schedule_are_replicas(void **state)
{
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*8", PEN_TARGET_PENSTOCK, 32, 128);
    uint32_t num_several = 0;
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        check_replicas(&setting, pen_generator_at(i));
        num_several += count_copies(pen_generator_at(i)) > 1;
    }
    assert_true(num_several >= 3);
    release_setting(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_a_schedule_are_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
