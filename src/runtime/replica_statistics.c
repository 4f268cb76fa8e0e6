#include "runtime/replica_statistics.h"

#include "network/images.h"
#include "sync/collective.h"

#include <stdlib.h>
#include <string.h>

/* A tensor that is not trained; numbers of batches are equal everywhere. */
struct statistic {
    float *floats;
    size_t count;
};

struct pen_replica_statistics {
    struct pen_peers *peers;
    struct statistic *items;
    size_t num_items;
    size_t count; /* floats of all */
    float *own;
    float *mean;
    struct pen_collective *collective;
};

static pen_status list_items(struct pen_replica_statistics *statistics,
                             const struct pen_any_model *model,
                             struct pen_network *network)
{
    uint32_t num_tensors = pen_any_model_num_tensors(model);
    statistics->items = calloc(num_tensors, sizeof *statistics->items);
    if (statistics->items == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < num_tensors; i++) {
        struct pen_any_tensor tensor;
        pen_any_model_tensor(model, i, &tensor);
        if (tensor.is_trained || tensor.dtype != PEN_DTYPE_F32)
            continue;
        statistics->items[statistics->num_items++] = (struct statistic){
            pen_network_statistic(network, i), (size_t)tensor.num_elements};
        statistics->count += (size_t)tensor.num_elements;
    }
    return PEN_OK;
}

pen_status pen_replica_statistics_create(const struct pen_any_model *model,
                                         struct pen_network *network,
                                         struct pen_peers *peers,
                                         uint32_t channel,
                                         struct pen_replica_statistics **out)
{
    struct pen_replica_statistics *statistics = calloc(1, sizeof *statistics);
    if (statistics == NULL)
        return PEN_NOMEM;
    statistics->peers = peers;
    pen_status status = list_items(statistics, model, network);
    if (status == PEN_OK) {
        statistics->own = calloc(statistics->count + 1, sizeof(float));
        statistics->mean = calloc(statistics->count + 1, sizeof(float));
        if (statistics->own == NULL || statistics->mean == NULL)
            status = PEN_NOMEM;
    }
    if (status == PEN_OK)
        status = pen_collective_create(peers, channel, statistics->count, 0,
                                       &statistics->collective);
    if (status == PEN_OK)
        *out = statistics;
    else
        pen_replica_statistics_free(statistics);
    return status;
}

void pen_replica_statistics_free(struct pen_replica_statistics *statistics)
{
    if (statistics == NULL)
        return;
    pen_collective_free(statistics->collective);
    free(statistics->mean);
    free(statistics->own);
    free(statistics->items);
    free(statistics);
}

size_t
pen_replica_statistics_bytes(const struct pen_replica_statistics *statistics)
{
    return 2 * statistics->count * sizeof(float) +
           pen_collective_bytes(statistics->collective);
}

static void put(const struct pen_replica_statistics *statistics,
                const float *from)
{
    for (size_t i = 0; i < statistics->num_items; i++) {
        const struct statistic *it = &statistics->items[i];
        memcpy(it->floats, from, it->count * sizeof *from);
        from += it->count;
    }
}

void pen_replica_statistics_show(struct pen_replica_statistics *statistics)
{
    float *to = statistics->own;
    for (size_t i = 0; i < statistics->num_items; i++) {
        const struct statistic *it = &statistics->items[i];
        memcpy(to, it->floats, it->count * sizeof *to);
        to += it->count;
    }
    memcpy(statistics->mean, statistics->own,
           statistics->count * sizeof *statistics->mean);
    pen_collective_sum(statistics->collective, statistics->mean,
                       statistics->count);
    pen_collective_wait(statistics->collective);
    for (size_t i = 0; i < statistics->count; i++)
        statistics->mean[i] /= (float)statistics->peers->size;
    put(statistics, statistics->mean);
}

void pen_replica_statistics_hide(struct pen_replica_statistics *statistics)
{
    put(statistics, statistics->own);
}

const float *
pen_replica_statistics_own(const struct pen_replica_statistics *statistics,
                           const void *shown)
{
    const float *own = statistics->own;
    for (size_t i = 0; i < statistics->num_items; i++) {
        if (statistics->items[i].floats == shown)
            return own;
        own += statistics->items[i].count;
    }
    return NULL;
}
