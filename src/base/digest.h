#ifndef PEN_BASE_DIGEST_H
#define PEN_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * SHA-256 as hash.c needs it, by OpenSSL (digest.c) or, where that is not
 * there, in plain C (without_openssl/digest.c).
 */
#define PEN__DIGEST_BYTES 32u

struct pen__digest;

/*
 * Creates a digest. NULL: there is no memory, or a policy forbids the
 * algorithm.
 */
struct pen__digest *pen__digest_create(void);
void pen__digest_free(struct pen__digest *digest);

bool pen__digest_add(struct pen__digest *digest, const void *bytes,
                     size_t length);
bool pen__digest_finish(struct pen__digest *digest,
                        unsigned char out[PEN__DIGEST_BYTES]);

#endif
