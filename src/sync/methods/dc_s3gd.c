/*
 * DC-S3GD, stale-synchronous SGD with delay compensation: what a replica's last
 * update was travels while its next gradient is computed. With the update Dw_i
 * of the step before and U the optimizer of the run,
 *
 *   D_i = mean(Dw) - Dw_i                       what the others did meanwhile
 *   g~  = g_i + lambda_i g_i * g_i * D_i        by elements; g_i was at x_i
 *   lambda_i = lambda ||g_i|| / ||g_i * g_i * D_i||, 0 where that is 0
 *   x_i <- x_i + D_i        Dw_i = -eta U(g~)        x_i <- x_i + Dw_i
 *
 * Published: lambda about 0.2.
 *
 * Replicas differ by their own last update only: x_i - Dw_i is the same on all
 * of them. It is kept here as `base`, so that it stays the same to the bit;
 * Dw_i is x_i - base, and x_i + D_i is base + mean(Dw). With lambda = 0 the
 * base moves by the mean of the last updates, and each gradient is taken at
 * the base and the own last update. With one replica, only the optimizer steps.
 */
#include "sync/method.h"

#include <math.h>
#include <stdlib.h>

enum { LAMBDA };

static const struct pen_sync_option options[] = {
    [LAMBDA] = {"lambda", 0.2, 0, 1e3, false, "strength of the compensation"},
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *average;
    float *base;
    float *update; /* Dw_i, then its mean */
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    out->bytes = mean->bytes;
    out->legs = mean->legs;
    out->hidden = 1;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra + 2 * of->num_weights * sizeof(float);
    out->staleness = 1;
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->average);
    free(sync->base);
    free(sync->update);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status =
        pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->base, &sync->update));
    if (status == PEN_OK)
        status = pen_sync_average(setting, 0, &sync->average, why);
    if (status == PEN_OK)
        pen_sync_read_weights(setting, sync->base);
    return status;
}

static size_t bytes(const struct pen_sync *sync)
{
    return 2 * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->average);
}

/* Returns D_i of one weight, after the mean has come. */
static float others(const struct pen_sync *sync,
                    const struct pen_sync_tensor *tensor, size_t k)
{
    size_t i = tensor->first + k;
    return sync->update[i] - (tensor->value[k] - sync->base[i]);
}

static float find_lambda(const struct pen_sync *sync)
{
    double gradient = 0, compensation = 0;
    for (size_t i = 0; i < sync->setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &sync->setting->tensors[i];
        for (size_t k = 0; k < tensor->count; k++) {
            double g = tensor->gradient[k];
            double c = g * g * others(sync, tensor, k);
            gradient += g * g;
            compensation += c * c;
        }
    }
    if (!(compensation > 0))
        return 0;
    return (float)(sync->setting->options.at[LAMBDA] *
                   sqrt(gradient / compensation));
}

static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    (void)at;
    pen_average_wait(sync->average);
    float lambda = find_lambda(sync);
    for (size_t i = 0; i < sync->setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &sync->setting->tensors[i];
        float *base = sync->base + tensor->first;
        const float *mean = sync->update + tensor->first;
        for (size_t k = 0; k < tensor->count; k++) {
            float g = tensor->gradient[k];
            tensor->gradient[k] += lambda * g * g * others(sync, tensor, k);
            tensor->value[k] = base[k] + mean[k];
        }
        for (size_t k = 0; k < tensor->count; k++)
            base[k] = tensor->value[k];
    }
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    pen_sync_read_weights(sync->setting, sync->update);
    for (size_t i = 0; i < sync->setting->count; i++)
        sync->update[i] -= sync->base[i];
    pen_average_start(sync->average, at->step, sync->update);
}

static void poll(struct pen_sync *sync)
{
    (void)pen_average_poll(sync->average);
}

static void settle(struct pen_sync *sync)
{
    pen_average_wait(sync->average);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    pen_sync_states_add_vector(out, "base", true, sync->base, count);
    pen_sync_states_add_vector(out, "update", true, sync->update, count);
    pen_average_states(sync->average, out);
}

/* The model is where the base moves next: the mean of the replicas. */
static void consistent(struct pen_sync *sync, float *out)
{
    pen_average_wait(sync->average);
    for (size_t i = 0; i < sync->setting->count; i++)
        out[i] = sync->base[i] + sync->update[i];
}

const struct pen_sync_method pen_sync_dc_s3gd = {
    .name = "dc-s3gd",
    .title = "the mean of the last updates, one step late and compensated",
    .paper = "Rigazzi, DC-S3GD: Delay-Compensated Stale-Synchronous SGD for "
             "Large-Scale Decentralized Neural Network Training, 2019, "
             "arXiv:1911.02516",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .after_step = after_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .consistent = consistent,
};
