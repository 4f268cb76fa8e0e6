/*
 * Whatever is accepted as a frame of a ring is written as the same bytes, and
 * no shorter beginning of it is accepted.
 */
#include "base/bug.h"
#include "ring/net/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t again[PEN__WIRE_MOST];
    struct pen__frame frame;
    struct pen_text why = PEN_TEXT_EMPTY;
    size_t used = 0;
    pen_status status =
        pen__wire_decode(data, size, UINT32_MAX, &frame, &used, &why);
    if (status == PEN_OK) {
        PEN_BUG_UNLESS(used <= size);
        PEN_BUG_UNLESS(pen__wire_encode(&frame, again, sizeof again) == used);
        PEN_BUG_UNLESS(memcmp(again, data, used) == 0);
        PEN_BUG_UNLESS(pen__wire_decode(data, used - 1, UINT32_MAX, &frame,
                                        &used, &why) == PEN_BUSY);
    } else {
        PEN_BUG_UNLESS((status == PEN_INVALID) == (why.length > 0));
    }
    pen_text_release(&why);
    return 0;
}
