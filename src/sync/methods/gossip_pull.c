/*
 * Gossip by pulling: after every step each replica takes the mean of its own
 * weights and those of one other, j, which is drawn anew each time,
 *
 *   x_i <- x_i - eta U(g_i(x_i))        x_i <- (x_i + x_j) / 2
 *
 * U is the optimizer of the run. All members draw all choices from the seed and
 * the step, so that the chosen replica sends without a request: V on average, N
 * - 1 times that at most. Nothing keeps the mean but chance: some replicas are
 * chosen by many and others by none. The model is the mean of all.
 *
 * Two replicas average their weights at every step: with SGD this is
 * synchronous SGD.
 */
#include "sync/method.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>

enum { MEAN_CHANNEL, PULL_CHANNEL = PEN_COLLECTIVE_CHANNELS };

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *plain;
    float *own;
    float *pulled;
    struct pen_group_request *sends; /* one for each member */
    struct pen_group_request receive;
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double weights = of->num_weights * sizeof(float);
    out->bytes = of->num_replicas > 1 ? weights : 0;
    out->legs = of->num_replicas > 1 ? 1 : 0;
    out->extra = mean->extra + 2 * weights;
    out->staleness = INFINITY; /* by chance no replica may pull from this one */
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_average_free(sync->plain);
    free(sync->own);
    free(sync->pulled);
    free(sync->sends);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = setting;
    sync->sends = calloc(setting->peers->size, sizeof *sync->sends);
    pen_status status =
        sync->sends == NULL
            ? PEN_NOMEM
            : pen_sync_vectors(setting,
                               PEN_SYNC_VECTORS(&sync->own, &sync->pulled));
    if (status == PEN_OK)
        status =
            pen_sync_plain_average(setting, MEAN_CHANNEL, &sync->plain, why);
    return status;
}

static size_t bytes(const struct pen_sync *sync)
{
    return 2 * sync->setting->count * sizeof(float) +
           pen_average_bytes(sync->plain);
}

/*
 * Returns the member that a member pulls from: any other, with equal
 * probability.
 */
static uint32_t draw(const struct pen_sync_setting *setting, uint64_t step,
                     uint32_t member)
{
    uint32_t size = setting->peers->size;
    struct pen_random random = {setting->seed};
    random.state ^= pen_random_next(&(struct pen_random){step});
    random.state ^= pen_random_next(&(struct pen_random){~(uint64_t)member});
    return (member + 1 + pen_random_below(&random, size - 1)) % size;
}

static void exchange(struct pen_sync *sync, uint64_t step)
{
    const struct pen_sync_setting *setting = sync->setting;
    struct pen_group *peers = setting->peers;
    size_t length = setting->count * sizeof(float);
    pen_sync_read_weights(setting, sync->own);
    pen_group_receive(peers, draw(setting, step, peers->self), PULL_CHANNEL,
                      sync->pulled, length, &sync->receive);
    for (uint32_t k = 0; k < peers->size; k++)
        if (k != peers->self && draw(setting, step, k) == peers->self)
            pen_group_send(peers, k, PULL_CHANNEL, sync->own, length,
                           &sync->sends[k]);
}

static bool is_over(void *context)
{
    struct pen_sync *sync = context;
    struct pen_group *peers = sync->setting->peers;
    bool has_come = pen_group_is_done(peers, &sync->receive, 1);
    return pen_group_is_done(peers, sync->sends, peers->size) && has_come;
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->setting;
    if (setting->peers->size == 1)
        return;
    exchange(sync, at->step);
    pen_group_wait(setting->peers, is_over, sync);
    for (size_t i = 0; i < setting->count; i++)
        sync->own[i] = (sync->own[i] + sync->pulled[i]) / 2;
    pen_sync_write_weights(setting, sync->own);
}

static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_mean_weights(sync->setting, sync->plain, out);
}

const struct pen_sync_method pen_sync_gossip_pull = {
    .name = "gossip-pull",
    .title = "the mean with one other replica, chosen at random at each step",
    .paper = "Jin et al., How to scale distributed deep learning?, 2016, "
             "arXiv:1611.04581",
    .interval = 1,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .after_step = after_step,
    .consistent = consistent,
};
