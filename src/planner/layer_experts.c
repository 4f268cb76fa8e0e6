/* How tokens come to their experts and back. */
#include "planner/layer_operations.h"

#include "base/real.h"
#include "planner/collective.h"

#include <math.h>

/*
 * The expected number of places that `choices` random choices among `places`
 * reach, without the place where the token is.
 */
static double count_met(double places, double choices)
{
    return (places - 1) * (1 - pen_real_power(1 - 1 / places, choices));
}

/* Ranks of one expert group, one after the other in the cluster. */
static struct pen_device_set expert_set(const struct pen__layer *layer)
{
    return (struct pen_device_set){(uint64_t)layer->ep, (uint64_t)layer->etp};
}

/* One copy of a token for each node, and there one for each rank. */
static double deduplicated_time(const struct pen__layer *layer, double bytes)
{
    const struct pen_cluster *cluster = layer->setting->cluster;
    const double *constants = layer->device->constants;
    double choices = layer->setting->model->experts_per_token;
    double node = (double)pen_cluster_node_size(cluster);
    double inside = cluster->levels[0].bytes_per_sec *
                    constants[PEN_CONSTANT_EXCHANGE_SHARE];
    double near = bytes * count_met(layer->ep, choices) / inside;
    double reach = layer->ep * layer->etp;
    if (reach <= node)
        return constants[PEN_CONSTANT_LINK_SEC] + near;
    const struct pen_link_level *outer =
        pen_cluster_level(cluster, (uint64_t)reach);
    double far = bytes * count_met(ceil(reach / node), choices) /
                 (outer->bytes_per_sec * constants[PEN_CONSTANT_NETWORK_SHARE]);
    return constants[PEN_CONSTANT_NETWORK_SEC] + outer->latency_sec +
           fmax(near, far);
}

/* A copy for each expert; every pair of ranks has a message of its own. */
static double copied_time(const struct pen__layer *layer, double bytes)
{
    struct pen_device_set set = expert_set(layer);
    return pen_collective_time(
        layer->setting->cluster, layer->device, PEN_COLLECTIVE_EXCHANGE, &set,
        bytes * layer->setting->model->experts_per_token);
}

/* All tokens go to all ranks, whose experts take their own. */
static double gathered_time(const struct pen__layer *layer, double bytes)
{
    struct pen_device_set set = expert_set(layer);
    return pen_collective_time(layer->setting->cluster, layer->device,
                               PEN_COLLECTIVE_GATHER, &set, bytes * layer->ep);
}

/* Ranks that share an expert's tensors need the tokens of all of them. */
static double shared_time(const struct pen__layer *layer)
{
    struct pen_device_set set = {(uint64_t)layer->etp, 1};
    if (layer->rows_tp <= 1) /* each has all of them */
        return 0;
    return pen_collective_time(
        layer->setting->cluster, layer->device, PEN_COLLECTIVE_GATHER, &set,
        layer->routed * layer->expert_width * layer->element);
}

double pen__layer_exchange_time(const struct pen__layer *layer)
{
    if (layer->experts == 0 || layer->setting->sends_inside)
        return 0;
    double bytes = layer->dispatched * layer->expert_width * layer->element;
    double shared = shared_time(layer);
    if (layer->ep <= 1)
        return shared;
    switch (layer->recipe->dispatcher) {
    case PEN_DISPATCHER_DEEPEP:
    case PEN_DISPATCHER_HYBRIDEP:
        return shared + deduplicated_time(layer, bytes);
    case PEN_DISPATCHER_ALLGATHER:
        return shared + gathered_time(layer, bytes);
    case PEN_DISPATCHER_ALLTOALL:
    case PEN_DISPATCHERS:
        break;
    }
    return shared + copied_time(layer, bytes);
}

/*
 * Where tokens are not dropped, sizes of arrays depend on them: the host waits
 * for the counts before it can launch the experts. Buffers of a bounded size
 * within a graph of the whole step need no counts.
 */
double pen__layer_expert_wait(const struct pen__layer *layer)
{
    const double *constants = layer->device->constants;
    const struct pen_recipe *recipe = layer->recipe;
    if (layer->experts == 0 || recipe->drops_tokens ||
        recipe->graphs == PEN_GRAPHS_FULL)
        return 0;
    return constants[recipe->dispatcher == PEN_DISPATCHER_ALLTOALL ||
                             recipe->dispatcher == PEN_DISPATCHER_ALLGATHER
                         ? PEN_CONSTANT_COUNT_SEC
                         : PEN_CONSTANT_DISPATCH_SEC];
}
