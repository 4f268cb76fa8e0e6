#include "runtime/transport_group.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct pen_request) <=
                   sizeof(((struct pen_group_request *)0)->handle),
               "a request of the transport fits into one of a group");

struct transport_group {
    struct pen_group group; /* first: it is this */
    struct pen_transport_group_options options;
    uint32_t ranks[];
};

static struct transport_group *of(struct pen_group *group)
{
    return (struct transport_group *)group;
}

static struct pen_request *request_of(struct pen_group_request *request)
{
    return (struct pen_request *)(void *)request->handle;
}

static struct pen_tag tag_of(const struct transport_group *it, uint32_t channel)
{
    const struct pen_transport_group_options *options = &it->options;
    return (struct pen_tag){
        (enum pen_tag_kind)(options->first.kind + channel % options->num_kinds),
        options->first.number + channel / options->num_kinds};
}

/* ---- messages ---- */

static void send_to(struct pen_group *group, uint32_t to, uint32_t channel,
                    const void *bytes, size_t length,
                    struct pen_group_request *request)
{
    struct transport_group *it = of(group);
    struct pen_tag tag = tag_of(it, channel);
    if (bytes == NULL && length > 0)
        pen_transport_send_phantom(it->options.transport, it->ranks[to], tag,
                                   NULL, 0, length, request_of(request));
    else
        pen_transport_send(it->options.transport, it->ranks[to], tag, bytes,
                           length, request_of(request));
}

static void receive_from(struct pen_group *group, uint32_t from,
                         uint32_t channel, void *bytes, size_t length,
                         struct pen_group_request *request)
{
    struct transport_group *it = of(group);
    struct pen_tag tag = tag_of(it, channel);
    if (bytes == NULL && length > 0)
        pen_transport_receive_phantom(it->options.transport, it->ranks[from],
                                      tag, NULL, 0, length,
                                      request_of(request));
    else
        pen_transport_receive(it->options.transport, it->ranks[from], tag,
                              bytes, length, request_of(request));
}

static pen_status lose(struct transport_group *it)
{
    uint32_t rank = pen_transport_lost(it->options.transport);
    uint32_t member = 0;
    while (member < it->group.size && it->ranks[member] != rank)
        member++;
    return pen_group_lose(&it->group,
                          member < it->group.size ? member : PEN_GROUP_NOBODY);
}

static pen_status test(struct pen_group *group,
                       struct pen_group_request *request)
{
    struct transport_group *it = of(group);
    pen_status status =
        pen_transport_test(it->options.transport, request_of(request));
    return status == PEN_LOST ? lose(it) : status;
}

/* A condition that a member waits for, and until when. */
struct waiting {
    bool (*is_done)(void *context);
    void *context;
    int64_t end_ns;
    bool is_late;
};

static bool is_over(void *context)
{
    struct waiting *it = context;
    if (it->is_done(it->context))
        return true;
    it->is_late = it->end_ns != PEN_GROUP_NEVER && pen_clock_ns() >= it->end_ns;
    return it->is_late;
}

static pen_status wait_until(struct pen_group *group,
                             bool (*is_done)(void *context), void *context,
                             int64_t end_ns)
{
    struct transport_group *it = of(group);
    struct pen_transport *transport = it->options.transport;
    struct waiting waiting = {is_done, context, end_ns, false};
    int64_t since = pen_clock_ns();
    pen_status status = PEN_OK;
    if (it->options.executor != NULL)
        status = pen_executor_wait(it->options.executor, is_over, &waiting,
                                   PEN_NO_RANK);
    else
        while (status == PEN_OK && !is_over(&waiting)) {
            if (pen_transport_has_lost(transport))
                status = PEN_LOST;
            else
                pen_transport_pause(transport, pen_clock_ns() - since);
        }
    if (status == PEN_LOST)
        return lose(it);
    return waiting.is_late ? PEN_BUSY : status;
}

/* ---- windows ---- */

static struct pen_window *window_of(struct pen_group_window *window)
{
    return (struct pen_window *)(void *)window;
}

static pen_status expose(struct pen_group *group, size_t length,
                         struct pen_group_window **out)
{
    struct transport_group *it = of(group);
    struct pen_window *window = NULL;
    pen_status status =
        pen_window_create(it->options.transport, it->ranks, group->size,
                          tag_of(it, 1), length, &window);
    if (status == PEN_OK)
        *out = (struct pen_group_window *)(void *)window;
    return status;
}

static void *window_bytes(struct pen_group_window *window)
{
    return pen_window_bytes(window_of(window));
}

static void put(struct pen_group *group, struct pen_group_window *window,
                uint32_t to, size_t first, const void *bytes, size_t length)
{
    (void)group;
    pen_window_put(window_of(window), to, first, bytes, length);
}

static void close_window(struct pen_group *group,
                         struct pen_group_window *window)
{
    (void)group;
    pen_window_free(window_of(window));
}

static const struct pen_group_ops ops = {.send = send_to,
                                         .receive = receive_from,
                                         .test = test,
                                         .wait = wait_until,
                                         .expose = expose,
                                         .window_bytes = window_bytes,
                                         .put = put,
                                         .close = close_window};

/* ---- making ---- */

static struct transport_group *
make(const struct pen_transport_group_options *options, uint32_t count)
{
    struct transport_group *it =
        calloc(1, sizeof *it + count * sizeof *it->ranks);
    if (it == NULL)
        return NULL;
    it->group = (struct pen_group){.ops = &ops,
                                   .size = count,
                                   .epoch = options->epoch,
                                   .lost = PEN_GROUP_NOBODY};
    it->options = *options;
    return it;
}

pen_status
pen_transport_group_create(const struct pen_transport_group_options *options,
                           const uint32_t *ranks, uint32_t count, uint32_t self,
                           struct pen_group **out)
{
    struct transport_group *it = make(options, count);
    if (it == NULL)
        return PEN_NOMEM;
    memcpy(it->ranks, ranks, count * sizeof *it->ranks);
    it->group.self = self;
    *out = &it->group;
    return PEN_OK;
}

pen_status
pen_transport_group_all(const struct pen_transport_group_options *options,
                        struct pen_group **out)
{
    uint32_t size = pen_transport_size(options->transport);
    struct transport_group *it = make(options, size);
    if (it == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < size; rank++)
        it->ranks[rank] = rank;
    it->group.self = pen_transport_rank(options->transport);
    *out = &it->group;
    return PEN_OK;
}

pen_status
pen_transport_group_axis(const struct pen_transport_group_options *options,
                         const struct pen_mesh *mesh, enum pen_axis axis,
                         struct pen_group **out)
{
    struct pen_mesh_place place =
        pen_mesh_place_of(mesh, pen_transport_rank(options->transport));
    struct transport_group *it = make(options, mesh->sizes[axis]);
    if (it == NULL)
        return PEN_NOMEM;
    it->group.self = place.at[axis];
    it->group.epoch = mesh->epoch;
    for (uint32_t k = 0; k < mesh->sizes[axis]; k++) {
        place.at[axis] = k;
        it->ranks[k] = pen_mesh_rank(mesh, place);
    }
    *out = &it->group;
    return PEN_OK;
}

void pen_transport_group_set_executor(struct pen_group *group,
                                      struct pen_executor *executor)
{
    of(group)->options.executor = executor;
}

void pen_transport_group_free(struct pen_group *group)
{
    free(group);
}
