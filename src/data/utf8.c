#include "data/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t pen__utf8_size(char first)
{
    uint8_t byte = (uint8_t)first;
    if (byte < 0x80)
        return 1;
    if (byte < 0xe0)
        return 2;
    return byte < 0xf0 ? 3 : 4;
}

static bool is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Returns the bytes of the character at text, 0 when it is malformed. */
static size_t check_one(const uint8_t *text, size_t left)
{
    if (text[0] < 0x80)
        return 1;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    size_t size = pen__utf8_size((char)text[0]);
    if (size > left)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if (!is_tail(text[i]))
            return 0;
    }
    bool is_overlong = (text[0] == 0xe0 && text[1] < 0xa0) ||
                       (text[0] == 0xf0 && text[1] < 0x90);
    bool is_beyond = (text[0] == 0xed && text[1] > 0x9f) ||
                     (text[0] == 0xf4 && text[1] > 0x8f);
    return is_overlong || is_beyond ? 0 : size;
}

size_t pen__utf8_check(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        if (length - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        size_t size = check_one((const uint8_t *)text + at, length - at);
        if (size == 0)
            return at;
        at += size;
    }
    return length;
}

uint32_t pen__utf8_read(const char *text, size_t *size)
{
    const uint8_t *bytes = (const uint8_t *)text;
    *size = pen__utf8_size(text[0]);
    switch (*size) {
    case 1:
        return bytes[0];
    case 2:
        return (bytes[0] & 0x1fu) << 6 | (bytes[1] & 0x3fu);
    case 3:
        return (bytes[0] & 0x0fu) << 12 | (bytes[1] & 0x3fu) << 6 |
               (bytes[2] & 0x3fu);
    default:
        return (bytes[0] & 0x07u) << 18 | (bytes[1] & 0x3fu) << 12 |
               (bytes[2] & 0x3fu) << 6 | (bytes[3] & 0x3fu);
    }
}

size_t pen__utf8_before(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

size_t pen__utf8_write(uint32_t character, char out[4])
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    size_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    out[0] = (char)(marks[size] | character);
    return size;
}

const char *pen__search(const char *text, size_t length, const char *pattern,
                        size_t size)
{
    const char *end = text + length;
    while ((size_t)(end - text) >= size) {
        text = memchr(text, pattern[0], (size_t)(end - text) - size + 1);
        if (text == NULL || memcmp(text, pattern, size) == 0)
            return text;
        text++;
    }
    return NULL;
}
