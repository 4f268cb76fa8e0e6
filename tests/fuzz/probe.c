/* Whatever is accepted as a probe is in its bounds and prints as the same, and
 * differs nowhere from itself. */
#include "base/bug.h"
#include "core/probe_diff.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(const struct pen_probe_record *record)
{
    const struct pen_tally_result *is = &record->is;
    PEN_BUG_UNLESS(record->step > 0 && record->pass < PEN_PROBE_PASSES);
    PEN_BUG_UNLESS(record->layer <= PEN_PROBE_MAX_LAYER);
    PEN_BUG_UNLESS(record->name[0] != '\0');
    PEN_BUG_UNLESS(is->count > 0 && is->nonfinite <= is->count);
    PEN_BUG_UNLESS(is->norm >= 0 && is->max >= 0 && isfinite(is->sum));
}

static void check_diff(const struct pen_probe *a, const struct pen_probe *b)
{
    struct pen_probe_diff diff;
    if (pen_probe_diff_init(&diff, a, b, 0, NULL) != PEN_OK)
        return; /* a record is there twice */
    PEN_BUG_UNLESS(diff.num_pairs == a->num_records);
    PEN_BUG_UNLESS(diff.num_identical == a->num_records);
    PEN_BUG_UNLESS(diff.first == diff.num_pairs);
    pen_probe_diff_release(&diff);
}

static void check(const struct pen_probe *probe)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_probe *again = NULL;
    pen_probe_print_head(&text);
    for (size_t i = 0; i < probe->num_records; i++) {
        check_record(&probe->records[i]);
        pen_probe_print(&probe->records[i], &text);
    }
    PEN_BUG_UNLESS(pen_probe_parse(text.bytes, text.length, &again, NULL) ==
                   PEN_OK);
    PEN_BUG_UNLESS(again->num_records == probe->num_records);
    check_diff(probe, again);
    pen_probe_free(again);
    pen_text_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_probe *probe = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_probe_parse((const char *)data, size, &probe, &why) == PEN_OK)
        check(probe);
    else
        PEN_BUG_UNLESS(why.length > 0 && probe == NULL);
    pen_probe_free(probe);
    pen_text_release(&why);
    return 0;
}
