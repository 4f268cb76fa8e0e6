/* Embedding from and into a table in whatever layout it has, and rotary. */

static void embedding_forward(struct pen_engine *engine,
                              const struct pen_embedding *embedding,
                              const int32_t *ids, void *y)
{
    const struct pen_parameter *tokens = embedding->tokens;
    const struct pen_parameter *positions = embedding->positions;
    size_t width = tokens->shape.columns;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < embedding->rows; row++) {
        const float *token = tokens->parts[PEN_PART_VALUE] +
                             pen__parameter_at(tokens, (size_t)ids[row], 0);
        size_t step = tokens->lanes;
        ELEMENT *out = (ELEMENT *)y + row * width;
        if (positions == NULL) {
            for (size_t i = 0; i < width; i++)
                STORE(out, i, token[i * step]);
        } else {
            const float *position =
                positions->parts[PEN_PART_VALUE] +
                pen__parameter_at(positions, row % embedding->sequence, 0);
            for (size_t i = 0; i < width; i++)
                STORE(out, i, token[i * step] + position[i * positions->lanes]);
        }
    }
}

/*
 * The same word may stand in many rows, so threads share out the columns, and
 * each goes through all rows in order.
 */
static void embedding_backward(struct pen_engine *engine,
                               const struct pen_embedding *embedding,
                               const int32_t *ids, const void *dy)
{
    struct pen_parameter *tokens = embedding->tokens;
    struct pen_parameter *positions = embedding->positions;
    size_t width = tokens->shape.columns;
    float *dtokens = pen__gradient(tokens);
    float *dpositions = positions == NULL ? NULL : pen__gradient(positions);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t end = first + COLUMNS > width ? width : first + COLUMNS;
        for (size_t row = 0; row < embedding->rows; row++) {
            const ELEMENT *slope = (const ELEMENT *)dy + row * width;
            float *token =
                dtokens + pen__parameter_at(tokens, (size_t)ids[row], 0);
            for (size_t i = first; i < end; i++)
                token[i * tokens->lanes] += LOAD(slope, i);
            if (positions == NULL)
                continue;
            float *position =
                dpositions +
                pen__parameter_at(positions, row % embedding->sequence, 0);
            for (size_t i = first; i < end; i++)
                position[i * positions->lanes] += LOAD(slope, i);
        }
    }
}

static void turn(const struct pen_engine *engine,
                 const struct pen_rotary *rotary, ELEMENT *x, float direction)
{
    size_t half = rotary->head_size / 2;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < rotary->rows; row++) {
        size_t at = row % rotary->sequence * half;
        const float *cosine = (const float *)rotary->cosines + at;
        const float *sine = (const float *)rotary->sines + at;
        for (size_t head = 0; head < rotary->heads; head++) {
            ELEMENT *low = x + row * rotary->stride + head * rotary->head_size;
            ELEMENT *high = low + half;
#pragma omp simd
            for (size_t i = 0; i < half; i++) {
                float a = LOAD(low, i);
                float b = LOAD(high, i);
                float s = direction * sine[i];
                STORE(low, i, a * cosine[i] - b * s);
                STORE(high, i, b * cosine[i] + a * s);
            }
        }
    }
}

static void rotary_forward(struct pen_engine *engine,
                           const struct pen_rotary *rotary, void *x)
{
    turn(engine, rotary, x, 1);
}

static void rotary_backward(struct pen_engine *engine,
                            const struct pen_rotary *rotary, void *dx)
{
    turn(engine, rotary, dx, -1);
}
