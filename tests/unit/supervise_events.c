/* Last words of ranks become faults, faults become events. */
#include "support/support.h"

#include "supervise/events.h"
#include "supervise/leftovers.h"
#include "supervise/steps.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(struct pen_last_words *words, const char *text)
{
    pen_last_words_add(words, text, strlen(text));
}

static void a_death_is_read_from_the_words_of_another_rank(void **state)
{
    (void)state;
    struct pen_last_words words;
    pen_last_words_init(&words);
    add(&words, "noise\npenstock: rank 5 on node1 died (signal 9) at step 12 "
                "in 5F3 (forward of ");
    assert_false(words.is_told);
    add(&words, "stage 5, micro-batch 3); the job ends\n");
    assert_true(words.is_told);
    assert_int_equal(words.fault.cause, PEN_CAUSE_RANK_DIED);
    assert_int_equal(words.fault.rank, 5);
    assert_int_equal(words.fault.signal, 9);
    assert_int_equal(words.fault.exit_code, PEN_UNKNOWN);
    assert_int_equal(words.fault.step, 12);
    assert_string_equal(words.fault.op, "5F3");
    assert_string_equal(words.error, "");
}

static void a_hang_is_read_from_its_root(void **state)
{
    (void)state;
    struct pen_last_words words;
    pen_last_words_init(&words);
    add(&words, "penstock: warning: rank 6 on n has waited 1.6 s; root of the "
                "wait: rank 3 on n has been in 3F0 of step 19 for 1.6 s\n");
    assert_false(words.is_told);
    add(&words, "penstock: rank 6 on n has waited 1.6 s in 6RA2 of step 20 "
                "(receive) for rank 5, which waits in 5F2 for rank 4; root of "
                "the wait: rank 4 on n has been in 4F2 of step 20 for 1.6 s, "
                "state stopped (forward of stage 4, micro-batch 2)\n");
    assert_int_equal(words.fault.cause, PEN_CAUSE_HANG);
    assert_int_equal(words.fault.rank, 4);
    assert_int_equal(words.fault.step, 20);
    assert_string_equal(words.fault.op, "4F2");
}

static void the_last_lines_are_kept(void **state)
{
    (void)state;
    static struct pen_last_words words;
    char line[2000];
    pen_last_words_init(&words);
    for (int i = 0; i < 100; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        add(&words, line);
    }
    assert_int_equal(pen_last_words_count(&words), PEN_LAST_LINES - 1);
    assert_string_equal(pen_last_words_line(&words, 0), "line 85");
    assert_string_equal(pen_last_words_line(&words, PEN_LAST_LINES - 2),
                        "line 99");
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    add(&words, line);
    add(&words, "\n");
    assert_int_equal(strlen(pen_last_words_line(&words, PEN_LAST_LINES - 2)),
                     PEN_LAST_LINE_BYTES - 1);
}

static void an_event_has_what_is_known(void **state)
{
    (void)state;
    struct pen_text line = PEN_TEXT_EMPTY;
    struct pen_fault fault = PEN_FAULT_UNKNOWN;
    fault.cause = PEN_CAUSE_RANK_DIED;
    fault.rank = 2;
    fault.signal = 9;
    struct pen_event event = {.kind = PEN_EVENT_FAULT,
                              .time_sec = 1794968509.3744,
                              .epoch = 3,
                              .step = 11,
                              .fault = &fault,
                              .lost_sec = NAN,
                              .redone_steps = PEN_UNKNOWN,
                              .num_ranks = 4,
                              .from_ranks = PEN_UNKNOWN};
    pen_event_print(&event, &line);
    assert_string_equal(
        pen_text_string(&line),
        "{\"time\":1794968509.374,\"event\":\"fault\",\"epoch\":3,\"step\":11,"
        "\"rank\":2,\"cause\":\"rank-died\",\"signal\":9,\"ranks\":4}\n");
    assert_int_equal(pen_events_epoch(line.bytes, line.length), 3);
    pen_text_release(&line);
}

static void bytes_that_are_no_text_do_not_spoil_an_event(void **state)
{
    (void)state;
    struct pen_text line = PEN_TEXT_EMPTY;
    struct pen_last_words words;
    pen_last_words_init(&words);
    add(&words, "bad \xff\xfe byte\n");
    struct pen_event event = {.kind = PEN_EVENT_GIVING_UP,
                              .epoch = 1,
                              .step = PEN_UNKNOWN,
                              .lost_sec = NAN,
                              .redone_steps = PEN_UNKNOWN,
                              .num_ranks = PEN_UNKNOWN,
                              .from_ranks = PEN_UNKNOWN,
                              .evidence = &words};
    pen_event_print(&event, &line);
    json_t *read = json_loads(pen_text_string(&line), 0, NULL);
    assert_non_null(read);
    assert_int_equal(json_array_size(json_object_get(read, "lines")), 1);
    json_decref(read);
    pen_text_release(&line);
}

static void epochs_go_on_from_whole_lines(void **state)
{
    (void)state;
    static const char text[] = "{\"epoch\":4}\nnothing\n{\"epoch\":2}\n"
                               "{\"epoch\":9";
    assert_int_equal(pen_events_epoch(text, sizeof text - 1), 4);
    assert_int_equal(pen_events_epoch("", 0), 0);
}

static void the_folder_of_a_run_is_in_its_command(void **state)
{
    (void)state;
    char *spaced[] = {"mpirun", "train", "--save", "run", NULL};
    char *joined[] = {"train", "--save-interval", "3", "--save=a/b", NULL};
    char *none[] = {"train", "--save-interval", "3", "--save", NULL};
    assert_string_equal(pen_steps_find_folder(spaced), "run");
    assert_string_equal(pen_steps_find_folder(joined), "a/b");
    assert_null(pen_steps_find_folder(none));
}

static void shared_memory_of_mpi_alone_is_noted(void **state)
{
    (void)state;
    struct pen_leftovers leftovers = {PEN_TEXT_EMPTY};
    static const char maps[] =
        "7f00-7f01 rw-s 00 00:19 5 /dev/shm/vader_segment.vm.0.1.2\n"
        "7f01-7f02 rw-s 00 00:19 5 /dev/shm/vader_segment.vm.0.1.2\n"
        "7f02-7f03 rw-s 00 00:19 6 /dev/shm/corpus.bin\n"
        "7f03-7f04 rw-s 00 00:19 7 /dev/shm/sm_segment.x (deleted)\n"
        "7f04-7f05 rw-s 00 00:19 8 /dev/shm/mpich_a/b\n"
        "7f04-7f05 rw-s 00 00:19 8 /dev/shm/vader_segment.vm.0.1.0\n";
    pen_leftovers_read(&leftovers, maps);
    assert_string_equal(pen_text_string(&leftovers.names),
                        "vader_segment.vm.0.1.2\nvader_segment.vm.0.1.0\n");
    assert_true(pen_leftovers_is_kin(&leftovers, "vader_segment.vm.0.1.3"));
    assert_false(pen_leftovers_is_kin(&leftovers, "vader_segment.vm.0.11.3"));
    assert_false(pen_leftovers_is_kin(&leftovers, "own_segment.vm.0.1.3"));
    assert_false(pen_leftovers_is_kin(&leftovers, "open_mpi.0000"));
    assert_false(pen_leftovers_is_kin(&leftovers, "vader_segment"));
    pen_text_release(&leftovers.names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_is_read_from_the_words_of_another_rank),
        cmocka_unit_test(a_hang_is_read_from_its_root),
        cmocka_unit_test(the_last_lines_are_kept),
        cmocka_unit_test(an_event_has_what_is_known),
        cmocka_unit_test(bytes_that_are_no_text_do_not_spoil_an_event),
        cmocka_unit_test(epochs_go_on_from_whole_lines),
        cmocka_unit_test(the_folder_of_a_run_is_in_its_command),
        cmocka_unit_test(shared_memory_of_mpi_alone_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
