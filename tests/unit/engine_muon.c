/*
 * A step of Muon moves a matrix by the polynomial of its singular values: on a
 * matrix with one number in each row and column that polynomial is known in
 * closed form. Momentum, decay and the rows of a parameter that are not its
 * own are as torch.optim.Muon has them; engines agree, and bits do not depend
 * on what else the scratch was prepared for.
 */
#include "support/engine.h"

#include "engine/newton_schulz.h"
#include "engine/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEFORE = 3, AFTER = 2, MOST = 24 };

static const struct {
    size_t rows;
    size_t columns;
} shapes[] = {{5, 5}, {4, 9}, {11, 6}, {1, 7}, {17, 1}};

static struct pen_engine *f32_engine(size_t kind)
{
    struct pen_engine *engine = NULL;
    const struct pen_engine_kind *it = pen_engine_kind_at(kind);
    const struct pen_engine_choice choice = {.dtype = PEN_PRECISION_F32,
                                             .threads = 1};
    if (!pen_engine_has(it, PEN_PRECISION_F32) ||
        it->create(&choice, NULL, &engine) != PEN_OK)
        return NULL;
    if (engine->ops->muon_step == NULL) {
        pen_engine_free(engine);
        return NULL;
    }
    return engine;
}

static struct pen_parameter *make_parameter(struct pen_engine *engine,
                                            size_t rows, size_t columns)
{
    struct pen_parameter *parameter = NULL;
    const struct pen_parameter_shape shape = {.use = PEN_PARAMETER_DENSE,
                                              .rows = BEFORE + rows + AFTER,
                                              .columns = columns,
                                              .moments = 1};
    assert_int_equal(PEN_OK, engine->ops->parameter_create(engine, &shape, NULL,
                                                           &parameter));
    assert_int_equal(PEN_OK,
                     engine->ops->muon_prepare(engine, rows, columns, NULL));
    return parameter;
}

static double polynomial(double value)
{
    for (int i = 0; i < PEN_NEWTON_SCHULZ_STEPS; i++) {
        double square = value * value;
        value *= PEN_NEWTON_SCHULZ_A +
                 square * (PEN_NEWTON_SCHULZ_B + square * PEN_NEWTON_SCHULZ_C);
    }
    return value;
}

static struct pen_muon step_of(size_t rows)
{
    return (struct pen_muon){.first_row = BEFORE,
                             .num_rows = rows,
                             .learning_rate = 0.25,
                             .adjusted_rate = 0.5,
                             .momentum = 0.75,
                             .is_nesterov = true,
                             .weight_decay = 0.5,
                             .gradient_scale = 2};
}

/* Two steps with one gradient of one number per row and column. */
static void check_diagonal(struct pen_engine *engine, size_t rows,
                           size_t columns)
{
    static float gradient[(BEFORE + MOST + AFTER) * MOST];
    static float value[(BEFORE + MOST + AFTER) * MOST];
    struct pen_parameter *parameter = make_parameter(engine, rows, columns);
    struct pen_muon muon = step_of(rows);
    size_t count = (BEFORE + rows + AFTER) * columns;
    size_t side = rows < columns ? rows : columns;
    double squares = 0;
    memset(gradient, 0, sizeof gradient);
    for (size_t i = 0; i < count; i++)
        value[i] = 1;
    for (size_t i = 0; i < side; i++) {
        size_t at = (BEFORE + (i + 1) % rows) * columns + i;
        gradient[at] = (float)(i + 1) / 4;
        squares += (double)gradient[at] * (double)gradient[at];
    }
    engine->ops->parameter_import(engine, parameter, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, value);
    engine->ops->parameter_import(engine, parameter, PEN_PART_GRADIENT,
                                  PEN_ORDER_ROWS, gradient);
    engine->ops->muon_step(engine, parameter, &muon);
    muon.is_nesterov = false;
    engine->ops->muon_step(engine, parameter, &muon);
    engine->ops->parameter_value_changed(engine, parameter);
    pen_engine_await(engine);
    engine->ops->parameter_export(engine, parameter, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, value);
    for (size_t i = 0; i < count; i++) {
        size_t row = i / columns;
        bool is_own = row >= BEFORE && row < BEFORE + rows;
        /* The matrix is divided by its norm, so both steps are the same. */
        double move = gradient[i] == 0
                          ? 0
                          : polynomial((double)gradient[i] / sqrt(squares));
        double first = is_own ? 0.875 - 0.5 * move : 1;
        double wanted = is_own ? 0.875 * first - 0.5 * move : 1;
        if (fabs(wanted - (double)value[i]) > 1e-5)
            fail_msg("%s %zu x %zu: element %zu is %.9g, not %.9g",
                     engine->ops->name, rows, columns, i, (double)value[i],
                     wanted);
    }
    static float moment[(BEFORE + MOST + AFTER) * MOST];
    engine->ops->parameter_export(engine, parameter, PEN_PART_MOMENT1,
                                  PEN_ORDER_ROWS, moment);
    for (size_t i = 0; i < count; i++) /* 1 - 0.75 * 0.75 of twice as much */
        assert_true(fabsf(moment[i] - 0.875f * gradient[i]) < 1e-6f);
    engine->ops->parameter_free(engine, parameter);
}

static void singular_values_become_the_polynomial(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < pen_engine_num_kinds(); kind++) {
        struct pen_engine *engine = f32_engine(kind);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && engine; i++)
            check_diagonal(engine, shapes[i].rows, shapes[i].columns);
        pen_engine_free(engine);
    }
}

/* A step on random numbers; the value afterwards. */
static void step_random(struct pen_engine *engine, size_t rows, size_t columns,
                        float *out)
{
    static float numbers[(BEFORE + MOST + AFTER) * MOST];
    struct pen_parameter *parameter = make_parameter(engine, rows, columns);
    struct pen_muon muon = step_of(rows);
    struct pen_random random = {100 * rows + columns};
    for (int part = PEN_PART_VALUE; part <= PEN_PART_MOMENT1; part++) {
        for (size_t i = 0; i < (BEFORE + rows + AFTER) * columns; i++)
            numbers[i] = (float)pen_random_unit(&random) - 0.5f;
        engine->ops->parameter_import(engine, parameter,
                                      (enum pen_parameter_part)part,
                                      PEN_ORDER_ROWS, numbers);
    }
    engine->ops->muon_step(engine, parameter, &muon);
    pen_engine_await(engine);
    engine->ops->parameter_export(engine, parameter, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, out);
    engine->ops->parameter_free(engine, parameter);
}

static void engines_agree(void **state)
{
    (void)state;
    static float truth[(BEFORE + MOST + AFTER) * MOST];
    static float found[(BEFORE + MOST + AFTER) * MOST];
    static float again[(BEFORE + MOST + AFTER) * MOST];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t rows = shapes[i].rows, columns = shapes[i].columns;
        size_t count = (BEFORE + rows + AFTER) * columns;
        struct pen_engine *reference = reference_engine(PEN_PRECISION_F32);
        step_random(reference, rows, columns, truth);
        pen_engine_free(reference);
        for (size_t kind = 0; kind < pen_engine_num_kinds(); kind++) {
            struct pen_engine *engine = f32_engine(kind);
            if (engine == NULL)
                continue;
            step_random(engine, rows, columns, found);
            for (size_t k = 0; k < count; k++)
                if (fabsf(found[k] - truth[k]) > 1e-4f)
                    fail_msg("%s %zu x %zu: element %zu is %.9g, not %.9g",
                             engine->ops->name, rows, columns, k,
                             (double)found[k], (double)truth[k]);
            assert_int_equal(
                PEN_OK, engine->ops->muon_prepare(engine, MOST, MOST, NULL));
            step_random(engine, rows, columns, again);
            assert_memory_equal(found, again, count * sizeof *found);
            pen_engine_free(engine);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(singular_values_become_the_polynomial),
        cmocka_unit_test(engines_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
