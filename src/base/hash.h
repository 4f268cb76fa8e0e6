#ifndef PEN_BASE_HASH_H
#define PEN_BASE_HASH_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * SHA-256, written as 64 lower-case hexadecimal digits and a NUL. The library
 * that computes it can fail (no memory, an algorithm that a policy forbids),
 * which is reported once, at the end.
 */
#define PEN_HASH_SIZE 65u

struct pen__digest;

struct pen_hash {
    struct pen__digest *digest;
    bool has_failed;
};

/* Begins a hash. End with pen_hash_finish() or pen_hash_release(). */
void pen_hash_init(struct pen_hash *hash);
void pen_hash_release(struct pen_hash *hash);

void pen_hash_add(struct pen_hash *hash, const void *bytes, size_t length);

/* Releases the hash in either case. */
pen_status pen_hash_finish(struct pen_hash *hash, char out[PEN_HASH_SIZE],
                           struct pen_text *why);

/* Computes the hash of these bytes. */
pen_status pen_hash_bytes(const void *bytes, size_t length,
                          char out[PEN_HASH_SIZE], struct pen_text *why);

/* A file as manifests have it. */
struct pen_file_facts {
    uint64_t num_bytes;
    char hash[PEN_HASH_SIZE];
};

/* Returns whether these are 64 digits as we write them, followed by a NUL. */
bool pen_hash_is_valid(const char *text);

#endif
