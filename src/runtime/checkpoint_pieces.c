#include "runtime/checkpoint_pieces.h"

#include <stdlib.h>

enum { CHANNEL = 1 }; /* layers use the one before */

/* A request of the first rank. */
struct wish {
    uint64_t number;
    uint32_t part;
    uint32_t is_end;
};

struct pending {
    struct pen_group *group;
    struct pen_group_request request;
};

static bool is_done(void *context)
{
    struct pending *pending = context;
    return pen_group_is_done(pending->group, &pending->request, 1);
}

static pen_status await(struct pending *pending)
{
    pen_group_wait(pending->group, is_done, pending);
    return pen_group_status(pending->group);
}

static pen_status send(struct pen_group *group, uint32_t to, const void *bytes,
                       size_t length)
{
    struct pending pending = {.group = group};
    pen_group_send(group, to, CHANNEL, bytes, length, &pending.request);
    return await(&pending);
}

static pen_status receive(struct pen_group *group, uint32_t from, void *bytes,
                          size_t length)
{
    struct pending pending = {.group = group};
    pen_group_receive(group, from, CHANNEL, bytes, length, &pending.request);
    return await(&pending);
}

pen_status pen__pieces_tell(struct pen_group *group,
                            const struct pen_tensor_slice *slices, size_t count)
{
    uint64_t announced = count;
    pen_status status = send(group, 0, &announced, sizeof announced);
    return status == PEN_OK && count > 0
               ? send(group, 0, slices, count * sizeof *slices)
               : status;
}

pen_status pen__pieces_hear(struct pen_group *group, uint32_t member,
                            struct pen_tensor_slice **slices, size_t *count)
{
    uint64_t announced = 0;
    pen_status status = receive(group, member, &announced, sizeof announced);
    if (status != PEN_OK)
        return status;
    struct pen_tensor_slice *heard =
        calloc((size_t)announced + 1, sizeof *heard);
    if (heard == NULL)
        return PEN_NOMEM;
    if (announced > 0)
        status =
            receive(group, member, heard, (size_t)announced * sizeof *heard);
    if (status != PEN_OK) {
        free(heard);
        return status;
    }
    *slices = heard;
    *count = (size_t)announced;
    return PEN_OK;
}

void pen__pieces_fetch(struct pen_group *group, uint32_t member, size_t number,
                       enum pen_checkpoint_part part, float *numbers,
                       size_t count)
{
    struct wish wish = {.number = number, .part = (uint32_t)part};
    if (send(group, member, &wish, sizeof wish) == PEN_OK)
        (void)receive(group, member, numbers, count * sizeof *numbers);
}

pen_status pen__pieces_end(struct pen_group *group, uint32_t member)
{
    struct wish wish = {.is_end = 1};
    return send(group, member, &wish, sizeof wish);
}

pen_status pen__pieces_serve(struct pen_group *group, pen__pieces_read *read,
                             void *context)
{
    for (;;) {
        struct wish wish = {.is_end = 0};
        size_t count;
        pen_status status = receive(group, 0, &wish, sizeof wish);
        if (status != PEN_OK || wish.is_end != 0)
            return status;
        const float *numbers =
            read(context, (size_t)wish.number,
                 (enum pen_checkpoint_part)wish.part, &count);
        status = send(group, 0, numbers, count * sizeof *numbers);
        if (status != PEN_OK)
            return status;
    }
}
