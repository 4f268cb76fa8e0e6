/*
 * Parle: n replicas, each with an iterate y, its running mean z and an anchor
 * x_a, which springs tie to the mean xbar of all anchors. It is published in
 * two forms that differ; they are two methods here. y are the weights, and
 * xbar is the model.
 *
 * The paper's, "parle". At each step
 *
 *   g = grad f(y) + (y - x_a) / gamma     u <- mu u + g
 *   y <- y - eta' (g + mu u)              z <- alpha z + (1 - alpha) y
 *
 * and every L steps
 *
 *   x_a <- x_a - eta (x_a - z) - (eta / rho) (x_a - xbar)
 *   xbar <- mean x_a       y, z <- x_a
 *
 * gamma and rho shrink by 1 - 1/(2B) every L steps; B is the number of batches
 * in which one replica passes over all samples. xbar is needed L steps later,
 * and is under way meanwhile. eta' is the learning rate of the run. u is kept
 * when y is set. With a compressor xbar moves by the mean of what the anchors
 * moved.
 *
 * L = 25, alpha = 0.75, Nesterov's momentum mu = 0.9 and gamma = 100 at first
 * are published. rho is published as 100 as well, but the authors' code, which
 * gave their results, pulls with 0.01 L n at first and 10 at most: rho = 1.33
 * falling to 0.1 for n = 3, the defaults here. eta / rho counts as 1 where it
 * is more: an anchor does not move beyond xbar (docs/decisions/0022).
 *
 * The reference code's, "parle-code", where gamma and rho multiply. At a step
 *
 *   g = grad f(y) + gamma (y - x_a)     u <- 0.9 u + g     y <- y - lr (g + u)
 *   z <- 0.75 z + 0.25 y                t <- t + T
 *
 * and every L steps
 *
 *   xbar <- mean z       g = (x_a - z) + rho (x_a - xbar)
 *   v <- 0.9 v + g       y <- y - lr (g + v)
 *   x_a <- y             xbar <- mean x_a
 *
 * with s = (1 + 0.5 / B)^floor(t / L), gamma = min(1, 0.01 s) and rho = min(10,
 * 0.01 L n s). lr is the learning rate of the run. It differs from the paper in
 * what is tested as it is: the synchronising step moves y, not x_a; t counts
 * tensors, T of them a step, so that the forces grow T times as fast; z is not
 * reset; and two means are exchanged instead of one.
 *
 * The weight decay of the run is part of grad f(y) in both.
 *
 * The paper's form with mu = 0, alpha = 0, eta = 1, L = 1 and no 1/gamma is
 * elastic SGD, x <- x - eta' g - (x - xbar) / rho, and with n = 1 and no 1/rho
 * SGD, with Nesterov's momentum where there is one.
 * With n = 1 and no 1/rho alone it is Entropy-SGD without noise and momentum.
 * The code's form with n = 1 and no forces is SGD in its own form of momentum,
 * but only as long as it does not synchronise.
 */
#include "sync/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GAMMA, RHO, ALPHA, END_GAMMA, END_RHO };
enum { ETA = END_RHO + 1, NESTEROV };     /* of the paper's form */
enum { MOMENTUM = END_RHO + 1, TENSORS }; /* of the code's */

static const struct pen_sync_option paper_options[] = {
    [GAMMA] = {"gamma", 100, 0, 1e9, false,
               "initial 1/force from iterate to anchor; 0: no force"},
    [RHO] = {"rho", 1.33, 0, 1e9, false,
             "initial 1/force from anchor to the mean; 0: no force"},
    [ALPHA] = {"alpha", 0.75, 0, 0.9999, false, "decay of the running mean"},
    [END_GAMMA] = {"gamma_least", 1, 1e-9, 1e9, false, "lower limit of gamma"},
    [END_RHO] = {"rho_least", 0.1, 1e-9, 1e9, false, "lower limit of rho"},
    [ETA] = {"eta", 1, 0, 10, false, "learning rate of the anchor"},
    [NESTEROV] = {"momentum", 0.9, 0, 0.9999, false,
                  "Nesterov's momentum of the iterate"},
};

static const struct pen_sync_option code_options[] = {
    [GAMMA] = {"gamma", 0.01, 0, 1e9, false,
               "initial force from iterate to anchor"},
    [RHO] = {"rho", 0.01, 0, 1e9, false,
             "initial force from anchor to the mean, over L n"},
    [ALPHA] = {"alpha", 0.75, 0, 0.9999, false, "decay of the running mean"},
    [END_GAMMA] = {"gamma_most", 1, 0, 1e9, false, "upper limit of gamma"},
    [END_RHO] = {"rho_most", 10, 0, 1e9, false, "upper limit of rho"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false, "momentum of both steps"},
    [TENSORS] = {"tensors", 0, 0, 1e9, true,
                 "T; 0: tensors of this part of the model, as in the authors' "
                 "code"},
};

/* Anchor, running mean, centre, vector; then what momentum needs. */
enum { PLAIN_VECTORS = 4, CODE_VECTORS = PLAIN_VECTORS + 2 };

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *average;
    bool is_under_way;
    bool is_code;
    float *anchor;    /* x_a */
    float *running;   /* z */
    float *centre;    /* xbar */
    float *vector;    /* whose mean is under way */
    float *inner;     /* u; NULL without momentum */
    float *outer;     /* v, of the code's form, else NULL */
    uint64_t tensors; /* T */
};

static void cost_paper(const struct pen_sync_case *of,
                       const struct pen_mean_cost *mean,
                       struct pen_sync_cost *out)
{
    out->bytes = mean->bytes;
    out->legs = mean->legs;
    out->encode_sec = mean->encode_sec;
    out->hidden = of->interval;
    out->extra = mean->extra + (PLAIN_VECTORS + (of->options[NESTEROV] > 0)) *
                                   of->num_weights * sizeof(float);
    out->staleness = of->interval - 1.0;
    out->waits_for_slowest = true;
}

static void cost_code(const struct pen_sync_case *of,
                      const struct pen_mean_cost *mean,
                      struct pen_sync_cost *out)
{
    cost_paper(of, mean, out);
    out->bytes = 2 * mean->bytes;
    out->legs = 2 * mean->legs;
    out->hidden = 0;
    out->extra = mean->extra + CODE_VECTORS * of->num_weights * sizeof(float);
}

/* ---- making ---- */

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->average);
    free(sync->anchor);
    free(sync->running);
    free(sync->centre);
    free(sync->vector);
    free(sync->inner);
    free(sync->outer);
}

static pen_status make_vectors(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    pen_status status = pen_sync_vectors(
        setting, PEN_SYNC_VECTORS(&sync->anchor, &sync->running, &sync->centre,
                                  &sync->vector));
    if (status == PEN_OK &&
        (sync->is_code || setting->options.at[NESTEROV] > 0))
        status = pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->inner));
    if (status == PEN_OK && sync->is_code)
        status = pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->outer));
    return status;
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    pen_status status = make_vectors(sync);
    if (status == PEN_OK)
        status = pen_sync_average(setting, 0, &sync->average, why);
    if (status != PEN_OK)
        return status;
    pen_sync_read_weights(setting, sync->anchor);
    pen_sync_read_weights(setting, sync->running);
    pen_sync_read_weights(setting, sync->centre);
    return PEN_OK;
}

static pen_status init_code(struct pen_sync *sync,
                            const struct pen_sync_setting *setting,
                            struct pen_text *why)
{
    sync->is_code = true;
    sync->tensors = setting->options.at[TENSORS] > 0
                        ? (uint64_t)setting->options.at[TENSORS]
                        : setting->num_tensors;
    return init(sync, setting, why);
}

static size_t bytes(const struct pen_sync *sync)
{
    size_t vectors = PLAIN_VECTORS;
    vectors += sync->inner != NULL;
    vectors += sync->outer != NULL;
    return vectors * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->average);
}

/* ---- the mean under way ---- */

static void start_mean(struct pen_sync *sync, uint64_t step)
{
    sync->is_under_way = true;
    pen_average_start(sync->average, step, sync->vector);
}

/* Puts it into the centre when it has come. */
static void poll(struct pen_sync *sync)
{
    size_t count = sync->setting->count;
    if (!sync->is_under_way || !pen_average_poll(sync->average))
        return;
    sync->is_under_way = false;
    if (sync->setting->compressor != NULL)
        pen_add_floats(sync->centre, sync->vector, count);
    else
        memcpy(sync->centre, sync->vector, count * sizeof *sync->centre);
}

static void settle(struct pen_sync *sync)
{
    if (sync->is_under_way)
        pen_average_wait(sync->average);
    poll(sync);
}

/* ---- the paper's form ---- */

/* Returns 1 / gamma, or 1 / rho, of a step. */
static double paper_force(const struct pen_sync *sync, double first,
                          double least, uint64_t step)
{
    const struct pen_sync_setting *setting = sync->setting;
    uint64_t done = (step - 1) / setting->interval;
    double shrinks = 1 - 0.5 / (double)setting->epoch_batches;
    if (first == 0)
        return 0;
    return 1 / fmax(first * pow(shrinks, (double)done), least);
}

static void paper_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    const double *option = setting->options.at;
    float rate = (float)at->learning_rate;
    float decay = (float)setting->optimizer.weight_decay;
    float alpha = (float)option[ALPHA];
    float momentum = (float)option[NESTEROV];
    float force =
        (float)paper_force(sync, option[GAMMA], option[END_GAMMA], at->step);
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        const float *anchor = sync->anchor + it->first;
        float *running = sync->running + it->first;
        float *inner = sync->inner == NULL ? NULL : sync->inner + it->first;
        float *y = it->value;
        for (size_t k = 0; k < it->count; k++) {
            float g = it->gradient[k] + decay * y[k];
            g += force * (y[k] - anchor[k]);
            if (inner != NULL) {
                inner[k] = momentum * inner[k] + g;
                g += momentum * inner[k];
            }
            y[k] -= rate * g;
            running[k] = alpha * running[k] + (1 - alpha) * y[k];
        }
    }
}

/* Moves the anchor, and with it the iterate. vector[] is sent. */
static void paper_move(struct pen_sync *sync, const struct pen_sync_step *at,
                       bool sends_moves)
{
    const struct pen_sync_setting *setting = sync->setting;
    const double *option = setting->options.at;
    float eta = (float)option[ETA];
    double force = paper_force(sync, option[RHO], option[END_RHO], at->step);
    float pull = (float)fmin(option[ETA] * force, 1);
    for (size_t i = 0; i < setting->count; i++) {
        float x = sync->anchor[i];
        float moved =
            -eta * (x - sync->running[i]) - pull * (x - sync->centre[i]);
        sync->anchor[i] = x + moved;
        sync->vector[i] = sends_moves ? moved : sync->anchor[i];
    }
    memcpy(sync->running, sync->anchor, setting->count * sizeof(float));
    pen_sync_write_weights(setting, sync->anchor);
}

static void paper_synchronise(struct pen_sync *sync,
                              const struct pen_sync_step *at)
{
    if (!pen_sync_is_due(at, sync->setting->interval))
        return;
    settle(sync);
    paper_move(sync, at, sync->setting->compressor != NULL);
    start_mean(sync, at->step);
}

/* Between islands the centre is the state. */
enum { OWN_INNER, OWN_ANCHOR, OWN_RUNNING, NUM_OWN };

static struct pen_sync of_island(struct pen_sync_island *it, float *vector)
{
    const double *option = it->setting->options.at;
    return (struct pen_sync){.setting = it->setting,
                             .anchor = it->own[OWN_ANCHOR],
                             .running = it->own[OWN_RUNNING],
                             .centre = it->theta,
                             .vector = vector,
                             .inner = option[NESTEROV] > 0 ? it->own[OWN_INNER]
                                                           : NULL};
}

/* Begins a round: anchor, running mean and iterate are the same. */
static void island_begin(struct pen_sync_island *it)
{
    pen_sync_read_weights(it->setting, it->own[OWN_ANCHOR]);
    pen_sync_read_weights(it->setting, it->own[OWN_RUNNING]);
}

static void island_step(struct pen_sync_island *it,
                        const struct pen_sync_step *at)
{
    struct pen_sync sync = of_island(it, NULL);
    paper_step(&sync, at);
}

static void island_give(struct pen_sync_island *it,
                        const struct pen_sync_step *at, float *out)
{
    struct pen_sync sync = of_island(it, out);
    paper_move(&sync, at, it->gives_changes);
}

static void island_take(const struct pen_sync_values *values, bool are_changes,
                        const float *merged, size_t count, float *const *state)
{
    (void)values;
    if (are_changes)
        pen_add_floats(state[0], merged, count);
    else
        memcpy(state[0], merged, count * sizeof *merged);
}

static const struct pen_sync_islands islands = {.num_vectors = 1,
                                                .num_own = NUM_OWN,
                                                .num_kept = OWN_INNER + 1,
                                                .keeps_weights = true,
                                                .begin = island_begin,
                                                .local_step = island_step,
                                                .give = island_give,
                                                .take = island_take};

/* ---- the code's form ---- */

/* Returns gamma, or rho, when t has counted `steps`. */
static float code_force(const struct pen_sync *sync, double first, double most,
                        uint64_t steps)
{
    const struct pen_sync_setting *setting = sync->setting;
    uint64_t grown = steps * sync->tensors / setting->interval; /* t / L */
    double growth = pow(1 + 0.5 / (double)setting->epoch_steps, (double)grown);
    return first == 0 ? 0 : (float)fmin(first * growth, most);
}

static void code_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    const double *option = setting->options.at;
    float rate = (float)at->learning_rate;
    float decay = (float)setting->optimizer.weight_decay;
    float momentum = (float)option[MOMENTUM], alpha = (float)option[ALPHA];
    float force =
        code_force(sync, option[GAMMA], option[END_GAMMA], at->step - 1);
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        const float *anchor = sync->anchor + it->first;
        float *running = sync->running + it->first;
        float *inner = sync->inner + it->first;
        float *y = it->value;
        for (size_t k = 0; k < it->count; k++) {
            float g = it->gradient[k] + decay * y[k];
            g += force * (y[k] - anchor[k]);
            inner[k] = momentum * inner[k] + g;
            y[k] -= rate * (g + inner[k]);
            running[k] = alpha * running[k] + (1 - alpha) * y[k];
        }
    }
}

/* Moves y, and the anchor to the same place. */
static void code_move(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    const double *option = setting->options.at;
    double first = option[RHO] * setting->interval * setting->peers->size;
    float force = code_force(sync, first, option[END_RHO], at->step);
    float momentum = (float)option[MOMENTUM];
    float rate = (float)at->learning_rate;
    pen_sync_read_weights(setting, sync->vector);
    for (size_t i = 0; i < setting->count; i++) {
        float x = sync->anchor[i];
        float g = (x - sync->running[i]) + force * (x - sync->centre[i]);
        sync->outer[i] = momentum * sync->outer[i] + g;
        sync->anchor[i] = sync->vector[i] - rate * (g + sync->outer[i]);
    }
    pen_sync_write_weights(setting, sync->anchor);
}

static void code_synchronise(struct pen_sync *sync,
                             const struct pen_sync_step *at)
{
    size_t size = sync->setting->count * sizeof(float);
    if (!pen_sync_is_due(at, sync->setting->interval))
        return;
    settle(sync);
    memcpy(sync->vector, sync->running, size);
    start_mean(sync, at->step);
    settle(sync);
    code_move(sync, at);
    memcpy(sync->vector, sync->anchor, size);
    start_mean(sync, at->step);
}

/* ---- what remains ---- */

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    size_t count = sync->setting->count;
    pen_sync_states_add_vector(out, "anchor", false, sync->anchor, count);
    pen_sync_states_add_vector(out, "running", false, sync->running, count);
    pen_sync_states_add_vector(out, "centre", true, sync->centre, count);
    if (sync->inner != NULL)
        pen_sync_states_add_vector(out, "inner", false, sync->inner, count);
    if (sync->outer != NULL)
        pen_sync_states_add_vector(out, "outer", false, sync->outer, count);
    pen_average_states(sync->average, out);
}

static void consistent(struct pen_sync *sync, float *out)
{
    settle(sync);
    memcpy(out, sync->centre, sync->setting->count * sizeof *out);
}

const struct pen_sync_method pen_sync_parle = {
    .name = "parle",
    .title = "Entropy-SGD on replicas tied to their mean, as in the paper",
    .paper = "Chaudhari et al., Parle: parallelizing stochastic gradient "
             "descent, 2017, arXiv:1707.00424",
    .is = PEN_SYNC_COMPRESSES | PEN_SYNC_OWN_STEP,
    .interval = 25,
    .options = paper_options,
    .num_options = sizeof paper_options / sizeof *paper_options,
    .cost = cost_paper,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .local_step = paper_step,
    .after_step = paper_synchronise,
    .poll = poll,
    .settle = settle,
    .states = states,
    .consistent = consistent,
    .islands = &islands,
};

const struct pen_sync_method pen_sync_parle_code = {
    .name = "parle-code",
    .title = "parle as in its authors' code, with momentum",
    .paper = "Chaudhari et al., Parle: parallelizing stochastic gradient "
             "descent, 2017, arXiv:1707.00424, and its code",
    .is = PEN_SYNC_OWN_STEP,
    .interval = 25,
    .options = code_options,
    .num_options = sizeof code_options / sizeof *code_options,
    .cost = cost_code,
    .size = sizeof(struct pen_sync),
    .init = init_code,
    .release = release,
    .bytes = bytes,
    .local_step = code_step,
    .after_step = code_synchronise,
    .poll = poll,
    .settle = settle,
    .states = states,
    .consistent = consistent,
};
