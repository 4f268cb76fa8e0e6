/* Whatever is accepted as factors is finite and of a method that is there. */
#include "base/bug.h"
#include "planner/replica_compare.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_replica_factors factors;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_replica_factors_parse((const char *)data, size, &factors, &why) ==
        PEN_OK) {
        PEN_BUG_UNLESS(factors.count <= PEN_REPLICA_MAX_FACTORS);
        for (size_t i = 0; i < factors.count; i++) {
            PEN_BUG_UNLESS(isfinite(factors.items[i].factor));
            PEN_BUG_UNLESS(factors.items[i].factor > 0);
            PEN_BUG_UNLESS(factors.items[i].name[0] != '\0');
        }
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
