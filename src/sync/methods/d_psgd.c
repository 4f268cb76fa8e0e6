/*
 * D-PSGD, gossip on a ring: every replica steps from the mean of its own
 * weights and those of its two neighbours,
 *
 *   x_i <- (x_{i-1} + x_i + x_{i+1}) / 3 - eta U(g_i(x_i))
 *
 * with the gradient at the weights that were not mixed, so that weights travel
 * while the gradient is computed:
 *
 *   step t    | pass | mix, step | send x, receive | pass | mix, step | ...
 *                                 <--- on the way ------>
 *
 * U is the optimizer of the run; its moments stay with their replica. Two
 * replicas mix with weights 1/2. The model is the mean of all.
 *
 * Mixing keeps the mean; three replicas mix completely.
 */
#include "sync/neighbours.h"

#include <stdlib.h>

enum { MEAN_CHANNEL, NEIGHBOUR_CHANNEL = PEN_COLLECTIVE_CHANNELS };

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *plain;
    uint32_t degree;
    float *sent;
    float *copies[2]; /* of the neighbours */
    bool is_begun;    /* the exchange for the next step */
    struct pen_group_request sends[2];
    struct pen_group_request receives[2];
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double weights = of->num_weights * sizeof(float);
    uint32_t degree = pen_neighbours_count(of->num_replicas);
    out->bytes = degree * weights;
    out->legs = degree > 0 ? 1 : 0;
    out->hidden = 1;
    out->extra = mean->extra + 3 * weights;
    uint32_t farthest = of->num_replicas / 2; /* the way of a change */
    out->staleness = farthest;
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->plain);
    free(sync->sent);
    free(sync->copies[0]);
    free(sync->copies[1]);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    sync->degree = pen_neighbours_count(setting->peers->size);
    pen_status status = pen_sync_vectors(
        setting,
        PEN_SYNC_VECTORS(&sync->sent, &sync->copies[0], &sync->copies[1]));
    if (status == PEN_OK)
        status =
            pen_sync_plain_average(setting, MEAN_CHANNEL, &sync->plain, why);
    return status;
}

static size_t bytes(const struct pen_sync *sync)
{
    return 3 * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->plain);
}

static void begin(struct pen_sync *sync)
{
    struct pen_group *peers = sync->setting->peers;
    size_t length = sync->setting->count * sizeof(float);
    pen_sync_read_weights(sync->setting, sync->sent);
    for (uint32_t side = 0; side < sync->degree; side++)
        pen_group_receive(peers, pen_neighbours_at(peers, side),
                          NEIGHBOUR_CHANNEL, sync->copies[side], length,
                          &sync->receives[side]);
    for (uint32_t side = 0; side < sync->degree; side++)
        pen_group_send(peers, pen_neighbours_at(peers, side), NEIGHBOUR_CHANNEL,
                       sync->sent, length, &sync->sends[side]);
    sync->is_begun = true;
}

static bool is_over(void *context)
{
    struct pen_sync *sync = context;
    struct pen_group *peers = sync->setting->peers;
    bool have_come = pen_group_is_done(peers, sync->receives, sync->degree);
    return pen_group_is_done(peers, sync->sends, sync->degree) && have_come;
}

static void settle(struct pen_sync *sync)
{
    pen_group_wait(sync->setting->peers, is_over, sync);
}

/* Weights are still those that the last step left: also in the first step of
 * a run, and of one that is resumed. */
static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    (void)at;
    if (!sync->is_begun)
        begin(sync);
    settle(sync);
    sync->is_begun = false;
    pen_neighbours_mix(sync->setting, sync->copies);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    if (at->step < sync->setting->total_steps)
        begin(sync);
}

static void poll(struct pen_sync *sync)
{
    (void)is_over(sync);
}

static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_mean_weights(sync->setting, sync->plain, out);
}

const struct pen_sync_method pen_sync_d_psgd = {
    .name = "d-psgd",
    .title = "each step from the mean with two neighbours on a ring",
    .paper = "Lian et al., Can Decentralized Algorithms Outperform Centralized "
             "Algorithms?, 2017, arXiv:1705.09056",
    .interval = 1,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .after_step = after_step,
    .poll = poll,
    .settle = settle,
    .consistent = consistent,
};
