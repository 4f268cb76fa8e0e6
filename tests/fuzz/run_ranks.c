/* Whatever is accepted as ranks.json is in its bounds and prints as the same.
 */
#include "core/run_ranks.h"
#include "base/bug.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct pen_run_ranks *ranks)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_run_ranks *again = NULL;
    PEN_BUG_UNLESS(ranks->count > 0 && ranks->count <= PEN_RUN_MAX_RANKS);
    for (uint32_t i = 0; i < ranks->count; i++) {
        const struct pen_run_rank *rank = &ranks->ranks[i];
        PEN_BUG_UNLESS(rank->peak_bytes > 0 && rank->predicted_bytes > 0);
        PEN_BUG_UNLESS(rank->peak_bytes <= PEN_RUN_MAX_BYTES);
        PEN_BUG_UNLESS(rank->predicted_bytes <= PEN_RUN_MAX_BYTES);
    }
    pen_run_ranks_print(ranks, &text);
    PEN_BUG_UNLESS(pen_run_ranks_parse(text.bytes, text.length, &again, NULL) ==
                   PEN_OK);
    PEN_BUG_UNLESS(again->count == ranks->count);
    PEN_BUG_UNLESS(memcmp(again->ranks, ranks->ranks,
                          ranks->count * sizeof *ranks->ranks) == 0);
    pen_run_ranks_free(again);
    pen_text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_run_ranks *ranks = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_ranks_parse((const char *)data, size, &ranks, &why) == PEN_OK)
        check(ranks);
    else
        PEN_BUG_UNLESS(why.length > 0 && ranks == NULL);
    pen_run_ranks_free(ranks);
    pen_text_release(&why);
    return 0;
}
