/*
 * Whatever is accepted as a message to a holder keeps its bounds, and is the
 * bytes that were sent.
 */
#include "base/bug.h"
#include "holder/message.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_holder_message message;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_holder_message_parse(data, size, &message, &why) == PEN_OK) {
        PEN_BUG_UNLESS(size == sizeof message);
        PEN_BUG_UNLESS(memcmp(data, &message, size) == 0);
        PEN_BUG_UNLESS(message.kind > PEN_HOLDER_NONE &&
                       message.kind < PEN_HOLDER_KINDS);
        PEN_BUG_UNLESS(message.num_ranks <= PEN_HOLDER_MAX_RANKS);
        PEN_BUG_UNLESS(message.rank < PEN_HOLDER_MAX_RANKS);
        PEN_BUG_UNLESS(strlen(message.run) < sizeof message.run);
        PEN_BUG_UNLESS(strlen(message.text) < sizeof message.text);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
