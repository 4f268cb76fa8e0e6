#include "sim/mapping.h"

#include "base/random.h"
#include "core/cluster.h"
#include "core/mesh.h"

#include <stdlib.h>

const char *const pen_mapping_names[PEN_MAPPINGS + 1] = {
#define PEN_MAPPING_NAME(name, words) words,
    PEN_MAPPING_TABLE(PEN_MAPPING_NAME)
#undef PEN_MAPPING_NAME
        NULL};

static pen_status check(const struct pen_mapping *mapping, struct pen_text *why)
{
    double devices =
        (double)mapping->num_replicas * mapping->num_rows * mapping->lockstep;
    if (devices >= 1 && devices <= PEN_CLUSTER_MAX_DEVICES)
        return PEN_OK;
    pen_why(why,
            "%u replicas of %u ranks of %u devices each must be 1 to %u "
            "devices in total",
            mapping->num_replicas, mapping->num_rows, mapping->lockstep,
            PEN_CLUSTER_MAX_DEVICES);
    return PEN_INVALID;
}

/* Returns the place of this rank among the ranks, from the first device on. */
static uint64_t place_of(const struct pen_mapping *mapping, uint32_t replica,
                         uint32_t row)
{
    struct pen_mesh mesh = pen_mesh_of(
        mapping->kind == PEN_MAPPING_PIPELINE_FIRST ? PEN_MESH_PIPELINE_FIRST
                                                    : PEN_MESH_REPLICAS_FIRST,
        mapping->num_rows, mapping->num_replicas);
    return pen_mesh_rank_at(&mesh, row, replica);
}

/* Devices that a shuffle leaves together; 0 when ranks do not fill nodes. */
static uint64_t block_of(const struct pen_mapping *mapping)
{
    uint64_t node = mapping->node_size;
    uint64_t rank = mapping->lockstep;
    if (node <= rank)
        return node == 0 || rank % node == 0 ? rank : 0;
    return node % rank == 0 ? node : 0;
}

static void shuffle(uint64_t *order, uint32_t count, uint64_t seed)
{
    struct pen_random random = {seed};
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = pen_random_below(&random, i);
        uint64_t held = order[i - 1];
        order[i - 1] = order[other];
        order[other] = held;
    }
}

/* Shuffles blocks; one that ranks fill only in part stays in place. */
static pen_status shuffle_blocks(const struct pen_mapping *mapping,
                                 uint64_t *devices, uint64_t num_ranks,
                                 struct pen_text *why)
{
    uint64_t block = block_of(mapping);
    if (block == 0) {
        pen_why(why,
                "ranks of %u devices do not fill nodes of %llu devices, as "
                "--mapping random requires",
                mapping->lockstep, (unsigned long long)mapping->node_size);
        return PEN_INVALID;
    }
    uint32_t num_blocks = (uint32_t)(num_ranks * mapping->lockstep / block);
    uint64_t *order = calloc(num_blocks + 1u, sizeof *order);
    if (order == NULL)
        return PEN_NOMEM;
    shuffle(order, num_blocks, mapping->seed);
    for (uint64_t i = 0; i < num_ranks; i++) {
        uint64_t from = devices[i] / block;
        if (from < num_blocks)
            devices[i] = order[from] * block + devices[i] % block;
    }
    free(order);
    return PEN_OK;
}

pen_status pen_mapping_devices(const struct pen_mapping *mapping,
                               uint64_t *devices, struct pen_text *why)
{
    pen_status status = check(mapping, why);
    if (status != PEN_OK)
        return status;
    uint64_t rank = 0;
    for (uint32_t replica = 0; replica < mapping->num_replicas; replica++) {
        for (uint32_t row = 0; row < mapping->num_rows; row++)
            devices[rank++] =
                place_of(mapping, replica, row) * mapping->lockstep;
    }
    if (mapping->kind == PEN_MAPPING_SHUFFLED)
        status = shuffle_blocks(mapping, devices, rank, why);
    return status;
}
