/*
 * Local SGD: every replica takes H steps of the run's optimizer, U, alone; then
 * all continue from their mean,
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
 *
 * DES-LOC averages weights, first moments u and second moments v each in steps
 * of their own,
 *
 *   x_i <- mean x_i every Kx steps     u_i <- mean u_i every Ku steps
 *   v_i <- mean v_i every Kv steps
 *
 * Kx is the interval. Published: Ku = 3 Kx and Kv = 6 Kx, since moments change
 * more slowly. In the paper step t begins with the means of what step t - 1
 * left, where t is a multiple; here they come at the end of such a step t, one
 * step later. Clipping is the run's. Ku = Kv = Kx is local SGD, and with
 * intervals longer than the run it is local SGD with moments=0.
 */
#include "sync/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOMENTS, START };

static const struct pen_sync_option options[] = {
    [MOMENTS] = {"moments", 1, 0, 1, true,
                 "1: moments of the optimizer are averaged, 0: they stay"},
    [START] = {"start", 0, 0, 1e15, true,
               "first steps, which synchronise each; 0: half of the run"},
};

enum { KU, KV };

static const struct pen_sync_option des_loc_options[] = {
    [KU] = {"ku", 0, 0, 1e15, true,
            "steps between means of first moments; 0: three intervals"},
    [KV] = {"kv", 0, 0, 1e15, true,
            "steps between means of second moments; 0: six intervals"},
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *plain;
    struct pen_average *compressed; /* NULL: none, as theta */
    float *theta;
    float *vector; /* under way */
    uint64_t start;
    uint64_t intervals[2]; /* of means of the moments; 0: there are none */
};

/*
 * Computes the cost. Moments are sent uncompressed, whatever the compressor of
 * the weights: `moments` of them, on average, with each mean of the weights.
 */
static void cost_with(const struct pen_sync_case *of,
                      const struct pen_mean_cost *mean, double moments,
                      struct pen_sync_cost *out)
{
    struct pen_mean_cost plain;
    pen_average_cost(NULL, of, &plain);
    out->bytes = mean->bytes + moments * plain.bytes;
    out->legs = mean->legs + moments * plain.legs;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra + of->num_weights * sizeof(float);
    if (mean->encode_sec > 0) /* a compressor: theta, and a plain mean */
        out->extra += of->num_weights * sizeof(float) + plain.extra;
    out->staleness = of->interval - 1.0;
    out->waits_for_slowest = true;
}

/* Computes the cost of the second phase of post-local SGD. */
static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    cost_with(of, mean, of->options[MOMENTS] > 0 ? of->num_moments : 0, out);
}

static double des_loc_interval(const double *values, int which,
                               uint32_t interval)
{
    return values[which] > 0 ? values[which]
                             : (which == KU ? 3.0 : 6.0) * interval;
}

static void des_loc_cost(const struct pen_sync_case *of,
                         const struct pen_mean_cost *mean,
                         struct pen_sync_cost *out)
{
    double moments = 0;
    for (int which = KU; which <= KV && which < of->num_moments; which++)
        moments +=
            of->interval / des_loc_interval(of->options, which, of->interval);
    cost_with(of, mean, moments, out);
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->plain);
    pen_average_free(sync->compressed);
    free(sync->theta);
    free(sync->vector);
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

static pen_status make(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status =
        pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->vector));
    if (status == PEN_OK)
        status = pen_sync_plain_average(setting, 0, &sync->plain, why);
    if (status == PEN_OK && setting->compressor != NULL)
        status = make_compressed(sync, why);
    return status;
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    pen_status status = make(sync, setting, why);
    if (status == PEN_OK && setting->options.at[MOMENTS] > 0)
        sync->intervals[0] = sync->intervals[1] = setting->interval;
    return status;
}

static pen_status init_des_loc(struct pen_sync *sync,
                               const struct pen_sync_setting *setting,
                               struct pen_text *why)
{
    pen_status status = make(sync, setting, why);
    for (int which = KU; which <= KV && status == PEN_OK; which++)
        sync->intervals[which] = (uint64_t)des_loc_interval(
            setting->options.at, which, setting->interval);
    return status;
}

static pen_status init_post_local(struct pen_sync *sync,
                                  const struct pen_sync_setting *setting,
                                  struct pen_text *why)
{
    pen_status status = init(sync, setting, why);
    if (status == PEN_OK)
        sync->start = setting->options.at[START] > 0
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

/*
 * Returns whether a synchronisation is due, as it is at each of the first
 * `start` steps.
 */
static bool is_due(const struct pen_sync *sync, const struct pen_sync_step *at,
                   uint64_t interval)
{
    return interval > 0 &&
           (at->step <= sync->start || pen_sync_is_due(at, interval));
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    if (is_due(sync, at, setting->interval))
        average_weights(sync, at->step);
    for (int which = 0; which < 2 && setting->num_tensors > 0; which++)
        if (setting->tensors[0].moments[which] != NULL &&
            is_due(sync, at, sync->intervals[which]))
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

/* ---- between islands ---- */

static void give(struct pen_sync_island *it, const struct pen_sync_step *at,
                 float *out)
{
    (void)at;
    pen_sync_read_weights(it->setting, out);
    for (size_t i = 0; it->gives_changes && i < it->setting->count; i++)
        out[i] = it->theta[i] - out[i];
}

static void take(const struct pen_sync_values *values, bool are_changes,
                 const float *merged, size_t count, float *const *state)
{
    (void)values;
    if (!are_changes)
        memcpy(state[0], merged, count * sizeof *merged);
    for (size_t i = 0; are_changes && i < count; i++)
        state[0][i] -= merged[i];
}

static uint32_t moment_rounds(const struct pen_sync_values *values,
                              uint32_t interval, int which)
{
    (void)interval;
    (void)which;
    return values->at[MOMENTS] > 0;
}

static uint32_t des_loc_rounds(const struct pen_sync_values *values,
                               uint32_t interval, int which)
{
    return (uint32_t)fmin(des_loc_interval(values->at, which, interval) /
                              interval,
                          (double)UINT32_MAX);
}

static const char *refuse_des_loc(const struct pen_sync_values *values,
                                  uint32_t interval)
{
    for (int which = KU; which <= KV; which++)
        if (fmod(values->at[which], interval) != 0)
            return "give ku and kv as multiples of --sync-interval: means of "
                   "moments are made where rounds end";
    return NULL;
}

static const struct pen_sync_islands islands = {.num_vectors = 1, /* theta */
                                                .moment_rounds = moment_rounds,
                                                .give = give,
                                                .take = take};

static const struct pen_sync_islands des_loc_islands = {
    .num_vectors = 1,
    .moment_rounds = des_loc_rounds,
    .give = give,
    .take = take,
    .refuse = refuse_des_loc};

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
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
    .islands = &islands,
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
    .size = sizeof(struct pen_sync),
    .init = init_post_local,
    .release = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
};

const struct pen_sync_method pen_sync_des_loc = {
    .name = "des-loc",
    .title = "H local steps, then the mean of the weights; means of moments "
             "more rarely",
    .paper = "Iacob et al., DES-LOC: Desynced Low Communication Adaptive "
             "Optimizers for Training Foundation Models, 2025, "
             "arXiv:2505.22549",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 64,
    .options = des_loc_options,
    .num_options = sizeof des_loc_options / sizeof *des_loc_options,
    .cost = des_loc_cost,
    .size = sizeof(struct pen_sync),
    .init = init_des_loc,
    .release = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
    .islands = &des_loc_islands,
};
