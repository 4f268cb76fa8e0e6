#ifndef PEN_RING_NET_COMMANDS_H
#define PEN_RING_NET_COMMANDS_H

#include "ring/net/wire.h"

/*
 * The commands of `penstock ring` that use a network. Without OpenSSL each
 * refuses and says so.
 */

/*
 * Makes a key in a file that must not exist yet; the line of its public part,
 * with an address where that is not NULL, goes to `line`.
 */
pen_status pen_ring_make_key(const char *path, const char *address,
                             struct pen_text *line, struct pen_text *why);

struct pen_ring_coordinate_options {
    const char *listen; /* HOST:PORT */
    const char *key;    /* file */
    const char *keys;   /* folder */
    const char *store;
    const char *replay; /* the journal of another run; NULL: none */
    uint32_t quorum;
    int64_t patience; /* in nanoseconds */
};

/* Coordinates until SIGTERM or SIGINT. */
pen_status
pen_ring_coordinate(const struct pen_ring_coordinate_options *options,
                    struct pen_text *why);

/* Asks the coordinator at this address, with the key of an operator. */
pen_status pen_ring_ask(const char *address, const char *key, const char *keys,
                        const struct pen__ask *ask,
                        struct pen__ring_status *out, struct pen_text *why);

#endif
