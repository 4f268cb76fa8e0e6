/*
 * 1-bit Adam: Adam with the exact mean gradient for the first F steps, long
 * enough for its second moment to settle; then v stays, and the momentum
 * travels as signs with error feedback on both sides (compress/sign.c):
 *
 *   t <= F   g = mean g_i
 *            m <- beta1 m + (1 - beta1) g       v <- beta2 v + (1 - beta2) g g
 *   t > F    m <- mean C(beta1 m + (1 - beta1) g_i)           v stays
 *
 *   x <- x - eta (m^ / (sqrt(v^) + eps) + decay x)
 *   m^ = m / (1 - beta1^t)        v^ = v / (1 - beta2^min(t, F))
 *
 * A weight that never had a gradient has v = 0: signs would move it without
 * bound, so that its momentum is held at 0. Numbers are those of the run's
 * Adam; its decay is for all weights. Published: F is 15 to 20 % of the steps.
 *
 * freeze = 1 is Adam with the mean gradient.
 */
#include "sync/method.h"

#include <math.h>
#include <stdlib.h>

extern const struct pen_compressor pen_compressor_sign;

enum { FREEZE };

static const struct pen_sync_option options[] = {
    [FREEZE] = {"freeze", 0.2, 0, 1, false, "share of the steps before signs"},
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *exact;
    struct pen_average *coded;
    float *momentum; /* m */
    float *variance; /* v */
    float *gradients;
    double last_exact; /* F, when it is over; 0: it is not */
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double exact = of->options[FREEZE];
    struct pen_mean_cost coded = {0};
    pen_average_cost(&pen_compressor_sign, of, &coded);
    out->bytes = exact * mean->bytes + (1 - exact) * coded.bytes;
    out->legs = exact * mean->legs + (1 - exact) * coded.legs;
    out->encode_sec = (1 - exact) * coded.encode_sec;
    out->extra =
        mean->extra + coded.extra + 3 * of->num_weights * sizeof(float);
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->exact);
    pen_average_free(sync->coded);
    free(sync->momentum);
    free(sync->variance);
    free(sync->gradients);
}

static pen_status make_averages(struct pen_sync *sync, struct pen_text *why)
{
    struct pen_compression all = pen_sync_compression(sync->setting);
    pen_status status =
        pen_sync_plain_average(sync->setting, 0, &sync->exact, why);
    if (status == PEN_OK)
        status = pen_average_create(&all, &pen_compressor_sign,
                                    PEN_COLLECTIVE_CHANNELS, &sync->coded, why);
    return status;
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status = pen_sync_vectors(
        setting,
        PEN_SYNC_VECTORS(&sync->momentum, &sync->variance, &sync->gradients));
    return status == PEN_OK ? make_averages(sync, why) : status;
}

static size_t bytes(const struct pen_sync *sync)
{
    return 3 * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->exact) + pen_average_bytes(sync->coded);
}

/* ---- steps ---- */

/*
 * Freezes v when it is due, after at least one exact step, without which there
 * would be no v.
 */
static void freeze_when_due(struct pen_sync *sync, uint64_t step)
{
    double share = sync->setting->options.at[FREEZE];
    double last = round(share * (double)sync->setting->total_steps);
    if (sync->last_exact == 0 && step > 1 && (double)step > last)
        sync->last_exact = (double)(step - 1);
}

static void exact_moments(struct pen_sync *sync, uint64_t step)
{
    float beta1 = (float)sync->setting->optimizer.beta1;
    float beta2 = (float)sync->setting->optimizer.beta2;
    pen_average_start(sync->exact, step, sync->gradients);
    pen_average_wait(sync->exact);
    for (size_t i = 0; i < sync->setting->count; i++) {
        float g = sync->gradients[i];
        sync->momentum[i] = beta1 * sync->momentum[i] + (1 - beta1) * g;
        sync->variance[i] = beta2 * sync->variance[i] + (1 - beta2) * g * g;
    }
}

static void coded_momentum(struct pen_sync *sync, uint64_t step)
{
    float beta1 = (float)sync->setting->optimizer.beta1;
    float *m = sync->momentum;
    for (size_t i = 0; i < sync->setting->count; i++)
        m[i] = beta1 * m[i] + (1 - beta1) * sync->gradients[i];
    pen_average_start(sync->coded, step, m);
    pen_average_wait(sync->coded);
    for (size_t i = 0; i < sync->setting->count; i++)
        m[i] = sync->variance[i] > 0 ? m[i] : 0;
}

static void move(const struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_optimizer *adam = &sync->setting->optimizer;
    double step = (double)at->step;
    double seen = sync->last_exact > 0 ? sync->last_exact : step;
    float rate = (float)at->learning_rate;
    float mean = (float)(1 / (1 - pow(adam->beta1, step)));
    float deviation = (float)sqrt(1 / (1 - pow(adam->beta2, seen)));
    float epsilon = (float)adam->epsilon, decay = (float)adam->weight_decay;
    for (size_t i = 0; i < sync->setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &sync->setting->tensors[i];
        const float *m = sync->momentum + tensor->first;
        const float *v = sync->variance + tensor->first;
        float *x = tensor->value;
        for (size_t k = 0; k < tensor->count; k++)
            x[k] -= rate * (mean * m[k] / (deviation * sqrtf(v[k]) + epsilon) +
                            decay * x[k]);
    }
}

static void local_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    pen_sync_read_gradients(sync->setting, sync->gradients);
    freeze_when_due(sync, at->step);
    if (sync->last_exact == 0)
        exact_moments(sync, at->step);
    else
        coded_momentum(sync, at->step);
    move(sync, at);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    pen_sync_states_add_vector(out, "momentum", true, sync->momentum, count);
    pen_sync_states_add_vector(out, "variance", true, sync->variance, count);
    pen_sync_states_add_numbers(out, "last_exact", true, &sync->last_exact, 1);
    pen_average_states(sync->coded, out);
}

/* Writes the weights, which are the model on all replicas. */
static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_read_weights(sync->setting, out);
}

const struct pen_sync_method pen_sync_onebit_adam = {
    .name = "onebit-adam",
    .title = "Adam whose momentum is sent as signs after a warm-up",
    .paper = "Tang et al., 1-bit Adam: Communication Efficient Large-Scale "
             "Training with Adam's Convergence Speed, 2021, arXiv:2102.02888",
    .is = PEN_SYNC_OWN_STEP | PEN_SYNC_NEEDS_ADAM,
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .local_step = local_step,
    .states = states,
    .consistent = consistent,
};
