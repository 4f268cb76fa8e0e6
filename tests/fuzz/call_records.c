/*
 * Records of two ranks, with a NUL between them: read, paired and judged
 * without a crash, and every fault has words.
 */
#include "base/bug.h"
#include "calls/faults.h"
#include "calls/reader.h"
#include "calls/waits.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rank(const struct pen_call_rank *rank)
{
    PEN_BUG_UNLESS(rank->rank < PEN_CALLS_MOST_RANKS);
    for (size_t i = 0; i < rank->count; i++) {
        const struct pen_call *call = &rank->calls[i];
        PEN_BUG_UNLESS(call->group < rank->num_groups);
        PEN_BUG_UNLESS(call->op < PEN_CALL_OPS);
        PEN_BUG_UNLESS(call->site < rank->texts.length + 1);
        PEN_BUG_UNLESS(strlen(call->data.dtype) < sizeof call->data.dtype);
    }
}

static void judge(struct pen_calls *calls)
{
    struct pen_meetings meetings = {.calls = NULL};
    struct pen_call_faults faults = {.list = NULL};
    struct pen_call_waits waits = {.ranks = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    PEN_BUG_UNLESS(pen_meetings_init(calls, &meetings, &why) == PEN_OK);
    PEN_BUG_UNLESS(pen_calls_align(calls, &meetings, &why) == PEN_OK);
    PEN_BUG_UNLESS(pen_call_faults_find(&meetings, &faults, &why) == PEN_OK);
    PEN_BUG_UNLESS(pen_call_waits_init(&meetings, &waits, &why) == PEN_OK);
    for (size_t i = 0; i < faults.count; i++) {
        pen_text_clear(&why);
        pen_call_fault_add_words(&meetings, &faults.list[i], &why);
        PEN_BUG_UNLESS(why.length > 0);
    }
    PEN_BUG_UNLESS(waits.total_sec >= 0 && waits.span_sec >= 0);
    pen_call_waits_release(&waits);
    pen_call_faults_release(&faults);
    pen_meetings_release(&meetings);
    pen_text_release(&why);
}

static void add_rank(const char *path, const uint8_t *data, size_t size,
                     struct pen_calls *calls)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    uint32_t world = 0;
    struct pen_call_rank *rank = &calls->ranks[calls->num_ranks];
    if (pen_call_rank_parse(path, (const char *)data, size, rank, &world,
                            &why) == PEN_OK) {
        check_rank(rank);
        calls->num_ranks++;
        calls->world = world > calls->world ? world : calls->world;
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    const uint8_t *split = memchr(data, '\0', size);
    size_t first = split == NULL ? size : (size_t)(split - data);
    struct pen_calls calls = {.ranks = calloc(2, sizeof *calls.ranks)};
    add_rank("rank_0", data, first, &calls);
    if (split != NULL)
        add_rank("rank_1", split + 1, size - first - 1, &calls);
    if (calls.num_ranks > 0 && pen__calls_join(&calls, &why) == PEN_OK)
        judge(&calls);
    pen_calls_release(&calls);
    pen_text_release(&why);
    return 0;
}
