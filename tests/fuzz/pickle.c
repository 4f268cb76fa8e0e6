/* A pickle that is accepted is data without cycles; a refusal has a reason. */
#include "calls/pickle.h"
#include "base/bug.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A value that holds itself would never end; shared ones are looked at as
 * often as they are shared, up to a limit. */
static void look_at(const json_t *value, unsigned depth, size_t *left)
{
    const char *key;
    json_t *item;
    size_t i;
    PEN_BUG_UNLESS(depth <= 1000);
    if (*left == 0)
        return;
    (*left)--;
    json_array_foreach((json_t *)value, i, item) look_at(item, depth + 1, left);
    json_object_foreach((json_t *)value, key, item)
        look_at(item, depth + 1, left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    json_t *value = NULL;
    size_t left = 10000;
    if (pen__pickle_read((const char *)data, size, &value, &why) == PEN_OK)
        look_at(value, 0, &left);
    else
        PEN_BUG_UNLESS(why.length > 0 && value == NULL);
    json_decref(value);
    pen_text_release(&why);
    return 0;
}
