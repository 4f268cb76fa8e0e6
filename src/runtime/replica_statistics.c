#include "runtime/replica_statistics.h"

#include "group/sum.h"
#include "network/images.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor that is not trained. */
struct statistic {
    float *floats;
    size_t count;
};

/* A number of batches: equal everywhere, and not changed by measuring. */
struct counter {
    uint64_t *place;
    uint64_t own;
};

struct pen_replica_statistics {
    struct pen_group *peers;
    struct statistic *items;
    size_t num_items;
    size_t count; /* floats of all */
    struct counter *counters;
    size_t num_counters;
    float *own;
    float *mean;
    struct pen_sum *sum;
};

static pen_status list_items(struct pen_replica_statistics *statistics,
                             const struct pen_any_model *model,
                             struct pen_network *network)
{
    uint32_t num_tensors = pen_any_model_num_tensors(model);
    statistics->items = calloc(num_tensors, sizeof *statistics->items);
    statistics->counters = calloc(num_tensors, sizeof *statistics->counters);
    if (statistics->items == NULL || statistics->counters == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < num_tensors; i++) {
        struct pen_any_tensor tensor;
        pen_any_model_tensor(model, i, &tensor);
        if (tensor.is_trained)
            continue;
        if (tensor.dtype != PEN_DTYPE_F32) {
            statistics->counters[statistics->num_counters++].place =
                pen_network_statistic(network, i);
            continue;
        }
        statistics->items[statistics->num_items++] = (struct statistic){
            pen_network_statistic(network, i), (size_t)tensor.num_elements};
        statistics->count += (size_t)tensor.num_elements;
    }
    return PEN_OK;
}

pen_status pen_replica_statistics_create(const struct pen_any_model *model,
                                         struct pen_network *network,
                                         struct pen_group *peers,
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
    const struct pen_sum_options options = {.group = peers,
                                            .channel = channel,
                                            .route = PEN_SUM_SHARES,
                                            .most = statistics->count};
    if (status == PEN_OK)
        status = pen_sum_create(&options, &statistics->sum);
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
    pen_sum_free(statistics->sum);
    free(statistics->mean);
    free(statistics->own);
    free(statistics->items);
    free(statistics->counters);
    free(statistics);
}

size_t
pen_replica_statistics_bytes(const struct pen_replica_statistics *statistics)
{
    return 2 * statistics->count * sizeof(float) +
           pen_sum_bytes(statistics->sum);
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

static void get(const struct pen_replica_statistics *statistics, float *to)
{
    for (size_t i = 0; i < statistics->num_items; i++) {
        const struct statistic *it = &statistics->items[i];
        memcpy(to, it->floats, it->count * sizeof *to);
        to += it->count;
    }
}

/*
 * Statistics that begin at zero have all of their weight in the batches that
 * are measured when they are divided by the sum of these weights.
 */
static void measure_anew(struct pen_replica_statistics *statistics,
                         pen_replica_measure *measure, void *context)
{
    memset(statistics->mean, 0, statistics->count * sizeof *statistics->mean);
    put(statistics, statistics->mean);
    for (size_t i = 0; i < statistics->num_counters; i++)
        statistics->counters[i].own = *statistics->counters[i].place;
    uint32_t num_batches = measure(context);
    for (size_t i = 0; i < statistics->num_counters; i++)
        *statistics->counters[i].place = statistics->counters[i].own;
    if (num_batches == 0) {
        memcpy(statistics->mean, statistics->own,
               statistics->count * sizeof *statistics->mean);
        return;
    }
    double weight = 1 - pow(1 - PEN_STATISTICS_MOMENTUM, num_batches);
    get(statistics, statistics->mean);
    for (size_t i = 0; i < statistics->count; i++)
        statistics->mean[i] /= (float)weight;
}

pen_status
pen_replica_statistics_show(struct pen_replica_statistics *statistics,
                            pen_replica_measure *measure, void *context)
{
    get(statistics, statistics->own);
    measure_anew(statistics, measure, context);
    const struct pen_sum_job job = {.way = PEN_SUM_BOTH,
                                    .values = statistics->mean,
                                    .count = statistics->count};
    pen_sum_begin(statistics->sum, &job);
    if (pen_sum_wait(statistics->sum) != PEN_OK)
        return PEN_LOST;
    for (size_t i = 0; i < statistics->count; i++)
        statistics->mean[i] /= (float)statistics->peers->size;
    put(statistics, statistics->mean);
    return PEN_OK;
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
