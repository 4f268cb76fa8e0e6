/*
 * Dense layers in float. All three passes are the library's plain matrix
 * product: it packs its operands itself, and so is faster from plain weights
 * than the primitives from the layouts they like best (docs/decisions/0005).
 */
#include "base/bug.h"
#include "engine/onednn/onednn.h"

#include <omp.h>

/* C = A B + beta C, all row-major. 'T': A or B is stored as its transpose. */
struct sgemm {
    char a_turn;
    char b_turn;
    size_t rows;
    size_t columns;
    size_t inner;
};

static void multiply(const struct pen_engine *engine, struct sgemm of,
                     const float *a, const float *b, float beta, float *c)
{
    dnnl_dim_t rows = (dnnl_dim_t)of.rows;
    dnnl_dim_t columns = (dnnl_dim_t)of.columns;
    dnnl_dim_t inner = (dnnl_dim_t)of.inner;
    if (omp_get_max_threads() != engine->threads)
        omp_set_num_threads(engine->threads);
    PEN_BUG_UNLESS(dnnl_sgemm(of.a_turn, of.b_turn, rows, columns, inner, 1, a,
                              of.a_turn == 'T' ? rows : inner, b,
                              of.b_turn == 'T' ? inner : columns, beta, c,
                              columns) == dnnl_success);
}

/* Column-major, both operands change places. */
static void note(struct pen__onednn *self, struct sgemm of)
{
    pen__packing_note_floats(
        self, &(struct pen__sgemm){of.b_turn == 'T', of.a_turn == 'T',
                                   of.columns, of.rows, of.inner});
}

/* The three passes of a layer. */
static struct sgemm forward_of(const struct pen_linear *linear)
{
    return (struct sgemm){'N', 'T', linear->rows, linear->weight->shape.rows,
                          linear->weight->shape.columns};
}

static struct sgemm input_gradient_of(const struct pen_linear *linear)
{
    return (struct sgemm){'N', 'N', linear->rows, linear->weight->shape.columns,
                          linear->weight->shape.rows};
}

static struct sgemm weight_gradient_of(const struct pen_linear *linear)
{
    return (struct sgemm){'T', 'N', linear->weight->shape.rows,
                          linear->weight->shape.columns, linear->rows};
}

void pen__packing_write_kernels(struct pen__onednn *self)
{
    enum { SIZE = 16 };
    const float zeros[SIZE * SIZE] = {0};
    float product[SIZE * SIZE];
    if (!self->has_kernels)
        multiply(&self->engine, (struct sgemm){'N', 'N', SIZE, SIZE, SIZE},
                 zeros, zeros, 0, product);
    self->has_kernels = true;
}

static pen_status linear_prepare(struct pen_engine *engine,
                                 const struct pen_linear *linear,
                                 struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen_linear part = *linear;
    (void)why;
    pen__packing_write_kernels(self);
    do {
        note(self, forward_of(&part));
        note(self, input_gradient_of(&part));
        note(self, weight_gradient_of(&part));
        part.rows /= 2; /* fewer rows may take another way */
    } while (linear->is_ragged && part.rows > 0);
    return PEN_OK;
}

static void linear_forward(struct pen_engine *engine,
                           const struct pen_linear *linear, const void *x,
                           const void *add, void *y)
{
    const struct pen__onednn *self = (const struct pen__onednn *)engine;
    const struct pen_parameter *weight = linear->weight;
    bool has_begun = linear->bias != NULL || add != NULL;
    if (has_begun)
        self->rows->begin(
            engine, linear->rows, weight->shape.rows,
            linear->bias == NULL ? NULL : linear->bias->parts[PEN_PART_VALUE],
            add, y);
    multiply(engine, forward_of(linear), x, weight->parts[PEN_PART_VALUE],
             has_begun ? 1 : 0, y);
}

static void linear_backward_input(struct pen_engine *engine,
                                  const struct pen_linear *linear,
                                  const void *dy, void *dx)
{
    multiply(engine, input_gradient_of(linear), dy,
             linear->weight->parts[PEN_PART_VALUE], 0, dx);
}

static void linear_backward_weight(struct pen_engine *engine,
                                   const struct pen_linear *linear,
                                   const void *x, const void *dy)
{
    const struct pen__onednn *self = (const struct pen__onednn *)engine;
    struct pen_parameter *weight = linear->weight;
    multiply(engine, weight_gradient_of(linear), dy, x,
             weight->is_gradient_zero ? 0 : 1,
             weight->parts[PEN_PART_GRADIENT]);
    weight->is_gradient_zero = false;
    if (linear->bias != NULL)
        self->rows->add_columns(engine, linear->rows, weight->shape.rows, dy,
                                pen__gradient(linear->bias));
}

void pen__dense_f32_ops(struct pen_engine_ops *ops)
{
    ops->linear_prepare = linear_prepare;
    ops->linear_forward = linear_forward;
    ops->linear_backward_input = linear_backward_input;
    ops->linear_backward_weight = linear_backward_weight;
}
