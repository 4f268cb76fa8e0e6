/* Images: convolutions and pools are walks of a window; batch normalisation. */

/* The pixel of a plane under (k, l) of the kernel; false in the padding. */
static bool pixel_under(const struct pen_image_window *window, size_t row,
                        size_t column, size_t k, size_t l, size_t *pixel)
{
    size_t y = row * window->stride[0] + k;
    size_t x = column * window->stride[1] + l;
    if (y < window->padding[0] || y - window->padding[0] >= window->image[0] ||
        x < window->padding[1] || x - window->padding[1] >= window->image[1])
        return false;
    *pixel =
        (y - window->padding[0]) * window->image[1] + x - window->padding[1];
    return true;
}

/*
 * The three passes of a convolution visit the same triples: a pixel that goes
 * in, a weight, and the pixel that comes out.
 */
struct triple {
    REAL *x;
    REAL *w;
    REAL *y;
};

typedef void visit_triple(const struct triple *triple);

static void visit_forward(const struct triple *triple)
{
    *triple->y += *triple->x * *triple->w;
}

static void visit_backward_input(const struct triple *triple)
{
    *triple->x += *triple->y * *triple->w;
}

static void visit_backward_weight(const struct triple *triple)
{
    *triple->w += *triple->x * *triple->y;
}

/* All triples of one plane that goes in, one that comes out, their filter. */
static void walk_planes(const struct pen_image_window *window,
                        const struct triple *first, visit_triple *visit)
{
    size_t width = pen_image_window_steps(window, 1);
    size_t pixel;
    for (size_t row = 0; row < pen_image_window_steps(window, 0); row++)
        for (size_t column = 0; column < width; column++)
            for (size_t k = 0; k < window->kernel[0]; k++)
                for (size_t l = 0; l < window->kernel[1]; l++)
                    if (pixel_under(window, row, column, k, l, &pixel))
                        visit(&(struct triple){
                            first->x + pixel,
                            first->w + k * window->kernel[1] + l,
                            first->y + row * width + column});
}

static size_t plane_in(const struct pen_image_window *window)
{
    return window->image[0] * window->image[1];
}

static size_t plane_out(const struct pen_image_window *window)
{
    return pen_image_window_steps(window, 0) *
           pen_image_window_steps(window, 1);
}

static void walk_images(const struct pen_convolution *convolution,
                        const struct triple *first, visit_triple *visit)
{
    const struct pen_image_window *window = &convolution->window;
    size_t outputs = convolution->weight->shape.rows;
    size_t filter = window->kernel[0] * window->kernel[1];
    for (size_t image = 0; image < window->batch; image++)
        for (size_t output = 0; output < outputs; output++)
            for (size_t channel = 0; channel < window->channels; channel++)
                walk_planes(
                    window,
                    &(struct triple){
                        first->x + (image * window->channels + channel) *
                                       plane_in(window),
                        first->w +
                            (output * window->channels + channel) * filter,
                        first->y +
                            (image * outputs + output) * plane_out(window)},
                    visit);
}

static pen_status convolution_prepare(struct pen_engine *engine,
                                      const struct pen_convolution *convolution,
                                      struct pen_text *why)
{
    (void)engine;
    (void)convolution;
    (void)why;
    return PEN_OK;
}

static void convolution_forward(struct pen_engine *engine,
                                const struct pen_convolution *convolution,
                                const void *x, void *y)
{
    (void)engine;
    size_t outputs = convolution->weight->shape.rows;
    size_t plane = plane_out(&convolution->window);
    for (size_t i = 0; i < convolution->window.batch * outputs * plane; i++)
        ((REAL *)y)[i] =
            convolution->bias == NULL
                ? 0
                : convolution->bias->parts[PEN_PART_VALUE][i / plane % outputs];
    const struct triple first = {(REAL *)x,
                                 convolution->weight->parts[PEN_PART_VALUE], y};
    walk_images(convolution, &first, visit_forward);
}

static void
convolution_backward_input(struct pen_engine *engine,
                           const struct pen_convolution *convolution,
                           const void *dy, void *dx)
{
    (void)engine;
    const struct pen_image_window *window = &convolution->window;
    memset(dx, 0,
           window->batch * window->channels * plane_in(window) * sizeof(REAL));
    const struct triple first = {dx, convolution->weight->parts[PEN_PART_VALUE],
                                 (REAL *)dy};
    walk_images(convolution, &first, visit_backward_input);
}

static void
convolution_backward_weight(struct pen_engine *engine,
                            const struct pen_convolution *convolution,
                            const void *x, const void *dy)
{
    (void)engine;
    size_t outputs = convolution->weight->shape.rows;
    size_t plane = plane_out(&convolution->window);
    const struct triple first = {
        (REAL *)x, convolution->weight->parts[PEN_PART_GRADIENT], (REAL *)dy};
    walk_images(convolution, &first, visit_backward_weight);
    if (convolution->bias == NULL)
        return;
    for (size_t i = 0; i < convolution->window.batch * outputs * plane; i++)
        convolution->bias->parts[PEN_PART_GRADIENT][i / plane % outputs] +=
            ((const REAL *)dy)[i];
}

/* The first largest pixel under the window. */
static size_t largest_under(const struct pen_image_window *window,
                            const REAL *plane, size_t row, size_t column)
{
    size_t best = SIZE_MAX;
    size_t pixel;
    for (size_t k = 0; k < window->kernel[0]; k++)
        for (size_t l = 0; l < window->kernel[1]; l++)
            if (pixel_under(window, row, column, k, l, &pixel) &&
                (best == SIZE_MAX || plane[pixel] > plane[best]))
                best = pixel;
    return best;
}

static REAL average_under(const struct pen_image_window *window,
                          const REAL *plane, size_t row, size_t column)
{
    REAL sum = 0;
    size_t pixel;
    for (size_t k = 0; k < window->kernel[0]; k++)
        for (size_t l = 0; l < window->kernel[1]; l++)
            if (pixel_under(window, row, column, k, l, &pixel))
                sum += plane[pixel];
    return sum / (REAL)(window->kernel[0] * window->kernel[1]);
}

static void pool_forward(struct pen_engine *engine, const struct pen_pool *pool,
                         const void *x, void *y)
{
    (void)engine;
    const struct pen_image_window *window = &pool->window;
    const REAL *plane = x;
    REAL *out = y;
    for (size_t i = 0; i < window->batch * window->channels; i++) {
        for (size_t row = 0; row < pen_image_window_steps(window, 0); row++)
            for (size_t column = 0; column < pen_image_window_steps(window, 1);
                 column++)
                *out++ = pool->kind == PEN_POOL_MAX
                             ? plane[largest_under(window, plane, row, column)]
                             : average_under(window, plane, row, column);
        plane += plane_in(window);
    }
}

static void spread_under(const struct pen_image_window *window, size_t row,
                         size_t column, REAL slope, REAL *plane)
{
    size_t pixel;
    for (size_t k = 0; k < window->kernel[0]; k++)
        for (size_t l = 0; l < window->kernel[1]; l++)
            if (pixel_under(window, row, column, k, l, &pixel))
                plane[pixel] +=
                    slope / (REAL)(window->kernel[0] * window->kernel[1]);
}

static void pool_backward(struct pen_engine *engine,
                          const struct pen_pool *pool, const void *x,
                          const void *dy, void *dx)
{
    (void)engine;
    const struct pen_image_window *window = &pool->window;
    const REAL *slope = dy;
    size_t planes = window->batch * window->channels;
    memset(dx, 0, planes * plane_in(window) * sizeof(REAL));
    for (size_t i = 0; i < planes; i++) {
        REAL *to = (REAL *)dx + i * plane_in(window);
        for (size_t row = 0; row < pen_image_window_steps(window, 0); row++)
            for (size_t column = 0; column < pen_image_window_steps(window, 1);
                 column++, slope++)
                if (pool->kind == PEN_POOL_AVERAGE)
                    spread_under(window, row, column, *slope, to);
                else
                    to[largest_under(window,
                                     (const REAL *)x + i * plane_in(window),
                                     row, column)] += *slope;
    }
}

static void relu_forward(struct pen_engine *engine, size_t count, const void *x,
                         void *y)
{
    (void)engine;
    for (size_t i = 0; i < count; i++)
        ((REAL *)y)[i] = ((const REAL *)x)[i] < 0 ? 0 : ((const REAL *)x)[i];
}

static void relu_backward(struct pen_engine *engine, size_t count,
                          const void *y, const void *dy, void *dx)
{
    (void)engine;
    for (size_t i = 0; i < count; i++)
        ((REAL *)dx)[i] = ((const REAL *)y)[i] > 0 ? ((const REAL *)dy)[i] : 0;
}

/* Where number i of a channel lies: position after position, image by image. */
static size_t in_channel(const struct pen_batch_norm *norm, size_t channel,
                         size_t i)
{
    size_t image = i / norm->positions;
    return (image * norm->channels + channel) * norm->positions +
           i % norm->positions;
}

/* Ioffe and Szegedy, ICML 2015, algorithm 1. */
static void batch_norm_measure(struct pen_engine *engine,
                               const struct pen_batch_norm *norm, const void *x,
                               void *mean, void *rstd)
{
    (void)engine;
    const REAL *in = x;
    size_t count = norm->batch * norm->positions;
    REAL momentum = (REAL)norm->momentum;
    REAL *running_mean = norm->running_mean;
    REAL *running_variance = norm->running_variance;
    for (size_t channel = 0; channel < norm->channels; channel++) {
        REAL middle = 0;
        REAL squares = 0;
        for (size_t i = 0; i < count; i++)
            middle += in[in_channel(norm, channel, i)] / (REAL)count;
        for (size_t i = 0; i < count; i++) {
            REAL off = in[in_channel(norm, channel, i)] - middle;
            squares += off * off;
        }
        ((REAL *)mean)[channel] = middle;
        ((REAL *)rstd)[channel] =
            1 / FN(sqrt)(squares / (REAL)count + (REAL)norm->epsilon);
        running_mean[channel] += momentum * (middle - running_mean[channel]);
        running_variance[channel] += momentum * (squares / (REAL)(count - 1) -
                                                 running_variance[channel]);
    }
}

static void batch_norm_recall(struct pen_engine *engine,
                              const struct pen_batch_norm *norm, void *mean,
                              void *rstd)
{
    (void)engine;
    for (size_t channel = 0; channel < norm->channels; channel++) {
        REAL variance = ((const REAL *)norm->running_variance)[channel];
        ((REAL *)mean)[channel] = ((const REAL *)norm->running_mean)[channel];
        ((REAL *)rstd)[channel] = 1 / FN(sqrt)(variance + (REAL)norm->epsilon);
    }
}

static void batch_norm_forward(struct pen_engine *engine,
                               const struct pen_batch_norm *norm, const void *x,
                               const void *mean, const void *rstd, void *y)
{
    (void)engine;
    size_t count = norm->batch * norm->channels * norm->positions;
    for (size_t i = 0; i < count; i++) {
        size_t channel = i / norm->positions % norm->channels;
        REAL off = ((const REAL *)x)[i] - ((const REAL *)mean)[channel];
        ((REAL *)y)[i] = off * ((const REAL *)rstd)[channel] *
                             norm->gain->parts[PEN_PART_VALUE][channel] +
                         norm->bias->parts[PEN_PART_VALUE][channel];
    }
}

/* Sums over one channel of dy and of dy * n, where n = (x - mean) * rstd. */
static void batch_norm_sums(const struct pen_batch_norm *norm, size_t channel,
                            const REAL *x, REAL mean, REAL rstd, const REAL *dy,
                            REAL *slopes, REAL *along)
{
    *slopes = *along = 0;
    for (size_t i = 0; i < norm->batch * norm->positions; i++) {
        size_t at = in_channel(norm, channel, i);
        *slopes += dy[at];
        *along += dy[at] * (x[at] - mean) * rstd;
    }
}

/* dx = rstd * gain * (dy - average(dy) - n * average(dy * n)) */
static void batch_norm_backward_input(struct pen_engine *engine,
                                      const struct pen_batch_norm *norm,
                                      const void *x, const void *mean,
                                      const void *rstd, const void *dy,
                                      void *dx)
{
    (void)engine;
    const REAL *in = x;
    const REAL *slope = dy;
    size_t count = norm->batch * norm->positions;
    for (size_t channel = 0; channel < norm->channels; channel++) {
        REAL middle = ((const REAL *)mean)[channel];
        REAL factor = ((const REAL *)rstd)[channel];
        REAL gain = norm->gain->parts[PEN_PART_VALUE][channel];
        REAL slopes, along;
        batch_norm_sums(norm, channel, in, middle, factor, slope, &slopes,
                        &along);
        for (size_t i = 0; i < count; i++) {
            size_t at = in_channel(norm, channel, i);
            REAL normal = (in[at] - middle) * factor;
            ((REAL *)dx)[at] = factor * gain *
                               (slope[at] - slopes / (REAL)count -
                                normal * along / (REAL)count);
        }
    }
}

static void batch_norm_backward_weight(struct pen_engine *engine,
                                       const struct pen_batch_norm *norm,
                                       const void *x, const void *mean,
                                       const void *rstd, const void *dy)
{
    (void)engine;
    for (size_t channel = 0; channel < norm->channels; channel++) {
        REAL slopes, along;
        batch_norm_sums(norm, channel, x, ((const REAL *)mean)[channel],
                        ((const REAL *)rstd)[channel], dy, &slopes, &along);
        norm->bias->parts[PEN_PART_GRADIENT][channel] += slopes;
        norm->gain->parts[PEN_PART_GRADIENT][channel] += along;
    }
}
