#include "sync/outer_method.h"

void pen_outer_method_release(struct pen_sync *sync)
{
    pen_outer_release(&sync->outer);
}

size_t pen_outer_method_bytes(const struct pen_sync *sync)
{
    return pen_outer_bytes(&sync->outer);
}

void pen_outer_method_consistent(struct pen_sync *sync, float *out)
{
    pen_outer_consistent(&sync->outer, out);
}

void pen_outer_method_after_step(struct pen_sync *sync,
                                 const struct pen_sync_step *at)
{
    if (!pen_sync_is_due(at, sync->outer.setting->interval))
        return;
    pen_outer_start(&sync->outer, 0, at->step);
    pen_outer_apply(&sync->outer, 0, 0);
}

void pen_outer_method_states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_outer_states(&sync->outer, out);
}
