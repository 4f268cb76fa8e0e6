/*
 * Local SGD: every replica takes H steps of the run's optimizer, U, alone;
 * then all go on from their mean,
 *
 *   x_i <- x_i - eta U(g_i(x_i))      every H steps: x_i <- mean x_i
 *
 * The moments of the optimizer are averaged too (moments=1), or stay with
 * their replica (moments=0). Post-local SGD synchronises at each of its first
 * `start` steps, and every H steps from there on. Published for ResNet-20 on
 * CIFAR-10: H = 16, post-local from the first drop of the learning rate on,
 * half-way through the run.
 *
 * With a compressor C the replicas average how far they went from the last
 * common weights theta, so that what is left out of one mean comes with the
 * next: theta <- theta - mean C(theta - x_i), x_i <- theta.
 *
 * H = 1 is synchronous SGD when the moments are averaged, or there are none.
 */
#include "sync/method.h"

#include <stdlib.h>
#include <string.h>

enum { MOMENTS, START };

static const struct pen_sync_option options[] = {
    [MOMENTS] = {"moments", 1, 0, 1, true,
                 "1: moments of the optimizer are averaged, 0: they stay"},
    [START] = {"start", 0, 0, 1e15, true,
               "first steps, which synchronise each; 0: half of the run"},
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *plain;
    struct pen_average *compressed; /* NULL: none, as theta */
    float *theta;
    float *vector; /* under way */
    uint64_t start;
};

/* The moments go uncompressed, whatever the weights do; of the two phases of
 * post-local SGD the second. */
static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    struct pen_mean_cost plain;
    pen_average_cost(NULL, of, &plain);
    double moments = of->options[MOMENTS] > 0 ? of->num_moments : 0;
    out->bytes = mean->bytes + moments * plain.bytes;
    out->legs = mean->legs + moments * plain.legs;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra + of->num_weights * sizeof(float);
    if (mean->encode_sec > 0) /* a compressor: theta, and a plain mean */
        out->extra += of->num_weights * sizeof(float) + plain.extra;
    out->staleness = of->interval - 1.0;
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->plain);
    pen_average_free(sync->compressed);
    free(sync->theta);
    free(sync->vector);
    free(sync);
}

static pen_status make_compressed(struct pen_sync *sync, struct pen_text *why)
{
    const struct pen_sync_setting *setting = sync->setting;
    sync->theta = pen_sync_vector(setting);
    if (sync->theta == NULL)
        return PEN_NOMEM;
    pen_sync_read_weights(setting, sync->theta);
    return pen_sync_average(setting, PEN_COLLECTIVE_CHANNELS, &sync->compressed,
                            why);
}

static pen_status create(const struct pen_sync_setting *setting,
                         struct pen_sync **out, struct pen_text *why)
{
    struct pen_sync *sync = calloc(1, sizeof *sync);
    if (sync == NULL)
        return PEN_NOMEM;
    sync->setting = setting;
    sync->vector = pen_sync_vector(setting);
    pen_status status = sync->vector == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = pen_sync_plain_average(setting, 0, &sync->plain, why);
    if (status == PEN_OK && setting->compressor != NULL)
        status = make_compressed(sync, why);
    if (status == PEN_OK)
        *out = sync;
    else
        release(sync);
    return status;
}

static pen_status create_post_local(const struct pen_sync_setting *setting,
                                    struct pen_sync **out, struct pen_text *why)
{
    pen_status status = create(setting, out, why);
    if (status == PEN_OK)
        (*out)->start = setting->options.at[START] > 0
                            ? (uint64_t)setting->options.at[START]
                            : setting->total_steps / 2;
    return status;
}

static size_t bytes(const struct pen_sync *sync)
{
    size_t vector = sync->setting->count * sizeof(float);
    return sync->compressed == NULL
               ? vector + pen_average_bytes(sync->plain)
               : 2 * vector + pen_average_bytes(sync->plain) +
                     pen_average_bytes(sync->compressed);
}

static void average_weights(struct pen_sync *sync, uint64_t step)
{
    const struct pen_sync_setting *setting = sync->setting;
    if (sync->compressed == NULL) {
        pen_sync_mean_weights(setting, sync->plain, sync->vector);
        pen_sync_write_weights(setting, sync->vector);
        return;
    }
    pen_sync_read_weights(setting, sync->vector);
    for (size_t i = 0; i < setting->count; i++)
        sync->vector[i] = sync->theta[i] - sync->vector[i];
    pen_average_start(sync->compressed, step, sync->vector);
    pen_average_wait(sync->compressed);
    for (size_t i = 0; i < setting->count; i++)
        sync->theta[i] -= sync->vector[i];
    pen_sync_write_weights(setting, sync->theta);
}

static void average_moment(struct pen_sync *sync, int which)
{
    const struct pen_sync_setting *setting = sync->setting;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        memcpy(sync->vector + it->first, it->moments[which],
               it->count * sizeof(float));
    }
    pen_average_start(sync->plain, 0, sync->vector);
    pen_average_wait(sync->plain);
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        memcpy(it->moments[which], sync->vector + it->first,
               it->count * sizeof(float));
    }
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    if (at->step > sync->start && !pen_sync_is_due(at, setting->interval))
        return;
    average_weights(sync, at->step);
    if (setting->options.at[MOMENTS] == 0 || setting->num_tensors == 0)
        return;
    for (int which = 0; which < 2; which++)
        if (setting->tensors[0].moments[which] != NULL)
            average_moment(sync, which);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    if (sync->compressed == NULL)
        return;
    pen_sync_states_add_vector(out, "theta", true, sync->theta,
                               sync->setting->count);
    pen_average_states(sync->compressed, out);
}

static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_mean_weights(sync->setting, sync->plain, out);
}

const struct pen_sync_method pen_sync_local_sgd = {
    .name = "local-sgd",
    .title = "H local steps, then the mean of the weights",
    .paper = "Yu et al., Parallel Restarted SGD with Faster Convergence and "
             "Less Communication, 2018, arXiv:1807.06629",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 16,
    .options = options,
    .num_options = START,
    .cost = cost,
    .create = create,
    .free = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
};

const struct pen_sync_method pen_sync_post_local_sgd = {
    .name = "post-local-sgd",
    .title = "the mean of the weights at every step, later every H steps",
    .paper = "Lin et al., Don't Use Large Mini-Batches, Use Local SGD, 2018, "
             "arXiv:1808.07217",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 16,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .create = create_post_local,
    .free = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
};
