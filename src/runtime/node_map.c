#include "runtime/node_map.h"

#include <stdlib.h>

static pen_status gather(struct pen_transport *transport, uint64_t name,
                         double *names)
{
    struct pen_request request = {.is_active = false};
    names[pen_transport_rank(transport)] = (double)name;
    pen_transport_sum(transport, names, pen_transport_size(transport),
                      &request);
    return pen_transport_wait(transport, &request);
}

struct named {
    double name;
    uint32_t rank;
};

static int compare_names(const void *a, const void *b)
{
    const struct named *left = a;
    const struct named *right = b;
    if (left->name < right->name || left->name > right->name)
        return left->name < right->name ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Finds for each rank the first one with the same name. */
static bool find_leaders(const double *names, uint32_t count, uint32_t *leaders)
{
    struct named *sorted = calloc(count, sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = (struct named){names[i], i};
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (uint32_t i = 0; i < count; i++)
        leaders[sorted[i].rank] =
            i > 0 && !(sorted[i - 1].name < sorted[i].name)
                ? leaders[sorted[i - 1].rank]
                : sorted[i].rank;
    free(sorted);
    return true;
}

static void number_nodes(struct pen_node_map *map, const uint32_t *leaders)
{
    uint32_t *at = map->first;
    for (uint32_t i = 0; i < map->num_ranks; i++) {
        map->nodes[i] =
            leaders[i] == i ? map->num_nodes++ : map->nodes[leaders[i]];
        at[map->nodes[i] + 1]++;
    }
    for (uint32_t node = 0; node < map->num_nodes; node++)
        at[node + 1] += at[node];
    for (uint32_t i = map->num_ranks; i-- > 0;)
        map->ranks[--at[map->nodes[i] + 1]] = i;
    for (uint32_t node = 0; node < map->num_nodes; node++)
        at[node] = at[node + 1];
    at[map->num_nodes] = map->num_ranks;
}

pen_status pen_node_map_init(struct pen_node_map *map,
                             struct pen_transport *transport, uint64_t name)
{
    uint32_t count = pen_transport_size(transport);
    double *names = calloc(count, sizeof *names);
    uint32_t *leaders = calloc(count, sizeof *leaders);
    *map = (struct pen_node_map){.num_ranks = count};
    map->nodes = calloc(count, sizeof *map->nodes);
    map->first = calloc((size_t)count + 1, sizeof *map->first);
    map->ranks = calloc(count, sizeof *map->ranks);
    pen_status status =
        names == NULL ? PEN_NOMEM : gather(transport, name, names);
    if (status == PEN_OK &&
        (leaders == NULL || map->nodes == NULL || map->first == NULL ||
         map->ranks == NULL || !find_leaders(names, count, leaders)))
        status = PEN_NOMEM;
    if (status == PEN_OK) {
        number_nodes(map, leaders);
        map->own = map->nodes[pen_transport_rank(transport)];
    } else {
        pen_node_map_release(map);
    }
    free(names);
    free(leaders);
    return status;
}

void pen_node_map_release(struct pen_node_map *map)
{
    free(map->nodes);
    free(map->first);
    free(map->ranks);
    *map = (struct pen_node_map){.num_ranks = 0};
}

uint32_t pen_node_map_count(const struct pen_node_map *map, uint32_t node)
{
    return map->first[node + 1] - map->first[node];
}

uint32_t pen_node_map_pick(const struct pen_node_map *map, uint32_t node,
                           uint32_t i)
{
    return map->ranks[map->first[node] + i % pen_node_map_count(map, node)];
}
