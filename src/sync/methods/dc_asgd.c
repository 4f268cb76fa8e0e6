/*
 * DC-ASGD, asynchronous SGD with delay compensation: as asgd.c, but a gradient
 * is corrected for the move of the server's weights w since worker i got its
 * copy w_i, with its own square in place of the Hessian,
 *
 *   w <- w - eta (g + lambda g*g*(w - w_i))
 *
 * and with adaptive = 1, element by element,
 *
 *   m <- 0.95 m + 0.05 g*g        lambda / sqrt(m + 1e-7) for lambda
 *
 * The server keeps w_i of every worker. Published: lambda about 2 with
 * adaptive = 1, about 0.04 with 0.
 *
 * lambda = 0 is ASGD; with one worker it is SGD.
 */
#include "sync/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAMBDA, ADAPTIVE };

static const struct pen_sync_option options[] = {
    [LAMBDA] = {"lambda", 2, 0, 1e6, false,
                "strength; about 0.04 with adaptive=0"},
    [ADAPTIVE] = {"adaptive", 1, 0, 1, true,
                  "1: lambda divided by the root mean square"},
};

static const float decay = 0.95f, epsilon = 1e-7f;

struct compensation {
    struct pen_sync *server;
    size_t share;
    float known[]; /* w_i: workers x share */
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double weights = of->num_weights * sizeof(float);
    (void)mean;
    pen_server_cost(of, out);
    out->extra += weights;
    if (of->options[ADAPTIVE] > 0)
        out->extra += (1 + 1.0 / of->num_replicas) * weights;
    out->staleness = INFINITY;
}

static float strength(const struct compensation *it, float *square, float g)
{
    const double *option = pen_server_setting(it->server)->options.at;
    float lambda = (float)option[LAMBDA];
    if (square == NULL)
        return lambda;
    *square = decay * *square + (1 - decay) * g * g;
    return lambda / sqrtf(*square + epsilon);
}

static void correct(void *context, uint32_t worker, float *gradient,
                    const float *weights)
{
    const struct compensation *it = context;
    const float *known = it->known + worker * it->share;
    float *square = pen_server_kept(it->server);
    for (size_t i = 0; i < it->share; i++) {
        float g = gradient[i];
        float lambda = strength(it, square == NULL ? NULL : &square[i], g);
        gradient[i] = g + lambda * g * g * (weights[i] - known[i]);
    }
}

static void told(void *context, uint32_t worker, const float *weights)
{
    struct compensation *it = context;
    memcpy(it->known + worker * it->share, weights,
           it->share * sizeof *weights);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    const struct pen_group *peers = setting->peers;
    size_t first, share;
    (void)why;
    pen_sum_share(peers->size, peers->self, setting->count, &first, &share);
    size_t bytes =
        sizeof(struct compensation) + peers->size * share * sizeof(float);
    struct compensation *it = calloc(1, bytes);
    if (it == NULL)
        return PEN_NOMEM;
    const struct pen_server_rules rules = {
        .scale = 1,
        .correct = correct,
        .told = told,
        .kept = setting->options.at[ADAPTIVE] > 0 ? "server_square" : NULL,
        .context = it,
        .context_bytes = bytes};
    pen_status status = pen_server_init(sync, setting, &rules);
    if (status != PEN_OK)
        return status;
    it->server = sync;
    it->share = share;
    for (uint32_t k = 0; k < peers->size; k++)
        told(it, k, pen_server_weights(sync));
    return PEN_OK;
}

const struct pen_sync_method pen_sync_dc_asgd = {
    .name = "dc-asgd",
    .title = "asynchronous, with gradients corrected for their age",
    .paper = "Zheng et al., Asynchronous Stochastic Gradient Descent with "
             "Delay Compensation, 2017, arXiv:1609.08326",
    .is = PEN_SYNC_OWN_STEP | PEN_SYNC_IS_FREE | PEN_SYNC_NEEDS_SGD,
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .init = init,
    PEN_SERVER_HOOKS,
};
