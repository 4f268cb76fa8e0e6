#include "schedule/channels.h"

#include <stdlib.h>

/* Channels chained by source rank; each rank has few: its neighbours. */
struct chains {
    int32_t *first; /* per rank */
    int32_t *next;  /* per channel */
};

static int32_t find_or_add(struct pen__channel_index *index,
                           struct chains *chains, uint32_t from, uint32_t to,
                           enum pen_direction direction)
{
    uint32_t source = pen_shape_rank_of(&index->shape, from);
    uint32_t destination = pen_shape_rank_of(&index->shape, to);
    for (int32_t i = chains->first[source]; i != PEN__NONE;
         i = chains->next[i]) {
        if (index->channels[i].destination == destination &&
            index->channels[i].direction == direction)
            return i;
    }
    int32_t made = (int32_t)index->num_channels++;
    index->channels[made] =
        (struct pen__channel){source, destination, from, direction};
    chains->next[made] = chains->first[source];
    chains->first[source] = made;
    return made;
}

static void connect(struct pen__channel_index *index, struct chains *chains)
{
    const struct pen_shape *shape = &index->shape;
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++)
        chains->first[rank] = PEN__NONE;
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        uint32_t after = pen_shape_receiver(shape, stage, PEN_DIRECTION_ACT);
        uint32_t before = pen_shape_receiver(shape, stage, PEN_DIRECTION_GRAD);
        index->act_from[stage] = PEN__NONE;
        index->grad_from[stage] = PEN__NONE;
        if (pen_shape_is_remote(shape, stage, after))
            index->act_from[stage] =
                find_or_add(index, chains, stage, after, PEN_DIRECTION_ACT);
        if (pen_shape_is_remote(shape, stage, before))
            index->grad_from[stage] =
                find_or_add(index, chains, stage, before, PEN_DIRECTION_GRAD);
    }
}

pen_status pen__channel_index_init(struct pen__channel_index *index,
                                   const struct pen_shape *shape)
{
    size_t stages = shape->num_stages;
    *index = (struct pen__channel_index){.shape = *shape};
    struct chains chains = {malloc(shape->num_ranks * sizeof(int32_t)),
                            malloc(2 * stages * sizeof(int32_t))};
    index->channels =
        calloc(2 * stages + shape->num_ranks, sizeof *index->channels);
    index->act_from = malloc(stages * sizeof *index->act_from);
    index->grad_from = malloc(stages * sizeof *index->grad_from);
    pen_status status = PEN_OK;
    if (chains.first == NULL || chains.next == NULL ||
        index->channels == NULL || index->act_from == NULL ||
        index->grad_from == NULL)
        status = PEN_NOMEM;
    else
        connect(index, &chains);
    free(chains.first);
    free(chains.next);
    if (status != PEN_OK)
        pen__channel_index_release(index);
    return status;
}

void pen__channel_index_release(struct pen__channel_index *index)
{
    free(index->channels);
    free(index->act_from);
    free(index->grad_from);
    *index = (struct pen__channel_index){.channels = NULL};
}

/* Returns the channel that brings this stage its activation or its gradient. */
static int32_t incoming(const struct pen__channel_index *index, uint32_t stage,
                        enum pen_direction direction)
{
    const struct pen_shape *shape = &index->shape;
    bool is_act = direction == PEN_DIRECTION_ACT;
    uint32_t from = pen_shape_sender(shape, stage, direction);
    if (from == PEN_NO_STAGE)
        return PEN__NONE;
    return is_act ? index->act_from[from] : index->grad_from[from];
}

int32_t pen__channel_of(const struct pen__channel_index *index,
                        const struct pen_op *op)
{
    const struct pen_op_info *info = pen_op_info(op->kind);
    if (info->op_class == PEN_OP_CLASS_SEND)
        return info->direction == PEN_DIRECTION_ACT
                   ? index->act_from[op->stage]
                   : index->grad_from[op->stage];
    if (info->op_class == PEN_OP_CLASS_RECV)
        return incoming(index, op->stage, info->direction);
    return PEN__NONE;
}

int32_t pen__channel_feeding(const struct pen__channel_index *index,
                             const struct pen_op *op)
{
    const struct pen_op_info *info = pen_op_info(op->kind);
    if (info->op_class != PEN_OP_CLASS_COMPUTE ||
        info->direction == PEN_DIRECTION_NONE)
        return PEN__NONE;
    return incoming(index, op->stage, info->direction);
}
