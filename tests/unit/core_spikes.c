/*
 * A spike of the loss or of the gradient norm is found at its step, and falling
 * losses, noise and heavy tails give none.
 */
#include "support/support.h"

#include "base/random.h"
#include "core/spikes.h"

#include <math.h>

static double uniform(struct pen_random *random)
{
    return (double)(pen_random_next(random) >> 11) * 0x1p-53;
}

/* About normal: the sum of twelve. */
static double normal(struct pen_random *random)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform(random);
    return sum;
}

static void expect_quiet(struct pen_spikes *spikes, double value, int step)
{
    double usual = pen_spikes_take(spikes, value);
    if (!isnan(usual))
        fail_msg("step %d: %g is taken for a spike over %g", step, value,
                 usual);
}

/* Falls as the losses of language models do, first slowly (the warm-up). */
static double course(int step)
{
    return 1.5 + 9.3 / (1 + 0.02 * step * step / (step + 20.0));
}

static void a_falling_loss_is_quiet(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pen_random random = {.state = seed};
        struct pen_spikes loss = pen_spikes_make(PEN_SPIKES_LOSS);
        struct pen_spikes norm = pen_spikes_make(PEN_SPIKES_GRAD_NORM);
        for (int i = 0; i < 5000; i++) {
            expect_quiet(&loss, course(i) * (1 + 0.05 * normal(&random)), i);
            expect_quiet(&norm, exp(0.5 * normal(&random)), i);
        }
    }
}

/*
 * Batches of one image: after some steps mostly near zero, now and then many
 * times that.
 */
static void heavy_tails_are_quiet(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pen_random random = {.state = seed};
        struct pen_spikes loss = pen_spikes_make(PEN_SPIKES_LOSS);
        for (int i = 0; i < 64; i++)
            expect_quiet(&loss, exp((2 * normal(&random) - 6) * i / 64), i);
        for (int i = 0; i < 5000; i++)
            expect_quiet(&loss, exp(-6 + 2 * normal(&random)), i);
    }
}

static void expect_spike(struct pen_spikes *spikes, double value, double usual)
{
    double found = pen_spikes_take(spikes, value);
    if (!(fabs(found - usual) < 0.2 * usual))
        fail_msg("%g over %g was found as %g", value, usual, found);
}

static void a_spike_is_found_with_what_was_usual(void **state)
{
    (void)state;
    struct pen_random random = {.state = 7};
    struct pen_spikes loss = pen_spikes_make(PEN_SPIKES_LOSS);
    struct pen_spikes norm = pen_spikes_make(PEN_SPIKES_GRAD_NORM);
    for (int i = 0; i < 200; i++) {
        expect_quiet(&loss, 4 * (1 + 0.02 * normal(&random)), i);
        expect_quiet(&norm, exp(0.3 * normal(&random)), i);
    }
    expect_spike(&loss, 6.5, 4);
    expect_spike(&loss, 19105, 4);
    expect_spike(&norm, 50, 1);
    expect_spike(&norm, 3e21, 1);
}

static void a_loss_that_stays_high_is_reported_once(void **state)
{
    (void)state;
    struct pen_spikes loss = pen_spikes_make(PEN_SPIKES_LOSS);
    for (int i = 0; i < 100; i++)
        expect_quiet(&loss, 4 + 0.1 * (i % 3), i);
    expect_spike(&loss, 30, 4);
    for (int i = 0; i < 500; i++)
        expect_quiet(&loss, 30 + i % 3, i);
    expect_spike(&loss, 60, 31);
}

static void the_second_step_can_be_a_spike(void **state)
{
    (void)state;
    struct pen_spikes loss = pen_spikes_make(PEN_SPIKES_LOSS);
    struct pen_spikes norm = pen_spikes_make(PEN_SPIKES_GRAD_NORM);
    expect_quiet(&loss, 10, 1);
    expect_spike(&loss, 31, 10);
    expect_quiet(&norm, 1, 1);
    expect_quiet(&norm, 29, 2);
    expect_spike(&norm, 30 * 29 + 1, 1);
}

static void zeros_and_what_is_not_finite_do_no_harm(void **state)
{
    (void)state;
    struct pen_spikes loss = pen_spikes_make(PEN_SPIKES_LOSS);
    expect_quiet(&loss, NAN, 0);
    expect_quiet(&loss, INFINITY, 0);
    for (int i = 0; i < 100; i++)
        expect_quiet(&loss, 0, i);
    expect_quiet(&loss, NAN, 100);
    expect_spike(&loss, 1, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_falling_loss_is_quiet),
        cmocka_unit_test(heavy_tails_are_quiet),
        cmocka_unit_test(a_spike_is_found_with_what_was_usual),
        cmocka_unit_test(a_loss_that_stays_high_is_reported_once),
        cmocka_unit_test(the_second_step_can_be_a_spike),
        cmocka_unit_test(zeros_and_what_is_not_finite_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
