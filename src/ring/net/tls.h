#ifndef PEN_RING_NET_TLS_H
#define PEN_RING_NET_TLS_H

#include "ring/net/keys.h"

/*
 * TLS 1.3 between nodes that know each other's Ed25519 keys. Each end shows a
 * certificate that it signed itself, of which the key alone counts: the
 * handshake proves that the other end has the private part. Nothing older than
 * TLS 1.3, no resumption and no early data, so that nothing can be replayed.
 *
 * libssl is loaded when a context is made, so that other commands start without
 * its cost.
 */
struct pen__tls;
struct pen__tls_link;

/*
 * Makes a new key in a file of mode 0600, which must not exist; returns its
 * public part.
 */
pen_status pen__tls_make_key(const char *path, struct pen__ring_peer *out,
                             struct pen_text *why);

/*
 * Makes a context with the key of that file, which only its owner may be able
 * to read. On success end with pen__tls_free(). SIGPIPE is ignored from then
 * on.
 */
pen_status pen__tls_create(const char *key_path, struct pen__tls **out,
                           struct pen_text *why);
void pen__tls_free(struct pen__tls *tls);

/* Returns the public part of the context's key. */
const uint8_t *pen__tls_key(const struct pen__tls *tls);

/*
 * Opens a link over a socket that does not block, which the caller closes.
 * NULL: no memory.
 */
struct pen__tls_link *pen__tls_open(struct pen__tls *tls, int handle,
                                    bool is_server);
void pen__tls_close(struct pen__tls *tls, struct pen__tls_link *link);

/*
 * Continues the handshake. PEN_BUSY: the socket has to be ready first, for
 * writing where *wants_write. PEN_LOST: the handshake failed, for the reason in
 * why.
 */
pen_status pen__tls_shake(struct pen__tls *tls, struct pen__tls_link *link,
                          bool *wants_write, struct pen_text *why);
pen_status pen__tls_read(struct pen__tls *tls, struct pen__tls_link *link,
                         void *bytes, size_t room, size_t *length,
                         bool *wants_write, struct pen_text *why);
pen_status pen__tls_write(struct pen__tls *tls, struct pen__tls_link *link,
                          const void *bytes, size_t room, size_t *length,
                          bool *wants_write, struct pen_text *why);

/* Returns the key of the other end, after the handshake. */
bool pen__tls_peer(struct pen__tls *tls, struct pen__tls_link *link,
                   uint8_t key[PEN__KEY_BYTES]);

#endif
