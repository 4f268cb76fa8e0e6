/* Embedding from and into a table, and rotary. */

/* A row without a token: its position alone, or zeros. */
static void put_position(const struct pen_embedding *embedding, size_t row,
                         ELEMENT *out)
{
    size_t width = embedding->tokens->shape.columns;
    const float *position =
        embedding->positions == NULL
            ? NULL
            : embedding->positions->parts[PEN_PART_VALUE] +
                  pen_embedding_position(embedding, row) * width;
    for (size_t i = 0; i < width; i++)
        STORE(out, i, position == NULL ? 0 : position[i]);
}

static void embedding_forward(struct pen_engine *engine,
                              const struct pen_embedding *embedding,
                              const int32_t *ids, void *y)
{
    const float *tokens = embedding->tokens->parts[PEN_PART_VALUE];
    size_t num_tokens = embedding->tokens->shape.rows;
    size_t width = embedding->tokens->shape.columns;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < embedding->rows; row++) {
        size_t id = (size_t)(ids[row] - embedding->first);
        const float *token = tokens + (id < num_tokens ? id : 0) * width;
        ELEMENT *out = (ELEMENT *)y + row * width;
        if (id >= num_tokens) {
            put_position(embedding, row, out);
        } else if (embedding->positions == NULL) {
#pragma omp simd
            for (size_t i = 0; i < width; i++)
                STORE(out, i, token[i]);
        } else {
            const float *position =
                embedding->positions->parts[PEN_PART_VALUE] +
                pen_embedding_position(embedding, row) * width;
#pragma omp simd
            for (size_t i = 0; i < width; i++)
                STORE(out, i, token[i] + position[i]);
        }
    }
}

/*
 * The same word may occur in many rows, so threads share out the columns, and
 * each thread goes through all rows in order.
 */
static void embedding_backward(struct pen_engine *engine,
                               const struct pen_embedding *embedding,
                               const int32_t *ids, const void *dy)
{
    size_t width = embedding->tokens->shape.columns;
    float *dtokens = pen__gradient(embedding->tokens);
    float *dpositions = embedding->positions == NULL
                            ? NULL
                            : pen__gradient(embedding->positions);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t end = first + COLUMNS > width ? width : first + COLUMNS;
        for (size_t row = 0; row < embedding->rows; row++) {
            const ELEMENT *slope = (const ELEMENT *)dy + row * width;
            size_t id = (size_t)(ids[row] - embedding->first);
            bool is_here = id < embedding->tokens->shape.rows;
            float *token = dtokens + (is_here ? id : 0) * width;
            if (is_here)
#pragma omp simd
                for (size_t i = first; i < end; i++)
                    token[i] += LOAD(slope, i);
            if (dpositions == NULL)
                continue;
            float *position =
                dpositions + pen_embedding_position(embedding, row) * width;
#pragma omp simd
            for (size_t i = first; i < end; i++)
                position[i] += LOAD(slope, i);
        }
    }
}

static void turn_neighbours(const struct pen_rotary *rotary, ELEMENT *x,
                            float direction, size_t at)
{
    const float *cosine = (const float *)rotary->cosines + at;
    const float *sine = (const float *)rotary->sines + at;
    size_t step = rotary->step > 0 ? rotary->step : rotary->head_size;
    for (size_t head = 0; head < rotary->heads; head++) {
        ELEMENT *pair = x + head * step;
        for (size_t i = 0; i < rotary->head_size / 2; i++) {
            float a = LOAD(pair, 2 * i);
            float b = LOAD(pair, 2 * i + 1);
            float s = direction * sine[i];
            STORE(pair, 2 * i, a * cosine[i] - b * s);
            STORE(pair, 2 * i + 1, b * cosine[i] + a * s);
        }
    }
}

static void turn(const struct pen_engine *engine,
                 const struct pen_rotary *rotary, ELEMENT *x, float direction)
{
    size_t half = rotary->head_size / 2;
    size_t step = rotary->step > 0 ? rotary->step : rotary->head_size;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < rotary->rows; row++) {
        size_t at = row % rotary->sequence * half;
        const float *cosine = (const float *)rotary->cosines + at;
        const float *sine = (const float *)rotary->sines + at;
        if (rotary->has_neighbours) {
            turn_neighbours(rotary, x + row * rotary->stride, direction, at);
            continue;
        }
        for (size_t head = 0; head < rotary->heads; head++) {
            ELEMENT *low = x + row * rotary->stride + head * step;
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
