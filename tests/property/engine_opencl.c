/*
 * The OpenCL engine on the first device that there is: every operation agrees
 * with the reference engine over random shapes, in float and in bf16, has the
 * bits of the same kernels as plain C, and the same bits once more; and the
 * memory that the driver hands out is what the engine says it holds.
 */
#include "support/device_trials.h"
#include "support/support.h"

#include "engine/device/device.h"

#include <string.h>

/* Kernels have to compile. */
static struct device_trials opencl = {.name = "engine_opencl",
                                      .shapes = 2,
                                      .long_shapes = 36,
                                      .create = pen_engine_opencl_create,
                                      .refusal = "compiler"};

/* What a driver answers badly is the fault of the queue, and stays. */
static void a_fault_is_told_and_no_mark_is_reached(void **state)
{
    struct pen_engine *engine = device_engine(*state, PEN_PRECISION_F32);
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
        cmocka_unit_test_prestate(device_float_agrees_with_the_reference,
                                  &opencl),
        cmocka_unit_test_prestate(device_bf16_is_within_its_rounding, &opencl),
        cmocka_unit_test_prestate(device_bits_are_those_of_plain_c, &opencl),
        cmocka_unit_test_prestate(device_memory_is_what_the_driver_handed_out,
                                  &opencl),
        cmocka_unit_test_prestate(a_fault_is_told_and_no_mark_is_reached,
                                  &opencl),
        cmocka_unit_test(a_device_that_there_is_not_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
