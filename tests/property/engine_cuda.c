/*
 * The CUDA engine on a libcuda of the tests, which interprets PTX
 * (device/ptx.h): every operation agrees with the reference engine over random
 * shapes, in float and in bf16, has the bits of the same kernels as plain C,
 * and the same bits once more; the memory that the driver hands out is what the
 * engine says it holds; commands are late; a kernel that leaves its arrays ends
 * the queue.
 */
#include "support/device_trials.h"
#include "support/support.h"

#include "engine/device/cuda.h"
#include "engine/device/device.h"

#include <stdlib.h>
#include <string.h>

/* The interpreter has to know every instruction. */
static struct device_trials cuda = {.name = "engine_cuda",
                                    .shapes = 1,
                                    .long_shapes = 8,
                                    .create = pen_engine_cuda_create,
                                    .refusal = "refuses the kernels"};

/* One element behind the end of an array of 100. */
static void an_access_out_of_bounds_is_a_fault(void **state)
{
    struct pen_engine *engine = device_engine(*state, PEN_PRECISION_F32);
    if (engine == NULL) {
        skip();
        return;
    }
    enum { COUNT = 100 };
    float *x = pen_engine_take(engine, PEN_PLACE_ENGINE, COUNT * sizeof *x);
    assert_non_null(x);
    for (long count = COUNT; count <= COUNT + 1; count++) {
        const struct pen__flat_sizes sizes = {count};
        pen__launch(engine, PEN__KERNEL_add, 1, PEN__AT(x, x, x), &sizes);
        uint64_t mark = engine->ops->mark(engine);
        bool is_reached = false; /* it is late */
        for (int i = 0; i < 2; i++)
            is_reached = engine->ops->is_reached(engine, mark);
        assert_true(is_reached == (count == COUNT));
    }
    const char *fault = engine->ops->fault(engine);
    assert_non_null(fault);
    assert_non_null(strstr(fault, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_equal(engine->ops->mark(engine), UINT64_MAX);
    pen_engine_give(engine, PEN_PLACE_ENGINE, x, COUNT * sizeof *x);
    pen_engine_free(engine);
}

/* A host that looks before the mark sees what was there before. */
static void memory_is_old_before_its_mark(void **state)
{
    struct pen_engine *engine = device_engine(*state, PEN_PRECISION_F32);
    if (engine == NULL) {
        skip();
        return;
    }
    float *from = pen_engine_take(engine, PEN_PLACE_STAGING, sizeof *from);
    float *to = pen_engine_take(engine, PEN_PLACE_STAGING, sizeof *to);
    assert_non_null(from);
    assert_non_null(to);
    *from = 3;
    engine->ops->copy(engine, from, to, sizeof *to);
    assert_true(*to == 0);
    pen_engine_await(engine);
    assert_true(*to == 3);
    pen_engine_give(engine, PEN_PLACE_STAGING, to, sizeof *to);
    pen_engine_give(engine, PEN_PLACE_STAGING, from, sizeof *from);
    pen_engine_free(engine);
}

static void expect_refused(const char *device, const char *reason)
{
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        pen_engine_cuda_create(PEN_PRECISION_F32, device, &why, &engine),
        PEN_INVALID);
    assert_null(engine);
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("no \"%s\" in: %s", reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void devices_that_there_are_not_are_refused(void **state)
{
    struct pen_engine *engine = device_engine(*state, PEN_PRECISION_F32);
    if (engine == NULL) {
        skip();
        return;
    }
    pen_engine_free(engine);
    expect_refused("no such one", "Use one of 0 (");
    expect_refused("77", "cuda:77: no device has this number");
    setenv("TEST_CUDA_CAPABILITY", "75", 1);
    expect_refused(NULL, "compute capability 7.5; the kernels need 8.0");
    unsetenv("TEST_CUDA_CAPABILITY");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    expect_refused(NULL, "knows no device");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(device_float_agrees_with_the_reference,
                                  &cuda),
        cmocka_unit_test_prestate(device_bf16_is_within_its_rounding, &cuda),
        cmocka_unit_test_prestate(device_bits_are_those_of_plain_c, &cuda),
        cmocka_unit_test_prestate(device_memory_is_what_the_driver_handed_out,
                                  &cuda),
        cmocka_unit_test_prestate(memory_is_old_before_its_mark, &cuda),
        cmocka_unit_test_prestate(an_access_out_of_bounds_is_a_fault, &cuda),
        cmocka_unit_test_prestate(devices_that_there_are_not_are_refused,
                                  &cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
