/* What two engines, or one and its difference quotients, must agree in. */
#include "support/engine.h"

#include <math.h>
#include <stdlib.h>

/* The step whose errors of order h^2 and epsilon / h are both near 1e-10. */
static const double step = 1e-5;

/* A trial, and the input of it that moves. */
struct moved {
    const struct trial_op *op;
    struct pen_engine *engine;
    uint64_t seed;
    size_t largest;
    int input;
};

static double loss_at(const struct moved *moved, size_t element, double by)
{
    struct trial trial;
    trial_init(&trial, moved->engine, moved->seed, moved->largest);
    trial.moved_input = moved->input;
    trial.moved_element = element;
    trial.moved_by = by;
    moved->op->run(&trial);
    double loss = trial.loss;
    trial_release(&trial);
    return loss;
}

static void expect_derivative(const struct moved *moved,
                              const struct trial_result *result)
{
    double *quotient = malloc(result->count * sizeof *quotient);
    assert_non_null(quotient);
    for (size_t i = 0; i < result->count; i++)
        quotient[i] =
            (loss_at(moved, i, step) - loss_at(moved, i, -step)) / (2 * step);
    double apart = relative_distance(result->count, quotient, result->numbers);
    if (!(apart <= 1e-6))
        fail_msg("%s, seed %d: %s is %g from the difference quotient "
                 "(first element: expected %.12g, found %.12g)",
                 moved->op->name, (int)moved->seed, result->name, apart,
                 quotient[0], result->numbers[0]);
    free(quotient);
}

size_t expect_derivatives(const struct trial_op *op, struct pen_engine *engine,
                          uint64_t seed, size_t largest)
{
    struct trial trial;
    size_t gradients = 0;
    trial_init(&trial, engine, seed, largest);
    op->run(&trial);
    for (int i = 0; i < trial.num_results; i++) {
        if (trial.results[i].input < 0)
            continue;
        const struct moved moved = {op, engine, seed, largest,
                                    trial.results[i].input};
        expect_derivative(&moved, &trial.results[i]);
        gradients++;
    }
    trial_release(&trial);
    return gradients;
}

struct distance trials_distance(const struct trial *truth,
                                const struct trial *trial)
{
    struct distance most = {0, 0};
    assert_int_equal(truth->num_results, trial->num_results);
    for (int i = 0; i < truth->num_results && !isnan(most.apart); i++) {
        double apart = relative_distance(truth->results[i].count,
                                         truth->results[i].numbers,
                                         trial->results[i].numbers);
        if (!(apart <= most.apart))
            most = (struct distance){apart, i};
    }
    return most;
}

void expect_near(const struct trial_op *op, struct pen_engine *truth_engine,
                 struct pen_engine *engine, const struct comparison *comparison)
{
    struct trial truth, trial;
    trial_init(&truth, truth_engine, comparison->seed, comparison->largest);
    trial_init(&trial, engine, comparison->seed, comparison->largest);
    truth.is_bf16_exact = trial.is_bf16_exact =
        engine->dtype == PEN_PRECISION_BF16;
    op->run(&truth);
    op->run(&trial);
    struct distance most = trials_distance(&truth, &trial);
    if (!(most.apart <= comparison->tolerance))
        fail_msg("%s in %s, seed %d: %s is %g from the reference "
                 "(first: expected %.9g, found %.9g)",
                 op->name, pen_precision_text(engine->dtype),
                 (int)comparison->seed, truth.results[most.result].name,
                 most.apart, truth.results[most.result].numbers[0],
                 trial.results[most.result].numbers[0]);
    trial_release(&truth);
    trial_release(&trial);
}
