/*
 * Events of a supervisor become faults with what each of them cost, and a line
 * that is none is refused by its place.
 */
#include "support/support.h"

#include "core/run_events.h"

#include <math.h>
#include <string.h>

static struct pen_run_events *events_of(const char *text)
{
    struct pen_run_events *events = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_events_parse(text, strlen(text), &events, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return events;
}

#define START "{\"time\":100,\"event\":\"start\",\"epoch\":1}\n"
#define DEATH                                                                  \
    "{\"time\":105.5,\"event\":\"fault\",\"epoch\":1,\"step\":11,\"rank\":3,"  \
    "\"cause\":\"rank-died\",\"signal\":9,\"failed_step\":12,\"op\":\"1F0\"}"  \
    "\n"
#define RESTART "{\"time\":106,\"event\":\"restart\",\"epoch\":2,\"step\":11}\n"
#define HANG                                                                   \
    "{\"time\":107,\"event\":\"fault\",\"epoch\":2,\"cause\":\"hang\"}\n"
#define RESUMED                                                                \
    "{\"time\":109,\"event\":\"resumed\",\"epoch\":3,\"step\":12,"             \
    "\"lost_sec\":3.5,\"redone_steps\":1}\n"
#define END "{\"time\":150,\"event\":\"end\",\"epoch\":3,\"cause\":\"done\"}\n"

static void a_calm_run_has_no_faults(void **state)
{
    (void)state;
    struct pen_run_events *events = events_of(START END);
    assert_int_equal(0, events->num_faults);
    assert_int_equal(0, events->num_restarts);
    assert_true(events->lost_sec == 0 && events->is_over);
    assert_true(events->begin_sec == 100 && events->end_sec == 150);
    pen_run_events_free(events);
}

static void faults_in_a_row_are_over_with_one_step(void **state)
{
    (void)state;
    struct pen_run_events *events =
        events_of(START DEATH RESTART HANG RESTART RESUMED DEATH);
    assert_int_equal(3, events->num_faults);
    assert_int_equal(2, events->num_restarts);
    assert_true(events->lost_sec == 3.5 && !events->is_over);
    const struct pen_run_fault *it = events->faults;
    assert_string_equal("rank-died", it[0].cause);
    assert_int_equal(3, it[0].rank);
    assert_int_equal(9, it[0].signal);
    assert_int_equal(11, it[0].step);
    assert_int_equal(12, it[0].failed_step);
    assert_int_equal(1, it[0].redone_steps);
    assert_true(it[0].lost_sec == 3.5 && it[0].time_sec == 105.5);
    assert_string_equal("hang", it[1].cause);
    assert_int_equal(-1, it[1].rank);
    assert_int_equal(-1, it[1].step);
    assert_true(it[1].lost_sec == 0 && it[1].redone_steps == 0);
    assert_true(isnan(it[2].lost_sec) && it[2].redone_steps == -1);
    pen_run_events_free(events);
}

/* More ranks end a launch without a fault. */
static void other_ranks_cost_time_too(void **state)
{
    (void)state;
    struct pen_run_events *events = events_of(
        START
        "{\"time\":105,\"event\":\"replan\",\"epoch\":2,\"ranks\":4,"
        "\"from_ranks\":2,\"cause\":\"more-slots\"}\n" RESTART RESUMED END);
    assert_int_equal(0, events->num_faults);
    assert_int_equal(1, events->num_restarts);
    assert_true(events->lost_sec == 3.5);
    pen_run_events_free(events);
}

static void what_is_new_or_not_whole_is_ignored(void **state)
{
    (void)state;
    struct pen_run_events *events = events_of(
        START "{\"time\":120,\"event\":\"dance\",\"epoch\":4,\"x\":[1]}\n"
              "{\"time\":130,\"eve");
    assert_int_equal(4, events->epoch);
    assert_true(events->end_sec == 120);
    pen_run_events_free(events);
}

static void bad_lines_are_refused_by_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why; /* a part of it */
    } cases[] = {
        {"", "there is no event"},
        {START "[]\n", "line 2, column 1: not an event"},
        {START "{\"time\":}\n", "line 2, column "},
        {"{\"event\":\"end\",\"epoch\":1}\n", "line 1, column 1: not an event"},
        {"{\"time\":-1,\"event\":\"end\",\"epoch\":1}\n", "not an event"},
        {"{\"time\":1,\"event\":\"end\",\"epoch\":1.5}\n", "not an event"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_run_events *events = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_INVALID, pen_run_events_parse(
                                          cases[i].text, strlen(cases[i].text),
                                          &events, &why));
        assert_null(events);
        if (strstr(pen_text_string(&why), cases[i].why) == NULL)
            fail_msg("case %zu: '%s' lacks '%s'", i, pen_text_string(&why),
                     cases[i].why);
        pen_text_release(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calm_run_has_no_faults),
        cmocka_unit_test(faults_in_a_row_are_over_with_one_step),
        cmocka_unit_test(other_ranks_cost_time_too),
        cmocka_unit_test(what_is_new_or_not_whole_is_ignored),
        cmocka_unit_test(bad_lines_are_refused_by_their_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
