/*
 * Parameters leave an engine as they entered it, in either order, and their
 * gradients are sums over the calls in the order of the calls, bit for bit.
 * A second gradient is a gradient of its own. Steps, gradient norms and bias
 * gradients do not depend on the threads.
 */
#include "support/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINES = 3, ROWS = 9, INPUTS = 37, OUTPUTS = 70 };

/* In float on the outside. NULL where there is no oneDNN. */
static struct pen_engine *engine_number(int number)
{
    struct pen_engine *engine = NULL;
    if (number == 0)
        return reference_engine(PEN_PRECISION_F32);
    pen_engine_onednn_create(
        number == 1 ? PEN_PRECISION_F32 : PEN_PRECISION_BF16, 2, NULL, &engine);
    return engine;
}

static void values_leave_as_they_entered(void **state)
{
    (void)state;
    static float plain[OUTPUTS][INPUTS];
    static float turned[INPUTS][OUTPUTS];
    static float found[OUTPUTS * INPUTS];
    for (int number = 0; number < ENGINES; number++) {
        struct pen_engine *engine = engine_number(number);
        if (engine == NULL)
            continue;
        struct trial trial;
        int input;
        trial_init(&trial, engine, 1, 1);
        struct pen_parameter *weight = trial_parameter(
            &trial, PEN_PARAMETER_DENSE, OUTPUTS, INPUTS, &input);
        for (size_t i = 0; i < OUTPUTS; i++)
            for (size_t j = 0; j < INPUTS; j++)
                turned[j][i] = plain[i][j] = (float)(i * INPUTS + j) / 7;
        for (int part = PEN_PART_VALUE; part <= PEN_PART_MOMENT2; part++) {
            engine->ops->parameter_import(engine, weight,
                                          (enum pen_parameter_part)part,
                                          PEN_ORDER_TRANSPOSED, turned);
            engine->ops->parameter_export(engine, weight,
                                          (enum pen_parameter_part)part,
                                          PEN_ORDER_ROWS, found);
            assert_memory_equal(plain, found, sizeof plain);
            engine->ops->parameter_export(engine, weight,
                                          (enum pen_parameter_part)part,
                                          PEN_ORDER_TRANSPOSED, found);
            assert_memory_equal(turned, found, sizeof turned);
        }
        trial_release(&trial);
        pen_engine_free(engine);
    }
}

static void memory_is_returned(void **state)
{
    (void)state;
    for (int number = 0; number < ENGINES; number++) {
        struct pen_engine *engine = engine_number(number);
        if (engine == NULL)
            continue;
        struct trial trial;
        int input;
        trial_init(&trial, engine, 1, 1);
        trial_parameter(&trial, PEN_PARAMETER_DENSE, OUTPUTS, INPUTS, &input);
        assert_true(engine->ops->memory_bytes(engine) >=
                    4 * OUTPUTS * INPUTS * sizeof(float));
        trial_release(&trial);
        assert_int_equal(0, engine->ops->memory_bytes(engine));
        pen_engine_free(engine);
    }
}

/* The gradient of one micro-batch is added to what is there. */
static void backward_weight(struct pen_engine *engine,
                            const struct pen_linear *linear, const void *x,
                            const void *dy, float *found)
{
    engine->ops->linear_backward_weight(engine, linear, x, dy);
    engine->ops->parameter_export(engine, linear->weight, PEN_PART_GRADIENT,
                                  PEN_ORDER_ROWS, found);
}

static void gradients_are_summed_in_the_order_of_calls(void **state)
{
    (void)state;
    static float alone[OUTPUTS * INPUTS];
    static float sum[OUTPUTS * INPUTS];
    static float found[OUTPUTS * INPUTS];
    for (int number = 1; number < ENGINES; number++) {
        struct pen_engine *engine = engine_number(number);
        if (engine == NULL)
            continue;
        struct trial trial;
        int input;
        void *x[3];
        void *dy[3];
        trial_init(&trial, engine, 5, 1);
        struct pen_linear linear = {.rows = ROWS};
        linear.weight = trial_parameter(&trial, PEN_PARAMETER_DENSE, OUTPUTS,
                                        INPUTS, &input);
        assert_int_equal(PEN_OK,
                         engine->ops->linear_prepare(engine, &linear, NULL));
        memset(sum, 0, sizeof sum);
        for (int call = 0; call < 3; call++) {
            x[call] = trial_slopes(&trial, ROWS * INPUTS);
            dy[call] = trial_slopes(&trial, ROWS * OUTPUTS);
            engine->ops->gradient_clear(engine, linear.weight);
            backward_weight(engine, &linear, x[call], dy[call], alone);
            for (size_t i = 0; i < OUTPUTS * INPUTS; i++)
                sum[i] += alone[i];
        }
        engine->ops->gradient_clear(engine, linear.weight);
        for (int call = 0; call < 3; call++)
            backward_weight(engine, &linear, x[call], dy[call], found);
        assert_memory_equal(sum, found, sizeof sum);
        trial_release(&trial);
        pen_engine_free(engine);
    }
}

static void a_second_gradient_is_one_of_its_own(void **state)
{
    (void)state;
    static float first[OUTPUTS * INPUTS], second[OUTPUTS * INPUTS];
    static float found[OUTPUTS * INPUTS], zeros[OUTPUTS * INPUTS];
    for (int number = 0; number < ENGINES; number++) {
        struct pen_engine *engine = engine_number(number);
        if (engine == NULL)
            continue;
        const struct pen_engine_ops *ops = engine->ops;
        struct trial trial;
        int input;
        trial_init(&trial, engine, 5, 1);
        struct pen_linear linear = {.rows = ROWS};
        linear.weight = trial_parameter(&trial, PEN_PARAMETER_DENSE, OUTPUTS,
                                        INPUTS, &input);
        assert_int_equal(PEN_OK, ops->linear_prepare(engine, &linear, NULL));
        void *x = trial_slopes(&trial, ROWS * INPUTS);
        void *dy = trial_slopes(&trial, ROWS * OUTPUTS);
        void *other = trial_slopes(&trial, ROWS * OUTPUTS);
        const size_t before = ops->memory_bytes(engine);
        assert_int_equal(PEN_OK,
                         ops->gradient_add_second(engine, linear.weight, NULL));
        assert_true(ops->memory_bytes(engine) - before >= sizeof found);
        /* What one batch adds does not reach that of the other. */
        ops->gradient_clear(engine, linear.weight);
        backward_weight(engine, &linear, x, dy, first);
        double squares, again;
        ops->gradient_sum_squares(engine, linear.weight, &squares);
        ops->gradient_swap(engine, linear.weight);
        ops->parameter_export(engine, linear.weight, PEN_PART_GRADIENT,
                              PEN_ORDER_ROWS, found);
        assert_memory_equal(zeros, found, sizeof found);
        backward_weight(engine, &linear, x, other, second);
        assert_memory_not_equal(first, second, sizeof first);
        ops->gradient_swap(engine, linear.weight);
        ops->parameter_export(engine, linear.weight, PEN_PART_GRADIENT,
                              PEN_ORDER_ROWS, found);
        assert_memory_equal(first, found, sizeof found);
        ops->gradient_sum_squares(engine, linear.weight, &again);
        assert_true(squares == again);
        /* Clearing one leaves the other. */
        ops->gradient_clear(engine, linear.weight);
        ops->gradient_swap(engine, linear.weight);
        ops->parameter_export(engine, linear.weight, PEN_PART_GRADIENT,
                              PEN_ORDER_ROWS, found);
        assert_memory_equal(second, found, sizeof found);
        trial_release(&trial);
        /* It is gone with value, gradient and moments. */
        assert_true(ops->memory_bytes(engine) + 4 * sizeof found <= before);
        pen_engine_free(engine);
    }
}

/* What one engine makes of the same gradients. */
struct outcome {
    float weight[OUTPUTS * INPUTS];
    float momentum[OUTPUTS * INPUTS];
    float bias_gradient[OUTPUTS];
    double sum_squares;
};

static void fill_outcome(struct pen_engine *engine, struct outcome *out)
{
    static float gradient[OUTPUTS * INPUTS];
    const struct pen_engine_ops *ops = engine->ops;
    const struct pen_adamw adamw = {.learning_rate = 0.1,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .epsilon = 1e-8,
                                    .weight_decay = 0.1,
                                    .step = 1,
                                    .gradient_scale = 0.7};
    struct trial trial;
    int input;
    trial_init(&trial, engine, 9, 1);
    struct pen_linear linear = {.rows = ROWS};
    linear.weight =
        trial_parameter(&trial, PEN_PARAMETER_DENSE, OUTPUTS, INPUTS, &input);
    linear.bias =
        trial_parameter(&trial, PEN_PARAMETER_VECTORS, 1, OUTPUTS, &input);
    assert_int_equal(PEN_OK, ops->linear_prepare(engine, &linear, NULL));
    ops->linear_backward_weight(engine, &linear,
                                trial_slopes(&trial, ROWS * INPUTS),
                                trial_slopes(&trial, ROWS * OUTPUTS));
    ops->parameter_export(engine, linear.bias, PEN_PART_GRADIENT,
                          PEN_ORDER_ROWS, out->bias_gradient);
    for (size_t i = 0; i < OUTPUTS * INPUTS; i++)
        gradient[i] = sinf((float)i);
    ops->parameter_import(engine, linear.weight, PEN_PART_GRADIENT,
                          PEN_ORDER_ROWS, gradient);
    ops->gradient_sum_squares(engine, linear.weight, &out->sum_squares);
    ops->adamw_step(engine, linear.weight, &adamw);
    ops->parameter_export(engine, linear.weight, PEN_PART_VALUE, PEN_ORDER_ROWS,
                          out->weight);
    ops->parameter_export(engine, linear.weight, PEN_PART_MOMENT1,
                          PEN_ORDER_ROWS, out->momentum);
    trial_release(&trial);
}

static void steps_do_not_depend_on_threads(void **state)
{
    (void)state;
    static struct outcome outcomes[2];
    for (int threads = 1; threads <= 2; threads++) {
        struct pen_engine *engine = NULL;
        if (pen_engine_onednn_create(PEN_PRECISION_F32, threads, NULL,
                                     &engine) != PEN_OK)
            skip();
        fill_outcome(engine, &outcomes[threads - 1]);
        pen_engine_free(engine);
    }
    assert_memory_equal(outcomes[0].weight, outcomes[1].weight,
                        sizeof outcomes[0].weight);
    assert_memory_equal(outcomes[0].momentum, outcomes[1].momentum,
                        sizeof outcomes[0].momentum);
    assert_memory_equal(outcomes[0].bias_gradient, outcomes[1].bias_gradient,
                        sizeof outcomes[0].bias_gradient);
    assert_true(outcomes[0].sum_squares > 0);
    assert_true(outcomes[0].sum_squares == outcomes[1].sum_squares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_leave_as_they_entered),
        cmocka_unit_test(memory_is_returned),
        cmocka_unit_test(gradients_are_summed_in_the_order_of_calls),
        cmocka_unit_test(a_second_gradient_is_one_of_its_own),
        cmocka_unit_test(steps_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
