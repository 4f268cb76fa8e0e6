#include "base/crc32c.h"

/*
 * What four bits do to the remainder: row i is i shifted out bit by bit, each
 * bit that is set taking the reversed polynomial 0x82f63b78 with it. Records
 * have some hundred bytes, so a larger table would not show.
 */
static const uint32_t table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
    0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t pen_crc32c(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc ^= at[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}
