/* Layer norm and RMS norm; the formulas are in reference/rows_of_real.h. */

static void norm_row(const struct pen_norm *norm, const ELEMENT *x, ELEMENT *y,
                     float *mean, float *rstd)
{
    size_t width = norm->width;
    const float *gain = norm->gain->parts[PEN_PART_VALUE];
    const float *bias =
        norm->bias == NULL ? NULL : norm->bias->parts[PEN_PART_VALUE];
    float middle = 0;
    float square = 0;
    if (norm->kind == PEN_NORM_LAYER) {
#pragma omp simd reduction(+ : middle)
        for (size_t i = 0; i < width; i++)
            middle += LOAD(x, i);
        middle /= (float)width;
        *mean = middle;
    }
#pragma omp simd reduction(+ : square)
    for (size_t i = 0; i < width; i++)
        square += (LOAD(x, i) - middle) * (LOAD(x, i) - middle);
    float factor = 1 / sqrtf(square / (float)width + (float)norm->epsilon);
    *rstd = factor;
    if (bias == NULL) {
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(y, i, (LOAD(x, i) - middle) * factor * gain[i]);
    } else {
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(y, i, (LOAD(x, i) - middle) * factor * gain[i] + bias[i]);
    }
}

static void norm_forward(struct pen_engine *engine, const struct pen_norm *norm,
                         const void *x, void *y, void *mean, void *rstd)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < norm->rows; row++)
        norm_row(norm, (const ELEMENT *)x + row * norm->width,
                 (ELEMENT *)y + row * norm->width,
                 mean == NULL ? NULL : (float *)mean + row,
                 (float *)rstd + row);
}

static void norm_row_backward(const struct pen_norm *norm, const ELEMENT *x,
                              float mean, float rstd, const ELEMENT *dy,
                              const ELEMENT *add, ELEMENT *dx)
{
    size_t width = norm->width;
    const float *gain = norm->gain->parts[PEN_PART_VALUE];
    float average = 0;
    float along = 0;
#pragma omp simd reduction(+ : average, along)
    for (size_t i = 0; i < width; i++) {
        float slope = LOAD(dy, i) * gain[i];
        average += slope;
        along += slope * (LOAD(x, i) - mean);
    }
    average = norm->kind == PEN_NORM_LAYER ? average / (float)width : 0;
    along = along * rstd * rstd / (float)width;
    if (add == NULL) {
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(dx, i,
                  rstd * (LOAD(dy, i) * gain[i] - average -
                          (LOAD(x, i) - mean) * along));
    } else {
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(dx, i,
                  rstd * (LOAD(dy, i) * gain[i] - average -
                          (LOAD(x, i) - mean) * along) +
                      LOAD(add, i));
    }
}

static void norm_backward_input(struct pen_engine *engine,
                                const struct pen_norm *norm, const void *x,
                                const void *mean, const void *rstd,
                                const void *dy, const void *add, void *dx)
{
    bool has_mean = norm->kind == PEN_NORM_LAYER;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < norm->rows; row++) {
        size_t at = row * norm->width;
        norm_row_backward(norm, (const ELEMENT *)x + at,
                          has_mean ? ((const float *)mean)[row] : 0,
                          ((const float *)rstd)[row], (const ELEMENT *)dy + at,
                          add == NULL ? NULL : (const ELEMENT *)add + at,
                          (ELEMENT *)dx + at);
    }
}

/* Sums some columns over all rows, in the order of the rows. */
static void norm_columns(const struct pen_norm *norm, size_t first,
                         const ELEMENT *x, const float *mean, const float *rstd,
                         const ELEMENT *dy, float *dgain, float *dbias)
{
    size_t count = norm->width - first;
    float gains[COLUMNS] = {0};
    float biases[COLUMNS] = {0};
    count = count > COLUMNS ? COLUMNS : count;
    for (size_t row = 0; row < norm->rows; row++) {
        const ELEMENT *in = x + row * norm->width + first;
        const ELEMENT *slope = dy + row * norm->width + first;
        float middle = norm->kind == PEN_NORM_LAYER ? mean[row] : 0;
        float factor = rstd[row];
#pragma omp simd
        for (size_t i = 0; i < count; i++) {
            gains[i] += LOAD(slope, i) * (LOAD(in, i) - middle) * factor;
            biases[i] += LOAD(slope, i);
        }
    }
    for (size_t i = 0; i < count; i++) {
        dgain[first + i] += gains[i];
        if (dbias != NULL)
            dbias[first + i] += biases[i];
    }
}

static void norm_backward_weight(struct pen_engine *engine,
                                 const struct pen_norm *norm, const void *x,
                                 const void *mean, const void *rstd,
                                 const void *dy)
{
    float *dgain = pen__gradient(norm->gain);
    float *dbias = norm->bias == NULL ? NULL : pen__gradient(norm->bias);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < norm->width; first += COLUMNS)
        norm_columns(norm, first, x, mean, rstd, dy, dgain, dbias);
}
