#ifndef PEN_RUNTIME_LAYOUT_H
#define PEN_RUNTIME_LAYOUT_H

#include "core/mesh.h"
#include "core/model_cost.h"
#include "schedule/schedule.h"

/*
 * The roles of ranks: a mesh, of which every pipeline runs the rows of the
 * schedule. Ranks along the tensor axis, a tensor group, run the same row of
 * the same replica, each with its pieces of every layer; a rank's peers
 * elsewhere are those with the same place in their groups.
 *
 * Ranks along the context axis run the same rows on the same samples, each with
 * its part of every sequence. They are replicas in everything else: their part
 * of a gradient is summed like that of other samples, and a logical replica is
 * one part of it.
 *
 * Replicas that follow each other may form expert groups, whose members have a
 * share of the experts each and exchange rows of tokens inside layers. An
 * expert then lives in one replica of each group, and its gradient is the sum
 * of the parts from all replicas of the group, which follow each other in the
 * tree, and then of all groups. The members of a group run the same row in the
 * same order.
 *
 * Micro-batches go through copies of the model: those of the schedule, in every
 * replica. Copy replica * copies + copy computes an equal share of the logical
 * replicas, in order; or each replica of the pipeline has a share of its own,
 * and a schedule with as many micro-batches. A part of the model lives in
 * several places, its members. Each has the part of one copy, or of several in
 * a row where stages have numbers of ranks of their own (placement.h).
 *
 * Gradients are summed over the micro-batches of a logical replica and then
 * over logical replicas in a fixed tree (group/tree.h), so that they are
 * bit-identical for one number of logical replicas, whatever else changes.
 */
#define PEN_NO_REPLICA UINT32_MAX

struct pen_layout {
    struct pen_shape shape; /* of the schedule */
    struct pen_mesh mesh;
    uint32_t replica; /* of the pipeline; of this rank, as the row */
    uint32_t row;     /* of an idle rank: PEN_NO_REPLICA, and row 0 */
    struct pen_mesh_place place;         /* of this rank, on all axes */
    uint32_t num_logical;                /* replicas of the run */
    const struct pen_layer_range *parts; /* of the model; borrowed */
    const uint32_t *shares; /* logical replicas of each replica, where they are
                               uneven and there is one copy; borrowed */
    uint32_t num_experts;   /* replicas of an expert group */
    bool drops_gradients;   /* members send those that others own, and keep none
                             */
    bool drops_values;      /* likewise: they get them layer by layer */
};

/* Whether this rank has no place in the mesh. */
static inline bool pen_layout_is_idle(const struct pen_layout *layout)
{
    return layout->replica == PEN_NO_REPLICA;
}

/* Ranks of a tensor group. */
static inline uint32_t pen_layout_group_size(const struct pen_layout *layout)
{
    return layout->mesh.sizes[PEN_AXIS_TENSOR];
}

/*
 * Whether this rank is the first of its tensor group, which reports what all of
 * them know.
 */
static inline bool pen_layout_is_first(const struct pen_layout *layout)
{
    return layout->place.at[PEN_AXIS_TENSOR] == 0;
}

/* The rank of a row of a replica with the same place on all other axes. */
static inline uint32_t pen_layout_rank_at(const struct pen_layout *layout,
                                          uint32_t row, uint32_t replica)
{
    struct pen_mesh_place place = layout->place;
    place.at[PEN_AXIS_PIPELINE] = row;
    pen_mesh_set_replica(&layout->mesh, replica, &place);
    return pen_mesh_rank(&layout->mesh, place);
}

/* Parts of a sequence, and the one of this rank. */
static inline uint32_t pen_layout_num_parts(const struct pen_layout *layout)
{
    return layout->mesh.sizes[PEN_AXIS_CONTEXT];
}

static inline uint32_t pen_layout_part(const struct pen_layout *layout)
{
    return layout->place.at[PEN_AXIS_CONTEXT];
}

/* The context group of this rank, whose parts have the same samples. */
static inline uint32_t pen_layout_group(const struct pen_layout *layout)
{
    return layout->place.at[PEN_AXIS_REPLICA];
}

/* Copies of the model in all replicas. */
static inline uint32_t pen_layout_copies(const struct pen_layout *layout)
{
    return pen_mesh_num_replicas(&layout->mesh) * layout->shape.num_copies;
}

/* Logical replicas of samples: each of them is as many as there are parts. */
static inline uint32_t pen_layout_num_sampled(const struct pen_layout *layout)
{
    return layout->num_logical / pen_layout_num_parts(layout);
}

/* Logical replicas of a copy of this replica of the pipeline. */
static inline uint32_t pen_layout_copy_share(const struct pen_layout *layout)
{
    if (layout->shares != NULL && !pen_layout_is_idle(layout))
        return layout->shares[layout->replica];
    return layout->num_logical / pen_layout_copies(layout);
}

/* The first logical replica of a copy. */
static inline uint32_t pen_layout_first_logical(const struct pen_layout *layout,
                                                uint32_t copy)
{
    uint32_t first = 0;
    if (layout->shares == NULL)
        return copy * pen_layout_copy_share(layout);
    for (uint32_t i = 0; i < copy; i++)
        first += layout->shares[i];
    return first;
}

static inline uint32_t pen_layout_members(const struct pen_layout *layout,
                                          uint32_t part)
{
    return pen_mesh_num_replicas(&layout->mesh) *
           pen_shape_members(&layout->shape, part);
}

/* Logical replicas that one member of this replica computes. */
static inline uint32_t pen_layout_share(const struct pen_layout *layout,
                                        uint32_t part)
{
    if (layout->shares != NULL)
        return pen_layout_copy_share(layout);
    return layout->num_logical / pen_layout_members(layout, part);
}

/* The copy of a stage, among those of all replicas. */
static inline uint32_t pen_layout_copy(const struct pen_layout *layout,
                                       uint32_t stage)
{
    return layout->replica * layout->shape.num_copies +
           pen_shape_copy_of_stage(&layout->shape, stage);
}

/* The member that a stage is, in this replica of the pipeline. */
static inline uint32_t pen_layout_member(const struct pen_layout *layout,
                                         uint32_t stage)
{
    return pen_layout_copy(layout, stage) /
           pen_shape_users(&layout->shape, stage);
}

/* Whether this rank is among the first `num_dealt` members of a stage, one for
 * each share of a parameter that is dealt out. */
static inline bool pen_layout_comes_first(const struct pen_layout *layout,
                                          uint32_t stage, uint32_t num_dealt)
{
    return pen_layout_member(layout, stage) < num_dealt;
}

/* The number of this rank in its expert group, and of the group. */
static inline uint32_t pen_layout_expert(const struct pen_layout *layout)
{
    return layout->replica % layout->num_experts;
}

static inline uint32_t pen_layout_expert_group(const struct pen_layout *layout)
{
    return layout->replica / layout->num_experts;
}

/* The rank that has a stage in this replica of the pipeline. */
static inline uint32_t pen_layout_peer(const struct pen_layout *layout,
                                       uint32_t stage)
{
    return pen_layout_rank_at(layout, pen_shape_rank_of(&layout->shape, stage),
                              layout->replica);
}

/* The world rank that has a part of one of all copies. */
static inline uint32_t pen_layout_rank_of(const struct pen_layout *layout,
                                          uint32_t part, uint32_t copy)
{
    uint32_t copies = layout->shape.num_copies;
    uint32_t stage = copy % copies * pen_shape_parts(&layout->shape) + part;
    return pen_layout_rank_at(layout, pen_shape_rank_of(&layout->shape, stage),
                              copy / copies);
}

/* Micro-batches of a copy in a pass. */
static inline uint32_t pen_layout_microbatches(const struct pen_layout *layout)
{
    return layout->shape.num_microbatches / layout->shape.num_copies;
}

#endif
