#include "runtime/replica_peers.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct pen_request) <=
                   sizeof(((struct pen_peers_request *)0)->handle),
               "a request of the transport fits into one of peers");

struct pen_replica_peers {
    struct pen_peers peers; /* first: they are it */
    struct pen_transport *world;
    struct pen_executor *executor;
    struct pen_group *group; /* made for the first window */
    uint32_t *ranks;
};

static struct pen_replica_peers *of(struct pen_peers *peers)
{
    return (struct pen_replica_peers *)peers;
}

static struct pen_request *request_of(struct pen_peers_request *request)
{
    return (struct pen_request *)(void *)request->handle;
}

static void peers_send(struct pen_peers *peers, uint32_t to, uint32_t channel,
                       const void *bytes, size_t length,
                       struct pen_peers_request *request)
{
    struct pen_replica_peers *it = of(peers);
    pen_transport_send(it->world, it->ranks[to],
                       (struct pen_tag){PEN_TAG_REPLICA, channel}, bytes,
                       length, request_of(request));
}

static void peers_receive(struct pen_peers *peers, uint32_t from,
                          uint32_t channel, void *bytes, size_t length,
                          struct pen_peers_request *request)
{
    struct pen_replica_peers *it = of(peers);
    pen_transport_receive(it->world, it->ranks[from],
                          (struct pen_tag){PEN_TAG_REPLICA, channel}, bytes,
                          length, request_of(request));
}

static bool peers_test(struct pen_peers *peers,
                       struct pen_peers_request *request)
{
    return pen_transport_test(of(peers)->world, request_of(request)) == PEN_OK;
}

static pen_status peers_wait(struct pen_peers *peers,
                             bool (*is_done)(void *context), void *context)
{
    struct pen_replica_peers *it = of(peers);
    int64_t since = pen_clock_ns();
    if (it->executor != NULL)
        return pen_executor_wait(it->executor, is_done, context, PEN_NO_RANK);
    while (!is_done(context)) {
        if (pen_transport_has_lost(it->world))
            return PEN_LOST;
        pen_transport_pause(it->world, pen_clock_ns() - since);
    }
    return PEN_OK;
}

/* ---- windows ---- */

static struct pen_window *window_of(struct pen_peers_window *window)
{
    return (struct pen_window *)(void *)window;
}

static pen_status peers_expose(struct pen_peers *peers, size_t length,
                               struct pen_peers_window **out)
{
    struct pen_replica_peers *it = of(peers);
    struct pen_window *window = NULL;
    pen_status status = PEN_OK;
    if (it->group == NULL)
        status =
            pen_group_create(it->world, it->ranks, peers->size,
                             (struct pen_tag){PEN_TAG_REPLICA, 1}, &it->group);
    if (status == PEN_OK)
        status = pen_window_create(it->group, length, &window);
    if (status == PEN_OK)
        *out = (struct pen_peers_window *)(void *)window;
    return status;
}

static void *peers_window_bytes(struct pen_peers_window *window)
{
    return pen_window_bytes(window_of(window));
}

static void peers_put(struct pen_peers *peers, struct pen_peers_window *window,
                      uint32_t to, size_t first, const void *bytes,
                      size_t length)
{
    (void)peers;
    pen_window_put(window_of(window), to, first, bytes, length);
}

static void peers_close(struct pen_peers *peers,
                        struct pen_peers_window *window)
{
    (void)peers;
    pen_window_free(window_of(window));
}

static const struct pen_peers_ops ops = {.send = peers_send,
                                         .receive = peers_receive,
                                         .test = peers_test,
                                         .wait = peers_wait,
                                         .expose = peers_expose,
                                         .window_bytes = peers_window_bytes,
                                         .put = peers_put,
                                         .close = peers_close};

/* ---- making ---- */

pen_status pen_replica_peers_create(struct pen_transport *world,
                                    struct pen_executor *executor,
                                    const uint32_t *ranks, uint32_t count,
                                    uint32_t self,
                                    struct pen_replica_peers **out)
{
    struct pen_replica_peers *it = calloc(1, sizeof *it);
    uint32_t *copy = calloc(count, sizeof *copy);
    if (it == NULL || copy == NULL) {
        free(it);
        free(copy);
        return PEN_NOMEM;
    }
    memcpy(copy, ranks, count * sizeof *copy);
    *it = (struct pen_replica_peers){
        .peers = {.ops = &ops, .size = count, .self = self},
        .world = world,
        .executor = executor,
        .ranks = copy};
    *out = it;
    return PEN_OK;
}

void pen_replica_peers_free(struct pen_replica_peers *it)
{
    if (it == NULL)
        return;
    pen_group_free(it->group);
    free(it->ranks);
    free(it);
}

struct pen_peers *pen_replica_peers_of(struct pen_replica_peers *it)
{
    return &it->peers;
}
