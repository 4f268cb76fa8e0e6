#include "ring/net/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_ACCEPTS 32
#define MILLISECOND INT64_C(1000000)

pen_status pen__net_create(const struct pen__net_options *options,
                           struct pen__net **out, struct pen_text *why)
{
    struct pen__net *net = calloc(1, sizeof *net);
    if (net == NULL)
        return PEN_NOMEM;
    net->options = *options;
    net->listener = -1;
    if (options->listen != NULL) {
        net->listener = pen__socket_listen(options->listen, net->address, why);
        if (net->listener < 0) {
            free(net);
            return PEN_IO;
        }
    }
    *out = net;
    return PEN_OK;
}

static void ignore(void *context, uint32_t node, const char *words)
{
    (void)context;
    (void)node;
    (void)words;
}

void pen__net_free(struct pen__net *net)
{
    if (net == NULL)
        return;
    net->options.lost = ignore;
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++)
        if (net->connections[i].state != PEN__UNUSED)
            pen__connection_end(net, &net->connections[i], "the end");
    if (net->listener >= 0)
        close(net->listener);
    pen_text_release(&net->last_words);
    free(net);
}

const char *pen__net_address(const struct pen__net *net)
{
    return net->address;
}

static struct pen__connection *find(const struct pen__net *net, uint32_t node,
                                    enum pen__connection_state least)
{
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++) {
        const struct pen__connection *at = &net->connections[i];
        if (at->state >= least && at->state <= PEN__OPEN && at->node == node)
            return (struct pen__connection *)(uintptr_t)at;
    }
    return NULL;
}

pen_status pen__net_dial(struct pen__net *net, uint32_t node,
                         const char *address, struct pen_text *why)
{
    if (find(net, node, PEN__CONNECTING) != NULL)
        return PEN_OK;
    int handle = pen__socket_dial(address, why);
    if (handle < 0)
        return PEN_IO;
    struct pen__connection *made = pen__net_add(net, handle, true, address);
    if (made == NULL)
        return PEN_NOMEM;
    made->node = node;
    return PEN_OK;
}

bool pen__net_is_open(const struct pen__net *net, uint32_t node)
{
    return find(net, node, PEN__OPEN) != NULL;
}

size_t pen__net_room(const struct pen__net *net, uint32_t node)
{
    const struct pen__connection *at = find(net, node, PEN__OPEN);
    return at == NULL ? 0 : at->out_room - at->out_length;
}

bool pen__net_send(struct pen__net *net, uint32_t node,
                   const struct pen__frame *frame)
{
    struct pen__connection *at = find(net, node, PEN__OPEN);
    if (at == NULL || !pen__connection_queue(at, frame))
        return false;
    at->wants_write = true;
    return true;
}

void pen__net_refuse(struct pen__net *net, uint32_t node, const char *words)
{
    struct pen__connection *at = find(net, node, PEN__OPEN);
    if (at != NULL)
        pen__connection_refuse(net, at, words);
}

uint64_t pen__net_turned_away(struct pen__net *net, const char **words)
{
    uint64_t count = net->num_turned_away;
    net->num_turned_away = 0;
    *words = pen_text_string(&net->last_words);
    return count;
}

/* ---- deadlines (N4) */

/* Returns what the connection waited too long for; NULL: nothing. */
static const char *is_late(const struct pen__net *net,
                           const struct pen__connection *at, int64_t now)
{
    int64_t patience = net->options.limits->patience;
    if (at->state == PEN__UNUSED)
        return NULL;
    if (at->state != PEN__OPEN)
        return now - at->began_at > patience / 4 ? "it took too long" : NULL;
    if (at->in_length > 0 && now - at->frame_at > patience / 2)
        return "its message took too long";
    if (at->out_length > 0 && now - at->written_at > patience / 2)
        return "it does not read";
    bool has_signs = net->options.has_signs || at->node >= PEN_RING_NODES;
    int64_t last = at->heard_at > at->began_at ? at->heard_at : at->began_at;
    return has_signs && now - last > patience ? "it is silent" : NULL;
}

static void drop_late(struct pen__net *net, int64_t now)
{
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++) {
        struct pen__connection *at = &net->connections[i];
        const char *words = is_late(net, at, now);
        if (words != NULL)
            pen__connection_end(net, at, words);
    }
}

/* ---- one turn */

static size_t list(struct pen__net *net, struct pollfd *out,
                   struct pen__connection **who)
{
    size_t count = 0;
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++) {
        struct pen__connection *at = &net->connections[i];
        if (at->state == PEN__UNUSED)
            continue;
        bool writes = at->state == PEN__CONNECTING || at->wants_write;
        bool is_read = at->state != PEN__CONNECTING &&
                       (at->state != PEN__ENDING || at->out_length == 0);
        out[count] = (struct pollfd){
            .fd = at->handle,
            .events = (short)((is_read ? POLLIN : 0) | (writes ? POLLOUT : 0))};
        who[count++] = at;
    }
    return count;
}

static int wait_of(const struct pen__net *net, int64_t now, int64_t until)
{
    int64_t tenth = net->options.limits->patience / 40;
    int64_t wait = until - now < tenth ? until - now : tenth;
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++)
        if (net->connections[i].state != PEN__UNUSED &&
            net->connections[i].has_more)
            return 0;
    return wait <= 0 ? 0 : (int)((wait + MILLISECOND - 1) / MILLISECOND);
}

static void accept_all(struct pen__net *net)
{
    char from[PEN__ADDRESS_SIZE];
    for (int i = 0; i < MOST_ACCEPTS; i++) {
        int handle = pen__socket_accept(net->listener, from);
        if (handle < 0)
            return;
        pen__net_add(net, handle, false, from);
    }
}

pen_status pen__net_turn(struct pen__net *net, int64_t until,
                         struct pen_text *why)
{
    struct pollfd polled[PEN__NET_CONNECTIONS + 1];
    struct pen__connection *who[PEN__NET_CONNECTIONS];
    size_t count = list(net, polled, who);
    polled[count] = (struct pollfd){.fd = net->listener, .events = POLLIN};
    int ready = poll(polled, count + 1, wait_of(net, pen_clock_ns(), until));
    if (ready < 0 && errno != EINTR) {
        pen_why(why, "cannot wait for connections: %s", strerror(errno));
        return PEN_IO;
    }
    for (size_t i = 0; i < count && ready >= 0; i++)
        /* Skips a connection that ended meanwhile, or was replaced. */
        if ((polled[i].revents != 0 || who[i]->has_more) &&
            who[i]->state != PEN__UNUSED && who[i]->handle == polled[i].fd)
            pen__connection_advance(net, who[i]);
    if (ready > 0 && (polled[count].revents & POLLIN) != 0)
        accept_all(net);
    drop_late(net, pen_clock_ns());
    return PEN_OK;
}
