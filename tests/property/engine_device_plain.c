/*
 * The kernels of devices, as plain C, agree with the reference engine in every
 * operation over random shapes, in float and in bf16; no result depends on the
 * order in which lanes run between two barriers; and the memory that a driver
 * hands out is what the engine says it holds.
 */
#include "support/engine.h"
#include "support/plain_driver.h"
#include "support/seed.h"

#include "engine/device/device.h"

#include <string.h>

enum { SHAPES = 20, LONG_SHAPES = 500, LARGEST = 70 };

static uint64_t num_shapes(void)
{
    return is_long_run() ? LONG_SHAPES : SHAPES;
}

static void expect_all_near(enum pen_precision truth_dtype,
                            enum pen_precision dtype, double tolerance)
{
    struct pen_engine *engine = plain_engine(dtype);
    struct pen_engine *truth = reference_engine(truth_dtype);
    for (size_t op = 0; text_trial_op(op) != NULL; op++)
        for (uint64_t i = 0; i < num_shapes(); i++) {
            const struct comparison comparison = {i, i % 8 == 7 ? 200 : LARGEST,
                                                  tolerance};
            expect_near(text_trial_op(op), truth, engine, &comparison);
        }
    pen_engine_free(truth);
    pen_engine_free(engine);
}

/* The bounds are those of property/engine_onednn, for the same reasons. */
static void float_agrees_with_the_reference(void **state)
{
    (void)state;
    expect_all_near(PEN_PRECISION_F32, PEN_PRECISION_F32, 100 * 0x1p-24);
}

static void bf16_is_within_its_rounding(void **state)
{
    (void)state;
    expect_all_near(PEN_PRECISION_F64, PEN_PRECISION_BF16, 6 * 0x1p-9);
}

/* A missing barrier would let a lane read what another has not written yet. */
static void order_of_lanes_does_not_matter(void **state)
{
    (void)state;
    struct pen_engine *engine = plain_engine(PEN_PRECISION_F32);
    for (size_t op = 0; text_trial_op(op) != NULL; op++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct trial up, down;
            trial_init(&up, engine, 1000 + seed, LARGEST);
            text_trial_op(op)->run(&up);
            plain_is_descending = true;
            trial_init(&down, engine, 1000 + seed, LARGEST);
            text_trial_op(op)->run(&down);
            plain_is_descending = false;
            for (int i = 0; i < up.num_results; i++)
                if (memcmp(up.results[i].numbers, down.results[i].numbers,
                           up.results[i].count * sizeof(double)) != 0)
                    fail_msg("%s: %s depends on the order of lanes",
                             text_trial_op(op)->name, up.results[i].name);
            trial_release(&up);
            trial_release(&down);
        }
    pen_engine_free(engine);
}

/* What the driver handed out is what the engine and its callers have. */
static void memory_is_what_the_driver_handed_out(void **state)
{
    (void)state;
    struct pen_engine *engine = plain_engine(PEN_PRECISION_F32);
    struct pen__driver *driver = pen__device_of(engine)->driver;
    for (size_t op = 0; text_trial_op(op) != NULL; op++) {
        struct trial trial;
        trial_init(&trial, engine, op, LARGEST);
        text_trial_op(op)->run(&trial);
        size_t told = engine->ops->memory_bytes(engine) +
                      engine->taken[PEN_PLACE_ENGINE] +
                      engine->taken[PEN_PLACE_STAGING];
        assert_int_equal(told, driver->taken[PEN_PLACE_ENGINE] +
                                   driver->taken[PEN_PLACE_STAGING]);
        trial_release(&trial);
    }
    assert_int_equal(engine->taken[PEN_PLACE_ENGINE], 0);
    assert_int_equal(engine->ops->memory_bytes(engine),
                     engine->ops->scratch_bytes(engine));
    pen_engine_free(engine);
}

/* A host that does not wait for its mark reads what was there before. */
static void memory_before_its_mark_is_found(void **state)
{
    (void)state;
    struct pen_engine *engine = plain_engine(PEN_PRECISION_F32);
    float *x = pen_engine_take(engine, PEN_PLACE_STAGING, 3 * sizeof *x);
    assert_non_null(x);
    x[0] = 1;
    x[1] = 2;
    engine->ops->add(engine, 1, &x[0], &x[1], &x[2]);
    assert_true(x[2] == 0);
    pen_engine_await(engine);
    assert_true(x[2] == 3);
    pen_engine_give(engine, PEN_PLACE_STAGING, x, 3 * sizeof *x);
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_agrees_with_the_reference),
        cmocka_unit_test(bf16_is_within_its_rounding),
        cmocka_unit_test(order_of_lanes_does_not_matter),
        cmocka_unit_test(memory_is_what_the_driver_handed_out),
        cmocka_unit_test(memory_before_its_mark_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
