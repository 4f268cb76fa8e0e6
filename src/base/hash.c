#include "base/hash.h"

#include <openssl/evp.h>
#include <string.h>

void pen_hash_init(struct pen_hash *hash)
{
    *hash = (struct pen_hash){.context = EVP_MD_CTX_new()};
    hash->has_failed =
        hash->context == NULL ||
        EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) != 1;
}

void pen_hash_release(struct pen_hash *hash)
{
    EVP_MD_CTX_free(hash->context);
    *hash = (struct pen_hash){.context = NULL};
}

void pen_hash_add(struct pen_hash *hash, const void *bytes, size_t length)
{
    if (!hash->has_failed)
        hash->has_failed = EVP_DigestUpdate(hash->context, bytes, length) != 1;
}

pen_status pen_hash_finish(struct pen_hash *hash, char out[PEN_HASH_SIZE],
                           struct pen_text *why)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    bool has_failed = hash->has_failed ||
                      EVP_DigestFinal_ex(hash->context, bytes, &length) != 1 ||
                      length != 32;
    pen_hash_release(hash);
    if (has_failed) {
        pen_why(why, "OpenSSL cannot compute SHA-256 on this machine");
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < length; i++) {
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
