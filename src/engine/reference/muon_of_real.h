/* The step of Muon: momentum, its matrix sign, decay. */

static pen_status muon_prepare(struct pen_engine *engine, size_t rows,
                               size_t columns, struct pen_text *why)
{
    struct pen__reference *self = (struct pen__reference *)engine;
    size_t bytes = pen_newton_schulz_scratch(rows, columns) * sizeof(REAL);
    if (bytes <= self->scratch_bytes)
        return PEN_OK;
    void *scratch = calloc(1, bytes);
    if (scratch == NULL) {
        pen_why(why, "no memory for %zu bytes of scratch", bytes);
        return PEN_NOMEM;
    }
    free(self->scratch);
    self->scratch = scratch;
    self->scratch_bytes = bytes;
    return PEN_OK;
}

/* Where a matrix is wider than it is high, or square, A = X X^T. */
struct muon_room {
    size_t rows;
    size_t columns;
    size_t side; /* of A, the smaller of the two */
    REAL *x;
    REAL *next;
    REAL *a;
    REAL *update; /* b A + c A A */
};

static void muon_gram(const struct muon_room *room)
{
    bool is_wide = room->rows <= room->columns;
    size_t inner = is_wide ? room->columns : room->rows;
    size_t along = is_wide ? room->columns : 1;
    size_t step = is_wide ? 1 : room->columns;
    for (size_t i = 0; i < room->side; i++)
        for (size_t j = 0; j < room->side; j++) {
            REAL sum = 0;
            for (size_t k = 0; k < inner; k++)
                sum += room->x[i * along + k * step] *
                       room->x[j * along + k * step];
            room->a[i * room->side + j] = sum;
        }
}

static void muon_polynomial(const struct muon_room *room)
{
    size_t side = room->side;
    for (size_t i = 0; i < side; i++)
        for (size_t j = 0; j < side; j++) {
            REAL sum = 0;
            for (size_t k = 0; k < side; k++)
                sum += room->a[i * side + k] * room->a[k * side + j];
            room->update[i * side + j] =
                (REAL)PEN_NEWTON_SCHULZ_B * room->a[i * side + j] +
                (REAL)PEN_NEWTON_SCHULZ_C * sum;
        }
}

static void muon_apply(struct muon_room *room)
{
    bool is_wide = room->rows <= room->columns;
    size_t columns = room->columns;
    for (size_t i = 0; i < room->rows; i++)
        for (size_t j = 0; j < columns; j++) {
            REAL sum = 0;
            for (size_t k = 0; k < room->side; k++)
                sum += is_wide ? room->update[i * room->side + k] *
                                     room->x[k * columns + j]
                               : room->x[i * columns + k] *
                                     room->update[k * room->side + j];
            room->next[i * columns + j] =
                (REAL)PEN_NEWTON_SCHULZ_A * room->x[i * columns + j] + sum;
        }
    REAL *x = room->x;
    room->x = room->next;
    room->next = x;
}

static void muon_normalize(const struct muon_room *room)
{
    double sum = 0;
    for (size_t i = 0; i < room->rows * room->columns; i++)
        sum += (double)room->x[i] * (double)room->x[i];
    double norm = sqrt(sum);
    if (norm < PEN_NEWTON_SCHULZ_EPSILON)
        norm = PEN_NEWTON_SCHULZ_EPSILON;
    for (size_t i = 0; i < room->rows * room->columns; i++)
        room->x[i] = (REAL)((double)room->x[i] / norm);
}

static void muon_step(struct pen_engine *engine,
                      struct pen_parameter *parameter,
                      const struct pen_muon *muon)
{
    struct pen__reference *self = (struct pen__reference *)engine;
    size_t columns = parameter->shape.columns;
    size_t count = muon->num_rows * columns;
    size_t first = muon->first_row * columns;
    PEN_BUG_UNLESS(parameter->shape.moments >= 1 &&
                   pen_newton_schulz_scratch(muon->num_rows, columns) *
                           sizeof(REAL) <=
                       self->scratch_bytes);
    size_t side = muon->num_rows < columns ? muon->num_rows : columns;
    REAL *scratch = self->scratch;
    struct muon_room room = {.rows = muon->num_rows,
                             .columns = columns,
                             .side = side,
                             .x = scratch,
                             .next = scratch + count,
                             .a = scratch + 2 * count,
                             .update = scratch + 2 * count + side * side};
    const REAL *gradient = parameter->parts[PEN_PART_GRADIENT] + first;
    REAL *value = parameter->parts[PEN_PART_VALUE] + first;
    REAL *moment = parameter->parts[PEN_PART_MOMENT1] + first;
    REAL fresh = (REAL)(1 - muon->momentum);
    for (size_t i = 0; i < count; i++) {
        REAL slope = gradient[i] * (REAL)muon->gradient_scale;
        moment[i] += fresh * (slope - moment[i]);
        room.x[i] = muon->is_nesterov ? moment[i] + fresh * (slope - moment[i])
                                      : moment[i];
    }
    muon_normalize(&room);
    for (int i = 0; i < PEN_NEWTON_SCHULZ_STEPS; i++) {
        muon_gram(&room);
        muon_polynomial(&room);
        muon_apply(&room);
    }
    REAL keep = (REAL)(1 - muon->learning_rate * muon->weight_decay);
    for (size_t i = 0; i < count; i++)
        value[i] = keep * value[i] - (REAL)muon->adjusted_rate * room.x[i];
}
