/*
 * Measures the cost of cutting a product into those of experts: the products
 * of all experts, and one product of as many rows and the same flops.
 *
 *   build/release/bench/engine_experts [f32|bf16 [copies [experts [inputs
 *       [outputs [threads]]]]]]
 *
 * Copies of tokens (2,048 when not given) are dealt out to the experts (8)
 * evenly, and once so that expert e takes a share of 1 / (e + 1). The three
 * contenders take turns, seven after one that warms up. One line per pass, tab
 * separated: dtype, copies, experts, inputs, outputs, threads, pass, median
 * milliseconds of one product, of even and of uneven experts, and how many
 * times as long as one product these two take.
 */
#include "measure.h"

#include "engine/engine.h"

#include <stdint.h>
#include <string.h>

enum { TURNS = 7, PASSES = 3, CONTENDERS = 3 };
enum { ONE, EVEN, UNEVEN };

static const char *const passes[PASSES] = {"forward", "input", "weight"};

struct work {
    struct pen_engine *engine;
    struct pen_linear one;
    struct pen_linear *each;
    size_t *rows[CONTENDERS];
    size_t copies, experts, inputs, outputs, unit;
    char *x, *y;
};

static struct pen_linear make(const struct work *work, bool is_ragged)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_engine *engine = work->engine;
    struct pen_linear linear = {.rows = work->copies, .is_ragged = is_ragged};
    const struct pen_parameter_shape shape = {.use = PEN_PARAMETER_DENSE,
                                              .rows = work->outputs,
                                              .columns = work->inputs};
    stop_unless(
        engine->ops->parameter_create(engine, &shape, &why, &linear.weight) ==
                PEN_OK &&
            engine->ops->linear_prepare(engine, &linear, &why) == PEN_OK,
        pen_text_string(&why));
    float *weight =
        small_numbers(work->outputs * work->inputs * sizeof *weight);
    engine->ops->parameter_import(engine, linear.weight, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, weight);
    engine->ops->gradient_clear(engine, linear.weight);
    free(weight);
    return linear;
}

static void deal_out(struct work *work)
{
    double sum = 0;
    for (size_t e = 0; e < work->experts; e++)
        sum += 1.0 / (double)(e + 1);
    for (int i = EVEN; i <= UNEVEN; i++) {
        work->rows[i] = calloc(work->experts, sizeof *work->rows[i]);
        stop_unless(work->rows[i] != NULL, "no memory");
        size_t left = work->copies;
        for (size_t e = work->experts; e-- > 0;) {
            double share = i == EVEN ? 1.0 / (double)work->experts
                                     : 1.0 / (double)(e + 1) / sum;
            size_t rows =
                e == 0 ? left : (size_t)((double)work->copies * share);
            work->rows[i][e] = rows;
            left -= rows;
        }
    }
}

static void multiply(const struct work *work, const struct pen_linear *linear,
                     size_t first, int pass)
{
    const struct pen_engine_ops *ops = work->engine->ops;
    char *x = work->x + first * work->inputs * work->unit;
    char *y = work->y + first * work->outputs * work->unit;
    if (pass == 0)
        ops->linear_forward(work->engine, linear, x, NULL, y);
    else if (pass == 1)
        ops->linear_backward_input(work->engine, linear, y, x);
    else
        ops->linear_backward_weight(work->engine, linear, x, y);
}

static void run(const struct work *work, int contender, int pass)
{
    size_t first = 0;
    if (contender == ONE)
        multiply(work, &work->one, 0, pass);
    for (size_t e = 0; contender != ONE && e < work->experts; e++) {
        struct pen_linear linear = work->each[e];
        linear.rows = work->rows[contender][e];
        if (linear.rows > 0)
            multiply(work, &linear, first, pass);
        first += linear.rows;
    }
    pen_engine_await(work->engine);
}

static void measure(const struct work *work, int pass)
{
    double times[CONTENDERS][TURNS], medians[CONTENDERS];
    for (int turn = -1; turn < TURNS; turn++)
        for (int contender = 0; contender < CONTENDERS; contender++) {
            double begin = now_ms();
            run(work, contender, pass);
            if (turn >= 0)
                times[contender][turn] = now_ms() - begin;
        }
    for (int i = 0; i < CONTENDERS; i++) {
        qsort(times[i], TURNS, sizeof times[0][0], by_size);
        medians[i] = times[i][TURNS / 2];
    }
    printf("%s\t%zu\t%zu\t%zu\t%zu\t%d\t%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\n",
           pen_precision_text(work->engine->dtype), work->copies, work->experts,
           work->inputs, work->outputs, work->engine->threads, passes[pass],
           medians[ONE], medians[EVEN], medians[UNEVEN],
           medians[EVEN] / medians[ONE], medians[UNEVEN] / medians[ONE]);
    fflush(stdout);
}

static size_t number_at(int argc, char **argv, int at, size_t absent)
{
    unsigned long number = argc > at ? strtoul(argv[at], NULL, 10) : absent;
    stop_unless(number > 0 && number <= 1u << 20, "numbers are 1 to 2^20");
    return number;
}

int main(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    bool is_bf16 = argc > 1 && strcmp(argv[1], "bf16") == 0;
    struct work work = {.copies = number_at(argc, argv, 2, 2048),
                        .experts = number_at(argc, argv, 3, 8),
                        .inputs = number_at(argc, argv, 4, 768),
                        .outputs = number_at(argc, argv, 5, 4096)};
    stop_unless(pen_engine_onednn_create(is_bf16 ? PEN_PRECISION_BF16
                                                 : PEN_PRECISION_F32,
                                         (int)number_at(argc, argv, 6, 2), &why,
                                         &work.engine) == PEN_OK,
                pen_text_string(&why));
    work.unit = pen_precision_bytes(work.engine->dtype);
    work.x = small_numbers(work.copies * work.inputs * work.unit);
    work.y = small_numbers(work.copies * work.outputs * work.unit);
    work.one = make(&work, false);
    work.each = calloc(work.experts, sizeof *work.each);
    stop_unless(work.each != NULL, "no memory");
    for (size_t e = 0; e < work.experts; e++)
        work.each[e] = make(&work, true);
    deal_out(&work);
    for (int pass = 0; pass < PASSES; pass++)
        measure(&work, pass);
    for (size_t e = 0; e < work.experts; e++)
        work.engine->ops->parameter_free(work.engine, work.each[e].weight);
    work.engine->ops->parameter_free(work.engine, work.one.weight);
    free(work.each);
    free(work.rows[EVEN]);
    free(work.rows[UNEVEN]);
    free(work.x);
    free(work.y);
    pen_engine_free(work.engine);
    return 0;
}
