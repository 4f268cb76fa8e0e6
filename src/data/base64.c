#include "data/base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789+/";

pen_status pen__base64_decode(const char *text, struct pen_text *out,
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
