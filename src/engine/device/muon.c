/* The step of Muon: kernels for elements, and the products between them. */
#include "engine/device/device.h"

#include "base/bug.h"
#include "engine/newton_schulz.h"

static pen_status muon_prepare(struct pen_engine *engine, size_t rows,
                               size_t columns, struct pen_text *why)
{
    return pen__device_need_scratch(
        engine, pen_newton_schulz_scratch(rows, columns) * sizeof(float),
        "Muon needs; use --optimizer adam", why);
}

/* c = scale a b + add_scale add, of floats; add may be NULL. */
struct product {
    size_t rows;
    size_t columns;
    size_t inner;
    const float *a;
    size_t a_row, a_inner; /* from one to the next */
    const float *b;
    size_t b_column, b_inner;
    float scale;
    const float *add;
    double add_scale;
    float *c;
};

static void multiply(struct pen_engine *engine, const struct product *it)
{
    struct pen__product_sizes sizes =
        pen__plain_product(it->rows, it->columns, it->inner);
    sizes.a_row = (long)it->a_row;
    sizes.a_depth = (long)it->a_inner;
    sizes.b_row = (long)it->b_column;
    sizes.b_depth = (long)it->b_inner;
    sizes.a_is_master = sizes.b_is_master = sizes.c_is_master = 1;
    sizes.scale = it->scale;
    sizes.has_add = it->add != NULL;
    sizes.add_scale = (float)it->add_scale;
    pen__launch(engine, PEN__KERNEL_product, pen__tiles_of(&sizes),
                PEN__AT(it->a, it->b, NULL, it->add, it->c), &sizes);
}

static bool is_wide(const struct pen_newton_schulz_room *room)
{
    return room->rows <= room->columns;
}

static void multiply_gram(struct pen_engine *engine,
                          const struct pen_newton_schulz_room *room)
{
    size_t along = is_wide(room) ? room->columns : 1;
    size_t step = is_wide(room) ? 1 : room->columns;
    multiply(engine, &(struct product){.rows = room->side,
                                       .columns = room->side,
                                       .inner = is_wide(room) ? room->columns
                                                              : room->rows,
                                       .a = room->x,
                                       .a_row = along,
                                       .a_inner = step,
                                       .b = room->x,
                                       .b_column = along,
                                       .b_inner = step,
                                       .scale = 1,
                                       .c = room->a});
}

static void multiply_square(struct pen_engine *engine,
                            const struct pen_newton_schulz_room *room)
{
    multiply(engine, &(struct product){.rows = room->side,
                                       .columns = room->side,
                                       .inner = room->side,
                                       .a = room->a,
                                       .a_row = room->side,
                                       .a_inner = 1,
                                       .b = room->a,
                                       .b_column = 1,
                                       .b_inner = room->side,
                                       .scale = (float)PEN_NEWTON_SCHULZ_C,
                                       .add = room->a,
                                       .add_scale = PEN_NEWTON_SCHULZ_B,
                                       .c = room->update});
}

static void multiply_next(struct pen_engine *engine,
                          struct pen_newton_schulz_room *room)
{
    const struct product next = {.rows = room->rows,
                                 .columns = room->columns,
                                 .inner = room->side,
                                 .a = is_wide(room) ? room->update : room->x,
                                 .a_row = room->side,
                                 .a_inner = 1,
                                 .b = is_wide(room) ? room->x : room->update,
                                 .b_column = 1,
                                 .b_inner = room->columns,
                                 .scale = 1,
                                 .add = room->x,
                                 .add_scale = PEN_NEWTON_SCHULZ_A,
                                 .c = room->next};
    multiply(engine, &next);
    float *x = room->x;
    room->x = room->next;
    room->next = x;
}

/* The sum of squares in double, to an address of the engine's memory. */
static const double *sum_squares(struct pen_engine *engine,
                                 const struct pen_newton_schulz_room *room)
{
    struct pen__device_fixed *fixed = pen__device_of(engine)->fixed;
    const struct pen__sum_sizes squares = {
        .count = (long)(room->rows * room->columns)};
    const struct pen__sum_sizes all = {
        .count = PEN__SUM_GROUPS, .divisor = 1, .is_first = 1};
    pen__launch(engine, PEN__KERNEL_sum_squares, PEN__SUM_GROUPS,
                PEN__AT(room->x, fixed->parts), &squares);
    pen__launch(engine, PEN__KERNEL_sum_numbers, 1,
                PEN__AT(fixed->parts, &fixed->total, fixed->losses), &all);
    return fixed->losses;
}

static void muon_step(struct pen_engine *engine,
                      struct pen_parameter *parameter,
                      const struct pen_muon *muon)
{
    struct pen__device *self = pen__device_of(engine);
    size_t columns = parameter->shape.columns;
    size_t first = muon->first_row * columns;
    size_t count = muon->num_rows * columns;
    struct pen_newton_schulz_room room =
        pen_newton_schulz_room_of(self->scratch, muon->num_rows, columns);
    PEN_BUG_UNLESS(parameter->shape.moments >= 1 &&
                   pen_newton_schulz_scratch(muon->num_rows, columns) *
                           sizeof(float) <=
                       self->scratch_bytes);
    const float fresh = (float)(1 - muon->momentum);
    const struct pen__muon_sizes sizes = {
        .count = (long)count,
        .fresh = fresh,
        .ahead = muon->is_nesterov ? fresh : 0,
        .gradient_scale = (float)muon->gradient_scale,
        .least = (float)PEN_NEWTON_SCHULZ_EPSILON,
        .keep = (float)(1 - muon->learning_rate * muon->weight_decay),
        .rate = (float)muon->adjusted_rate};
    const long groups = pen__groups(count, PEN__SHARE);
    pen__launch(engine, PEN__KERNEL_muon_move, groups,
                PEN__AT(parameter->parts[PEN_PART_GRADIENT] + first,
                        parameter->parts[PEN_PART_MOMENT1] + first, room.x),
                &sizes);
    const double *squares = sum_squares(engine, &room);
    pen__launch(engine, PEN__KERNEL_muon_normalize, groups,
                PEN__AT(squares, room.x), &sizes);
    for (int i = 0; i < PEN_NEWTON_SCHULZ_STEPS; i++) {
        multiply_gram(engine, &room);
        multiply_square(engine, &room);
        multiply_next(engine, &room);
    }
    pen__launch(engine, PEN__KERNEL_muon_step, groups,
                PEN__AT(parameter->parts[PEN_PART_VALUE] + first, room.x),
                &sizes);
}

void pen__device_set_muon(struct pen_engine_ops *ops)
{
    ops->muon_prepare = muon_prepare;
    ops->muon_step = muon_step;
}
