/* 1F1B leaves each of p ranks idle for (p-1)T, whatever the micro-batches. */
#include "support/support.h"

static void expect_idle(uint32_t ranks, uint32_t microbatches, double idle)
{
    struct pen_costs costs = unit_costs();
    struct pen_schedule *schedule = make("1f1b", ranks, microbatches, 1);
    struct pen_timing *timing = time_of(schedule, &costs);
    for (uint32_t rank = 0; rank < ranks; rank++)
        expect_close(idle, timing->ranks[rank].idle_sec, "idle seconds");
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static void one_f_one_b_idles_p_minus_1_rounds(void **state)
{
    (void)state;
    expect_idle(4, 8, 9);
    expect_idle(4, 32, 9);
    expect_idle(1, 5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_f_one_b_idles_p_minus_1_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
