#include "base/hash.h"

#include "base/digest.h"

#include <string.h>

void pen_hash_init(struct pen_hash *hash)
{
    *hash = (struct pen_hash){.digest = pen__digest_create()};
    hash->has_failed = hash->digest == NULL;
}

void pen_hash_release(struct pen_hash *hash)
{
    pen__digest_free(hash->digest);
    *hash = (struct pen_hash){.digest = NULL};
}

void pen_hash_add(struct pen_hash *hash, const void *bytes, size_t length)
{
    if (!hash->has_failed)
        hash->has_failed = !pen__digest_add(hash->digest, bytes, length);
}

pen_status pen_hash_finish(struct pen_hash *hash, char out[PEN_HASH_SIZE],
                           struct pen_text *why)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[PEN__DIGEST_BYTES];
    bool has_failed =
        hash->has_failed || !pen__digest_finish(hash->digest, bytes);
    pen_hash_release(hash);
    if (has_failed) {
        pen_why(why, "cannot compute SHA-256 on this machine");
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < PEN__DIGEST_BYTES; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[PEN_HASH_SIZE - 1] = '\0';
    return PEN_OK;
}

pen_status pen_hash_bytes(const void *bytes, size_t length,
                          char out[PEN_HASH_SIZE], struct pen_text *why)
{
    struct pen_hash hash;
    pen_hash_init(&hash);
    pen_hash_add(&hash, bytes, length);
    return pen_hash_finish(&hash, out, why);
}

bool pen_hash_is_valid(const char *text)
{
    return strspn(text, "0123456789abcdef") == PEN_HASH_SIZE - 1 &&
           text[PEN_HASH_SIZE - 1] == '\0';
}
