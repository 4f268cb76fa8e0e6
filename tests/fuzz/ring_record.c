/* Whatever is accepted as a record of a ring prints as the same one. */
#include "base/bug.h"
#include "ring/stores/stores.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_ring_record first, second;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    uint64_t revision = 0, again = 0;
    if (pen_ring_record_parse((const char *)data, size, &first, &revision,
                              &why) == PEN_OK) {
        PEN_BUG_UNLESS(pen_ring_record_print(&first, revision, &text) ==
                       PEN_OK);
        PEN_BUG_UNLESS(pen_ring_record_parse(pen_text_string(&text),
                                             text.length, &second, &again,
                                             NULL) == PEN_OK);
        PEN_BUG_UNLESS(revision == again &&
                       memcmp(&first, &second, sizeof first) == 0);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&text);
    pen_text_release(&why);
    return 0;
}
