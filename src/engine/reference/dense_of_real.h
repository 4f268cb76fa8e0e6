/* Products with a weight, and the rows of one that an embedding picks. */

static pen_status linear_prepare(struct pen_engine *engine,
                                 const struct pen_linear *linear,
                                 struct pen_text *why)
{
    (void)engine;
    (void)linear;
    (void)why;
    return PEN_OK;
}

static void linear_forward(struct pen_engine *engine,
                           const struct pen_linear *linear, const void *x,
                           const void *add, void *y)
{
    (void)engine;
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    const REAL *past = add;
    for (size_t row = 0; row < linear->rows; row++)
        for (size_t output = 0; output < outputs; output++) {
            const REAL *in = (const REAL *)x + row * inputs;
            const REAL *weight =
                linear->weight->parts[PEN_PART_VALUE] + output * inputs;
            REAL sum = 0;
            for (size_t input = 0; input < inputs; input++)
                sum += in[input] * weight[input];
            if (linear->bias != NULL)
                sum += linear->bias->parts[PEN_PART_VALUE][output];
            if (past != NULL)
                sum += past[row * outputs + output];
            ((REAL *)y)[row * outputs + output] = sum;
        }
}

static void linear_backward_input(struct pen_engine *engine,
                                  const struct pen_linear *linear,
                                  const void *dy, void *dx)
{
    (void)engine;
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    memset(dx, 0, linear->rows * inputs * sizeof(REAL));
    for (size_t row = 0; row < linear->rows; row++)
        for (size_t output = 0; output < outputs; output++) {
            REAL slope = ((const REAL *)dy)[row * outputs + output];
            const REAL *weight =
                linear->weight->parts[PEN_PART_VALUE] + output * inputs;
            for (size_t input = 0; input < inputs; input++)
                ((REAL *)dx)[row * inputs + input] += slope * weight[input];
        }
}

static void linear_backward_weight(struct pen_engine *engine,
                                   const struct pen_linear *linear,
                                   const void *x, const void *dy)
{
    (void)engine;
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    for (size_t output = 0; output < outputs; output++)
        for (size_t row = 0; row < linear->rows; row++) {
            REAL slope = ((const REAL *)dy)[row * outputs + output];
            const REAL *in = (const REAL *)x + row * inputs;
            REAL *gradient =
                linear->weight->parts[PEN_PART_GRADIENT] + output * inputs;
            for (size_t input = 0; input < inputs; input++)
                gradient[input] += slope * in[input];
            if (linear->bias != NULL)
                linear->bias->parts[PEN_PART_GRADIENT][output] += slope;
        }
}

static void embedding_forward(struct pen_engine *engine,
                              const struct pen_embedding *embedding,
                              const int32_t *ids, void *y)
{
    (void)engine;
    size_t width = embedding->tokens->shape.columns;
    for (size_t row = 0; row < embedding->rows; row++)
        for (size_t i = 0; i < width; i++) {
            size_t position = pen_embedding_position(embedding, row);
            size_t id = (size_t)(ids[row] - embedding->first);
            REAL sum = 0;
            if (id < embedding->tokens->shape.rows)
                sum = embedding->tokens->parts[PEN_PART_VALUE][id * width + i];
            if (embedding->positions != NULL)
                sum += embedding->positions
                           ->parts[PEN_PART_VALUE][position * width + i];
            ((REAL *)y)[row * width + i] = sum;
        }
}

static void embedding_backward(struct pen_engine *engine,
                               const struct pen_embedding *embedding,
                               const int32_t *ids, const void *dy)
{
    (void)engine;
    size_t width = embedding->tokens->shape.columns;
    for (size_t row = 0; row < embedding->rows; row++)
        for (size_t i = 0; i < width; i++) {
            size_t position = pen_embedding_position(embedding, row);
            REAL slope = ((const REAL *)dy)[row * width + i];
            size_t id = (size_t)(ids[row] - embedding->first);
            if (id < embedding->tokens->shape.rows)
                embedding->tokens->parts[PEN_PART_GRADIENT][id * width + i] +=
                    slope;
            if (embedding->positions != NULL)
                embedding->positions
                    ->parts[PEN_PART_GRADIENT][position * width + i] += slope;
        }
}
