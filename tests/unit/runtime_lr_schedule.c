/*
 * The learning rate of a step follows from the schedule and the number of
 * steps done; the expected values are worked out by hand from the formulas.
 */
#include "support/support.h"

#include "runtime/lr_schedule.h"

#include <math.h>

static const struct pen_lr_schedule base = {.rate = 1.0,
                                            .min_rate = 0.1,
                                            .warmup_iters = 10,
                                            .decay_iters = 110,
                                            .wsd_decay_iters = 20};

static struct pen_lr_schedule of_style(enum pen_lr_style style)
{
    struct pen_lr_schedule schedule = base;
    schedule.style = style;
    return schedule;
}

static void warm_up_rises_from_zero_in_every_style(void **state)
{
    (void)state;
    for (unsigned style = 0; style < PEN_LR_STYLES; style++) {
        struct pen_lr_schedule schedule = of_style((enum pen_lr_style)style);
        expect_close(0, pen_lr_schedule_rate(&schedule, 0), "step 0");
        expect_close(0.3, pen_lr_schedule_rate(&schedule, 3), "step 3");
        expect_close(1, pen_lr_schedule_rate(&schedule, 10), "step 10");
    }
}

static void constant_stays_and_the_others_end_at_the_minimum(void **state)
{
    (void)state;
    for (unsigned style = 0; style < PEN_LR_STYLES; style++) {
        struct pen_lr_schedule schedule = of_style((enum pen_lr_style)style);
        double end = style == PEN_LR_CONSTANT ? 1 : 0.1;
        expect_close(end, pen_lr_schedule_rate(&schedule, 110), "the last");
        expect_close(end, pen_lr_schedule_rate(&schedule, 111), "behind it");
        expect_close(end, pen_lr_schedule_rate(&schedule, 1u << 30), "late");
    }
}

static void linear_falls_in_equal_steps(void **state)
{
    (void)state;
    struct pen_lr_schedule schedule = of_style(PEN_LR_LINEAR);
    /* 0.1 + 0.9 (1 - 25 / 100) and 0.1 + 0.9 (1 - 99 / 100) */
    expect_close(0.775, pen_lr_schedule_rate(&schedule, 35), "a quarter");
    expect_close(0.109, pen_lr_schedule_rate(&schedule, 109), "before last");
}

static void cosine_is_half_way_in_the_middle(void **state)
{
    (void)state;
    struct pen_lr_schedule schedule = of_style(PEN_LR_COSINE);
    expect_close(0.55, pen_lr_schedule_rate(&schedule, 60), "the middle");
    /* cos(60 degrees) is 1/2: with 90 steps of decay a third is 30 */
    schedule.decay_iters = 100;
    expect_close(0.1 + 0.9 * 0.75, pen_lr_schedule_rate(&schedule, 40),
                 "a third");
}

static void without_warm_up_the_first_step_has_the_full_rate(void **state)
{
    (void)state;
    for (unsigned style = 0; style < PEN_LR_STYLES; style++) {
        struct pen_lr_schedule schedule = of_style((enum pen_lr_style)style);
        schedule.warmup_iters = 0;
        expect_close(1, pen_lr_schedule_rate(&schedule, 0), "step 0");
    }
}

static void wsd_is_stable_and_then_falls_as_asked(void **state)
{
    (void)state;
    struct pen_lr_schedule schedule = of_style(PEN_LR_WSD);
    static const struct {
        enum pen_wsd_style style;
        double quarter; /* of the 20 steps of decay: step 95 */
    } cases[] = {{PEN_WSD_LINEAR, 0.75},
                 {PEN_WSD_COSINE, 0.85355339059327378}, /* (1 + 1/sqrt 2)/2 */
                 {PEN_WSD_MINUS_SQRT, 0.5},
                 {PEN_WSD_EXPONENTIAL, 0.68179283050742909}}; /* 2^.75 - 1 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        schedule.wsd_style = cases[i].style;
        expect_close(1, pen_lr_schedule_rate(&schedule, 50), "stable");
        expect_close(1, pen_lr_schedule_rate(&schedule, 90), "its end");
        expect_close(0.1 + 0.9 * cases[i].quarter,
                     pen_lr_schedule_rate(&schedule, 95), "a quarter");
        expect_close(0.1, pen_lr_schedule_rate(&schedule, 110), "the end");
    }
}

static void expect_refusal(struct pen_lr_schedule schedule, const char *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_lr_schedule_check(&schedule, &why));
    assert_string_equal(words, pen_text_string(&why));
    pen_text_release(&why);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    struct pen_lr_schedule schedule = of_style(PEN_LR_COSINE);
    assert_int_equal(PEN_OK, pen_lr_schedule_check(&schedule, NULL));
    schedule.min_rate = 2;
    expect_refusal(schedule, "--min-lr 2 must be between 0 and --lr 1");
    schedule = of_style(PEN_LR_COSINE);
    schedule.warmup_iters = 110;
    expect_refusal(
        schedule,
        "--lr-warmup-iters 110 must be less than the 110 iterations of "
        "--lr-decay-iters");
    schedule.style = PEN_LR_CONSTANT;
    assert_int_equal(PEN_OK, pen_lr_schedule_check(&schedule, NULL));
    schedule = of_style(PEN_LR_WSD);
    schedule.wsd_decay_iters = 101;
    expect_refusal(schedule, "WSD needs --lr-wsd-decay-iters from 1 to 100, "
                             "the iterations after the warm-up");
    schedule.wsd_decay_iters = 0;
    expect_refusal(schedule, "WSD needs --lr-wsd-decay-iters from 1 to 100, "
                             "the iterations after the warm-up");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_rises_from_zero_in_every_style),
        cmocka_unit_test(constant_stays_and_the_others_end_at_the_minimum),
        cmocka_unit_test(linear_falls_in_equal_steps),
        cmocka_unit_test(cosine_is_half_way_in_the_middle),
        cmocka_unit_test(without_warm_up_the_first_step_has_the_full_rate),
        cmocka_unit_test(wsd_is_stable_and_then_falls_as_asked),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
