/*
 * Images, all but convolutions: a channel or a plane belongs to one thread.
 * Sums over a plane are in float, over planes in double.
 */

static void relu_forward(struct pen_engine *engine, size_t count, const void *x,
                         void *y)
{
    const ELEMENT *in = x;
    ELEMENT *out = y;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = piece_end(first, count);
#pragma omp simd
        for (size_t i = first; i < end; i++)
            STORE(out, i, LOAD(in, i) < 0 ? 0 : LOAD(in, i));
    }
}

static void relu_backward(struct pen_engine *engine, size_t count,
                          const void *y, const void *dy, void *dx)
{
    const ELEMENT *in = y;
    const ELEMENT *slope = dy;
    ELEMENT *out = dx;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < count; first += PIECE) {
        size_t end = piece_end(first, count);
#pragma omp simd
        for (size_t i = first; i < end; i++)
            STORE(out, i, LOAD(in, i) > 0 ? LOAD(slope, i) : 0);
    }
}

/* to[channel] += sum over images and positions */
static void add_channels(const struct pen_engine *engine, size_t batch,
                         size_t channels, size_t positions, const void *x,
                         float *to)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t channel = 0; channel < channels; channel++) {
        double sum = 0;
        for (size_t image = 0; image < batch; image++) {
            const ELEMENT *plane =
                (const ELEMENT *)x + (image * channels + channel) * positions;
            float part = 0;
#pragma omp simd reduction(+ : part)
            for (size_t i = 0; i < positions; i++)
                part += LOAD(plane, i);
            sum += (double)part;
        }
        to[channel] += (float)sum;
    }
}

/* The part of the image under the window, at one step of one axis. */
struct span {
    size_t begin;
    size_t end;
};

static struct span under(const struct pen_image_window *window, int axis,
                         size_t step)
{
    size_t from = step * window->stride[axis];
    size_t to = from + window->kernel[axis];
    size_t padding = window->padding[axis];
    struct span span = {from > padding ? from - padding : 0,
                        to - padding < window->image[axis]
                            ? to - padding
                            : window->image[axis]};
    return span;
}

/* The steps at which the window lies over one pixel. */
static struct span over(const struct pen_image_window *window, int axis,
                        size_t pixel)
{
    size_t at = pixel + window->padding[axis];
    size_t stride = window->stride[axis];
    size_t kernel = window->kernel[axis];
    size_t steps = pen_image_window_steps(window, axis);
    struct span span = {at < kernel ? 0 : (at - kernel) / stride + 1,
                        at / stride + 1 < steps ? at / stride + 1 : steps};
    return span;
}

static size_t largest_under(const struct pen_image_window *window,
                            const ELEMENT *plane, size_t row, size_t column)
{
    struct span rows = under(window, 0, row);
    struct span columns = under(window, 1, column);
    size_t best = rows.begin * window->image[1] + columns.begin;
    float largest = LOAD(plane, best);
    for (size_t k = rows.begin; k < rows.end; k++)
        for (size_t l = columns.begin; l < columns.end; l++) {
            size_t pixel = k * window->image[1] + l;
            float found = LOAD(plane, pixel);
            best = found > largest ? pixel : best;
            largest = found > largest ? found : largest;
        }
    return best;
}

static float sum_under(const struct pen_image_window *window,
                       const ELEMENT *plane, size_t row, size_t column)
{
    struct span rows = under(window, 0, row);
    struct span columns = under(window, 1, column);
    float sum = 0;
    for (size_t k = rows.begin; k < rows.end; k++)
#pragma omp simd reduction(+ : sum)
        for (size_t l = columns.begin; l < columns.end; l++)
            sum += LOAD(plane, k * window->image[1] + l);
    return sum;
}

static void pool_plane(const struct pen_pool *pool, const ELEMENT *plane,
                       ELEMENT *out)
{
    const struct pen_image_window *window = &pool->window;
    size_t width = pen_image_window_steps(window, 1);
    float share = 1 / (float)(window->kernel[0] * window->kernel[1]);
    for (size_t row = 0; row < pen_image_window_steps(window, 0); row++)
        for (size_t column = 0; column < width; column++)
            STORE(out, row * width + column,
                  pool->kind == PEN_POOL_MAX
                      ? LOAD(plane, largest_under(window, plane, row, column))
                      : share * sum_under(window, plane, row, column));
}

static void pool_forward(struct pen_engine *engine, const struct pen_pool *pool,
                         const void *x, void *y)
{
    const struct pen_image_window *window = &pool->window;
    size_t pixels = window->image[0] * window->image[1];
    size_t steps =
        pen_image_window_steps(window, 0) * pen_image_window_steps(window, 1);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t i = 0; i < window->batch * window->channels; i++)
        pool_plane(pool, (const ELEMENT *)x + i * pixels,
                   (ELEMENT *)y + i * steps);
}

static void max_plane_backward(const struct pen_image_window *window,
                               const ELEMENT *plane, const ELEMENT *slope,
                               ELEMENT *to)
{
    size_t width = pen_image_window_steps(window, 1);
    for (size_t i = 0; i < window->image[0] * window->image[1]; i++)
        STORE(to, i, 0);
    for (size_t row = 0; row < pen_image_window_steps(window, 0); row++)
        for (size_t column = 0; column < width; column++) {
            size_t pixel = largest_under(window, plane, row, column);
            STORE(to, pixel,
                  LOAD(to, pixel) + LOAD(slope, row * width + column));
        }
}

static void average_plane_backward(const struct pen_image_window *window,
                                   const ELEMENT *slope, ELEMENT *to)
{
    size_t width = pen_image_window_steps(window, 1);
    float share = 1 / (float)(window->kernel[0] * window->kernel[1]);
    for (size_t y = 0; y < window->image[0]; y++)
        for (size_t x = 0; x < window->image[1]; x++) {
            struct span rows = over(window, 0, y);
            struct span columns = over(window, 1, x);
            float sum = 0;
            for (size_t row = rows.begin; row < rows.end; row++)
                for (size_t i = columns.begin; i < columns.end; i++)
                    sum += LOAD(slope, row * width + i);
            STORE(to, y * window->image[1] + x, share * sum);
        }
}

static void pool_backward(struct pen_engine *engine,
                          const struct pen_pool *pool, const void *x,
                          const void *dy, void *dx)
{
    const struct pen_image_window *window = &pool->window;
    size_t pixels = window->image[0] * window->image[1];
    size_t steps =
        pen_image_window_steps(window, 0) * pen_image_window_steps(window, 1);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t i = 0; i < window->batch * window->channels; i++) {
        const ELEMENT *slope = (const ELEMENT *)dy + i * steps;
        ELEMENT *to = (ELEMENT *)dx + i * pixels;
        if (pool->kind == PEN_POOL_MAX)
            max_plane_backward(window, (const ELEMENT *)x + i * pixels, slope,
                               to);
        else
            average_plane_backward(window, slope, to);
    }
}

static size_t plane_of(const struct pen_batch_norm *norm, size_t image,
                       size_t channel)
{
    return (image * norm->channels + channel) * norm->positions;
}

static float channel_mean(const struct pen_batch_norm *norm, size_t channel,
                          const ELEMENT *x)
{
    double sum = 0;
    for (size_t image = 0; image < norm->batch; image++) {
        const ELEMENT *plane = x + plane_of(norm, image, channel);
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = 0; i < norm->positions; i++)
            part += LOAD(plane, i);
        sum += (double)part;
    }
    return (float)(sum / (double)(norm->batch * norm->positions));
}

static double channel_squares(const struct pen_batch_norm *norm, size_t channel,
                              const ELEMENT *x, float mean)
{
    double sum = 0;
    for (size_t image = 0; image < norm->batch; image++) {
        const ELEMENT *plane = x + plane_of(norm, image, channel);
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t i = 0; i < norm->positions; i++)
            part += (LOAD(plane, i) - mean) * (LOAD(plane, i) - mean);
        sum += (double)part;
    }
    return sum;
}

static void batch_norm_measure(struct pen_engine *engine,
                               const struct pen_batch_norm *norm, const void *x,
                               void *mean, void *rstd)
{
    float *running_mean = norm->running_mean;
    float *running_variance = norm->running_variance;
    float momentum = (float)norm->momentum;
    double count = (double)(norm->batch * norm->positions);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t channel = 0; channel < norm->channels; channel++) {
        float middle = channel_mean(norm, channel, x);
        double squares = channel_squares(norm, channel, x, middle);
        ((float *)mean)[channel] = middle;
        ((float *)rstd)[channel] =
            (float)(1 / sqrt(squares / count + norm->epsilon));
        running_mean[channel] += momentum * (middle - running_mean[channel]);
        running_variance[channel] +=
            momentum *
            ((float)(squares / (count - 1)) - running_variance[channel]);
    }
}

static void batch_norm_recall(struct pen_engine *engine,
                              const struct pen_batch_norm *norm, void *mean,
                              void *rstd)
{
    (void)engine;
    for (size_t channel = 0; channel < norm->channels; channel++) {
        float variance = ((const float *)norm->running_variance)[channel];
        ((float *)mean)[channel] = ((const float *)norm->running_mean)[channel];
        ((float *)rstd)[channel] =
            (float)(1 / sqrt((double)variance + norm->epsilon));
    }
}

static void batch_norm_forward(struct pen_engine *engine,
                               const struct pen_batch_norm *norm, const void *x,
                               const void *mean, const void *rstd, void *y)
{
    const float *gain = norm->gain->parts[PEN_PART_VALUE];
    const float *bias = norm->bias->parts[PEN_PART_VALUE];
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t plane = 0; plane < norm->batch * norm->channels; plane++) {
        size_t channel = plane % norm->channels;
        const ELEMENT *in = (const ELEMENT *)x + plane * norm->positions;
        ELEMENT *out = (ELEMENT *)y + plane * norm->positions;
        float middle = ((const float *)mean)[channel];
        float factor = ((const float *)rstd)[channel] * gain[channel];
#pragma omp simd
        for (size_t i = 0; i < norm->positions; i++)
            STORE(out, i, (LOAD(in, i) - middle) * factor + bias[channel]);
    }
}

/* Sums over one channel of dy and of dy * n, where n = (x - mean) * rstd. */
struct channel_sums {
    double slopes;
    double along;
};

static struct channel_sums channel_sums(const struct pen_batch_norm *norm,
                                        size_t channel, const ELEMENT *x,
                                        const float *mean, const float *rstd,
                                        const ELEMENT *dy)
{
    struct channel_sums sums = {0, 0};
    float middle = mean[channel];
    for (size_t image = 0; image < norm->batch; image++) {
        const ELEMENT *in = x + plane_of(norm, image, channel);
        const ELEMENT *slope = dy + plane_of(norm, image, channel);
        float slopes = 0;
        float along = 0;
#pragma omp simd reduction(+ : slopes, along)
        for (size_t i = 0; i < norm->positions; i++) {
            slopes += LOAD(slope, i);
            along += LOAD(slope, i) * (LOAD(in, i) - middle);
        }
        sums.slopes += (double)slopes;
        sums.along += (double)along * (double)rstd[channel];
    }
    return sums;
}

static void batch_norm_backward_input(struct pen_engine *engine,
                                      const struct pen_batch_norm *norm,
                                      const void *x, const void *mean,
                                      const void *rstd, const void *dy,
                                      void *dx)
{
    const float *gain = norm->gain->parts[PEN_PART_VALUE];
    double count = (double)(norm->batch * norm->positions);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t channel = 0; channel < norm->channels; channel++) {
        struct channel_sums sums =
            channel_sums(norm, channel, x, mean, rstd, dy);
        float middle = ((const float *)mean)[channel];
        float factor = ((const float *)rstd)[channel];
        float average = (float)(sums.slopes / count);
        float tilt = (float)(sums.along / count) * factor;
        for (size_t image = 0; image < norm->batch; image++) {
            size_t plane = plane_of(norm, image, channel);
            const ELEMENT *in = (const ELEMENT *)x + plane;
            const ELEMENT *slope = (const ELEMENT *)dy + plane;
            ELEMENT *out = (ELEMENT *)dx + plane;
#pragma omp simd
            for (size_t i = 0; i < norm->positions; i++)
                STORE(out, i,
                      factor * gain[channel] *
                          (LOAD(slope, i) - average -
                           (LOAD(in, i) - middle) * tilt));
        }
    }
}

static void batch_norm_backward_weight(struct pen_engine *engine,
                                       const struct pen_batch_norm *norm,
                                       const void *x, const void *mean,
                                       const void *rstd, const void *dy)
{
    float *dgain = pen__gradient(norm->gain);
    float *dbias = pen__gradient(norm->bias);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t channel = 0; channel < norm->channels; channel++) {
        struct channel_sums sums =
            channel_sums(norm, channel, x, mean, rstd, dy);
        dgain[channel] += (float)sums.along;
        dbias[channel] += (float)sums.slopes;
    }
}
