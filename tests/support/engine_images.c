/* The operations of an engine on images, each as a trial. */
#include "support/engine.h"

#define OPS (trial->engine->ops)
#define ENGINE (trial->engine)

static size_t below(struct trial *trial, size_t count)
{
    return pen_random_below(&trial->random, (uint32_t)count);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t pixels_in(const struct pen_image_window *window)
{
    return window->batch * window->channels * window->image[0] *
           window->image[1];
}

static size_t steps(const struct pen_image_window *window)
{
    return pen_image_window_steps(window, 0) *
           pen_image_window_steps(window, 1);
}

/* A kernel may be larger than the image where padding makes up for it. */
static struct pen_image_window convolution_window(struct trial *trial)
{
    struct pen_image_window window = {.batch = 1 + below(trial, 3),
                                      .channels = trial_size(trial)};
    for (int axis = 0; axis < 2; axis++) {
        window.image[axis] = trial_size(trial);
        window.padding[axis] = below(trial, 4);
        window.kernel[axis] =
            1 + below(trial,
                      least(window.image[axis] + 2 * window.padding[axis], 7));
        window.stride[axis] = 1 + below(trial, 3);
    }
    return window;
}

static void run_convolution(struct trial *trial)
{
    struct pen_convolution convolution = {.window = convolution_window(trial)};
    const struct pen_image_window *window = &convolution.window;
    size_t outputs = trial_size(trial);
    size_t columns = window->channels * window->kernel[0] * window->kernel[1];
    size_t count_in = pixels_in(window);
    size_t count_out = window->batch * outputs * steps(window);
    int x_id, w_id, bias_id = -1;
    void *x = trial_input(trial, count_in, &x_id);
    convolution.weight =
        trial_parameter(trial, PEN_PARAMETER_FILTERS, outputs, columns, &w_id);
    if (below(trial, 2))
        convolution.bias =
            trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, outputs, &bias_id);
    void *dy = trial_slopes(trial, count_out);
    void *y = trial_room(trial, count_out);
    void *dx = trial_room(trial, count_in);
    struct pen_text why = PEN_TEXT_EMPTY;
    if (OPS->convolution_prepare(ENGINE, &convolution, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    OPS->convolution_forward(ENGINE, &convolution, x, y);
    trial_output(trial, "y", count_out, y, dy);
    OPS->convolution_backward_input(ENGINE, &convolution, dy, dx);
    trial_gradient(trial, "dx", x_id, count_in, dx);
    OPS->convolution_backward_weight(ENGINE, &convolution, x, dy);
    trial_parameter_part(trial, "dw", w_id, convolution.weight,
                         PEN_PART_GRADIENT);
    if (convolution.bias != NULL)
        trial_parameter_part(trial, "dbias", bias_id, convolution.bias,
                             PEN_PART_GRADIENT);
    OPS->convolution_backward_weight(ENGINE, &convolution, x, dy);
    trial_parameter_part(trial, "2 dw", -1, convolution.weight,
                         PEN_PART_GRADIENT);
}

static void run_window(struct trial *trial, const struct pen_pool *pool)
{
    size_t count_in = pixels_in(&pool->window);
    size_t count_out =
        pool->window.batch * pool->window.channels * steps(&pool->window);
    int x_id;
    void *x = trial_input(trial, count_in, &x_id);
    void *dy = trial_slopes(trial, count_out);
    void *y = trial_room(trial, count_out);
    void *dx = trial_room(trial, count_in);
    OPS->pool_forward(ENGINE, pool, x, y);
    trial_output(trial, "y", count_out, y, dy);
    OPS->pool_backward(ENGINE, pool, pool->kind == PEN_POOL_MAX ? x : NULL, dy,
                       dx);
    trial_gradient(trial, "dx", x_id, count_in, dx);
}

static void run_pool(struct trial *trial, enum pen_pool_kind kind)
{
    struct pen_pool pool = {.kind = kind};
    struct pen_image_window *window = &pool.window;
    window->batch = 1 + below(trial, 3);
    window->channels = trial_size(trial);
    for (int axis = 0; axis < 2; axis++) {
        window->image[axis] = trial_size(trial);
        window->kernel[axis] = 1 + below(trial, least(window->image[axis], 5));
        window->padding[axis] = below(trial, window->kernel[axis] / 2 + 1);
        window->stride[axis] = 1 + below(trial, 3);
    }
    run_window(trial, &pool);
}

static void run_max_pool(struct trial *trial)
{
    run_pool(trial, PEN_POOL_MAX);
}

static void run_average_pool(struct trial *trial)
{
    run_pool(trial, PEN_POOL_AVERAGE);
}

static void run_global_pool(struct trial *trial)
{
    size_t height = trial_size(trial);
    size_t width = trial_size(trial);
    const struct pen_pool pool = {PEN_POOL_AVERAGE,
                                  {.batch = 1 + below(trial, 3),
                                   .channels = trial_size(trial),
                                   .image = {height, width},
                                   .kernel = {height, width},
                                   .stride = {1, 1}}};
    run_window(trial, &pool);
}

static void run_relu(struct trial *trial)
{
    size_t count = trial_size(trial) * 3;
    int x_id;
    void *x = trial_input(trial, count, &x_id);
    void *dy = trial_slopes(trial, count);
    OPS->relu_forward(ENGINE, count, x, x);
    trial_output(trial, "y", count, x, dy);
    OPS->relu_backward(ENGINE, count, x, dy, dy);
    trial_gradient(trial, "dx", x_id, count, dy);
}

static void run_batch_norm(struct trial *trial)
{
    struct pen_batch_norm norm = {.batch = 2 + below(trial, 3),
                                  .channels = trial_size(trial),
                                  .positions = 4 + trial_size(trial),
                                  .epsilon = 1e-5,
                                  .momentum = 0.1};
    size_t count = norm.batch * norm.channels * norm.positions;
    int x_id, gain_id, bias_id;
    void *x = trial_input(trial, count, &x_id);
    norm.gain = trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, norm.channels,
                                &gain_id);
    norm.bias = trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, norm.channels,
                                &bias_id);
    norm.running_mean = trial_stat_room(trial, norm.channels);
    norm.running_variance = trial_stat_room(trial, norm.channels);
    void *dy = trial_slopes(trial, count);
    void *y = trial_room(trial, count);
    void *dx = trial_room(trial, count);
    void *mean = trial_stat_room(trial, norm.channels);
    void *rstd = trial_stat_room(trial, norm.channels);
    OPS->batch_norm_measure(ENGINE, &norm, x, mean, rstd);
    OPS->batch_norm_forward(ENGINE, &norm, x, mean, rstd, y);
    trial_output(trial, "y", count, y, dy);
    OPS->batch_norm_backward_input(ENGINE, &norm, x, mean, rstd, dy, dx);
    trial_gradient(trial, "dx", x_id, count, dx);
    OPS->batch_norm_backward_weight(ENGINE, &norm, x, mean, rstd, dy);
    trial_parameter_part(trial, "dgain", gain_id, norm.gain, PEN_PART_GRADIENT);
    trial_parameter_part(trial, "dbias", bias_id, norm.bias, PEN_PART_GRADIENT);
    trial_stats(trial, "running mean", norm.channels, norm.running_mean);
    trial_stats(trial, "running variance", norm.channels,
                norm.running_variance);
    OPS->batch_norm_recall(ENGINE, &norm, mean, rstd);
    OPS->batch_norm_forward(ENGINE, &norm, x, mean, rstd, y);
    trial_gradient(trial, "y of the running statistics", -1, count, y);
}

const struct trial_op image_trial_ops[] = {
    {"convolution", run_convolution},
    {"max pool", run_max_pool},
    {"average pool", run_average_pool},
    {"global average pool", run_global_pool},
    {"relu", run_relu},
    {"batch norm", run_batch_norm},
};
const size_t num_image_trial_ops =
    sizeof image_trial_ops / sizeof image_trial_ops[0];
