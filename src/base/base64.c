#include "base/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789+/";

void pen_base64_encode(const void *bytes, size_t length, struct pen_text *out)
{
    const unsigned char *from = bytes;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i < 3 ? length - i : 3;
        uint32_t held = (uint32_t)from[i] << 16;
        if (left > 1)
            held |= (uint32_t)from[i + 1] << 8;
        if (left > 2)
            held |= from[i + 2];
        char word[4];
        for (size_t k = 0; k < 4; k++)
            word[k] = k <= left ? letters[held >> (18 - 6 * k) & 63] : '=';
        pen_text_add_bytes(out, word, sizeof word);
    }
}

pen_status pen_base64_decode(const char *text, struct pen_text *out,
                             struct pen_text *why)
{
    uint32_t held = 0;
    unsigned num_bits = 0;
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '=')
        length--;
    for (size_t i = 0; i < length; i++) {
        const char *found = strchr(letters, text[i]);
        if (found == NULL || text[i] == '\0') {
            pen_why(why, "character %zu is not base64", i);
            return PEN_INVALID;
        }
        held = held << 6 | (uint32_t)(found - letters);
        num_bits += 6;
        if (num_bits >= 8) {
            num_bits -= 8;
            char byte = (char)(held >> num_bits);
            pen_text_add_bytes(out, &byte, 1);
        }
    }
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}
