#ifndef PEN_SCHEDULE_GENERATORS_DUALPIPE_H
#define PEN_SCHEDULE_GENERATORS_DUALPIPE_H

#include "schedule/generators/generator.h"

/*
 * The eight phases that DualPipe and DualPipeV share. Direction 0 is the one
 * in which the rank is nearer to the first stage; the other one comes back.
 */
struct pen__dual {
    struct pen__builder *builder;
    uint32_t rank;
    uint32_t stage[2];        /* per direction */
    uint32_t next_forward[2]; /* micro-batch; starts at the first one */
    uint32_t next_backward[2];
    uint32_t count;       /* micro-batches of each direction, at least 2 half */
    uint32_t half;        /* ranks until both directions meet */
    uint32_t depth;       /* of this rank, below half */
    uint32_t first_input; /* place in the row of the oldest I without W */
    uint16_t group;       /* number of the newest overlapped pair */
};

void pen__put_dual(struct pen__dual *dual);

#endif
