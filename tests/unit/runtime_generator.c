/* Draws follow the model's distribution, and the nucleus cuts its tail. */
#include "support/support.h"

#include "runtime/generator.h"

#include <math.h>

enum { TOKENS = 5, DRAWS = 200000 };

/* Shares 0.4, 0.3, 0.15, 0.1, 0.05, in another order. */
static const double shares[TOKENS] = {0.1, 0.4, 0.05, 0.3, 0.15};

static void count_draws(double temperature, double top_p, double out[TOKENS])
{
    struct pen_random random = {.state = 9};
    for (int i = 0; i < TOKENS; i++)
        out[i] = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        float logits[TOKENS];
        uint32_t order[TOKENS];
        for (int i = 0; i < TOKENS; i++)
            logits[i] = (float)(log(shares[i]) + 3);
        out[pen_text_generator_draw(logits, order, TOKENS, temperature, top_p,
                                    &random)] += 1.0 / DRAWS;
    }
}

/* Five standard deviations of a share of one half. */
static void expect_shares(const double *expected, const double *found)
{
    double most = 5 * sqrt(0.25 / DRAWS);
    for (int i = 0; i < TOKENS; i++)
        if (fabs(expected[i] - found[i]) > most)
            fail_msg("token %d: expected a share of %g, found %g", i,
                     expected[i], found[i]);
}

static void draws_have_the_shares_of_the_model(void **state)
{
    (void)state;
    double found[TOKENS];
    count_draws(1, 1, found);
    expect_shares(shares, found);
}

static void temperature_is_an_exponent(void **state)
{
    (void)state;
    double found[TOKENS], expected[TOKENS], sum = 0;
    count_draws(0.5, 1, found);
    for (int i = 0; i < TOKENS; i++)
        sum += shares[i] * shares[i];
    for (int i = 0; i < TOKENS; i++)
        expected[i] = shares[i] * shares[i] / sum;
    expect_shares(expected, found);
}

static void the_nucleus_has_the_likeliest_only(void **state)
{
    (void)state;
    const double expected[TOKENS] = {0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85};
    double found[TOKENS];
    count_draws(1, 0.8, found);
    expect_shares(expected, found);
    assert_true(found[0] == 0 && found[2] == 0);
}

static void no_temperature_takes_the_likeliest(void **state)
{
    (void)state;
    const double expected[TOKENS] = {0, 1, 0, 0, 0};
    double found[TOKENS];
    count_draws(0, 1, found);
    expect_shares(expected, found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_have_the_shares_of_the_model),
        cmocka_unit_test(temperature_is_an_exponent),
        cmocka_unit_test(the_nucleus_has_the_likeliest_only),
        cmocka_unit_test(no_temperature_takes_the_likeliest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
