#ifndef PEN_CORE_MESH_H
#define PEN_CORE_MESH_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * The mesh: ranks numbered along named axes. This file and its .c are the only
 * place that computes a rank from its coordinates or back; all other code calls
 * it.
 *
 *   order tp-cp-pp-dp, pp 3, dp 2      order tp-cp-dp-pp
 *
 *        pp 0  1  2                         pp 0  1  2
 *   dp 0    0  1  2                    dp 0    0  2  4
 *   dp 1    3  4  5                    dp 1    1  3  5
 *
 * The first axis of the order is the innermost: its neighbours have consecutive
 * numbers, so they share a node first. Axes that are not used have size 1.
 *
 * The epoch of a mesh counts the layouts that a run has had before. Messages of
 * a move and shares of a checkpoint carry the epoch, so that one of an older
 * layout is refused and not mixed with the new one.
 */
#define PEN_AXIS_TABLE(X)                                                      \
    X(TENSOR, "tp")                                                            \
    X(CONTEXT, "cp")                                                           \
    X(PIPELINE, "pp")                                                          \
    X(REPLICA, "dp")

enum pen_axis {
#define PEN_AXIS_ENUM(name, text) PEN_AXIS_##name,
    PEN_AXIS_TABLE(PEN_AXIS_ENUM)
#undef PEN_AXIS_ENUM
        PEN_AXES
};

/* Orders from the inside out. */
#define PEN_MESH_ORDER_TABLE(X)                                                \
    X(PIPELINE_FIRST, "tp-cp-pp-dp") /* Megatron's --use-tp-pp-dp-mapping */   \
    X(REPLICAS_FIRST, "tp-cp-dp-pp") /* Megatron-LM's own */

enum pen_mesh_order {
#define PEN_MESH_ORDER_ENUM(name, text) PEN_MESH_##name,
    PEN_MESH_ORDER_TABLE(PEN_MESH_ORDER_ENUM)
#undef PEN_MESH_ORDER_ENUM
        PEN_MESH_ORDERS
};

extern const char *const pen_mesh_order_names[PEN_MESH_ORDERS + 1];

struct pen_mesh {
    enum pen_mesh_order order;
    uint32_t sizes[PEN_AXES];
    uint32_t epoch;
};

/* Coordinates of a rank. */
struct pen_mesh_place {
    uint32_t at[PEN_AXES];
};

/* Returns a mesh of pipelines of this many ranks, next to each other. */
struct pen_mesh pen_mesh_of(enum pen_mesh_order order, uint32_t pipeline,
                            uint32_t replicas);

/*
 * Returns a mesh of as many whole pipelines as the ranks make; ranks left over
 * have no place.
 */
struct pen_mesh pen_mesh_fill(enum pen_mesh_order order, uint32_t pipeline,
                              uint32_t num_ranks);

/*
 * Returns the same ranks with `size` of them along another axis, taken from the
 * replicas, of which there are correspondingly fewer.
 */
struct pen_mesh pen_mesh_split(struct pen_mesh mesh, enum pen_axis axis,
                               uint32_t size);

/* Returns INVALID for data that `rank` has made in another epoch. */
pen_status pen_mesh_check_epoch(const struct pen_mesh *mesh, uint32_t rank,
                                uint32_t epoch, struct pen_text *why);

uint32_t pen_mesh_size(const struct pen_mesh *mesh);
uint32_t pen_mesh_rank(const struct pen_mesh *mesh, struct pen_mesh_place of);
struct pen_mesh_place pen_mesh_place_of(const struct pen_mesh *mesh,
                                        uint32_t rank);

/*
 * Sets the coordinates of a replica. Replicas have all weights each and sum
 * their gradients: first come those along the replica axis with the first part
 * of every sequence, then those with the next part, as far as the context axis
 * goes. Replicas with all parts of the same samples are a context group.
 */
void pen_mesh_set_replica(const struct pen_mesh *mesh, uint32_t replica,
                          struct pen_mesh_place *place);

/*
 * Return the rank of a row of a replica, the first along the tensor axis, and a
 * rank's row and replica.
 */
uint32_t pen_mesh_rank_at(const struct pen_mesh *mesh, uint32_t row,
                          uint32_t replica);
uint32_t pen_mesh_row(const struct pen_mesh *mesh, uint32_t rank);
uint32_t pen_mesh_replica(const struct pen_mesh *mesh, uint32_t rank);

static inline uint32_t pen_mesh_num_rows(const struct pen_mesh *mesh)
{
    return mesh->sizes[PEN_AXIS_PIPELINE];
}

static inline uint32_t pen_mesh_num_replicas(const struct pen_mesh *mesh)
{
    return mesh->sizes[PEN_AXIS_REPLICA] * mesh->sizes[PEN_AXIS_CONTEXT];
}

/* Returns the number of context groups: replicas with samples of their own. */
static inline uint32_t pen_mesh_num_groups(const struct pen_mesh *mesh)
{
    return mesh->sizes[PEN_AXIS_REPLICA];
}

#endif
