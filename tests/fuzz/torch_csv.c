/*
 * Whatever is accepted as PyTorch's schedule file is written as text that
 * gives the same schedule, before and after lowering.
 */
#include "schedule/torch_csv.h"
#include "base/bug.h"
#include "schedule/verify.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct pen_schedule *written,
                             const struct pen_schedule *expected)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *again = NULL;
    PEN_BUG_UNLESS(pen_torch_csv_print(written, &text, &why) == PEN_OK);
    PEN_BUG_UNLESS(pen_torch_csv_parse(text.bytes, text.length, &again, &why) ==
                   PEN_OK);
    PEN_BUG_UNLESS(pen_schedule_equal(expected, again));
    PEN_BUG_UNLESS(pen_torch_csv_class(again) != NULL);
    pen_schedule_free(again);
    pen_text_release(&text);
    pen_text_release(&why);
}

static void check_lowered(const struct pen_schedule *schedule)
{
    const struct pen_verify_options options = {.memory_limit = 0};
    struct pen_schedule *lowered = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_schedule_lower(schedule, &lowered, &why) == PEN_OK) {
        check_round_trip(lowered, schedule);
        if (pen_schedule_verify(lowered, &options, NULL, &why) != PEN_OK)
            PEN_BUG_UNLESS(why.length > 0);
        pen_schedule_free(lowered);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_torch_csv_parse((const char *)data, size, &schedule, &why) !=
        PEN_OK) {
        PEN_BUG_UNLESS(why.length > 0 && schedule == NULL);
    } else {
        check_round_trip(schedule, schedule);
        if (schedule->shape.num_stages <= 256 &&
            schedule->shape.num_microbatches <= 256)
            check_lowered(schedule);
    }
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return 0;
}
