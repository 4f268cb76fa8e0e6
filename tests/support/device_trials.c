#include "support/device_trials.h"

#include "support/engine.h"
#include "support/plain_driver.h"
#include "support/seed.h"

#include "engine/device/device.h"

#include <string.h>

enum { LARGEST = 70 };

typedef void try_one(const struct trial_op *op, struct pen_engine *other,
                     struct pen_engine *engine, uint64_t seed, size_t largest);

struct pen_engine *device_engine(const struct device_trials *trials,
                                 enum pen_precision dtype)
{
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (trials->create(dtype, NULL, &why, &engine) != PEN_OK)
        print_message("%s\n", pen_text_string(&why));
    if (strstr(pen_text_string(&why), trials->refusal) != NULL)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return engine;
}

/* Every operation, in some shapes for each seed. */
static void for_all(const struct device_trials *trials,
                    struct pen_engine *other, struct pen_engine *engine,
                    try_one *holds)
{
    uint64_t seeds[MOST_SEEDS];
    size_t count = seeds_of(trials->name, seeds);
    uint64_t shapes = is_long_run() ? trials->long_shapes : trials->shapes;
    for (size_t i = 0; i < count; i++)
        for (size_t op = 0; text_trial_op(op) != NULL; op++)
            for (uint64_t k = 0; k < shapes; k++)
                holds(text_trial_op(op), other, engine, seeds[i] * 1000 + k,
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

static void expect_all_near(const struct device_trials *trials,
                            enum pen_precision truth_dtype,
                            enum pen_precision dtype)
{
    struct pen_engine *engine = device_engine(trials, dtype);
    if (engine == NULL)
        skip();
    struct pen_engine *truth = reference_engine(truth_dtype);
    for_all(trials, truth, engine, is_near);
    pen_engine_free(truth);
    pen_engine_free(engine);
}

void device_float_agrees_with_the_reference(void **state)
{
    expect_all_near(*state, PEN_PRECISION_F32, PEN_PRECISION_F32);
}

void device_bf16_is_within_its_rounding(void **state)
{
    expect_all_near(*state, PEN_PRECISION_F64, PEN_PRECISION_BF16);
}

/* On a device that rounds divisions and roots as C does. */
void device_bits_are_those_of_plain_c(void **state)
{
    const struct device_trials *trials = *state;
    for (int dtype = PEN_PRECISION_F32; dtype <= PEN_PRECISION_BF16; dtype++) {
        struct pen_engine *engine =
            device_engine(trials, (enum pen_precision)dtype);
        if (engine == NULL)
            skip();
        struct pen_engine *plain = plain_engine((enum pen_precision)dtype);
        for_all(trials, plain, engine, is_same);
        for_all(trials, engine, engine, is_same);
        pen_engine_free(plain);
        pen_engine_free(engine);
    }
}

void device_memory_is_what_the_driver_handed_out(void **state)
{
    struct pen_engine *engine = device_engine(*state, PEN_PRECISION_F32);
    if (engine == NULL)
        skip();
    const struct pen__driver *driver = pen__device_of(engine)->driver;
    for (size_t op = 0; text_trial_op(op) != NULL; op++) {
        struct trial trial;
        trial_init(&trial, engine, op, LARGEST);
        text_trial_op(op)->run(&trial);
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
