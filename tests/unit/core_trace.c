/*
 * A trace reads back event for event, also when its writer was killed, and
 * files that are not such traces are refused by what is wrong.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "core/trace.h"

#include <string.h>

static struct pen_trace_event events[2][3] = {
    {{0, 0, 100, 100, 250, 0}, {0, 2, 250, 300, 400, 7}, {1, 0, 1, 2, 3, 0}},
    {{0, 1, 0, 0, 0, 0},
     {5, 0, 4, 4, PEN_TRACE_MAX_NS, UINT64_MAX},
     {UINT32_MAX, 2, 1, 1, 2, 0}}};

static struct pen_rank_trace rank_trace(uint32_t rank)
{
    struct pen_rank_trace trace = {pen_trace_head_make(), events[rank]};
    trace.head.rank = rank;
    trace.head.num_ranks = 2;
    trace.head.row = rank;
    trace.head.num_ops = 3;
    trace.head.num_events = 3;
    trace.head.num_lost = 9;
    trace.head.clock_offset_ns = -17 * (int64_t)rank;
    strcpy(trace.head.host, rank == 0 ? "one" : "other");
    return trace;
}

static void what_is_saved_reads_back_the_same(void **state)
{
    (void)state;
    struct pen_rank_trace ranks[] = {rank_trace(0), rank_trace(1)};
    const struct pen_trace trace = {ranks, 2};
    struct pen_trace *found = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_trace_save(&trace, folder, &why));
    assert_int_equal(PEN_OK, pen_trace_load(folder, &found, &why));
    assert_int_equal(2, found->num_ranks);
    for (uint32_t i = 0; i < 2; i++) {
        assert_memory_equal(&ranks[i].head, &found->ranks[i].head,
                            sizeof ranks[i].head);
        assert_memory_equal(events[i], found->ranks[i].events,
                            sizeof events[i]);
    }
    pen_trace_free(found);
    pen_text_release(&why);
}

struct file {
    struct pen_trace_head head;
    struct pen_trace_event events[3];
};

static struct file file_of(uint32_t rank)
{
    struct file file = {.head = rank_trace(rank).head};
    memcpy(file.events, events[rank], sizeof file.events);
    return file;
}

static void events_that_were_not_counted_are_left_out(void **state)
{
    (void)state;
    struct file file = file_of(0);
    struct pen_rank_trace trace = {.events = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    file.head.num_events = 1;
    assert_int_equal(
        PEN_OK, pen_rank_trace_parse(&file, sizeof file - 11, &trace, &why));
    assert_int_equal(1, trace.head.num_events);
    assert_memory_equal(events[0], trace.events, sizeof events[0][0]);
    pen_rank_trace_release(&trace);
    pen_text_release(&why);
}

static void expect_refusal(const struct file *file, size_t length,
                           const char *expected)
{
    struct pen_rank_trace trace = {.events = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_rank_trace_parse(file, length, &trace, &why));
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(trace.events);
    pen_text_release(&why);
}

static void wrong_heads_are_refused(void **state)
{
    (void)state;
    struct file file = file_of(0);
    expect_refusal(&file, 0,
                   "not a trace: it has 0 bytes, fewer than its header of 128");
    expect_refusal(
        &file, 127,
        "not a trace: it has 127 bytes, fewer than its header of 128");
    expect_refusal(&file, sizeof file - 1,
                   "it must have 3 events but ends after 2");
    file.head.magic[7] = 'e';
    expect_refusal(&file, sizeof file,
                   "not a trace: it does not begin with PENTRACE");
    file = file_of(0);
    file.head.version = 2;
    expect_refusal(&file, sizeof file, "not a trace: its version is not 1");
    file = file_of(0);
    file.head.num_ranks = PEN_TRACE_MAX_RANKS + 1;
    expect_refusal(&file, sizeof file,
                   "not a trace: the number of ranks must be from 1 to "
                   "1048576");
    file = file_of(0);
    file.head.row = 2;
    expect_refusal(&file, sizeof file,
                   "not a trace: rank, replica and row must be below the "
                   "number of ranks");
    file = file_of(0);
    file.head.clock_offset_ns = INT64_MIN;
    expect_refusal(&file, sizeof file,
                   "not a trace: the clock offset must be within 1e18 ns");
    file = file_of(0);
    file.head.num_events = UINT64_MAX;
    expect_refusal(&file, sizeof file,
                   "not a trace: there are more than 16777216 events");
    file = file_of(0);
    memset(file.head.host, 'h', sizeof file.head.host);
    expect_refusal(&file, sizeof file,
                   "not a trace: the host name is not terminated");
}

static void wrong_events_are_refused(void **state)
{
    (void)state;
    static const char order[] = "event 1: begin, ready and end must follow "
                                "each other from 0 to 1e18 ns";
    struct file file = file_of(0);
    file.events[2].position = 3;
    expect_refusal(&file, sizeof file, "event 2: op 3 of a row of 3");
    file = file_of(0);
    file.events[1].begin_ns = file.events[1].ready_ns + 1;
    expect_refusal(&file, sizeof file, order);
    file = file_of(0);
    file.events[1].end_ns = file.events[1].ready_ns - 1;
    expect_refusal(&file, sizeof file, order);
    file = file_of(0);
    file.events[1].begin_ns = -1;
    expect_refusal(&file, sizeof file, order);
    file = file_of(0);
    file.events[1].end_ns = PEN_TRACE_MAX_NS + 1;
    expect_refusal(&file, sizeof file, order);
}

static void expect_folder_refused(pen_status expected, const char *words)
{
    struct pen_trace *trace = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(expected, pen_trace_load(folder, &trace, &why));
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("'%s' lacks '%s'", pen_text_string(&why), words);
    assert_null(trace);
    pen_text_release(&why);
}

static void save_as(const struct file *file, uint32_t rank)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_trace_path(folder, rank, &path);
    assert_int_equal(PEN_OK, pen_file_write(pen_text_string(&path), file,
                                            sizeof *file, NULL));
    pen_text_release(&path);
}

static void ranks_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    struct file first = file_of(0);
    struct file second = file_of(1);
    first.head.num_ranks = 3;
    save_as(&first, 0);
    save_as(&second, 1);
    expect_folder_refused(PEN_IO, "rank-00002.trace: No such file");
    first.head.num_ranks = 2;
    second.head.num_ranks = 3;
    save_as(&first, 0);
    save_as(&second, 1);
    expect_folder_refused(
        PEN_INVALID,
        "it belongs to a run of 3 ranks, but rank 0's to a run of 2");
    save_as(&first, 1);
    expect_folder_refused(PEN_INVALID,
                          "the trace of rank 1: it belongs to rank 0");
    second = file_of(1);
    second.events[0].position = 3;
    save_as(&second, 1);
    expect_folder_refused(PEN_INVALID,
                          "rank-00001.trace: event 0: op 3 of a row of 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_reads_back_the_same),
        cmocka_unit_test(events_that_were_not_counted_are_left_out),
        cmocka_unit_test(wrong_heads_are_refused),
        cmocka_unit_test(wrong_events_are_refused),
        cmocka_unit_test(ranks_that_do_not_go_together_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
