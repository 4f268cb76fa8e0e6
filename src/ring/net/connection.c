/* One connection: its states, its buffers, its frames. */
#include "ring/net/connection.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STRANGER_ROOM 1024u /* bytes of each of its buffers */
#define MOST_READS 16       /* in one turn, so that no connection starves */

static void set_state(struct pen__connection *connection,
                      enum pen__connection_state state)
{
    connection->state = state;
    connection->began_at = connection->written_at = pen_clock_ns();
}

static bool is_stranger(const struct pen__connection *connection)
{
    return connection->state != PEN__UNUSED && connection->state != PEN__OPEN;
}

/* Makes room by ending the oldest stranger that was not dialled (N3). */
static void make_room(struct pen__net *net)
{
    struct pen__connection *oldest = NULL;
    size_t count = 0;
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++) {
        struct pen__connection *at = &net->connections[i];
        if (!is_stranger(at) || at->is_dialled)
            continue;
        count++;
        if (oldest == NULL || at->began_at < oldest->began_at)
            oldest = at;
    }
    if (count >= PEN__NET_STRANGERS)
        pen__connection_end(net, oldest,
                            "too many connections that are not known");
}

struct pen__connection *pen__net_add(struct pen__net *net, int handle,
                                     bool is_dialled, const char *address)
{
    if (!is_dialled)
        make_room(net);
    struct pen__connection *found = NULL;
    for (size_t i = 0; i < PEN__NET_CONNECTIONS && found == NULL; i++)
        if (net->connections[i].state == PEN__UNUSED)
            found = &net->connections[i];
    if (found == NULL) {
        close(handle);
        return NULL;
    }
    *found = (struct pen__connection){.handle = handle,
                                      .node = PEN__NET_ANY,
                                      .is_dialled = is_dialled,
                                      .wants_write = is_dialled,
                                      .in_room = STRANGER_ROOM,
                                      .out_room = STRANGER_ROOM};
    strncpy(found->address, address, sizeof found->address - 1);
    pen__socket_set(handle, net->options.limits->patience);
    found->link = pen__tls_open(net->options.tls, handle, !is_dialled);
    found->in = malloc(STRANGER_ROOM);
    found->out = malloc(STRANGER_ROOM);
    set_state(found, is_dialled ? PEN__CONNECTING : PEN__SHAKING);
    if (found->link == NULL || found->in == NULL || found->out == NULL) {
        pen__connection_end(net, found, "out of memory");
        return NULL;
    }
    return found;
}

void pen__connection_end(struct pen__net *net,
                         struct pen__connection *connection, const char *words)
{
    struct pen__connection old = *connection;
    bool is_wanted = old.node != PEN__NET_ANY || old.is_dialled;
    pen__tls_close(net->options.tls, old.link);
    close(old.handle);
    free(connection->in);
    free(connection->out);
    memset(connection, 0, sizeof *connection);
    connection->handle = -1;
    if (old.state != PEN__OPEN && !old.is_dialled && old.state != PEN__ENDING) {
        net->num_turned_away++;
        pen_text_clear(&net->last_words);
        pen_text_add(&net->last_words, "%s: %s", old.address, words);
    }
    if (is_wanted && old.state != PEN__ENDING)
        net->options.lost(net->options.context, old.node, words);
}

bool pen__connection_queue(struct pen__connection *connection,
                           const struct pen__frame *frame)
{
    if (connection->out_at > 0) {
        memmove(connection->out, connection->out + connection->out_at,
                connection->out_length);
        connection->out_at = 0;
    }
    size_t length =
        pen__wire_encode(frame, connection->out + connection->out_length,
                         connection->out_room - connection->out_length);
    if (connection->out_length == 0)
        connection->written_at = pen_clock_ns();
    connection->out_length += length;
    return length > 0;
}

static void write_out(struct pen__net *net, struct pen__connection *connection)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    connection->wants_write = false;
    while (connection->out_length > 0 && status == PEN_OK) {
        size_t length;
        bool wants_write = false;
        status =
            pen__tls_write(net->options.tls, connection->link,
                           connection->out + connection->out_at,
                           connection->out_length, &length, &wants_write, &why);
        connection->out_at += length;
        connection->out_length -= length;
        connection->wants_write = status == PEN_BUSY;
        if (length > 0)
            connection->written_at = pen_clock_ns();
    }
    if (status == PEN_LOST)
        pen__connection_end(net, connection, pen_text_string(&why));
    else if (connection->state == PEN__ENDING && connection->out_length == 0)
        shutdown(connection->handle, SHUT_WR);
    pen_text_release(&why);
}

/*
 * The sentence has been sent. Closing while input is unread could destroy it on
 * its way, so this waits until the other end closes, or is late.
 */
static void linger(struct pen__net *net, struct pen__connection *connection)
{
    uint8_t unread[STRANGER_ROOM];
    ssize_t length = recv(connection->handle, unread, sizeof unread, 0);
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
        pen__connection_end(net, connection, "refused");
}

void pen__connection_refuse(struct pen__net *net,
                            struct pen__connection *connection,
                            const char *words)
{
    struct pen__frame frame = {.kind = PEN__FRAME_REFUSE};
    strncpy(frame.as.words, words, PEN__WIRE_WORDS);
    frame.as.words[PEN__WIRE_WORDS] = '\0';
    bool is_dialled = connection->is_dialled;
    if (connection->node != PEN__NET_ANY || is_dialled)
        net->options.lost(net->options.context, connection->node, words);
    if (!is_dialled) {
        net->num_turned_away++;
        pen_text_clear(&net->last_words);
        pen_text_add(&net->last_words, "%s: %s", connection->address, words);
    }
    pen__connection_queue(connection, &frame);
    set_state(connection, PEN__ENDING);
    write_out(net, connection);
}

/* ---- identity of the other end */

static void say_hello(struct pen__net *net, struct pen__connection *connection)
{
    struct pen__frame frame = {.kind = PEN__FRAME_HELLO};
    memcpy(frame.as.hello.config, net->options.config, PEN__WIRE_CONFIG);
    set_state(connection, PEN__GREETING);
    connection->has_more = true; /* bytes may have come with the handshake */
    pen__connection_queue(connection, &frame);
    write_out(net, connection);
}

/*
 * Takes the key of the other end: the handshake has proved that it has the
 * private part.
 */
static void identify(struct pen__net *net, struct pen__connection *connection)
{
    uint8_t key[PEN__KEY_BYTES];
    uint32_t expected = connection->node;
    int node = pen__tls_peer(net->options.tls, connection->link, key)
                   ? pen__ring_keys_find(net->options.keys, key)
                   : -1;
    struct pen_text words = PEN_TEXT_EMPTY;
    if (node < 0) {
        struct pen__ring_peer shown = {.is_there = true};
        memcpy(shown.key, key, sizeof key);
        pen_text_add_string(&words, "the key ");
        pen__ring_public_print(&shown, &words);
        pen_text_add_string(&words, " is not in the folder of keys");
    } else if (expected != PEN__NET_ANY && expected != (uint32_t)node) {
        pen_text_add(&words, "%s has the key of ", connection->address);
        pen__ring_add_node((uint32_t)node, &words);
        pen_text_add_string(&words, ", not of ");
        pen__ring_add_node(expected, &words);
    }
    if (words.length > 0) {
        pen__connection_refuse(net, connection, pen_text_string(&words));
    } else {
        connection->node = (uint32_t)node;
        say_hello(net, connection);
    }
    pen_text_release(&words);
}

/*
 * Gives the connection full buffers (N2), and replaces an older connection of
 * the same node (N5).
 */
static bool grow(struct pen__net *net, struct pen__connection *connection)
{
    size_t out_room = net->options.most_queued;
    uint8_t *in = realloc(connection->in, PEN__WIRE_MOST);
    if (in != NULL) {
        connection->in = in;
        connection->in_room = PEN__WIRE_MOST;
    }
    uint8_t *out = realloc(connection->out, out_room);
    if (out != NULL) {
        connection->out = out;
        connection->out_room = out_room;
    }
    return in != NULL && out != NULL;
}

static void enter(struct pen__net *net, struct pen__connection *connection,
                  const struct pen__hello *hello)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    uint32_t node = connection->node;
    if (net->options.judge(net->options.context, node, hello, &why) != PEN_OK) {
        pen__connection_refuse(net, connection, pen_text_string(&why));
        pen_text_release(&why);
        return;
    }
    for (size_t i = 0; i < PEN__NET_CONNECTIONS; i++) {
        struct pen__connection *old = &net->connections[i];
        if (old->state == PEN__OPEN && old->node == node)
            pen__connection_end(net, old, "it connected again");
    }
    set_state(connection, PEN__OPEN);
    if (!grow(net, connection))
        pen__connection_end(net, connection, "out of memory");
    else if (net->options.has_room != NULL)
        net->options.has_room(net->options.context, node);
}

/* ---- input */

static void take(struct pen__net *net, struct pen__connection *connection,
                 const struct pen__frame *frame)
{
    if (frame->kind == PEN__FRAME_REFUSE) {
        struct pen_text words = PEN_TEXT_EMPTY;
        pen_text_add(&words, "refused: %s", frame->as.words);
        pen__connection_end(net, connection, pen_text_string(&words));
        pen_text_release(&words);
    } else if (connection->state == PEN__GREETING) {
        enter(net, connection, &frame->as.hello);
    } else {
        net->options.take(net->options.context, connection->node, frame);
    }
}

/* N1 */
static uint32_t kinds_of(const struct pen__net *net,
                         const struct pen__connection *connection)
{
    uint32_t refuse = pen__frame_bit(PEN__FRAME_REFUSE);
    uint32_t ask = pen__frame_bit(PEN__FRAME_ASK);
    if (connection->state != PEN__OPEN)
        return refuse | pen__frame_bit(PEN__FRAME_HELLO);
    return refuse | (net->options.kinds &
                     (connection->node >= PEN_RING_NODES ? ask : ~ask));
}

/* Takes all frames that are whole. The connection may be gone afterwards. */
static void take_frames(struct pen__net *net,
                        struct pen__connection *connection)
{
    size_t at = 0;
    int handle = connection->handle;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    while (status == PEN_OK) {
        struct pen__frame frame;
        size_t used = 0;
        status =
            pen__wire_decode(connection->in + at, connection->in_length - at,
                             kinds_of(net, connection), &frame, &used, &why);
        if (status != PEN_OK)
            break;
        at += used;
        take(net, connection, &frame);
        if (connection->handle != handle ||
            (connection->state != PEN__OPEN &&
             connection->state != PEN__GREETING)) {
            pen_text_release(&why);
            return;
        }
    }
    if (status == PEN_INVALID) {
        pen__connection_refuse(net, connection, pen_text_string(&why));
    } else if (at > 0) {
        memmove(connection->in, connection->in + at,
                connection->in_length - at);
        connection->in_length -= at;
        connection->frame_at = connection->heard_at;
    }
    pen_text_release(&why);
}

static bool reads(const struct pen__connection *connection)
{
    return connection->state == PEN__GREETING || connection->state == PEN__OPEN;
}

static void read_in(struct pen__net *net, struct pen__connection *connection)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    int handle = connection->handle;
    connection->has_more = false;
    for (int i = 0; reads(connection) && connection->handle == handle; i++) {
        size_t length = 0;
        bool wants_write = false;
        if (i == MOST_READS) {
            connection->has_more = true;
            break;
        }
        pen_status status =
            pen__tls_read(net->options.tls, connection->link,
                          connection->in + connection->in_length,
                          connection->in_room - connection->in_length, &length,
                          &wants_write, &why);
        if (status == PEN_LOST)
            pen__connection_end(net, connection, pen_text_string(&why));
        connection->wants_write |= wants_write && status == PEN_BUSY;
        if (status != PEN_OK)
            break;
        connection->heard_at = pen_clock_ns();
        if (connection->in_length == 0)
            connection->frame_at = connection->heard_at;
        connection->in_length += length;
        take_frames(net, connection);
    }
    pen_text_release(&why);
}

/* ---- steps */

static void connected(struct pen__net *net, struct pen__connection *connection)
{
    int failed = 0;
    socklen_t length = sizeof failed;
    if (getsockopt(connection->handle, SOL_SOCKET, SO_ERROR, &failed,
                   &length) != 0)
        failed = errno;
    if (failed != 0)
        pen__connection_end(net, connection, strerror(failed));
    else
        /* the handshake begins in the next turn */
        set_state(connection, PEN__SHAKING);
}

static void shake(struct pen__net *net, struct pen__connection *connection)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    connection->wants_write = false;
    pen_status status = pen__tls_shake(net->options.tls, connection->link,
                                       &connection->wants_write, &why);
    if (status == PEN_OK)
        identify(net, connection);
    else if (status != PEN_BUSY)
        pen__connection_end(net, connection, pen_text_string(&why));
    pen_text_release(&why);
}

void pen__connection_advance(struct pen__net *net,
                             struct pen__connection *connection)
{
    if (connection->state == PEN__CONNECTING) {
        connected(net, connection);
        return;
    }
    if (connection->state == PEN__SHAKING) {
        shake(net, connection);
        return;
    }
    if (connection->out_length > 0 && connection->state >= PEN__GREETING) {
        size_t before = connection->out_length;
        write_out(net, connection);
        if (connection->state == PEN__OPEN && net->options.has_room != NULL &&
            connection->out_length < before)
            net->options.has_room(net->options.context, connection->node);
    }
    if (reads(connection))
        read_in(net, connection);
    else if (connection->state == PEN__ENDING && connection->out_length == 0)
        linger(net, connection);
}
