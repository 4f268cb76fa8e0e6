/*
 * DiLoCo: every replica takes H steps of the run's optimizer from the common
 * weights theta; then, with the mean of what they moved,
 *
 *   D = mean(theta - x_i)
 *   v <- mu v + D        theta <- theta - lr (D + mu v)        x_i <- theta
 *
 * (Nesterov's momentum over the outer steps). The state of the inner optimizer
 * stays with its replica. Published: H = 500, lr 0.7, mu 0.9, inner AdamW.
 *
 * Inner SGD with H = 1, lr = 1 and mu = 0 is synchronous SGD; lr = 1 and
 * mu = 0 with any H is local SGD.
 */
#include "sync/method.h"

#include <stdlib.h>
#include <string.h>

enum { LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [LR] = {"lr", 0.7, 0, 10, false, "outer learning rate"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false, "outer momentum"},
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *average;
    float *theta;
    float *velocity;
    float *moved; /* D */
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    out->bytes = mean->bytes;
    out->legs = mean->legs;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra + 3 * of->num_weights * sizeof(float);
    out->staleness = of->interval - 1.0;
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->average);
    free(sync->theta);
    free(sync->velocity);
    free(sync->moved);
    free(sync);
}

static pen_status create(const struct pen_sync_setting *setting,
                         struct pen_sync **out, struct pen_text *why)
{
    struct pen_sync *sync = calloc(1, sizeof *sync);
    if (sync == NULL)
        return PEN_NOMEM;
    sync->setting = setting;
    sync->theta = pen_sync_vector(setting);
    sync->velocity = pen_sync_vector(setting);
    sync->moved = pen_sync_vector(setting);
    pen_status status =
        sync->theta == NULL || sync->velocity == NULL || sync->moved == NULL
            ? PEN_NOMEM
            : PEN_OK;
    if (status == PEN_OK)
        status = pen_sync_average(setting, 0, &sync->average, why);
    if (status != PEN_OK) {
        release(sync);
        return status;
    }
    pen_sync_read_weights(setting, sync->theta);
    *out = sync;
    return PEN_OK;
}

static size_t bytes(const struct pen_sync *sync)
{
    return 3 * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->average);
}

static void outer_step(struct pen_sync *sync)
{
    float lr = (float)sync->setting->options.at[LR];
    float mu = (float)sync->setting->options.at[MOMENTUM];
    for (size_t i = 0; i < sync->setting->count; i++) {
        sync->velocity[i] = mu * sync->velocity[i] + sync->moved[i];
        sync->theta[i] -= lr * (sync->moved[i] + mu * sync->velocity[i]);
    }
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    if (!pen_sync_is_due(at, setting->interval))
        return;
    pen_sync_read_weights(setting, sync->moved);
    for (size_t i = 0; i < setting->count; i++)
        sync->moved[i] = sync->theta[i] - sync->moved[i];
    pen_average_start(sync->average, at->step, sync->moved);
    pen_average_wait(sync->average);
    outer_step(sync);
    pen_sync_write_weights(setting, sync->theta);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    pen_sync_states_add_vector(out, "theta", true, sync->theta, count);
    pen_sync_states_add_vector(out, "velocity", true, sync->velocity, count);
    pen_average_states(sync->average, out);
}

/* The common weights, as the last synchronisation left them. */
static void consistent(struct pen_sync *sync, float *out)
{
    memcpy(out, sync->theta, sync->setting->count * sizeof *out);
}

const struct pen_sync_method pen_sync_diloco = {
    .name = "diloco",
    .title = "H local steps, then an outer step with Nesterov's momentum",
    .paper = "Douillard et al., DiLoCo: Distributed Low-Communication Training "
             "of Language Models, 2023, arXiv:2311.08105",
    .is = PEN_SYNC_COMPRESSES | PEN_SYNC_ONLY_WHEN_DUE,
    .interval = 500,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .create = create,
    .free = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
};
