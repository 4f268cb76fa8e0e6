/*
 * Operations on the device engine, each array a buffer of its own, for a tool
 * that watches kernels: tests/device/run_races. The word on the command line is
 * a fault that is planted in the kernels.
 */
#include "support/buffer_driver.h"
#include "support/engine.h"
#include "support/seed.h"

#include <string.h>

/* A watched product takes seconds: with this seed attention has one head. */
enum { LARGEST = 3, SEED = 46 };

static const char *fault;

/* The planted faults are in these two. A step of Muon has 15 products. */
static bool is_chosen(const char *name)
{
    if (fault != NULL)
        return strcmp(name, strcmp(fault, "barrier") == 0 ? "linear" : "add") ==
               0;
    return (strcmp(name, "attention of wide heads") != 0 &&
            strcmp(name, "muon") != 0) ||
           is_long_run();
}

static void try_all(enum pen_precision truth_dtype, enum pen_precision dtype,
                    double tolerance)
{
    struct pen_engine *engine = buffer_engine(dtype, fault);
    if (engine == NULL)
        fail_msg("there is no device");
    struct pen_engine *truth = reference_engine(truth_dtype);
    const struct comparison comparison = {SEED, LARGEST, tolerance};
    for (size_t op = 0; text_trial_op(op) != NULL; op++)
        if (is_chosen(text_trial_op(op)->name))
            expect_near(text_trial_op(op), truth, engine, &comparison);
    pen_engine_free(truth);
    pen_engine_free(engine);
}

static void operations_agree_with_the_reference(void **state)
{
    (void)state;
    try_all(PEN_PRECISION_F32, PEN_PRECISION_F32, 100 * 0x1p-24);
    if (is_long_run())
        try_all(PEN_PRECISION_F64, PEN_PRECISION_BF16, 6 * 0x1p-9);
}

int main(int argc, char **argv)
{
    fault = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_agree_with_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
