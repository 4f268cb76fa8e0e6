/* Whatever is accepted as a public key of a ring prints as the same line. */
#include "base/bug.h"
#include "ring/net/keys.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen__ring_peer peer;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text line = PEN_TEXT_EMPTY;
    if (pen__ring_public_parse(&peer, (const char *)data, size, &why) ==
        PEN_OK) {
        size_t length = size - (data[size - 1] == '\n');
        pen__ring_public_print(&peer, &line);
        PEN_BUG_UNLESS(line.length == length);
        PEN_BUG_UNLESS(memcmp(pen_text_string(&line), data, length) == 0);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&line);
    pen_text_release(&why);
    return 0;
}
