/*
 * Two ways to the same remainder. Bit by bit, four at a time, with a table; and
 * with the processor's instruction, where it has one:
 *
 *   | 4096 bytes | 4096 bytes | 4096 bytes |
 *     first        second       third        three remainders at a time
 *
 * The instruction takes three cycles but begins anew in each, so three blocks
 * are as fast as one. A remainder moves over n bytes that follow it by a
 * multiplication with x^(8n), modulo the polynomial.
 */
#include "base/crc32c.h"

#include <string.h>
#if defined __x86_64__ && !defined PEN_WITHOUT_CPU_MODEL
#include <immintrin.h>
#endif

#define POLYNOMIAL 0x82f63b78u /* reversed: the highest power is bit 0 */

/*
 * The effect of four bits on the remainder: row i is i shifted out bit by bit,
 * where each set bit adds the reversed polynomial.
 */
static const uint32_t table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
    0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t with_table(uint32_t crc, const unsigned char *at, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        crc ^= at[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return crc;
}

uint32_t pen_crc32c_portable(const void *bytes, size_t length)
{
    return ~with_table(UINT32_MAX, bytes, length);
}

#if defined __x86_64__ && !defined PEN_WITHOUT_CPU_MODEL

enum { BLOCK = 4096 };

#define OVER_ONE_BLOCK 0x35d73a62u  /* x^(8 * 4096) modulo the polynomial */
#define OVER_TWO_BLOCKS 0x28461564u /* x^(16 * 4096) */

/* Multiplies two remainders; the highest bit is the lowest power. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        product ^= (a & bit) != 0 ? b : 0;
        b = (b >> 1) ^ ((b & 1) != 0 ? POLYNOMIAL : 0);
    }
    return product;
}

static uint64_t eight_at(const unsigned char *at)
{
    uint64_t eight;
    memcpy(&eight, at, sizeof eight);
    return eight;
}

__attribute__((target("sse4.2,crc32"))) static uint32_t
with_instruction(uint32_t crc, const unsigned char *at, size_t length)
{
    for (; length >= (size_t)3 * BLOCK; length -= (size_t)3 * BLOCK) {
        uint64_t first = crc, second = 0, third = 0;
        for (size_t i = 0; i < BLOCK; i += 8) {
            first = _mm_crc32_u64(first, eight_at(at + i));
            second = _mm_crc32_u64(second, eight_at(at + BLOCK + i));
            third = _mm_crc32_u64(third, eight_at(at + (size_t)2 * BLOCK + i));
        }
        crc = multiply(OVER_TWO_BLOCKS, (uint32_t)first) ^
              multiply(OVER_ONE_BLOCK, (uint32_t)second) ^ (uint32_t)third;
        at += (size_t)3 * BLOCK;
    }
    uint64_t rest = crc;
    for (; length >= 8; length -= 8, at += 8)
        rest = _mm_crc32_u64(rest, eight_at(at));
    crc = (uint32_t)rest;
    for (; length > 0; length--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}

uint32_t pen_crc32c_more(uint32_t before, const void *bytes, size_t length)
{
    return __builtin_cpu_supports("sse4.2")
               ? ~with_instruction(~before, bytes, length)
               : ~with_table(~before, bytes, length);
}

/*
 * Copies blocks of 64 bytes past the caches, to a multiple of 16; returns the
 * bytes left.
 */
static size_t stream(unsigned char *to, const unsigned char *from,
                     size_t length)
{
    size_t done = 0;
    for (; done + 64 <= length; done += 64)
        for (size_t i = 0; i < 64; i += 16)
            _mm_stream_si128(
                (__m128i *)(void *)(to + done + i),
                _mm_loadu_si128(
                    (const __m128i *)(const void *)(from + done + i)));
    return length - done;
}

static void copy(unsigned char *to, const unsigned char *from, size_t length)
{
    size_t head = (16 - (uintptr_t)to % 16) % 16;
    head = head < length ? head : length;
    memcpy(to, from, head);
    size_t left = stream(to + head, from + head, length - head);
    memcpy(to + length - left, from + length - left, left);
}

/* Stores that went past the caches are before those that follow. */
static void order_copies(void)
{
    _mm_sfence();
}

#else

uint32_t pen_crc32c_more(uint32_t before, const void *bytes, size_t length)
{
    return ~with_table(~before, bytes, length);
}

static void copy(unsigned char *to, const unsigned char *from, size_t length)
{
    memcpy(to, from, length);
}

static void order_copies(void)
{
}

#endif

uint32_t pen_crc32c(const void *bytes, size_t length)
{
    return pen_crc32c_more(0, bytes, length);
}

uint32_t pen_crc32c_copy(uint32_t before, void *to, const void *from,
                         size_t length)
{
    enum { PIECE = 3 * 4096 }; /* stays in the first cache */
    unsigned char *out = to;
    const unsigned char *in = from;
    for (size_t done = 0; done < length; done += PIECE) {
        size_t count = length - done < PIECE ? length - done : PIECE;
        before = pen_crc32c_more(before, in + done, count);
        copy(out + done, in + done, count);
    }
    order_copies();
    return before;
}
