#ifndef PEN_SCHEDULE_CHANNELS_H
#define PEN_SCHEDULE_CHANNELS_H

#include "schedule/schedule.h"

/*
 * The channels of a shape. A channel is (source rank, destination rank,
 * activation or gradient); several stages may share one.
 */

#define PEN__NONE (-1)

struct pen__channel {
    uint32_t source;
    uint32_t destination;
    uint32_t stage; /* one that sends on it, for the cost of the link */
    enum pen_direction direction; /* NONE: the lane of moves of a rank */
};

struct pen__channel_index {
    struct pen_shape shape;
    uint32_t num_channels;
    struct pen__channel *channels; /* with room for one lane per rank */
    int32_t *act_from;  /* per stage: channel of its output, or PEN__NONE */
    int32_t *grad_from; /* per stage: channel of its input gradient */
};

pen_status pen__channel_index_init(struct pen__channel_index *index,
                                   const struct pen_shape *shape);
void pen__channel_index_release(struct pen__channel_index *index);

/*
 * Returns the channel on which this op sends or receives; PEN__NONE for other
 * ops.
 */
int32_t pen__channel_of(const struct pen__channel_index *index,
                        const struct pen_op *op);

/* Returns the channel whose message this compute op consumes, or PEN__NONE. */
int32_t pen__channel_feeding(const struct pen__channel_index *index,
                             const struct pen_op *op);

#endif
