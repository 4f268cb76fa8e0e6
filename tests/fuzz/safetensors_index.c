/*
 * Whatever is accepted as the index of shards names files beside it, sorted,
 * each tensor once.
 */
#include "base/bug.h"
#include "core/weights.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_index(const struct pen_weight_index *index)
{
    for (size_t i = 0; i < index->num_places; i++) {
        const struct pen_weight_place *place = &index->places[i];
        PEN_BUG_UNLESS(strchr(place->file, '/') == NULL);
        PEN_BUG_UNLESS(place->file[0] != '.' && place->file[0] != '\0');
        if (i == 0)
            continue;
        int files = strcmp(place[-1].file, place->file);
        PEN_BUG_UNLESS(files < 0 || (files == 0 && strcmp(place[-1].tensor,
                                                          place->tensor) < 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_weight_index index;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_weight_index_parse((const char *)data, size, &index, &why) ==
        PEN_OK) {
        check_index(&index);
        pen_weight_index_release(&index);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
