/* SHA-256 by OpenSSL, which uses the processor's instructions for it. */
#include "base/digest.h"

#include <openssl/evp.h>

/* Casts our type to OpenSSL's EVP_MD_CTX. */
static EVP_MD_CTX *context_of(struct pen__digest *digest)
{
    return (EVP_MD_CTX *)digest;
}

struct pen__digest *pen__digest_create(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1)
        return (struct pen__digest *)context;
    EVP_MD_CTX_free(context);
    return NULL;
}

void pen__digest_free(struct pen__digest *digest)
{
    EVP_MD_CTX_free(context_of(digest));
}

bool pen__digest_add(struct pen__digest *digest, const void *bytes,
                     size_t length)
{
    return EVP_DigestUpdate(context_of(digest), bytes, length) == 1;
}

bool pen__digest_finish(struct pen__digest *digest,
                        unsigned char out[PEN__DIGEST_BYTES])
{
    return EVP_DigestFinal_ex(context_of(digest), out, NULL) == 1;
}
