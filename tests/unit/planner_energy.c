/*
 * Joules of a step are those of devices that compute and of devices that wait,
 * each with the watts of its kind; without watts or a price there are none.
 */
#include "support/layout.h"
#include "support/support.h"

#include "schedule/generators.h"

#include <string.h>

/* A quick and a slow kind, 600 and 200 W; waiting with 100 and a fifth of 200.
 */
static const char two_kinds[] =
    "name: two kinds\n"
    "devices:\n"
    "  - {kind: a100-80, count: 2, watts: 600, idle_watts: 100,\n"
    "     price_per_hour: 3}\n"
    "  - {kind: v100-32, count: 2, watts: 200, price_per_hour: 1}\n"
    "links:\n"
    "  - {level: all, bandwidth: 100 GB/s, latency: 5 us}\n";

/* Where the busiest rank computes: forward, backward, again, optimizer. */
static double computing_of(const struct pen_prediction *found)
{
    return found->spent[PEN_SPENDING_FORWARD] +
           found->spent[PEN_SPENDING_BACKWARD] +
           found->spent[PEN_SPENDING_RECOMPUTE] +
           found->spent[PEN_SPENDING_UPDATE];
}

static void one_device_computes_and_waits(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    layout_init(&layout, "preset:gpt2", "preset:h100-sxm*8", 1, 1);
    layout_predict(&layout, &found);
    double busy = computing_of(&found);
    expect_close(busy, found.busy_sec, "computing");
    assert_true(busy < found.step_sec);
    expect_close(700 * busy + 120 * (found.step_sec - busy), found.joules,
                 "joules");
    assert_true(found.price == 0);
    pen_prediction_release(&found);
    layout_release(&layout);
}

/* Messages between tensor ranks and gradients of replicas are waited for. */
static void messages_are_waited_for(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    layout_init(&layout, "preset:gpt2-xl", "preset:h100-sxm*8", 1, 1);
    layout.plan->degrees[PEN_DEGREE_TP] = 4;
    layout.plan->degrees[PEN_DEGREE_DP] = 2;
    layout_predict(&layout, &found);
    double busy = computing_of(&found);
    assert_true(found.spent[PEN_SPENDING_TENSOR] > 0);
    expect_close(8 * busy, found.busy_sec, "computing of all");
    expect_close(8 * (700 * busy + 120 * (found.step_sec - busy)), found.joules,
                 "joules");
    pen_prediction_release(&found);
    layout_release(&layout);
}

/* Two ranks of two devices, each of a kind of its own. */
static void kinds_have_their_own_watts(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    struct pen_prediction none;
    layout_init(&layout, "preset:gpt2", two_kinds, 2, 1);
    layout.plan->number = layout.setting.number = PEN_NUMBER_FP16;
    layout.plan->degrees[PEN_DEGREE_DP] = 2;
    layout_predict(&layout, &found);
    expect_close(2 * (3 + 1) * found.step_sec / 3600, found.price, "price");
    double idle = found.step_sec * 2 * (100 + 40);
    assert_true(found.busy_sec > 0);
    assert_true(found.joules > idle);
    /* What the slow ones add is the rest, at 160 W above their rest. */
    struct pen_device *fast = &layout.cluster->groups[0].device;
    struct pen_device *slow = &layout.cluster->groups[1].device;
    double fast_watts = fast->watts;
    fast->watts = fast->idle_watts;
    layout_predict(&layout, &none);
    double slow_busy = (none.joules - idle) / (200 - 40);
    expect_close(found.joules - none.joules,
                 (found.busy_sec - slow_busy) * (fast_watts - 100),
                 "joules of the quick ones");
    pen_prediction_release(&none);
    slow->watts = 0;
    slow->price_per_hour = 0;
    layout_predict(&layout, &none);
    assert_true(none.joules == 0 && none.price == 0);
    expect_close(found.busy_sec, none.busy_sec, "computing");
    pen_prediction_release(&none);
    pen_prediction_release(&found);
    layout_release(&layout);
}

/* Under every schedule between all waiting and all computing. */
static void joules_have_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        struct layout layout;
        struct pen_prediction found;
        const char *name = pen_generator_at(i)->name;
        layout_init(&layout, "preset:gpt2-xl", "preset:a100-80*4", 4, 1);
        assert_true(pen_plan_set(&layout.plan->schedule.name, name));
        if (pen_predict(&layout.setting, layout.plan, &found, NULL) == PEN_OK) {
            if (found.joules <= 4 * 78 * found.step_sec ||
                found.joules >= 4 * 400 * found.step_sec ||
                found.busy_sec > 4 * found.step_sec)
                fail_msg("%s: %g J in %g s, %g of computing", name,
                         found.joules, found.step_sec, found.busy_sec);
            pen_prediction_release(&found);
        }
        layout_release(&layout);
    }
}

/* ZeRO-3 on a slow link waits for weights and does not compute meanwhile. */
static void weights_of_others_are_waited_for(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction whole;
    struct pen_prediction cut;
    layout_init(&layout, "preset:gpt2", "preset:ethernet-10*8", 1, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 32;
    layout.plan->num_microbatches = 16; /* each gathers them again */
    layout_predict(&layout, &whole);
    layout.plan->sharding = PEN_SHARDING_ZERO3;
    layout_predict(&layout, &cut);
    assert_true(cut.step_sec > 2 * whole.step_sec);
    assert_true(cut.busy_sec <= whole.busy_sec * (1 + 1e-9));
    pen_prediction_release(&whole);
    pen_prediction_release(&cut);
    layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_computes_and_waits),
        cmocka_unit_test(messages_are_waited_for),
        cmocka_unit_test(kinds_have_their_own_watts),
        cmocka_unit_test(joules_have_bounds),
        cmocka_unit_test(weights_of_others_are_waited_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
