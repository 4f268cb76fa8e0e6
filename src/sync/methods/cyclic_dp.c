/*
 * Cyclic data parallelism with a delay of one (the first of its two rules):
 * the gradient of a step is added up on its way round a ring of the replicas,
 * while the next step is computed, and used there,
 *
 *   theta(t+1) = theta(t) - eta U(1/N sum_i g_i(theta(t-1)))
 *
 * where U is the optimizer of the run. The first step has no gradient yet and
 * leaves the weights as they are.
 *
 * The gradient is cut into N chunks. In hop h of 2 (N-1) replica i sends chunk
 * i - h to the next replica and receives chunk i - h - 1 from the one before:
 *
 *   hops 0 .. N-2       the receiver adds what it has of the chunk
 *   hops N-1 .. 2N-3    the chunk is complete, and goes round once more
 *
 * Each link has one message of an N-th under way, from one step to the next,
 * instead of all of them at its end: 2 (N-1)/N of the gradient in all.
 *
 * It is SGD with a delay of one step.
 */
#include "sync/method.h"

#include <stdlib.h>

struct pen_sync {
    const struct pen_sync_setting *setting;
    float *travelling; /* the gradient of the step before, then its sum */
    float *arriving;   /* a chunk, before it is added */
    uint32_t hop;
    uint32_t num_hops; /* no more than `hop`: nothing is under way */
    struct pen_group_request send;
    struct pen_group_request receive;
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    (void)mean;
    double weights = of->num_weights * sizeof(float);
    out->bytes = pen_collective_sum_bytes(of->num_replicas, of->num_weights);
    out->legs = 2 * (of->num_replicas - 1.0);
    out->hidden = 1;
    out->extra = weights + weights / of->num_replicas;
    out->staleness = 1;
    out->waits_for_slowest = true;
}

/* ---- making ---- */

static size_t largest_chunk(const struct pen_sync_setting *setting)
{
    return (setting->count + setting->peers->size - 1) / setting->peers->size;
}

static void release(struct pen_sync *sync)
{
    free(sync->travelling);
    free(sync->arriving);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    (void)why;
    sync->setting = setting;
    sync->arriving = calloc(largest_chunk(setting) + 1, sizeof(float));
    return sync->arriving == NULL
               ? PEN_NOMEM
               : pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->travelling));
}

static size_t bytes(const struct pen_sync *sync)
{
    return (sync->setting->count + largest_chunk(sync->setting)) *
           sizeof(float);
}

/* ---- the ring ---- */

/* Returns the chunk that a replica sends in a hop. */
static float *chunk_of(const struct pen_sync *sync, uint32_t replica,
                       uint32_t hop, size_t *count)
{
    uint32_t size = sync->setting->peers->size;
    size_t first;
    pen_sum_share(size, (replica + 2 * size - hop) % size, sync->setting->count,
                  &first, count);
    return sync->travelling + first;
}

static uint32_t replica_before(const struct pen_group *peers)
{
    return (peers->self + peers->size - 1) % peers->size;
}

static bool is_adding(const struct pen_sync *sync)
{
    return sync->hop < sync->num_hops / 2;
}

static void begin_hop(struct pen_sync *sync)
{
    struct pen_group *peers = sync->setting->peers;
    uint32_t before = replica_before(peers);
    size_t sent, received;
    const float *out = chunk_of(sync, peers->self, sync->hop, &sent);
    float *in = chunk_of(sync, before, sync->hop, &received);
    pen_group_receive(peers, before, 0, is_adding(sync) ? sync->arriving : in,
                      received * sizeof(float), &sync->receive);
    pen_group_send(peers, (peers->self + 1) % peers->size, 0, out,
                   sent * sizeof(float), &sync->send);
}

static void end_hop(struct pen_sync *sync)
{
    size_t count;
    float *in =
        chunk_of(sync, replica_before(sync->setting->peers), sync->hop, &count);
    if (is_adding(sync))
        pen_add_floats(in, sync->arriving, count);
    sync->hop++;
}

static void set_out(struct pen_sync *sync)
{
    sync->hop = 0;
    sync->num_hops = 2 * (sync->setting->peers->size - 1);
    if (sync->num_hops > 0)
        begin_hop(sync);
}

static bool is_home(void *context)
{
    struct pen_sync *sync = context;
    struct pen_group *peers = sync->setting->peers;
    while (sync->hop < sync->num_hops) {
        if (!pen_group_is_done(peers, &sync->receive, 1) ||
            !pen_group_is_done(peers, &sync->send, 1))
            return false;
        end_hop(sync);
        if (sync->hop < sync->num_hops)
            begin_hop(sync);
    }
    return true;
}

static void poll(struct pen_sync *sync)
{
    (void)is_home(sync);
}

static void settle(struct pen_sync *sync)
{
    pen_group_wait(sync->setting->peers, is_home, sync);
}

/* ---- steps ---- */

/*
 * Receives the mean of the previous step, and sends the gradient of this one.
 */
static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    float share = 1.0f / (float)sync->setting->peers->size;
    (void)at;
    settle(sync);
    for (size_t i = 0; i < sync->setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &sync->setting->tensors[i];
        float *travelling = sync->travelling + tensor->first;
        for (size_t k = 0; k < tensor->count; k++) {
            float own = tensor->gradient[k];
            tensor->gradient[k] = share * travelling[k];
            travelling[k] = own;
        }
    }
    set_out(sync);
}

/* Steps with the gradient of the previous step. */
static void local_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    struct pen_sync_step before = {at->step - 1, at->learning_rate};
    if (before.step > 0)
        pen_sync_local_step(sync->setting, &before);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_sync_states_add_vector(out, "travelling", true, sync->travelling,
                               sync->setting->count);
}

/* Writes the weights, which are the model on all replicas. */
static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_read_weights(sync->setting, out);
}

const struct pen_sync_method pen_sync_cyclic_dp = {
    .name = "cyclic-dp",
    .title = "gradients travel round a ring during the next step, one step "
             "late",
    .paper = "Fournier and Oyallon, Cyclic Data Parallelism for Efficient "
             "Parallelism of Deep Neural Networks, 2024, arXiv:2403.08837",
    .interval = 1,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .local_step = local_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .consistent = consistent,
};
