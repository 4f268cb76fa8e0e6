/* Messages between the members of a tensor group; see chain.h. */
#include "network/chain.h"

struct pending {
    struct pen_group *group;
    struct pen_group_request requests[2];
};

static bool is_done(void *context)
{
    struct pending *pending = context;
    return pen_group_is_done(pending->group, pending->requests, 2);
}

void pen__exchange(struct pen_group *group, uint32_t with, const void *mine,
                   void *theirs, size_t bytes)
{
    struct pending pending = {.group = group};
    pen_group_receive(group, with, 0, theirs, bytes, &pending.requests[0]);
    pen_group_send(group, with, 0, mine, bytes, &pending.requests[1]);
    pen_group_wait(group, is_done, &pending);
}

void pen__add_masters(size_t size, void *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (size == sizeof(double))
            ((double *)to)[i] += ((const double *)from)[i];
        else
            ((float *)to)[i] += ((const float *)from)[i];
    }
}
