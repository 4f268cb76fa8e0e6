/*
 * The step of Muon: all in float, whatever the dtype, by the library's own
 * matrix product.
 */
#include "base/bug.h"
#include "engine/newton_schulz.h"
#include "engine/onednn/onednn.h"

#include <math.h>
#include <omp.h>

/* C = alpha A B + beta C, row-major; 'T': stored as its transpose. */
struct product {
    char a_turn;
    char b_turn;
    size_t rows;
    size_t columns;
    size_t inner;
};

static void multiply(struct product of, float alpha, const float *a,
                     const float *b, float beta, float *c)
{
    dnnl_dim_t rows = (dnnl_dim_t)of.rows;
    dnnl_dim_t columns = (dnnl_dim_t)of.columns;
    dnnl_dim_t inner = (dnnl_dim_t)of.inner;
    PEN_BUG_UNLESS(dnnl_sgemm(of.a_turn, of.b_turn, rows, columns, inner, alpha,
                              a, of.a_turn == 'T' ? rows : inner, b,
                              of.b_turn == 'T' ? inner : columns, beta, c,
                              columns) == dnnl_success);
}

static bool is_wide(const struct pen_newton_schulz_room *room)
{
    return room->rows <= room->columns;
}

static struct product gram_of(const struct pen_newton_schulz_room *room)
{
    return is_wide(room) ? (struct product){'N', 'T', room->rows, room->rows,
                                            room->columns}
                         : (struct product){'T', 'N', room->columns,
                                            room->columns, room->rows};
}

static struct product square_of(const struct pen_newton_schulz_room *room)
{
    return (struct product){'N', 'N', room->side, room->side, room->side};
}

static struct product next_of(const struct pen_newton_schulz_room *room)
{
    return (struct product){'N', 'N', room->rows, room->columns, room->side};
}

static void note(struct pen__onednn *self, struct product of)
{
    pen__packing_note_floats(
        self, &(struct pen__sgemm){of.b_turn == 'T', of.a_turn == 'T',
                                   of.columns, of.rows, of.inner});
}

static pen_status muon_prepare(struct pen_engine *engine, size_t rows,
                               size_t columns, struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    const struct pen_newton_schulz_room room =
        pen_newton_schulz_room_of(NULL, rows, columns);
    pen__packing_write_kernels(self);
    note(self, gram_of(&room));
    note(self, square_of(&room));
    note(self, next_of(&room));
    return pen__scratch_grow(
        self, pen_newton_schulz_scratch(rows, columns) * sizeof(float), why);
}

/* Sums of 64 shares of the matrix, whose bounds depend on its size alone. */
static void normalize(const struct pen_engine *engine,
                      const struct pen_newton_schulz_room *room)
{
    enum { SHARES = 64 };
    double sums[SHARES] = {0};
    size_t count = room->rows * room->columns;
    size_t share = (count + SHARES - 1) / SHARES;
    float *x = room->x;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t at = 0; at < SHARES; at++) {
        size_t end = (at + 1) * share < count ? (at + 1) * share : count;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = at * share; i < end; i++)
            sum += (double)x[i] * (double)x[i];
        sums[at] = sum;
    }
    double total = 0;
    for (size_t at = 0; at < SHARES; at++)
        total += sums[at];
    double norm = fmax(sqrt(total), PEN_NEWTON_SCHULZ_EPSILON);
#pragma omp parallel for simd num_threads(engine->threads) schedule(static)
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)x[i] / norm);
}

static void copy(const struct pen_engine *engine, size_t count,
                 const float *from, float *to)
{
#pragma omp parallel for simd num_threads(engine->threads) schedule(static)
    for (size_t i = 0; i < count; i++)
        to[i] = from[i];
}

static void iterate(const struct pen_engine *engine,
                    struct pen_newton_schulz_room *room)
{
    multiply(gram_of(room), 1, room->x, room->x, 0, room->a);
    copy(engine, room->side * room->side, room->a, room->update);
    multiply(square_of(room), (float)PEN_NEWTON_SCHULZ_C, room->a, room->a,
             (float)PEN_NEWTON_SCHULZ_B, room->update);
    copy(engine, room->rows * room->columns, room->x, room->next);
    multiply(next_of(room), 1, is_wide(room) ? room->update : room->x,
             is_wide(room) ? room->x : room->update, (float)PEN_NEWTON_SCHULZ_A,
             room->next);
    float *x = room->x;
    room->x = room->next;
    room->next = x;
}

static void move_moment(const struct pen_engine *engine,
                        const struct pen_muon *muon,
                        const struct pen_newton_schulz_room *room,
                        const float *gradient, float *moment)
{
    float scale = (float)muon->gradient_scale;
    float fresh = (float)(1 - muon->momentum);
    float ahead = muon->is_nesterov ? fresh : 0;
    float *x = room->x;
#pragma omp parallel for simd num_threads(engine->threads) schedule(static)
    for (size_t i = 0; i < room->rows * room->columns; i++) {
        float slope = gradient[i] * scale;
        float now = moment[i] + fresh * (slope - moment[i]);
        moment[i] = now;
        x[i] = now + ahead * (slope - now);
    }
}

static void muon_step(struct pen_engine *engine,
                      struct pen_parameter *parameter,
                      const struct pen_muon *muon)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    size_t columns = parameter->shape.columns;
    size_t first = muon->first_row * columns;
    struct pen_newton_schulz_room room = pen_newton_schulz_room_of(
        (float *)(void *)self->scratch, muon->num_rows, columns);
    PEN_BUG_UNLESS(parameter->shape.moments >= 1 &&
                   pen_newton_schulz_scratch(muon->num_rows, columns) *
                           sizeof(float) <=
                       self->scratch_bytes);
    if (omp_get_max_threads() != engine->threads)
        omp_set_num_threads(engine->threads);
    move_moment(engine, muon, &room, pen__gradient(parameter) + first,
                parameter->parts[PEN_PART_MOMENT1] + first);
    normalize(engine, &room);
    for (int i = 0; i < PEN_NEWTON_SCHULZ_STEPS; i++)
        iterate(engine, &room);
    float *value = parameter->parts[PEN_PART_VALUE] + first;
    float keep = (float)(1 - muon->learning_rate * muon->weight_decay);
    float rate = (float)muon->adjusted_rate;
    const float *x = room.x;
#pragma omp parallel for simd num_threads(engine->threads) schedule(static)
    for (size_t i = 0; i < room.rows * room.columns; i++)
        value[i] = keep * value[i] - rate * x[i];
}

void pen__muon_ops(struct pen_engine_ops *ops)
{
    ops->muon_prepare = muon_prepare;
    ops->muon_step = muon_step;
}
