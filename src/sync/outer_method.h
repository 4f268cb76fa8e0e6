#ifndef PEN_SYNC_OUTER_METHOD_H
#define PEN_SYNC_OUTER_METHOD_H

#include "sync/outer.h"

/* A method that is an outer step and no more; its options differ. */
struct pen_sync {
    struct pen_outer outer;
    struct pen_sync_setting setting; /* of `outer`, where the method chooses
                                        the compressor */
};

void pen_outer_method_release(struct pen_sync *sync);
size_t pen_outer_method_bytes(const struct pen_sync *sync);
void pen_outer_method_consistent(struct pen_sync *sync, float *out);

#define PEN_OUTER_HOOKS                                                        \
    .size = sizeof(struct pen_sync), .release = pen_outer_method_release,      \
    .bytes = pen_outer_method_bytes, .consistent = pen_outer_method_consistent

/* After each interval: sends the moves, waits and takes the outer step. */
void pen_outer_method_after_step(struct pen_sync *sync,
                                 const struct pen_sync_step *at);
void pen_outer_method_states(struct pen_sync *sync,
                             struct pen_sync_states *out);

#endif
