/*
 * Whatever is accepted as a schedule is printed as text that gives the same
 * schedule, and can be lowered, verified and timed, or is refused with words.
 * The timer's short cut through the steady state must agree with the long way.
 */
#include "base/bug.h"
#include "schedule/time.h"
#include "schedule/verify.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed);

/* Larger ones are slow and teach nothing new. */
static bool is_small(const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    return shape->num_ranks <= 64 && shape->num_stages <= 256 &&
           shape->num_microbatches <= 256 && shape->num_slices <= 16;
}

static void check_text(const struct pen_schedule *schedule)
{
    struct pen_text once = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *again = NULL;
    pen_schedule_print(schedule, &once);
    PEN_BUG_UNLESS(pen_schedule_parse(once.bytes, once.length, &again, &why) ==
                   PEN_OK);
    PEN_BUG_UNLESS(pen_schedule_equal(schedule, again));
    pen_schedule_print(again, &twice);
    PEN_BUG_UNLESS(strcmp(once.bytes, twice.bytes) == 0);
    pen_schedule_free(again);
    pen_text_release(&once);
    pen_text_release(&twice);
    pen_text_release(&why);
}

/* Each op of the schedule stands where it is said to stand in the text. */
static void check_places(const char *text, size_t length,
                         const struct pen_schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        size_t before = 0;
        for (uint32_t i = 0; i <= row->count && i < 16; i++) {
            size_t at = pen_schedule_find_op(text, length, rank, i);
            PEN_BUG_UNLESS(at <= length && (i == 0 || at > before));
            const char *letter =
                i < row->count ? pen_op_info(row->ops[i].kind)->text : "";
            size_t digits = at;
            while (i < row->count && text[digits] >= '0' && text[digits] <= '9')
                digits++;
            PEN_BUG_UNLESS(length - digits >= strlen(letter) &&
                           memcmp(text + digits, letter, strlen(letter)) == 0);
            before = at;
        }
    }
}

static void count_mistake(void *context, const struct pen_finding *finding,
                          const char *words)
{
    PEN_BUG_UNLESS(finding->rule >= 1 && finding->rule <= PEN_VERIFY_RULES);
    PEN_BUG_UNLESS(words[0] != '\0');
    ++*(unsigned *)context;
}

/* One mistake is found exactly where all of them are. */
static void check_all_mistakes(const struct pen_schedule *schedule,
                               bool is_right)
{
    unsigned count = 0;
    pen_status status =
        pen_schedule_verify_all(schedule, NULL, count_mistake, &count, NULL);
    PEN_BUG_UNLESS(is_right == (status == PEN_OK));
    PEN_BUG_UNLESS(is_right == (count == 0));
}

/* Zero forwards make the steady state hard to see from the start of a rank. */
static struct pen_timing *time_of(const struct pen_schedule *schedule,
                                  double forward_sec,
                                  const struct pen_time_options *options)
{
    struct pen_costs costs;
    struct pen_timing *timing = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_costs_init(&costs);
    costs.uniform.forward_sec = forward_sec;
    costs.uniform.step_sec = 0.5;
    costs.latency_sec = 0.25;
    PEN_BUG_UNLESS(
        pen_schedule_time(schedule, &costs, options, &timing, &why) == PEN_OK);
    pen_text_release(&why);
    return timing;
}

static void check_same(const struct pen_timing *a, const struct pen_timing *b)
{
    PEN_BUG_UNLESS(a->makespan_sec == b->makespan_sec);
    PEN_BUG_UNLESS(a->span_sec == b->span_sec && a->bubble == b->bubble);
    for (uint32_t rank = 0; rank < a->num_ranks; rank++) {
        const struct pen_rank_time *x = &a->ranks[rank];
        const struct pen_rank_time *y = &b->ranks[rank];
        PEN_BUG_UNLESS(x->start_sec == y->start_sec);
        PEN_BUG_UNLESS(x->end_sec == y->end_sec);
        PEN_BUG_UNLESS(x->busy_sec == y->busy_sec);
        PEN_BUG_UNLESS(x->peak == y->peak);
        PEN_BUG_UNLESS(x->versions == y->versions);
    }
}

static void check_time(const struct pen_schedule *schedule, double forward_sec)
{
    const struct pen_time_options long_way = {.is_exhaustive = true};
    const struct pen_time_options with_ops = {.with_ops = true};
    struct pen_timing *expected = time_of(schedule, forward_sec, &long_way);
    struct pen_timing *usual = time_of(schedule, forward_sec, NULL);
    struct pen_timing *detailed = time_of(schedule, forward_sec, &with_ops);
    check_same(expected, usual);
    check_same(expected, detailed);
    pen_timing_free(expected);
    pen_timing_free(usual);
    pen_timing_free(detailed);
}

static void check_rules(const struct pen_schedule *schedule)
{
    const struct pen_verify_options options = {.memory_limit = 0};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_finding finding;
    pen_status status = pen_schedule_verify(schedule, &options, &finding, &why);
    check_all_mistakes(schedule, status == PEN_OK);
    if (status == PEN_OK) {
        check_time(schedule, 1);
        check_time(schedule, 0);
    } else {
        PEN_BUG_UNLESS(why.length > 0 && finding.rule >= 1 &&
                       finding.rule <= PEN_VERIFY_RULES);
    }
    pen_text_release(&why);
}

static void check_lowered(const struct pen_schedule *schedule)
{
    struct pen_schedule *lowered = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_schedule_lower(schedule, &lowered, &why) == PEN_OK) {
        check_text(lowered);
        check_rules(lowered);
        pen_schedule_free(lowered);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_schedule_parse((const char *)data, size, &schedule, &why) !=
        PEN_OK) {
        PEN_BUG_UNLESS(why.length > 0 && schedule == NULL);
    } else {
        check_text(schedule);
        if (is_small(schedule)) {
            check_places((const char *)data, size, schedule);
            check_rules(schedule);
            check_lowered(schedule);
        }
    }
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return 0;
}

struct word {
    size_t from;
    size_t to;
};

/* The word around this byte; empty when the byte is a space. */
static struct word word_at(const uint8_t *data, size_t size, size_t at)
{
    struct word word = {at, at};
    while (word.from > 0 && data[word.from - 1] > ' ')
        word.from--;
    while (word.to < size && data[word.to] > ' ')
        word.to++;
    return word;
}

/* Exchanges two words, the first before the second. */
static void swap_words(uint8_t *data, struct word a, struct word b)
{
    uint8_t copy[128];
    size_t size = b.to - a.from;
    if (a.to > b.from || size > sizeof copy)
        return;
    size_t first = a.to - a.from;
    size_t second = b.to - b.from;
    size_t between = b.from - a.to;
    memcpy(copy, data + b.from, second);
    memcpy(copy + second, data + a.to, between);
    memcpy(copy + second + between, data + a.from, first);
    memcpy(data + a.from, copy, size);
}

/*
 * Changed bytes seldom make another right schedule, ops in another order
 * often do: every second mutation exchanges two words that stand near.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                               unsigned int seed)
{
    if (seed % 2 == 0 || size < 2)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t at = (seed / 2) % size;
    struct word first = word_at(data, size, at);
    size_t distance = 1 + (seed / 2 / size) % 24;
    if (first.to + distance >= size)
        return LLVMFuzzerMutate(data, size, max_size);
    swap_words(data, first, word_at(data, size, first.to + distance));
    return size;
}
