/* Element by element, sums of columns, and the loss. */

static size_t piece_end(size_t first, size_t count)
{
    return first + PIECE > count ? count : first + PIECE;
}

static void add(struct pen_engine *engine, size_t count, const void *a,
                const void *b, void *sum)
{
    const ELEMENT *left = a;
    const ELEMENT *right = b;
    ELEMENT *out = sum;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = piece_end(first, count);
#pragma omp simd
        for (size_t i = first; i < end; i++)
            STORE(out, i, LOAD(left, i) + LOAD(right, i));
    }
}

static void add_columns(const struct pen_engine *engine, size_t rows,
                        size_t width, const void *x, float *to)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t count = width - first > COLUMNS ? COLUMNS : width - first;
        float sums[COLUMNS] = {0};
        for (size_t row = 0; row < rows; row++) {
            const ELEMENT *in = (const ELEMENT *)x + row * width + first;
#pragma omp simd
            for (size_t i = 0; i < count; i++)
                sums[i] += LOAD(in, i);
        }
        for (size_t i = 0; i < count; i++)
            to[first + i] += sums[i];
    }
}

static void begin(const struct pen_engine *engine, size_t rows, size_t width,
                  const float *bias, const void *add, void *y)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        const ELEMENT *past =
            add == NULL ? NULL : (const ELEMENT *)add + row * width;
        ELEMENT *out = (ELEMENT *)y + row * width;
        if (bias == NULL) {
            memcpy(out, past, width * sizeof *out);
        } else if (past == NULL) {
#pragma omp simd
            for (size_t i = 0; i < width; i++)
                STORE(out, i, bias[i]);
        } else {
#pragma omp simd
            for (size_t i = 0; i < width; i++)
                STORE(out, i, bias[i] + LOAD(past, i));
        }
    }
}

/* 1 + tanh(u) = 2 sigmoid(2u), so gelu(x) = x sigmoid(2u). */
#define GELU_OUTER 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

static void gelu_forward(struct pen_engine *engine, size_t count, const void *x,
                         void *y)
{
    const ELEMENT *in = x;
    ELEMENT *out = y;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = piece_end(first, count);
#pragma omp simd
        for (size_t i = first; i < end; i++) {
            float a = LOAD(in, i);
            float u = GELU_OUTER * (a + GELU_CUBE * a * a * a);
            STORE(out, i, a * pen__sigmoid(u));
        }
    }
}

static void gelu_backward(struct pen_engine *engine, size_t count,
                          const void *x, const void *dy, void *dx)
{
    const ELEMENT *in = x;
    const ELEMENT *slope = dy;
    ELEMENT *out = dx;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = piece_end(first, count);
#pragma omp simd
        for (size_t i = first; i < end; i++) {
            float a = LOAD(in, i);
            float s = pen__sigmoid(GELU_OUTER * (a + GELU_CUBE * a * a * a));
            float inner = GELU_OUTER * (1 + 3 * GELU_CUBE * a * a);
            STORE(out, i, LOAD(slope, i) * (s + a * s * (1 - s) * inner));
        }
    }
}

#undef GELU_OUTER
#undef GELU_CUBE

static void swiglu_forward(struct pen_engine *engine,
                           const struct pen_swiglu *swiglu, const void *gate,
                           const void *up, void *y)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < swiglu->rows; row++) {
        const ELEMENT *g = (const ELEMENT *)gate + row * swiglu->stride;
        const ELEMENT *u = (const ELEMENT *)up + row * swiglu->stride;
        ELEMENT *out = (ELEMENT *)y + row * swiglu->width;
#pragma omp simd
        for (size_t i = 0; i < swiglu->width; i++) {
            float a = LOAD(g, i);
            STORE(out, i, a * pen__sigmoid(a) * LOAD(u, i));
        }
    }
}

static void swiglu_backward(struct pen_engine *engine,
                            const struct pen_swiglu *swiglu, const void *gate,
                            const void *up, const void *dy, void *dgate,
                            void *dup)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < swiglu->rows; row++) {
        const ELEMENT *g = (const ELEMENT *)gate + row * swiglu->stride;
        const ELEMENT *u = (const ELEMENT *)up + row * swiglu->stride;
        const ELEMENT *slope = (const ELEMENT *)dy + row * swiglu->width;
        ELEMENT *dg = (ELEMENT *)dgate + row * swiglu->stride;
        ELEMENT *du = (ELEMENT *)dup + row * swiglu->stride;
#pragma omp simd
        for (size_t i = 0; i < swiglu->width; i++) {
            float a = LOAD(g, i);
            float s = pen__sigmoid(a);
            float d = LOAD(slope, i);
            STORE(dg, i, d * LOAD(u, i) * s * (1 + a * (1 - s)));
            STORE(du, i, d * a * s);
        }
    }
}

static float clamp(float x, float least, float most)
{
    x = x < least ? least : x;
    return x > most ? most : x;
}

static void clamped_gate_forward(struct pen_engine *engine,
                                 const struct pen_clamped_gate *gate,
                                 const void *x, void *y)
{
    float alpha = (float)gate->alpha, limit = (float)gate->limit;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < gate->rows; row++) {
        const ELEMENT *in = (const ELEMENT *)x + row * 2 * gate->width;
        ELEMENT *out = (ELEMENT *)y + row * gate->width;
#pragma omp simd
        for (size_t i = 0; i < gate->width; i++) {
            float g = LOAD(in, 2 * i);
            float u = clamp(LOAD(in, 2 * i + 1), -limit, limit);
            g = g > limit ? limit : g;
            STORE(out, i, g * pen__sigmoid(alpha * g) * (u + 1));
        }
    }
}

static void clamped_gate_backward(struct pen_engine *engine,
                                  const struct pen_clamped_gate *gate,
                                  const void *x, const void *dy, void *dx)
{
    float alpha = (float)gate->alpha, limit = (float)gate->limit;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < gate->rows; row++) {
        const ELEMENT *in = (const ELEMENT *)x + row * 2 * gate->width;
        const ELEMENT *slope = (const ELEMENT *)dy + row * gate->width;
        ELEMENT *out = (ELEMENT *)dx + row * 2 * gate->width;
#pragma omp simd
        for (size_t i = 0; i < gate->width; i++) {
            float above = LOAD(in, 2 * i), beside = LOAD(in, 2 * i + 1);
            float g = above > limit ? limit : above;
            float u = clamp(beside, -limit, limit);
            float s = pen__sigmoid(alpha * g);
            float d = LOAD(slope, i);
            float dg = d * (u + 1) * s * (1 + alpha * g * (1 - s));
            float du = d * g * s;
            STORE(out, 2 * i, above > limit ? 0 : dg);
            STORE(out, 2 * i + 1, beside > limit || beside < -limit ? 0 : du);
        }
    }
}

/* The loss of one row; its logits become their slopes where asked. */
static double row_loss(const struct pen_cross_entropy *entropy, int32_t target,
                       ELEMENT *logit, bool with_gradient)
{
    size_t classes = entropy->classes;
    bool is_counted = target != entropy->ignore;
    float largest = LOAD(logit, 0);
    float sum = 0;
#pragma omp simd reduction(max : largest)
    for (size_t i = 1; i < classes; i++)
        largest = LOAD(logit, i) > largest ? LOAD(logit, i) : largest;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < classes; i++)
        sum += pen__exp(LOAD(logit, i) - largest);
    float hit = is_counted ? LOAD(logit, (size_t)target) : 0;
    if (with_gradient) {
        float share = is_counted ? 1 / (float)entropy->count : 0;
        float factor = share / sum;
#pragma omp simd
        for (size_t i = 0; i < classes; i++)
            STORE(logit, i, pen__exp(LOAD(logit, i) - largest) * factor);
        if (is_counted)
            STORE(logit, (size_t)target,
                  (pen__exp(hit - largest) / sum - 1) * share);
    }
    return is_counted ? (double)logf(sum) + (double)(largest - hit) : 0;
}

/*
 * Threads take fixed groups of rows; the losses of a group are added in order,
 * and so are the groups.
 */
enum { LOSS_GROUPS = 64 };

static double add_groups(const double *losses, double count)
{
    double loss = 0;
    for (size_t group = 0; group < LOSS_GROUPS; group++)
        loss += losses[group];
    return loss / count;
}

static void cross_entropy(struct pen_engine *engine,
                          const struct pen_cross_entropy *entropy,
                          const int32_t *targets, void *logits,
                          bool with_gradient, double *out)
{
    double losses[LOSS_GROUPS] = {0};
    size_t rows = (entropy->rows + LOSS_GROUPS - 1) / LOSS_GROUPS;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t group = 0; group < LOSS_GROUPS; group++)
        for (size_t row = group * rows;
             row < (group + 1) * rows && row < entropy->rows; row++)
            losses[group] += row_loss(
                entropy, targets[row],
                (ELEMENT *)logits + row * entropy->classes, with_gradient);
    *out = add_groups(losses, entropy->count);
}

static void entropy_measure(struct pen_engine *engine,
                            const struct pen_cross_entropy *entropy,
                            const int32_t *targets, const void *logits,
                            void *stats)
{
    size_t classes = entropy->classes;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < entropy->rows; row++) {
        const ELEMENT *logit = (const ELEMENT *)logits + row * classes;
        float *stat = (float *)stats + row * 3;
        size_t target = (size_t)(targets[row] - entropy->first);
        bool is_here = targets[row] != entropy->ignore && target < classes;
        float largest = LOAD(logit, 0);
        float sum = 0;
#pragma omp simd reduction(max : largest)
        for (size_t i = 1; i < classes; i++)
            largest = LOAD(logit, i) > largest ? LOAD(logit, i) : largest;
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < classes; i++)
            sum += pen__exp(LOAD(logit, i) - largest);
        stat[0] = largest;
        stat[1] = sum;
        stat[2] = is_here ? LOAD(logit, target) : 0;
    }
}

static void entropy_join(struct pen_engine *engine, size_t rows,
                         const void *from, void *stats)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        const float *other = (const float *)from + row * 3;
        float *stat = (float *)stats + row * 3;
        bool is_larger = stat[0] >= other[0];
        const float *high = is_larger ? stat : other;
        const float *low = is_larger ? other : stat;
        float largest = high[0];
        float sum = high[1] + low[1] * expf(low[0] - largest);
        stat[2] += other[2];
        stat[0] = largest;
        stat[1] = sum;
    }
}

/* The logits of one row of a piece become their slopes. */
static void row_slopes(const struct pen_cross_entropy *entropy, int32_t target,
                       const float *stat, ELEMENT *logit)
{
    size_t hit = (size_t)(target - entropy->first);
    bool is_counted = target != entropy->ignore;
    float share = is_counted ? 1 / (float)entropy->count : 0;
    float factor = share / stat[1];
#pragma omp simd
    for (size_t i = 0; i < entropy->classes; i++)
        STORE(logit, i, pen__exp(LOAD(logit, i) - stat[0]) * factor);
    if (is_counted && hit < entropy->classes)
        STORE(logit, hit, (pen__exp(stat[2] - stat[0]) / stat[1] - 1) * share);
}

static void entropy_finish(struct pen_engine *engine,
                           const struct pen_cross_entropy *entropy,
                           const int32_t *targets, const void *stats,
                           void *logits, bool with_gradient, double *out)
{
    double losses[LOSS_GROUPS] = {0};
    size_t rows = (entropy->rows + LOSS_GROUPS - 1) / LOSS_GROUPS;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t group = 0; group < LOSS_GROUPS; group++)
        for (size_t row = group * rows;
             row < (group + 1) * rows && row < entropy->rows; row++) {
            const float *stat = (const float *)stats + row * 3;
            if (targets[row] != entropy->ignore)
                losses[group] +=
                    (double)logf(stat[1]) + (double)(stat[0] - stat[2]);
            if (with_gradient)
                row_slopes(entropy, targets[row], stat,
                           (ELEMENT *)logits + row * entropy->classes);
        }
    if (out != NULL)
        *out = add_groups(losses, entropy->count);
}
