/*
 * Which share of oneDNN run bare the dense layers of the engine reach, on the
 * shapes of GPT-2 124M.
 *
 *   build/release/bench/engine_gemm [f32|bf16 [rows [threads]]]
 *
 * Bare is the primitive with everything prepared and the weight in the layout
 * it likes best, as matmul and as inner product. The three contenders take
 * turns; one line per product, tab separated: dtype, rows, inputs, outputs,
 * threads, pass, median milliseconds of matmul, inner product and engine, and
 * the share of the better bare one that the engine reaches. The last line of a
 * dtype adds up the step: each layer twelve times, the head once.
 */
#include "measure.h"

#include "engine/engine.h"
#include "engine/onednn/library.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS = 7, CONTENDERS = 3, PASSES = 3 };
enum { MATMUL, INNER_PRODUCT, ENGINE };

static const struct {
    size_t inputs;
    size_t outputs;
    int times;
} shapes[] = {{768, 2304, 12},
              {768, 768, 12},
              {768, 3072, 12},
              {3072, 768, 12},
              {768, 50257, 1}};

static const char *const pass_names[] = {"forward", "input", "weight"};

struct bare {
    dnnl_primitive_t primitive;
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[4];
    void *blocks[4];
};

static void plain(struct pen__md *md, size_t rows, size_t columns,
                  int is_turned, dnnl_data_type_t type)
{
    size_t sizes[] = {rows, columns};
    size_t strides[] = {is_turned ? 1 : columns, is_turned ? rows : 1};
    stop_unless(pen__md_init(md, 2, sizes, type, strides) == dnnl_success,
                "no descriptor");
}

static void any(struct pen__md *md, size_t rows, size_t columns,
                dnnl_data_type_t type)
{
    size_t sizes[] = {rows, columns};
    stop_unless(pen__md_init(md, 2, sizes, type, NULL) == dnnl_success,
                "no descriptor");
}

static dnnl_primitive_desc_t bare_inner_product(dnnl_engine_t library, int pass,
                                                size_t rows, size_t inputs,
                                                size_t outputs,
                                                dnnl_data_type_t type,
                                                dnnl_primitive_desc_t hint)
{
    struct pen__product_shape shape = {0};
    dnnl_primitive_desc_t description;
    plain(&shape.source, rows, inputs, 0, type);
    plain(&shape.target, rows, outputs, 0, type);
    any(&shape.weight, outputs, inputs,
        pass == PEN__BACKWARD_WEIGHT ? dnnl_f32 : type);
    stop_unless(pen__inner_product(library, (enum pen__pass)pass, &shape, hint,
                                   &description) == dnnl_success,
                "no inner product");
    return description;
}

static dnnl_primitive_desc_t bare_matmul(dnnl_engine_t library, int pass,
                                         size_t rows, size_t inputs,
                                         size_t outputs, dnnl_data_type_t type)
{
    struct pen__product_shape shape = {0};
    dnnl_primitive_desc_t description;
    if (pass == PEN__FORWARD) {
        plain(&shape.source, rows, inputs, 0, type);
        any(&shape.weight, inputs, outputs, type);
        plain(&shape.target, rows, outputs, 0, type);
    } else if (pass == PEN__BACKWARD_INPUT) {
        plain(&shape.source, rows, outputs, 0, type);
        any(&shape.weight, outputs, inputs, type);
        plain(&shape.target, rows, inputs, 0, type);
    } else {
        plain(&shape.source, inputs, rows, 1, type);
        plain(&shape.weight, rows, outputs, 0, type);
        plain(&shape.target, inputs, outputs, 0, dnnl_f32);
    }
    stop_unless(pen__matmul(library, &shape, false, &description) ==
                    dnnl_success,
                "no matmul");
    return description;
}

static void bind(struct bare *bare, int at, int id, dnnl_engine_t library,
                 PEN__MD md)
{
    bare->blocks[at] = small_numbers(dnnl_memory_desc_get_size(md) + 64);
    bare->args[at].arg = id;
    stop_unless(dnnl_memory_create(&bare->args[at].memory, md, library,
                                   bare->blocks[at]) == dnnl_success,
                "no memory object");
}

static PEN__MD asked(dnnl_primitive_desc_t description, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(description, what, 0);
}

static void bare_init(struct bare *bare, dnnl_engine_t library,
                      dnnl_stream_t stream, int contender, int pass,
                      dnnl_primitive_desc_t of)
{
    bool is_matmul = contender == MATMUL;
    bare->stream = stream;
    stop_unless(dnnl_primitive_create(&bare->primitive, of) == dnnl_success,
                "no primitive");
    if (is_matmul || pass == PEN__FORWARD) {
        bind(bare, 0, DNNL_ARG_SRC, library, asked(of, dnnl_query_src_md));
        bind(bare, 1, DNNL_ARG_WEIGHTS, library,
             asked(of, dnnl_query_weights_md));
        bind(bare, 2, DNNL_ARG_DST, library, asked(of, dnnl_query_dst_md));
    } else if (pass == PEN__BACKWARD_INPUT) {
        bind(bare, 0, DNNL_ARG_DIFF_SRC, library,
             asked(of, dnnl_query_diff_src_md));
        bind(bare, 1, DNNL_ARG_WEIGHTS, library,
             asked(of, dnnl_query_weights_md));
        bind(bare, 2, DNNL_ARG_DIFF_DST, library,
             asked(of, dnnl_query_diff_dst_md));
    } else {
        bind(bare, 0, DNNL_ARG_SRC, library, asked(of, dnnl_query_src_md));
        bind(bare, 1, DNNL_ARG_DIFF_WEIGHTS, library,
             asked(of, dnnl_query_diff_weights_md));
        bind(bare, 2, DNNL_ARG_DIFF_DST, library,
             asked(of, dnnl_query_diff_dst_md));
    }
    bind(bare, 3, DNNL_ARG_SCRATCHPAD, library,
         asked(of, dnnl_query_scratchpad_md));
}

static void bare_run(struct bare *bare)
{
    stop_unless(dnnl_primitive_execute(bare->primitive, bare->stream, 4,
                                       bare->args) == dnnl_success,
                "a product failed");
    dnnl_stream_wait(bare->stream);
}

static void bare_release(struct bare *bare)
{
    dnnl_primitive_destroy(bare->primitive);
    for (int i = 0; i < 4; i++) {
        dnnl_memory_destroy(bare->args[i].memory);
        free(bare->blocks[i]);
    }
}

/* The same product through the interface. */
struct ours {
    struct pen_engine *engine;
    struct pen_linear linear;
    void *x;
    void *y;
};

static void ours_run(struct ours *ours, int pass)
{
    const struct pen_engine_ops *ops = ours->engine->ops;
    if (pass == PEN__FORWARD) {
        ops->linear_forward(ours->engine, &ours->linear, ours->x, NULL,
                            ours->y);
    } else if (pass == PEN__BACKWARD_INPUT) {
        ops->linear_backward_input(ours->engine, &ours->linear, ours->y,
                                   ours->x);
    } else {
        ops->gradient_clear(ours->engine, ours->linear.weight);
        ops->linear_backward_weight(ours->engine, &ours->linear, ours->x,
                                    ours->y);
    }
}

static void ours_init(struct ours *ours, struct pen_engine *engine, size_t rows,
                      size_t inputs, size_t outputs)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_parameter_shape shape = {
        .use = PEN_PARAMETER_DENSE, .rows = outputs, .columns = inputs};
    size_t unit = pen_precision_bytes(engine->dtype);
    ours->engine = engine;
    ours->linear = (struct pen_linear){.rows = rows};
    stop_unless(engine->ops->parameter_create(engine, &shape, &why,
                                              &ours->linear.weight) == PEN_OK &&
                    engine->ops->linear_prepare(engine, &ours->linear, &why) ==
                        PEN_OK,
                pen_text_string(&why));
    float *weight = small_numbers(outputs * inputs * sizeof *weight);
    engine->ops->parameter_import(engine, ours->linear.weight, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, weight);
    free(weight);
    ours->x = small_numbers(rows * inputs * unit);
    ours->y = small_numbers(rows * outputs * unit);
}

static void ours_release(struct ours *ours)
{
    ours->engine->ops->parameter_free(ours->engine, ours->linear.weight);
    free(ours->x);
    free(ours->y);
}

/* Medians of one product by the three contenders, who take turns. */
static void measure(struct bare bare[2], struct ours *ours, int pass,
                    double medians[CONTENDERS])
{
    double times[CONTENDERS][TURNS];
    for (int turn = -1; turn < TURNS; turn++)
        for (int contender = 0; contender < CONTENDERS; contender++) {
            double begin = now_ms();
            if (contender == ENGINE)
                ours_run(ours, pass);
            else
                bare_run(&bare[contender]);
            if (turn >= 0)
                times[contender][turn] = now_ms() - begin;
        }
    for (int contender = 0; contender < CONTENDERS; contender++) {
        qsort(times[contender], TURNS, sizeof times[0][0], by_size);
        medians[contender] = times[contender][TURNS / 2];
    }
}

static double better(const double medians[CONTENDERS])
{
    return medians[MATMUL] < medians[INNER_PRODUCT] ? medians[MATMUL]
                                                    : medians[INNER_PRODUCT];
}

static void report(enum pen_precision dtype, size_t rows, size_t inputs,
                   size_t outputs, int threads, const char *pass,
                   const double medians[CONTENDERS], double bound)
{
    printf("%s\t%zu\t%zu\t%zu\t%d\t%s\t%.3f\t%.3f\t%.3f\t%.3f\n",
           pen_precision_text(dtype), rows, inputs, outputs, threads, pass,
           medians[MATMUL], medians[INNER_PRODUCT], medians[ENGINE],
           bound / medians[ENGINE]);
    fflush(stdout);
}

struct library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* All passes of one shape; adds `times` of each to the sums. */
static double run_shape(const struct library *library,
                        struct pen_engine *engine, size_t rows, size_t at,
                        double sums[CONTENDERS])
{
    dnnl_data_type_t type =
        engine->dtype == PEN_PRECISION_F32 ? dnnl_f32 : dnnl_bf16;
    size_t inputs = shapes[at].inputs;
    size_t outputs = shapes[at].outputs;
    struct ours ours;
    double bound = 0;
    dnnl_primitive_desc_t hint = bare_inner_product(
        library->engine, PEN__FORWARD, rows, inputs, outputs, type, NULL);
    ours_init(&ours, engine, rows, inputs, outputs);
    for (int pass = 0; pass < PASSES; pass++) {
        struct bare bare[2];
        double medians[CONTENDERS];
        dnnl_primitive_desc_t of[] = {
            bare_matmul(library->engine, pass, rows, inputs, outputs, type),
            bare_inner_product(library->engine, pass, rows, inputs, outputs,
                               type, pass == PEN__FORWARD ? NULL : hint)};
        for (int i = 0; i < 2; i++)
            bare_init(&bare[i], library->engine, library->stream, i, pass,
                      of[i]);
        measure(bare, &ours, pass, medians);
        report(engine->dtype, rows, inputs, outputs, engine->threads,
               pass_names[pass], medians, better(medians));
        for (int i = 0; i < CONTENDERS; i++)
            sums[i] += medians[i] * shapes[at].times;
        bound += better(medians) * shapes[at].times;
        for (int i = 0; i < 2; i++) {
            bare_release(&bare[i]);
            dnnl_primitive_desc_destroy(of[i]);
        }
    }
    dnnl_primitive_desc_destroy(hint);
    ours_release(&ours);
    return bound;
}

static void run_dtype(enum pen_precision dtype, size_t rows, int threads)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_engine *engine = NULL;
    struct library library;
    double sums[CONTENDERS] = {0};
    double bound = 0;
    stop_unless(pen_engine_onednn_create(dtype, threads, &why, &engine) ==
                    PEN_OK,
                pen_text_string(&why));
    stop_unless(
        dnnl_engine_create(&library.engine, dnnl_cpu, 0) == dnnl_success &&
            dnnl_stream_create(&library.stream, library.engine,
                               dnnl_stream_default_flags) == dnnl_success,
        "oneDNN does not start");
    for (size_t at = 0; at < sizeof shapes / sizeof shapes[0]; at++)
        bound += run_shape(&library, engine, rows, at, sums);
    report(dtype, rows, 0, 0, engine->threads, "step", sums, bound);
    dnnl_stream_destroy(library.stream);
    dnnl_engine_destroy(library.engine);
    pen_engine_free(engine);
}

int main(int argc, char **argv)
{
    size_t rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 1024;
    int threads = argc > 3 ? atoi(argv[3]) : 0;
    if (argc < 2 || strcmp(argv[1], "f32") == 0)
        run_dtype(PEN_PRECISION_F32, rows, threads);
    if (argc < 2 || strcmp(argv[1], "bf16") == 0)
        run_dtype(PEN_PRECISION_BF16, rows, threads);
    return 0;
}
