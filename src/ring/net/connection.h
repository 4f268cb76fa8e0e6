#ifndef PEN_RING_NET_CONNECTION_H
#define PEN_RING_NET_CONNECTION_H

#include "ring/net/net.h"

/* The state of a connection, which the files of a net share. */

enum pen__connection_state {
    PEN__UNUSED,
    PEN__CONNECTING,
    PEN__SHAKING,
    PEN__GREETING,
    PEN__OPEN,
    PEN__ENDING
};

struct pen__connection {
    enum pen__connection_state state;
    int handle;
    struct pen__tls_link *link;
    uint32_t node; /* PEN__NET_ANY until its key is known */
    bool is_dialled;
    bool wants_write;
    bool has_more;      /* not read to the end */
    int64_t began_at;   /* when this state began */
    int64_t heard_at;   /* when the last byte came */
    int64_t frame_at;   /* when the first byte of an incomplete frame came */
    int64_t written_at; /* when output made progress, or was empty */
    uint8_t *in;
    size_t in_length;
    size_t in_room;
    uint8_t *out;
    size_t out_at;
    size_t out_length;
    size_t out_room;
    char address[PEN__ADDRESS_SIZE];
};

struct pen__net {
    struct pen__net_options options;
    int listener; /* -1: none */
    char address[PEN__ADDRESS_SIZE];
    struct pen__connection connections[PEN__NET_CONNECTIONS];
    uint64_t num_turned_away;
    struct pen_text last_words;
};

/* Adds a connection that takes this socket; NULL when there is no room. */
struct pen__connection *pen__net_add(struct pen__net *net, int handle,
                                     bool is_dialled, const char *address);

/* Advances the connection as far as its socket is ready. */
void pen__connection_advance(struct pen__net *net,
                             struct pen__connection *connection);

/* Closes the connection; `words` say why. */
void pen__connection_end(struct pen__net *net,
                         struct pen__connection *connection, const char *words);

/* Sends the other end the reason, then closes. */
void pen__connection_refuse(struct pen__net *net,
                            struct pen__connection *connection,
                            const char *words);

bool pen__connection_queue(struct pen__connection *connection,
                           const struct pen__frame *frame);

/* Opens sockets that do not block, and that end when their peer is gone. */
int pen__socket_listen(const char *address, char told[PEN__ADDRESS_SIZE],
                       struct pen_text *why);
int pen__socket_dial(const char *address, struct pen_text *why);
int pen__socket_accept(int listener, char from[PEN__ADDRESS_SIZE]);
void pen__socket_set(int handle, int64_t patience);

#endif
