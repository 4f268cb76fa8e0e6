#include "runtime/inner.h"

#include <stdlib.h>

struct pen_inner {
    struct pen_group *group;
    const struct pen_inner_messages *parts;
    char *room; /* what is sent, and behind it what is received */
    size_t room_bytes;
    struct pen_group_request requests[2];
};

static size_t most_bytes(const struct pen_inner_messages *parts,
                         uint32_t num_parts)
{
    size_t most = 1;
    for (uint32_t i = 0; i < num_parts; i++) {
        most = parts[i].bytes > most ? parts[i].bytes : most;
        most = parts[i].loss_bytes > most ? parts[i].loss_bytes : most;
    }
    return most;
}

pen_status pen_inner_create(struct pen_group *group,
                            const struct pen_inner_messages *parts,
                            uint32_t num_parts, struct pen_inner **out)
{
    struct pen_inner *inner = calloc(1, sizeof *inner);
    if (inner == NULL)
        return PEN_NOMEM;
    inner->group = group;
    inner->parts = parts;
    inner->room_bytes = most_bytes(parts, num_parts);
    inner->room = calloc(2, inner->room_bytes);
    if (inner->room == NULL) {
        free(inner);
        return PEN_NOMEM;
    }
    *out = inner;
    return PEN_OK;
}

void pen_inner_free(struct pen_inner *inner)
{
    if (inner == NULL)
        return;
    free(inner->room);
    free(inner);
}

const struct pen_inner_messages *pen_inner_part(const struct pen_inner *inner,
                                                uint32_t part)
{
    return &inner->parts[part];
}

static bool is_done(void *context)
{
    struct pen_inner *inner = context;
    return pen_group_is_done(inner->group, inner->requests, 2);
}

void pen_inner_exchange(struct pen_inner *inner, size_t bytes)
{
    struct pen_group *group = inner->group;
    for (uint32_t apart = 1; apart < group->size; apart *= 2) {
        uint32_t with = group->self ^ apart;
        pen_group_receive(group, with, 0, inner->room + inner->room_bytes,
                          bytes, &inner->requests[0]);
        pen_group_send(group, with, 0, inner->room, bytes, &inner->requests[1]);
        pen_group_wait(group, is_done, inner);
    }
}
