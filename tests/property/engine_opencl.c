/*
 * The OpenCL engine on the first device that there is: every operation agrees
 * with the reference engine over random shapes, in float and in bf16, has the
 * bits of the same kernels as plain C, and the same bits once more; and the
 * memory that the driver hands out is what the engine says it holds.
 */
#include "support/engine.h"
#include "support/plain_driver.h"
#include "support/seed.h"

#include "engine/device/device.h"

#include <string.h>

enum { SHAPES = 2, LONG_SHAPES = 36, LARGEST = 70 };

/* NULL, with the reason, where there is no OpenCL; kernels have to compile. */
static struct pen_engine *opencl_engine(enum pen_precision dtype)
{
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_engine_opencl_create(dtype, NULL, &why, &engine) != PEN_OK)
        print_message("%s\n", pen_text_string(&why));
    if (strstr(pen_text_string(&why), "compiler") != NULL)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return engine;
}

typedef void try_one(const struct trial_op *op, struct pen_engine *other,
                     struct pen_engine *engine, uint64_t seed, size_t largest);

/* Every operation, in some shapes for each seed. */
static void for_all(struct pen_engine *other, struct pen_engine *engine,
                    try_one *holds)
{
    uint64_t seeds[MOST_SEEDS];
    size_t count = seeds_of("engine_opencl", seeds);
    uint64_t shapes = is_long_run() ? LONG_SHAPES : SHAPES;
    for (size_t i = 0; i < count; i++)
        for (size_t op = 0; op < num_trial_ops; op++)
            for (uint64_t k = 0; k < shapes; k++)
                holds(&trial_ops[op], other, engine, seeds[i] * 1000 + k,
                      k % 8 == 7 ? 200 : LARGEST);
}

/* The bounds are those of property/engine_onednn, for the same reasons. */
static void is_near(const struct trial_op *op, struct pen_engine *truth,
                    struct pen_engine *engine, uint64_t seed, size_t largest)
{
    const struct comparison comparison = {
        seed, largest,
        engine->dtype == PEN_PRECISION_BF16 ? 6 * 0x1p-9 : 100 * 0x1p-24};
    expect_near(op, truth, engine, &comparison);
}

static void is_same(const struct trial_op *op, struct pen_engine *other,
                    struct pen_engine *engine, uint64_t seed, size_t largest)
{
    const struct comparison comparison = {seed, largest, 0};
    expect_near(op, other, engine, &comparison);
}

static void float_agrees_with_the_reference(void **state)
{
    (void)state;
    struct pen_engine *engine = opencl_engine(PEN_PRECISION_F32);
    if (engine == NULL)
        skip();
    struct pen_engine *truth = reference_engine(PEN_PRECISION_F32);
    for_all(truth, engine, is_near);
    pen_engine_free(truth);
    pen_engine_free(engine);
}

static void bf16_is_within_its_rounding(void **state)
{
    (void)state;
    struct pen_engine *engine = opencl_engine(PEN_PRECISION_BF16);
    if (engine == NULL)
        skip();
    struct pen_engine *truth = reference_engine(PEN_PRECISION_F64);
    for_all(truth, engine, is_near);
    pen_engine_free(truth);
    pen_engine_free(engine);
}

/* On a device that rounds divisions and roots as C does. */
static void bits_are_those_of_plain_c(void **state)
{
    (void)state;
    for (int dtype = PEN_PRECISION_F32; dtype <= PEN_PRECISION_BF16; dtype++) {
        struct pen_engine *engine = opencl_engine((enum pen_precision)dtype);
        if (engine == NULL)
            skip();
        struct pen_engine *plain = plain_engine((enum pen_precision)dtype);
        for_all(plain, engine, is_same);
        for_all(engine, engine, is_same);
        pen_engine_free(plain);
        pen_engine_free(engine);
    }
}

static void memory_is_what_the_driver_handed_out(void **state)
{
    (void)state;
    struct pen_engine *engine = opencl_engine(PEN_PRECISION_F32);
    if (engine == NULL)
        skip();
    const struct pen__driver *driver = pen__device_of(engine)->driver;
    for (size_t op = 0; op < num_trial_ops; op++) {
        struct trial trial;
        trial_init(&trial, engine, op, LARGEST);
        trial_ops[op].run(&trial);
        assert_int_equal(engine->ops->memory_bytes(engine) +
                             engine->taken[PEN_PLACE_ENGINE] +
                             engine->taken[PEN_PLACE_STAGING],
                         driver->taken[PEN_PLACE_ENGINE] +
                             driver->taken[PEN_PLACE_STAGING]);
        trial_release(&trial);
    }
    assert_int_equal(engine->ops->memory_bytes(engine),
                     engine->ops->scratch_bytes(engine));
    pen_engine_free(engine);
}

/* What a driver answers badly is the fault of the queue, and stays. */
static void a_fault_is_told_and_no_mark_is_reached(void **state)
{
    (void)state;
    struct pen_engine *engine = opencl_engine(PEN_PRECISION_F32);
    if (engine == NULL)
        skip();
    struct pen__driver *driver = pen__device_of(engine)->driver;
    float *x = pen_engine_take(engine, PEN_PLACE_STAGING, sizeof *x);
    assert_non_null(x);
    assert_null(engine->ops->fault(engine));
    driver->ops->copy(driver, x, x, sizeof *x); /* they overlap */
    const char *fault = engine->ops->fault(engine);
    assert_non_null(fault);
    assert_non_null(strstr(fault, "clEnqueueSVMMemcpy"));
    assert_false(engine->ops->is_reached(engine, engine->ops->mark(engine)));
    pen_engine_give(engine, PEN_PLACE_STAGING, x, sizeof *x);
    pen_engine_free(engine);
}

static void a_device_that_there_is_not_is_refused(void **state)
{
    (void)state;
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_engine_opencl_create(PEN_PRECISION_F32, "no such one",
                                              &why, &engine),
                     PEN_INVALID);
    assert_null(engine);
    if (strstr(pen_text_string(&why), "no such one") == NULL &&
        strstr(pen_text_string(&why), "ocl-icd") == NULL)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_agrees_with_the_reference),
        cmocka_unit_test(bf16_is_within_its_rounding),
        cmocka_unit_test(bits_are_those_of_plain_c),
        cmocka_unit_test(memory_is_what_the_driver_handed_out),
        cmocka_unit_test(a_fault_is_told_and_no_mark_is_reached),
        cmocka_unit_test(a_device_that_there_is_not_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
