/*
 * Elastic averaging SGD, synchronous form: a spring ties every replica to a
 * centre c. Every tau steps, with alpha = beta / N,
 *
 *   d_i = alpha (x_i - c)      x_i <- x_i - d_i      c <- c + sum d_i
 *
 * and in between local steps: EASGD with the optimizer of the run, EAMSGD with
 * Nesterov's momentum delta, its gradient at a point ahead of x_i,
 *
 *   v <- delta v     g at x + v     x <- x + v - eta g     v <- v - eta g
 *
 * Between two steps the weights of EAMSGD are that point. The weight decay of
 * the run is part of g.
 *
 * Every replica has the centre. A force needs only the centre and the own
 * weights, so sum d_i is under way during the next tau steps, and replicas wait
 * for it only at the next exchange. A compressor works on x_i - c; what it
 * keeps, c gets later.
 *
 * Published: beta about 0.9, tau from 1 to 64, delta about 0.99. The model is
 * the centre. c + sum x_i is the same before and after an exchange; beta = 0 is
 * N runs apart; N = 1 with beta = 1/2 averages replica and centre.
 */
#include "sync/method.h"

#include <stdlib.h>
#include <string.h>

enum { BETA, MOMENTUM };

static const struct pen_sync_option options[] = {
    [BETA] = {"beta", 0.9, 0, 1, false,
              "share of the way to the mean by which the centre moves"},
    [MOMENTUM] = {"momentum", 0.99, 0, 0.9999, false,
                  "delta of the local step"},
};

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *average;
    bool is_under_way;
    float *centre;
    float *apart;    /* x_i - c, and its mean */
    float *velocity; /* of EAMSGD, else NULL */
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    out->bytes = mean->bytes;
    out->legs = mean->legs;
    out->encode_sec = mean->encode_sec;
    out->hidden = of->interval;
    out->extra = mean->extra + 2 * of->num_weights * sizeof(float);
    out->staleness = of->interval - 1.0;
    out->waits_for_slowest = true;
}

static void cost_with_velocity(const struct pen_sync_case *of,
                               const struct pen_mean_cost *mean,
                               struct pen_sync_cost *out)
{
    cost(of, mean, out);
    out->extra += of->num_weights * sizeof(float);
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->average);
    free(sync->centre);
    free(sync->apart);
    free(sync->velocity);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status = pen_sync_vectors(
        setting, PEN_SYNC_VECTORS(&sync->centre, &sync->apart));
    if (status == PEN_OK)
        status = pen_sync_average(setting, 0, &sync->average, why);
    if (status == PEN_OK)
        pen_sync_read_weights(setting, sync->centre);
    return status;
}

static pen_status init_with_velocity(struct pen_sync *sync,
                                     const struct pen_sync_setting *setting,
                                     struct pen_text *why)
{
    pen_status status = init(sync, setting, why);
    return status == PEN_OK
               ? pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->velocity))
               : status;
}

static size_t bytes(const struct pen_sync *sync)
{
    size_t vectors = sync->velocity == NULL ? 2 : 3;
    return vectors * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->average);
}

/* ---- the exchange ---- */

static bool is_settled(struct pen_sync *sync)
{
    if (sync->is_under_way && pen_average_poll(sync->average)) {
        float beta = (float)sync->setting->options.at[BETA];
        for (size_t i = 0; i < sync->setting->count; i++)
            sync->centre[i] += beta * sync->apart[i];
        sync->is_under_way = false;
    }
    return !sync->is_under_way;
}

static void poll(struct pen_sync *sync)
{
    (void)is_settled(sync);
}

static void settle(struct pen_sync *sync)
{
    if (sync->is_under_way)
        pen_average_wait(sync->average);
    (void)is_settled(sync);
}

/*
 * Computes how far a replica is from the centre, which it sends, and applies
 * its own half of the force.
 */
static void move_apart(const struct pen_sync_setting *setting,
                       uint32_t num_replicas, const float *centre, float *apart)
{
    float alpha = (float)(setting->options.at[BETA] / num_replicas);
    pen_sync_read_weights(setting, apart);
    for (size_t i = 0; i < setting->count; i++)
        apart[i] -= centre[i];
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        for (size_t k = 0; k < it->count; k++)
            it->value[k] -= alpha * apart[it->first + k];
    }
}

static void exchange(struct pen_sync *sync, uint64_t step)
{
    const struct pen_sync_setting *setting = sync->setting;
    settle(sync);
    move_apart(setting, setting->peers->size, sync->centre, sync->apart);
    sync->is_under_way = true;
    pen_average_start(sync->average, step, sync->apart);
    poll(sync);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    if (pen_sync_is_due(at, sync->setting->interval))
        exchange(sync, at->step);
}

/* ---- EAMSGD's own step ---- */

/* Moves the weights back from the point ahead; velocity is delta v here. */
static void local_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    float rate = (float)at->learning_rate;
    float decay = (float)setting->optimizer.weight_decay;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        float *velocity = sync->velocity + it->first;
        for (size_t k = 0; k < it->count; k++) {
            float moved = rate * (it->gradient[k] + decay * it->value[k]);
            it->value[k] -= moved;
            velocity[k] -= moved;
        }
    }
}

static void look_ahead(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    float delta = (float)setting->options.at[MOMENTUM];
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        float *velocity = sync->velocity + it->first;
        for (size_t k = 0; k < it->count; k++) {
            velocity[k] *= delta;
            it->value[k] += velocity[k];
        }
    }
}

static void after_own_step(struct pen_sync *sync,
                           const struct pen_sync_step *at)
{
    after_step(sync, at);
    look_ahead(sync);
}

/* ---- what remains ---- */

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    pen_sync_states_add_vector(out, "centre", true, sync->centre, count);
    if (sync->velocity != NULL)
        pen_sync_states_add_vector(out, "velocity", false, sync->velocity,
                                   count);
    pen_average_states(sync->average, out);
}

static void consistent(struct pen_sync *sync, float *out)
{
    settle(sync);
    memcpy(out, sync->centre, sync->setting->count * sizeof *out);
}

/* ---- between islands: the centre is the state, and replicas stay apart ----
 */

static void give(struct pen_sync_island *it, const struct pen_sync_step *at,
                 float *out)
{
    (void)at;
    move_apart(it->setting, it->count, it->theta, out);
}

static void take(const struct pen_sync_values *values, bool are_changes,
                 const float *merged, size_t count, float *const *state)
{
    float beta = (float)values->at[BETA];
    (void)are_changes;
    for (size_t i = 0; i < count; i++)
        state[0][i] += beta * merged[i];
}

static const struct pen_sync_islands islands = {
    .num_vectors = 1, .keeps_weights = true, .give = give, .take = take};

const struct pen_sync_method pen_sync_easgd = {
    .name = "easgd",
    .title = "replicas on springs around a common centre",
    .paper = "Zhang, Choromanska and LeCun, Deep Learning with Elastic "
             "Averaging SGD, 2014, arXiv:1412.6651",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 16,
    .options = options,
    .num_options = MOMENTUM,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .after_step = after_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .consistent = consistent,
    .islands = &islands,
};

const struct pen_sync_method pen_sync_eamsgd = {
    .name = "eamsgd",
    .title = "the same with Nesterov's momentum in the local step",
    .paper = "Zhang, Choromanska and LeCun, Deep Learning with Elastic "
             "Averaging SGD, 2014, arXiv:1412.6651",
    .is = PEN_SYNC_COMPRESSES | PEN_SYNC_OWN_STEP,
    .interval = 16,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost_with_velocity,
    .size = sizeof(struct pen_sync),
    .init = init_with_velocity,
    .release = release,
    .bytes = bytes,
    .local_step = local_step,
    .after_step = after_own_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .consistent = consistent,
};
