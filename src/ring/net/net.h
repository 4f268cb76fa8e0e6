#ifndef PEN_RING_NET_NET_H
#define PEN_RING_NET_NET_H

#include "ring/net/tls.h"
#include "ring/net/wire.h"

/*
 * The connections of a node: one thread, one poll, sockets that do not block.
 *
 *     CONNECTING ──► SHAKING ──────► GREETING ──────────► OPEN
 *     (if dialled)   TLS handshake   key is known,        frames
 *                                    HELLO from both
 *                        any ──refused──► ENDING: a sentence goes out
 *
 *   N1 No frame but HELLO and REFUSE is read before the key of the other end
 *      is known, and none but these is handed on before its HELLO.
 *   N2 A connection has two buffers of fixed sizes; those of strangers, which
 *      are not OPEN, are small.
 *   N3 Strangers are few: the oldest one makes room for the next. They cannot
 *      take the place of a node.
 *   N4 Every wait ends: a stranger has a quarter of the patience until it is
 *      OPEN; a frame, and output that makes no progress, half of it.
 *   N5 A node has one OPEN connection, the newest.
 */
#define PEN__NET_STRANGERS 24u
#define PEN__NET_CONNECTIONS 64u
#define PEN__NET_ANY UINT32_MAX /* a node that is not known yet */

struct pen__net;

struct pen__net_options {
    struct pen__tls *tls;              /* borrowed, as all here */
    const struct pen__ring_keys *keys; /* the known nodes */
    const struct pen_ring_limits *limits;
    const char *listen; /* HOST:PORT; NULL: it only dials */
    uint8_t config[PEN__WIRE_CONFIG];
    uint32_t kinds;     /* kinds that are taken; ASK from operators only */
    size_t most_queued; /* bytes of output per connection */
    bool has_signs;     /* nodes are silent for the patience at most */
    void *context;      /* of these: */
    /* Returns whether a node with a known key may enter, or why not. */
    pen_status (*judge)(void *context, uint32_t node,
                        const struct pen__hello *hello, struct pen_text *why);
    /* Takes a frame of an OPEN connection, borrowed during the call. */
    void (*take)(void *context, uint32_t node, const struct pen__frame *frame);
    /* Called when a node is OPEN, or has room for more output; may be NULL. */
    void (*has_room)(void *context, uint32_t node);
    /* Called when the connection is gone, or was refused by either end. */
    void (*lost)(void *context, uint32_t node, const char *words);
};

/* Creates the connections of a node. On success end with pen__net_free(). */
pen_status pen__net_create(const struct pen__net_options *options,
                           struct pen__net **out, struct pen_text *why);
void pen__net_free(struct pen__net *net);

/* Returns the address that the net listens on, as numbers. */
const char *pen__net_address(const struct pen__net *net);

/*
 * Connects to that address, unless a connection to the node exists. The other
 * end must have the key of this node, or with PEN__NET_ANY a known key, which
 * judge() sees.
 */
pen_status pen__net_dial(struct pen__net *net, uint32_t node,
                         const char *address, struct pen_text *why);

bool pen__net_is_open(const struct pen__net *net, uint32_t node);

/*
 * Returns how many bytes may still be queued for a node; 0 when it is not OPEN.
 */
size_t pen__net_room(const struct pen__net *net, uint32_t node);

/*
 * Queues a frame. False: there is no room, or no connection, and the frame is
 * dropped.
 */
bool pen__net_send(struct pen__net *net, uint32_t node,
                   const struct pen__frame *frame);

/* Ends the connection to a node with this sentence. */
void pen__net_refuse(struct pen__net *net, uint32_t node, const char *words);

/* Waits for events on the connections, and handles them; `until` at most. */
pen_status pen__net_turn(struct pen__net *net, int64_t until,
                         struct pen_text *why);

/*
 * Returns how many strangers were refused since the last call, and words about
 * the last one, borrowed until the next turn.
 */
uint64_t pen__net_turned_away(struct pen__net *net, const char **words);

#endif
