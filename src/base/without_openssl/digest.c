/* SHA-256 in plain C, after FIPS 180-4; its names are those of the standard. */
#include "base/digest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 64u
#define LENGTH_AT 56u /* place of the total length in the last block */
#define ROUNDS 64u

struct pen__digest {
    uint32_t h[8];
    uint64_t num_bytes;
    unsigned char block[BLOCK_BYTES]; /* what is not yet mixed in */
};

/* Section 4.2.2: cube roots of the first 64 primes. */
static const uint32_t k[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t read_word(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

/* Section 6.2.2, step 1. */
static void expand(const unsigned char *block, uint32_t w[ROUNDS])
{
    for (unsigned t = 0; t < 16; t++)
        w[t] = read_word(block + 4 * (size_t)t);
    for (unsigned t = 16; t < ROUNDS; t++) {
        uint32_t a = w[t - 15];
        uint32_t b = w[t - 2];
        w[t] = (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10) + w[t - 7] +
               (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[t - 16];
    }
}

/*
 * Section 6.2.2, step 3. v has a to h of the standard, at a place that moves
 * down by one each round: a of round t is v[-t mod 8].
 */
static void mix_round(uint32_t v[8], unsigned t, uint32_t added)
{
    uint32_t a = v[(0 - t) % 8];
    uint32_t b = v[(1 - t) % 8];
    uint32_t c = v[(2 - t) % 8];
    uint32_t e = v[(4 - t) % 8];
    uint32_t f = v[(5 - t) % 8];
    uint32_t g = v[(6 - t) % 8];
    uint32_t t1 = v[(7 - t) % 8] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
                  ((e & f) ^ (~e & g)) + added;
    v[(3 - t) % 8] += t1;
    v[(7 - t) % 8] = t1 + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
                     ((a & b) ^ (a & c) ^ (b & c));
}

/* Section 6.2.2, steps 2 to 4; eight rounds bring all back to their places. */
static void mix(uint32_t h[8], const unsigned char *block)
{
    uint32_t w[ROUNDS];
    uint32_t v[8];
    expand(block, w);
    memcpy(v, h, sizeof v);
    for (unsigned t = 0; t < ROUNDS; t += 8) {
        mix_round(v, 0, k[t] + w[t]);
        mix_round(v, 1, k[t + 1] + w[t + 1]);
        mix_round(v, 2, k[t + 2] + w[t + 2]);
        mix_round(v, 3, k[t + 3] + w[t + 3]);
        mix_round(v, 4, k[t + 4] + w[t + 4]);
        mix_round(v, 5, k[t + 5] + w[t + 5]);
        mix_round(v, 6, k[t + 6] + w[t + 6]);
        mix_round(v, 7, k[t + 7] + w[t + 7]);
    }
    for (unsigned i = 0; i < 8; i++)
        h[i] += v[i];
}

struct pen__digest *pen__digest_create(void)
{
    /* Section 5.3.3: square roots of the first 8 primes. */
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                      0xa54ff53a, 0x510e527f, 0x9b05688c,
                                      0x1f83d9ab, 0x5be0cd19};
    struct pen__digest *digest = calloc(1, sizeof *digest);
    if (digest != NULL)
        memcpy(digest->h, first, sizeof first);
    return digest;
}

void pen__digest_free(struct pen__digest *digest)
{
    free(digest);
}

bool pen__digest_add(struct pen__digest *digest, const void *bytes,
                     size_t length)
{
    const unsigned char *at = bytes;
    size_t filled = digest->num_bytes % BLOCK_BYTES;
    digest->num_bytes += length;
    while (filled + length >= BLOCK_BYTES) {
        size_t taken = BLOCK_BYTES - filled;
        if (filled > 0)
            memcpy(digest->block + filled, at, taken);
        mix(digest->h, filled > 0 ? digest->block : at);
        at += taken;
        length -= taken;
        filled = 0;
    }
    if (length > 0)
        memcpy(digest->block + filled, at, length);
    return true;
}

/* Section 5.1.1: a one, zeros, and the number of bits. */
bool pen__digest_finish(struct pen__digest *digest,
                        unsigned char out[PEN__DIGEST_BYTES])
{
    static const unsigned char one = 0x80;
    static const unsigned char zero = 0;
    unsigned char length[BLOCK_BYTES - LENGTH_AT];
    for (unsigned i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)(digest->num_bytes * 8 >> (56 - 8 * i));
    pen__digest_add(digest, &one, 1);
    while (digest->num_bytes % BLOCK_BYTES != LENGTH_AT)
        pen__digest_add(digest, &zero, 1);
    pen__digest_add(digest, length, sizeof length);
    for (unsigned i = 0; i < PEN__DIGEST_BYTES; i++)
        out[i] = (unsigned char)(digest->h[i / 4] >> (24 - 8 * (i % 4)));
    return true;
}
