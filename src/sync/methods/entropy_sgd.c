/*
 * Entropy-SGD: the gradient of the local entropy, found by L steps of Langevin
 * dynamics around an anchor w_c. From mu = 0 and w = m = w_c on, L
 * times
 *
 *   dw = grad f(w)        mu <- beta mu + dw        dw <- dw + beta mu
 *   dw <- dw - g (w_c - w) + eps / sqrt(llr / 2) N(0, 1)
 *   w <- w - llr dw       m <- alpha m + (1 - alpha) w
 *
 * then one step of Nesterov's momentum from the anchor along w_c - m,
 *
 *   dw = w_c - m          v <- beta v + dw          w <- w_c - lr (dw + beta v)
 *
 * lr is the learning rate of the run, and its weight decay is part of grad f(w)
 * and of w_c - m. g = g0 (1 + g1)^t grows with the number t of such steps.
 * Published: L = 20, llr = 0.1, alpha = 0.75, Nesterov's momentum; on MNIST
 * g0 = 1e-4, g1 = 1e-3, eps = 1e-4, on CIFAR g0 = 0.03.
 *
 * It is a method for one replica. Where there are more they act as one with a
 * larger batch: each step has the mean of their gradients, and all draw the
 * same noise. The model is the anchor.
 *
 * Without noise and momentum it is the paper form of Parle with one replica.
 */
#include "base/random.h"
#include "sync/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { G0, G1, NOISE, INNER_RATE, ALPHA, MOMENTUM };

static const struct pen_sync_option options[] = {
    [G0] = {"g0", 1e-4, 0, 1e3, false, "initial force to the anchor"},
    [G1] = {"g1", 1e-3, 0, 1, false,
            "growth of the force with every outer step"},
    [NOISE] = {"noise", 1e-4, 0, 10, false, "eps of the Langevin dynamics"},
    [INNER_RATE] = {"llr", 0.1, 1e-9, 10, false, "inner learning rate"},
    [ALPHA] = {"alpha", 0.75, 0, 0.9999, false, "decay of the running mean m"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false,
                  "Nesterov momentum of both steps"},
};

enum { NUM_VECTORS = 5 };

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *average;
    float *gradients;
    float *anchor;   /* w_c */
    float *mean;     /* m */
    float *inner;    /* mu */
    float *velocity; /* v */
};

/* Gradients go at every step; with one replica nothing does. */
static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    out->bytes = mean->bytes;
    out->legs = mean->legs;
    out->interval = 1;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra + NUM_VECTORS * of->num_weights * sizeof(float);
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->average);
    free(sync->gradients);
    free(sync->anchor);
    free(sync->mean);
    free(sync->inner);
    free(sync->velocity);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status = pen_sync_vectors(
        setting, PEN_SYNC_VECTORS(&sync->gradients, &sync->anchor, &sync->mean,
                                  &sync->inner, &sync->velocity));
    if (status == PEN_OK)
        status = pen_sync_average(setting, 0, &sync->average, why);
    if (status != PEN_OK)
        return status;
    pen_sync_read_weights(setting, sync->anchor);
    pen_sync_read_weights(setting, sync->mean);
    return PEN_OK;
}

static size_t bytes(const struct pen_sync *sync)
{
    return NUM_VECTORS * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->average);
}

static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    pen_sync_read_gradients(sync->setting, sync->gradients);
    pen_average_start(sync->average, at->step, sync->gradients);
    pen_average_wait(sync->average);
}

/* ---- steps ---- */

/* Adds the noise of a step, the same on all members. */
static void add_noise(struct pen_sync *sync, const struct pen_sync_tensor *it,
                      uint64_t step)
{
    const double *option = sync->setting->options.at;
    double deviation = option[NOISE] / sqrt(0.5 * option[INNER_RATE]);
    struct pen_random random = {sync->setting->seed};
    double pair[2] = {0};
    random.state ^= pen_random_next(&(struct pen_random){step});
    random.state ^= pen_random_next(&(struct pen_random){~it->key});
    for (size_t k = 0; k < it->count; k++) {
        if (k % 2 == 0)
            pen_random_normals(&random, pair);
        sync->gradients[it->first + k] += (float)(deviation * pair[k % 2]);
    }
}

/* grad f(w) becomes dw without noise. */
static void add_forces(struct pen_sync *sync, const struct pen_sync_tensor *it,
                       float force)
{
    const struct pen_sync_setting *setting = sync->setting;
    float beta = (float)setting->options.at[MOMENTUM];
    float decay = (float)setting->optimizer.weight_decay;
    float *inner = sync->inner + it->first;
    const float *anchor = sync->anchor + it->first;
    for (size_t k = 0; k < it->count; k++) {
        float *dw = &sync->gradients[it->first + k];
        *dw += decay * it->value[k];
        inner[k] = beta * inner[k] + *dw;
        *dw += beta * inner[k];
        *dw -= force * (anchor[k] - it->value[k]);
    }
}

static void move(struct pen_sync *sync, const struct pen_sync_tensor *it)
{
    float rate = (float)sync->setting->options.at[INNER_RATE];
    float alpha = (float)sync->setting->options.at[ALPHA];
    float *mean = sync->mean + it->first;
    for (size_t k = 0; k < it->count; k++) {
        it->value[k] -= rate * sync->gradients[it->first + k];
        mean[k] = alpha * mean[k] + (1 - alpha) * it->value[k];
    }
}

static void local_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    uint64_t outer = (at->step - 1) / setting->interval; /* t */
    double force = setting->options.at[G0] *
                   pow(1 + setting->options.at[G1], (double)outer);
    for (size_t i = 0; i < setting->num_tensors; i++) {
        add_forces(sync, &setting->tensors[i], (float)force);
        if (setting->options.at[NOISE] > 0)
            add_noise(sync, &setting->tensors[i], at->step);
        move(sync, &setting->tensors[i]);
    }
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    if (!pen_sync_is_due(at, setting->interval))
        return;
    float beta = (float)setting->options.at[MOMENTUM];
    float decay = (float)setting->optimizer.weight_decay;
    float rate = (float)at->learning_rate;
    for (size_t i = 0; i < setting->count; i++) {
        float dw = sync->anchor[i] - sync->mean[i] + decay * sync->anchor[i];
        sync->velocity[i] = beta * sync->velocity[i] + dw;
        sync->anchor[i] -= rate * (dw + beta * sync->velocity[i]);
    }
    size_t size = setting->count * sizeof(float);
    memcpy(sync->mean, sync->anchor, size);
    memset(sync->inner, 0, size);
    pen_sync_write_weights(setting, sync->anchor);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    pen_sync_states_add_vector(out, "anchor", true, sync->anchor, count);
    pen_sync_states_add_vector(out, "mean", true, sync->mean, count);
    pen_sync_states_add_vector(out, "inner", true, sync->inner, count);
    pen_sync_states_add_vector(out, "velocity", true, sync->velocity, count);
    pen_average_states(sync->average, out);
}

static void consistent(struct pen_sync *sync, float *out)
{
    memcpy(out, sync->anchor, sync->setting->count * sizeof *out);
}

const struct pen_sync_method pen_sync_entropy_sgd = {
    .name = "entropy-sgd",
    .title = "L noisy steps around an anchor, which follows their mean",
    .paper = "Chaudhari et al., Entropy-SGD: Biasing Gradient Descent Into "
             "Wide Valleys, 2016, arXiv:1611.01838",
    .is = PEN_SYNC_COMPRESSES | PEN_SYNC_OWN_STEP,
    .interval = 20,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .local_step = local_step,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
};
