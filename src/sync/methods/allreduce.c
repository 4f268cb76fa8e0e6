/*
 * Synchronous SGD: every step with the mean gradient of all replicas,
 *
 *   g = mean g_i        x <- x - eta U(g)
 *
 * where U is the optimizer of the run. Without a compressor the trainer does
 * it, in buckets that set out while the backward still runs. ZeRO-1 is the
 * same with a share of the optimizer on each replica.
 *
 * With a compressor C and what it kept, e_i (error feedback):
 *
 *   a_i = g_i + e_i     g = mean C(a_i)     e_i <- a_i - C(a_i)
 */
#include "sync/method.h"

#include <stdlib.h>

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *average;
    float *gradients;
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    bool is_native = mean->encode_sec == 0; /* pieces that wait for none */
    out->bytes = mean->bytes;
    out->legs = is_native && of->num_replicas > 1 ? 2 : mean->legs;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra;
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->average);
    free(sync->gradients);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status =
        pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->gradients));
    if (status == PEN_OK)
        status = pen_sync_average(setting, 0, &sync->average, why);
    return status;
}

static size_t bytes(const struct pen_sync *sync)
{
    return sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->average);
}

static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    pen_sync_read_gradients(sync->setting, sync->gradients);
    pen_average_start(sync->average, at->step, sync->gradients);
    pen_average_wait(sync->average);
    pen_sync_write_gradients(sync->setting, sync->gradients);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_average_states(sync->average, out);
}

/* Writes the weights, which are the model on all replicas. */
static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_read_weights(sync->setting, out);
}

const struct pen_sync_method pen_sync_allreduce = {
    .name = "allreduce",
    .title = "the mean gradient of all replicas at every step",
    .paper = "Goyal et al., Accurate, Large Minibatch SGD, 2017, "
             "arXiv:1706.02677",
    .is = PEN_SYNC_COMPRESSES | PEN_SYNC_IS_NATIVE,
    .interval = 1,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .states = states,
    .consistent = consistent,
};

const struct pen_sync_method pen_sync_zero1 = {
    .name = "zero1",
    .title = "the same, with a share of the optimizer on each replica",
    .paper = "Rajbhandari et al., ZeRO: Memory Optimizations Toward Training "
             "Trillion Parameter Models, 2019, arXiv:1910.02054",
    .is = PEN_SYNC_IS_NATIVE | PEN_SYNC_IS_SHARDED,
    .interval = 1,
    .cost = cost,
};
