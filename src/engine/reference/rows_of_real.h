/* Operations that work row by row or element by element. */

static void norm_forward(struct pen_engine *engine, const struct pen_norm *norm,
                         const void *x, void *y, void *mean, void *rstd)
{
    (void)engine;
    REAL width = (REAL)norm->width;
    for (size_t row = 0; row < norm->rows; row++) {
        const REAL *in = (const REAL *)x + row * norm->width;
        REAL *out = (REAL *)y + row * norm->width;
        REAL middle = 0;
        REAL square = 0;
        if (norm->kind == PEN_NORM_LAYER) {
            for (size_t i = 0; i < norm->width; i++)
                middle += in[i] / width;
            ((REAL *)mean)[row] = middle;
        }
        for (size_t i = 0; i < norm->width; i++)
            square += (in[i] - middle) * (in[i] - middle) / width;
        REAL factor = 1 / FN(sqrt)(square + (REAL)norm->epsilon);
        ((REAL *)rstd)[row] = factor;
        for (size_t i = 0; i < norm->width; i++) {
            out[i] = (in[i] - middle) * factor *
                     norm->gain->parts[PEN_PART_VALUE][i];
            if (norm->bias != NULL)
                out[i] += norm->bias->parts[PEN_PART_VALUE][i];
        }
    }
}

/*
 * With n = (x - mean) * rstd and g = dy * gain:
 *   dx = rstd * (g - average(g) - n * average(g * n));
 * RMS norm has neither the mean nor average(g).
 */
static void norm_backward_input(struct pen_engine *engine,
                                const struct pen_norm *norm, const void *x,
                                const void *mean, const void *rstd,
                                const void *dy, const void *add, void *dx)
{
    (void)engine;
    bool is_layer = norm->kind == PEN_NORM_LAYER;
    REAL width = (REAL)norm->width;
    const REAL *gain = norm->gain->parts[PEN_PART_VALUE];
    for (size_t row = 0; row < norm->rows; row++) {
        const REAL *in = (const REAL *)x + row * norm->width;
        const REAL *slope = (const REAL *)dy + row * norm->width;
        REAL middle = is_layer ? ((const REAL *)mean)[row] : 0;
        REAL factor = ((const REAL *)rstd)[row];
        REAL average = 0;
        REAL along = 0;
        for (size_t i = 0; i < norm->width; i++) {
            REAL normal = (in[i] - middle) * factor;
            if (is_layer)
                average += slope[i] * gain[i] / width;
            along += slope[i] * gain[i] * normal / width;
        }
        for (size_t i = 0; i < norm->width; i++) {
            REAL normal = (in[i] - middle) * factor;
            REAL past =
                add == NULL ? 0 : ((const REAL *)add)[row * norm->width + i];
            ((REAL *)dx)[row * norm->width + i] =
                factor * (slope[i] * gain[i] - average - normal * along) + past;
        }
    }
}

static void norm_backward_weight(struct pen_engine *engine,
                                 const struct pen_norm *norm, const void *x,
                                 const void *mean, const void *rstd,
                                 const void *dy)
{
    (void)engine;
    for (size_t row = 0; row < norm->rows; row++)
        for (size_t i = 0; i < norm->width; i++) {
            REAL middle =
                norm->kind == PEN_NORM_LAYER ? ((const REAL *)mean)[row] : 0;
            REAL normal = (((const REAL *)x)[row * norm->width + i] - middle) *
                          ((const REAL *)rstd)[row];
            REAL slope = ((const REAL *)dy)[row * norm->width + i];
            norm->gain->parts[PEN_PART_GRADIENT][i] += slope * normal;
            if (norm->bias != NULL)
                norm->bias->parts[PEN_PART_GRADIENT][i] += slope;
        }
}

/* Hendrycks and Gimpel, 2016: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
#define GELU_OUTER ((REAL)0.79788456080286535588)
#define GELU_CUBE ((REAL)0.044715)

static void gelu_forward(struct pen_engine *engine, size_t count, const void *x,
                         void *y)
{
    (void)engine;
    for (size_t i = 0; i < count; i++) {
        REAL in = ((const REAL *)x)[i];
        REAL turn = FN(tanh)(GELU_OUTER * (in + GELU_CUBE * in * in * in));
        ((REAL *)y)[i] = (REAL)0.5 * in * (1 + turn);
    }
}

static void gelu_backward(struct pen_engine *engine, size_t count,
                          const void *x, const void *dy, void *dx)
{
    (void)engine;
    for (size_t i = 0; i < count; i++) {
        REAL in = ((const REAL *)x)[i];
        REAL turn = FN(tanh)(GELU_OUTER * (in + GELU_CUBE * in * in * in));
        REAL inner = GELU_OUTER * (1 + 3 * GELU_CUBE * in * in);
        REAL slope =
            (REAL)0.5 * (1 + turn) + (REAL)0.5 * in * (1 - turn * turn) * inner;
        ((REAL *)dx)[i] = ((const REAL *)dy)[i] * slope;
    }
}

#undef GELU_OUTER
#undef GELU_CUBE

/* silu(x) = x * sigmoid(x) */
static REAL sigmoid(REAL x)
{
    return 1 / (1 + FN(exp)(-x));
}

static void swiglu_forward(struct pen_engine *engine,
                           const struct pen_swiglu *swiglu, const void *gate,
                           const void *up, void *y)
{
    (void)engine;
    for (size_t row = 0; row < swiglu->rows; row++)
        for (size_t i = 0; i < swiglu->width; i++) {
            REAL g = ((const REAL *)gate)[row * swiglu->stride + i];
            REAL u = ((const REAL *)up)[row * swiglu->stride + i];
            ((REAL *)y)[row * swiglu->width + i] = g * sigmoid(g) * u;
        }
}

static void swiglu_backward(struct pen_engine *engine,
                            const struct pen_swiglu *swiglu, const void *gate,
                            const void *up, const void *dy, void *dgate,
                            void *dup)
{
    (void)engine;
    for (size_t row = 0; row < swiglu->rows; row++)
        for (size_t i = 0; i < swiglu->width; i++) {
            size_t at = row * swiglu->stride + i;
            REAL g = ((const REAL *)gate)[at];
            REAL u = ((const REAL *)up)[at];
            REAL s = sigmoid(g);
            REAL slope = ((const REAL *)dy)[row * swiglu->width + i];
            ((REAL *)dgate)[at] = slope * u * s * (1 + g * (1 - s));
            ((REAL *)dup)[at] = slope * g * s;
        }
}

static REAL clamp(REAL x, REAL least, REAL most)
{
    return x > most ? most : x < least ? least : x;
}

static void clamped_gate_forward(struct pen_engine *engine,
                                 const struct pen_clamped_gate *gate,
                                 const void *x, void *y)
{
    (void)engine;
    REAL limit = (REAL)gate->limit;
    for (size_t i = 0; i < gate->rows * gate->width; i++) {
        REAL g = ((const REAL *)x)[2 * i];
        g = g > limit ? limit : g;
        REAL u = clamp(((const REAL *)x)[2 * i + 1], -limit, limit);
        ((REAL *)y)[i] = g * sigmoid((REAL)gate->alpha * g) * (u + 1);
    }
}

static void clamped_gate_backward(struct pen_engine *engine,
                                  const struct pen_clamped_gate *gate,
                                  const void *x, const void *dy, void *dx)
{
    (void)engine;
    REAL limit = (REAL)gate->limit;
    for (size_t i = 0; i < gate->rows * gate->width; i++) {
        const REAL *pair = (const REAL *)x + 2 * i;
        REAL *out = (REAL *)dx + 2 * i;
        REAL g = pair[0] > limit ? limit : pair[0];
        REAL u = clamp(pair[1], -limit, limit);
        REAL s = sigmoid((REAL)gate->alpha * g);
        REAL slope = ((const REAL *)dy)[i];
        REAL turn = s * (1 + (REAL)gate->alpha * g * (1 - s));
        out[0] = pair[0] > limit ? 0 : slope * (u + 1) * turn;
        out[1] = FN(fabs)(pair[1]) > limit ? 0 : slope * g * s;
    }
}

static void turn(const struct pen_rotary *rotary, REAL *x, REAL direction)
{
    size_t half = rotary->head_size / 2;
    size_t step = rotary->step > 0 ? rotary->step : rotary->head_size;
    size_t apart = rotary->has_neighbours ? 1 : half;
    for (size_t row = 0; row < rotary->rows; row++)
        for (size_t head = 0; head < rotary->heads; head++)
            for (size_t i = 0; i < half; i++) {
                REAL *low = x + row * rotary->stride + head * step +
                            (rotary->has_neighbours ? 2 * i : i);
                REAL *high = low + apart;
                size_t angle = row % rotary->sequence * half + i;
                REAL cosine = ((const REAL *)rotary->cosines)[angle];
                REAL sine = direction * ((const REAL *)rotary->sines)[angle];
                REAL was = *low;
                *low = was * cosine - *high * sine;
                *high = *high * cosine + was * sine;
            }
}

static void rotary_forward(struct pen_engine *engine,
                           const struct pen_rotary *rotary, void *x)
{
    (void)engine;
    turn(rotary, x, 1);
}

static void rotary_backward(struct pen_engine *engine,
                            const struct pen_rotary *rotary, void *dx)
{
    (void)engine;
    turn(rotary, dx, -1);
}

static void cross_entropy(struct pen_engine *engine,
                          const struct pen_cross_entropy *entropy,
                          const int32_t *targets, void *logits,
                          bool with_gradient, double *out)
{
    (void)engine;
    double loss = 0;
    for (size_t row = 0; row < entropy->rows; row++) {
        REAL *logit = (REAL *)logits + row * entropy->classes;
        bool is_counted = targets[row] != entropy->ignore;
        REAL largest = logit[0];
        REAL sum = 0;
        for (size_t i = 1; i < entropy->classes; i++)
            largest = FN(fmax)(largest, logit[i]);
        for (size_t i = 0; i < entropy->classes; i++)
            sum += FN(exp)(logit[i] - largest);
        if (is_counted)
            loss += (double)(FN(log)(sum) + largest - logit[targets[row]]);
        for (size_t i = 0; with_gradient && i < entropy->classes; i++) {
            REAL hit = is_counted && i == (size_t)targets[row] ? 1 : 0;
            REAL slope = FN(exp)(logit[i] - largest) / sum - hit;
            logit[i] = is_counted ? slope / (REAL)entropy->count : 0;
        }
    }
    *out = loss / entropy->count;
}

static void add(struct pen_engine *engine, size_t count, const void *a,
                const void *b, void *sum)
{
    (void)engine;
    for (size_t i = 0; i < count; i++)
        ((REAL *)sum)[i] = ((const REAL *)a)[i] + ((const REAL *)b)[i];
}

static void entropy_measure(struct pen_engine *engine,
                            const struct pen_cross_entropy *entropy,
                            const int32_t *targets, const void *logits,
                            void *stats)
{
    (void)engine;
    for (size_t row = 0; row < entropy->rows; row++) {
        const REAL *logit = (const REAL *)logits + row * entropy->classes;
        REAL *stat = (REAL *)stats + row * 3;
        size_t target = (size_t)(targets[row] - entropy->first);
        bool is_here =
            targets[row] != entropy->ignore && target < entropy->classes;
        stat[0] = logit[0];
        stat[1] = 0;
        for (size_t i = 1; i < entropy->classes; i++)
            stat[0] = FN(fmax)(stat[0], logit[i]);
        for (size_t i = 0; i < entropy->classes; i++)
            stat[1] += FN(exp)(logit[i] - stat[0]);
        stat[2] = is_here ? logit[target] : 0;
    }
}

static void entropy_join(struct pen_engine *engine, size_t rows,
                         const void *from, void *stats)
{
    (void)engine;
    for (size_t row = 0; row < rows; row++) {
        const REAL *other = (const REAL *)from + row * 3;
        REAL *stat = (REAL *)stats + row * 3;
        bool is_larger = stat[0] >= other[0];
        const REAL *high = is_larger ? stat : other;
        const REAL *low = is_larger ? other : stat;
        REAL largest = high[0];
        REAL sum = high[1] + low[1] * FN(exp)(low[0] - largest);
        stat[2] += other[2];
        stat[0] = largest;
        stat[1] = sum;
    }
}

static void entropy_finish(struct pen_engine *engine,
                           const struct pen_cross_entropy *entropy,
                           const int32_t *targets, const void *stats,
                           void *logits, bool with_gradient, double *out)
{
    (void)engine;
    double loss = 0;
    for (size_t row = 0; row < entropy->rows; row++) {
        REAL *logit = (REAL *)logits + row * entropy->classes;
        const REAL *stat = (const REAL *)stats + row * 3;
        bool is_counted = targets[row] != entropy->ignore;
        size_t target = (size_t)(targets[row] - entropy->first);
        if (is_counted)
            loss += (double)(FN(log)(stat[1]) + stat[0] - stat[2]);
        for (size_t i = 0; with_gradient && i < entropy->classes; i++) {
            REAL hit = is_counted && i == target ? 1 : 0;
            REAL slope = FN(exp)(logit[i] - stat[0]) / stat[1] - hit;
            logit[i] = is_counted ? slope / (REAL)entropy->count : 0;
        }
    }
    if (out != NULL)
        *out = loss / entropy->count;
}
