/*
 * Layered SGD: the mean gradient of all replicas at every step, as of
 * synchronous SGD, in two levels. The first member of every group is its
 * communicator,
 *
 *     0 <- 1, 2, 3      4 <- 5, 6, 7      gradients of a group, added
 *     0 <------------------> 4            sum over the communicators
 *     0 -> 1, 2, 3      4 -> 5, 6, 7      the mean to the group
 *
 * so that of a group only one member talks over the slow network: 2(G-1)/G of
 * the weights per group, G groups. The step is the one of the run's optimizer.
 * The last group may be smaller.
 *
 * Groups add up in the order of the tree of group/tree.h. If they have a
 * power of two members, that is the order of synchronous SGD, and so are the
 * bits.
 */
#include "group/subgroup.h"
#include "group/tree.h"
#include "sync/method.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP };

static const struct pen_sync_option options[] = {
    [GROUP] = {"group", 2, 1, 65536, true,
               "members of a group, such as the replicas of a host"},
};

/* Channels: the collective's, then up and down between group and head. */
enum { UP = PEN_COLLECTIVE_CHANNELS, DOWN };

struct pen_sync {
    const struct pen_sync_setting *setting;
    uint32_t head;       /* the communicator of this group */
    uint32_t num_others; /* members of the group other than it */
    struct pen_subgroup heads;
    struct pen_collective *collective; /* of the heads; NULL elsewhere */
    float *vector;
    /* only on a head: gradients of the other members, in order */
    float *staged;
    struct pen_group_request *requests;
    size_t num_requests;
};

/* Computes the cost of a communicator: no replica sends more. */
static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double vector = of->num_weights * sizeof(float);
    double size = of->num_replicas;
    double group = of->options[GROUP] < size ? of->options[GROUP] : size;
    uint32_t num_groups =
        (of->num_replicas + (uint32_t)group - 1) / (uint32_t)group;
    (void)mean;
    out->bytes = (group - 1) * vector +
                 pen_collective_sum_bytes(num_groups, of->num_weights);
    out->legs = (group > 1 ? 2 : 0) + (num_groups > 1 ? 2 : 0);
    out->extra = (group + 1) * vector;
    out->waits_for_slowest = true;
}

static void release(struct pen_sync *sync)
{
    pen_collective_free(sync->collective);
    free(sync->vector);
    free(sync->staged);
    free(sync->requests);
}

static bool is_head(const struct pen_sync *sync)
{
    return sync->setting->peers->self == sync->head;
}

static void find_place(struct pen_sync *sync)
{
    const struct pen_group *peers = sync->setting->peers;
    uint32_t group = (uint32_t)sync->setting->options.at[GROUP];
    uint32_t left = peers->size - peers->self / group * group;
    sync->head = peers->self / group * group;
    sync->num_others = (left < group ? left : group) - 1;
}

/* Allocates the parts that only a head has. */
static pen_status make_head(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    sync->staged =
        calloc(sync->num_others * setting->count + 1, sizeof *sync->staged);
    if (sync->staged == NULL)
        return PEN_NOMEM;
    uint32_t group = (uint32_t)setting->options.at[GROUP];
    pen_subgroup_init(&sync->heads, setting->peers, 0, group,
                      (setting->peers->size + group - 1) / group);
    return pen_collective_create(&sync->heads.group, 0, setting->count, 0,
                                 &sync->collective);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    (void)why;
    sync->setting = setting;
    find_place(sync);
    sync->num_requests = is_head(sync) ? sync->num_others : 2;
    sync->requests = calloc(sync->num_requests + 1, sizeof *sync->requests);
    pen_status status =
        sync->requests == NULL
            ? PEN_NOMEM
            : pen_sync_vectors(setting, PEN_SYNC_VECTORS(&sync->vector));
    return status == PEN_OK && is_head(sync) ? make_head(sync) : status;
}

static size_t bytes(const struct pen_sync *sync)
{
    size_t vector = sync->setting->count * sizeof(float);
    return is_head(sync) ? (1 + sync->num_others) * vector +
                               pen_collective_bytes(sync->collective)
                         : vector;
}

static bool is_quiet(void *context)
{
    struct pen_sync *sync = context;
    return pen_group_is_done(sync->setting->peers, sync->requests,
                             sync->num_requests);
}

/* ---- a head ---- */

/* Returns the vector of a member of the group: 0 is the head. */
static float *vector_of(struct pen_sync *sync, uint32_t member)
{
    return member == 0 ? sync->vector
                       : sync->staged + (member - 1) * sync->setting->count;
}

static void gather_group(struct pen_sync *sync)
{
    struct pen_group *peers = sync->setting->peers;
    uint32_t size = sync->num_others + 1;
    for (uint32_t i = 1; i < size; i++)
        pen_group_receive(peers, sync->head + i, UP, vector_of(sync, i),
                          sync->setting->count * sizeof(float),
                          &sync->requests[i - 1]);
    pen_group_wait(peers, is_quiet, sync);
    for (struct pen_tree at = {.size = size}; pen_tree_next(&at);)
        pen_add_floats(vector_of(sync, at.to), vector_of(sync, at.from),
                       sync->setting->count);
}

static void spread_group(struct pen_sync *sync)
{
    struct pen_group *peers = sync->setting->peers;
    for (uint32_t i = 1; i <= sync->num_others; i++)
        pen_group_send(peers, sync->head + i, DOWN, sync->vector,
                       sync->setting->count * sizeof(float),
                       &sync->requests[i - 1]);
    pen_group_wait(peers, is_quiet, sync);
}

static void serve_group(struct pen_sync *sync)
{
    float share = 1.0f / (float)sync->setting->peers->size;
    gather_group(sync);
    pen_collective_sum(sync->collective, sync->vector, sync->setting->count);
    pen_collective_wait(sync->collective);
    for (size_t i = 0; i < sync->setting->count; i++)
        sync->vector[i] *= share;
    spread_group(sync);
}

/* ---- the others ---- */

static void ask_head(struct pen_sync *sync)
{
    struct pen_group *peers = sync->setting->peers;
    size_t length = sync->setting->count * sizeof(float);
    pen_group_send(peers, sync->head, UP, sync->vector, length,
                   &sync->requests[0]);
    pen_group_wait(peers, is_quiet, sync);
    pen_group_receive(peers, sync->head, DOWN, sync->vector, length,
                      &sync->requests[1]);
    pen_group_wait(peers, is_quiet, sync);
}

static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    (void)at;
    pen_sync_read_gradients(sync->setting, sync->vector);
    if (is_head(sync))
        serve_group(sync);
    else
        ask_head(sync);
    pen_sync_write_gradients(sync->setting, sync->vector);
}

/* Writes the weights, which are the model on all replicas. */
static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_read_weights(sync->setting, out);
}

const struct pen_sync_method pen_sync_lsgd = {
    .name = "lsgd",
    .title = "the mean gradient at every step, inside groups, then among them",
    .paper = "Yu et al., Layered SGD: A Decentralized and Synchronous SGD "
             "Algorithm for Scalable Deep Neural Network Training, 2019, "
             "arXiv:1906.05936",
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .consistent = consistent,
};
