#ifndef PEN_RING_NET_KEYS_H
#define PEN_RING_NET_KEYS_H

#include "base/status.h"
#include "base/text.h"
#include "ring/ring.h"

#include <stddef.h>

/*
 * The identities of a ring's nodes. A node is known by its public key alone; no
 * authority signs anything. All nodes have the same folder of public keys:
 *
 *     island-0-amsterdam.pub   island 0; the rest of the name is for readers
 *     coordinator-0.pub
 *     operator-jane.pub        may ask for the status, and evict
 *
 * Each has one line: ed25519, the key as 64 hexadecimal digits and, where the
 * node listens, HOST:PORT.
 */
#define PEN__KEY_BYTES 32u
#define PEN__ADDRESS_SIZE 128u
#define PEN__OPERATORS 8u

struct pen__ring_peer {
    bool is_there;
    uint8_t key[PEN__KEY_BYTES];
    char address[PEN__ADDRESS_SIZE]; /* "": it does not listen */
};

struct pen__ring_keys {
    struct pen__ring_peer peers[PEN_RING_NODES + PEN__OPERATORS];
};

/* Parses one such line; a pen_file_parser of a struct pen__ring_peer. */
pen_status pen__ring_public_parse(void *out, const char *bytes, size_t length,
                                  struct pen_text *why);
void pen__ring_public_print(const struct pen__ring_peer *peer,
                            struct pen_text *out);

pen_status pen__ring_keys_read(const char *folder, struct pen__ring_keys *out,
                               struct pen_text *why);

/*
 * Returns the node of a key; from PEN_RING_NODES on an operator; -1: the key is
 * unknown.
 */
int pen__ring_keys_find(const struct pen__ring_keys *keys,
                        const uint8_t key[PEN__KEY_BYTES]);

/* Adds "island 3", "coordinator 0" or "an operator". */
void pen__ring_add_node(uint32_t node, struct pen_text *out);

/*
 * Returns the number of islands: they are numbered from 0 to the last that has
 * a key.
 */
uint32_t pen__ring_keys_islands(const struct pen__ring_keys *keys);

/*
 * Splits HOST:PORT or [HOST]:PORT; the host may be empty. False: it is neither.
 */
bool pen__ring_split_address(const char *address, char host[PEN__ADDRESS_SIZE],
                             char port[6]);

#endif
