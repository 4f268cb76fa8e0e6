#include "core/mesh.h"

#include <inttypes.h>
#include <stddef.h>

const char *const pen_mesh_order_names[PEN_MESH_ORDERS + 1] = {
#define PEN_MESH_ORDER_NAME(name, text) text,
    PEN_MESH_ORDER_TABLE(PEN_MESH_ORDER_NAME)
#undef PEN_MESH_ORDER_NAME
        NULL};

/* The axes of an order, the innermost first. */
static const enum pen_axis axes_of[PEN_MESH_ORDERS][PEN_AXES] = {
    [PEN_MESH_PIPELINE_FIRST] = {PEN_AXIS_TENSOR, PEN_AXIS_CONTEXT,
                                 PEN_AXIS_PIPELINE, PEN_AXIS_REPLICA},
    [PEN_MESH_REPLICAS_FIRST] = {PEN_AXIS_TENSOR, PEN_AXIS_CONTEXT,
                                 PEN_AXIS_REPLICA, PEN_AXIS_PIPELINE}};

struct pen_mesh pen_mesh_of(enum pen_mesh_order order, uint32_t pipeline,
                            uint32_t replicas)
{
    return (struct pen_mesh){.order = order,
                             .sizes = {[PEN_AXIS_TENSOR] = 1,
                                       [PEN_AXIS_CONTEXT] = 1,
                                       [PEN_AXIS_PIPELINE] = pipeline,
                                       [PEN_AXIS_REPLICA] = replicas}};
}

struct pen_mesh pen_mesh_fill(enum pen_mesh_order order, uint32_t pipeline,
                              uint32_t num_ranks)
{
    return pen_mesh_of(order, pipeline, num_ranks / pipeline);
}

struct pen_mesh pen_mesh_split(struct pen_mesh mesh, enum pen_axis axis,
                               uint32_t size)
{
    mesh.sizes[axis] *= size;
    mesh.sizes[PEN_AXIS_REPLICA] /= size;
    return mesh;
}

pen_status pen_mesh_check_epoch(const struct pen_mesh *mesh, uint32_t rank,
                                uint32_t epoch, struct pen_text *why)
{
    if (epoch == mesh->epoch)
        return PEN_OK;
    pen_why(why,
            "rank %" PRIu32 " is in epoch %" PRIu32
            " of the layout, but the run is in epoch %" PRIu32
            ": it missed a change of the layout, or came from one that is "
            "over; resume from the last checkpoint (--load)",
            rank, epoch, mesh->epoch);
    return PEN_INVALID;
}

uint32_t pen_mesh_size(const struct pen_mesh *mesh)
{
    uint32_t size = 1;
    for (int i = 0; i < PEN_AXES; i++)
        size *= mesh->sizes[i];
    return size;
}

uint32_t pen_mesh_rank(const struct pen_mesh *mesh, struct pen_mesh_place of)
{
    uint32_t rank = 0;
    for (int i = PEN_AXES - 1; i >= 0; i--) {
        enum pen_axis axis = axes_of[mesh->order][i];
        rank = rank * mesh->sizes[axis] + of.at[axis];
    }
    return rank;
}

struct pen_mesh_place pen_mesh_place_of(const struct pen_mesh *mesh,
                                        uint32_t rank)
{
    struct pen_mesh_place place;
    for (int i = 0; i < PEN_AXES; i++) {
        enum pen_axis axis = axes_of[mesh->order][i];
        place.at[axis] = rank % mesh->sizes[axis];
        rank /= mesh->sizes[axis];
    }
    return place;
}

void pen_mesh_set_replica(const struct pen_mesh *mesh, uint32_t replica,
                          struct pen_mesh_place *place)
{
    uint32_t count = mesh->sizes[PEN_AXIS_REPLICA];
    place->at[PEN_AXIS_CONTEXT] = replica / count;
    place->at[PEN_AXIS_REPLICA] = replica % count;
}

uint32_t pen_mesh_rank_at(const struct pen_mesh *mesh, uint32_t row,
                          uint32_t replica)
{
    struct pen_mesh_place place = {.at = {[PEN_AXIS_PIPELINE] = row}};
    pen_mesh_set_replica(mesh, replica, &place);
    return pen_mesh_rank(mesh, place);
}

uint32_t pen_mesh_row(const struct pen_mesh *mesh, uint32_t rank)
{
    return pen_mesh_place_of(mesh, rank).at[PEN_AXIS_PIPELINE];
}

uint32_t pen_mesh_replica(const struct pen_mesh *mesh, uint32_t rank)
{
    struct pen_mesh_place place = pen_mesh_place_of(mesh, rank);
    return place.at[PEN_AXIS_CONTEXT] * mesh->sizes[PEN_AXIS_REPLICA] +
           place.at[PEN_AXIS_REPLICA];
}
