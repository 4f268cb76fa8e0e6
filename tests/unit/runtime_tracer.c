/*
 * What is recorded is in the folder, with the schedule and the costs beside
 * it; what finds no room is counted.
 */
#include "support/folder.h"
#include "support/support.h"

#include "core/trace.h"
#include "runtime/tracer.h"

#include <string.h>
#include <unistd.h>

static struct pen_tracer *create(const struct pen_tracer_settings *settings)
{
    struct pen_tracer *tracer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_tracer_create(settings, &tracer, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return tracer;
}

static struct pen_tracer_settings settings_of(uint32_t rank)
{
    return (struct pen_tracer_settings){.folder = folder,
                                        .rank = rank,
                                        .num_ranks = 2,
                                        .row = rank,
                                        .num_ops = 4,
                                        .capacity = 3};
}

static void record(struct pen_tracer *tracer, uint32_t step, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct pen_trace_event event = {step,       i,          10 * i,
                                        10 * i + 1, 10 * i + 9, i};
        pen_tracer_record(tracer, &event);
    }
}

static void flush(struct pen_tracer *tracer)
{
    assert_int_equal(PEN_OK, pen_tracer_flush(tracer, NULL));
}

static struct pen_trace *load(void)
{
    struct pen_trace *trace = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_trace_load(folder, &trace, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return trace;
}

static void every_event_is_in_the_folder_or_counted(void **state)
{
    (void)state;
    struct pen_tracer_settings settings[] = {settings_of(0), settings_of(1)};
    struct pen_tracer *tracers[] = {create(&settings[0]), create(&settings[1])};
    record(tracers[0], 0, 3);
    flush(tracers[0]);
    record(tracers[0], 1, 2);
    flush(tracers[0]);
    record(tracers[1], 0, 4);
    pen_tracer_set_clock_offset(tracers[1], -12345);
    flush(tracers[1]);

    struct pen_trace *trace = load();
    assert_int_equal(5, trace->ranks[0].head.num_events);
    assert_int_equal(0, trace->ranks[0].head.num_lost);
    assert_int_equal(1, trace->ranks[0].events[4].step);
    assert_int_equal(1, trace->ranks[0].events[4].position);
    assert_int_equal(19, trace->ranks[0].events[4].end_ns);
    assert_int_equal(3, trace->ranks[1].head.num_events);
    assert_int_equal(1, trace->ranks[1].head.num_lost);
    assert_int_equal(-12345, trace->ranks[1].head.clock_offset_ns);
    assert_int_equal(1, trace->ranks[1].head.row);
    char host[PEN_TRACE_HOST_SIZE] = {0};
    assert_int_equal(0, gethostname(host, sizeof host - 1));
    assert_string_equal(host, trace->ranks[1].head.host);
    pen_trace_free(trace);
    pen_tracer_free(tracers[0]);
    pen_tracer_free(tracers[1]);
}

static void the_plan_lies_beside_the_events(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 2, 2, 0);
    struct pen_costs costs = unit_costs();
    struct pen_tracer_settings settings = settings_of(0);
    settings.schedule = schedule;
    settings.costs = &costs;
    costs.latency_sec = 0.125;
    pen_tracer_free(create(&settings));

    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_schedule *found = NULL;
    struct pen_costs read = unit_costs();
    pen_text_add(&path, "%s/schedule.pen", folder);
    assert_int_equal(PEN_OK,
                     pen_schedule_load(pen_text_string(&path), &found, NULL));
    assert_true(pen_schedule_equal(schedule, found));
    pen_text_clear(&path);
    pen_text_add(&path, "%s/costs.json", folder);
    assert_int_equal(PEN_OK,
                     pen_costs_read(pen_text_string(&path), &read, NULL));
    assert_true(read.latency_sec == 0.125);

    settings.costs = NULL;
    pen_tracer_free(create(&settings));
    assert_int_equal(-1, access(pen_text_string(&path), F_OK));
    pen_costs_release(&read);
    pen_schedule_free(found);
    pen_schedule_free(schedule);
    pen_text_release(&path);
}

static void a_folder_that_cannot_be_made_is_refused(void **state)
{
    (void)state;
    struct pen_tracer_settings settings = settings_of(0);
    struct pen_tracer *tracer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    settings.folder = "/nowhere/trace";
    assert_int_equal(PEN_IO, pen_tracer_create(&settings, &tracer, &why));
    assert_string_equal("cannot make /nowhere/trace: No such file or directory",
                        pen_text_string(&why));
    assert_null(tracer);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_is_in_the_folder_or_counted),
        cmocka_unit_test(the_plan_lies_beside_the_events),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
