/* The Perfetto trace says what the timer said: ops, busy time, memory. */
#include "view_item.h"

#include <jansson.h>
#include <math.h>

#define COMPUTE 1

/* Events of a trace that must parse; free with json_decref(*root). */
static json_t *events_of(const struct pen_picture_item *items, size_t count,
                         json_t **root)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    json_error_t error;
    assert_int_equal(PEN_OK, pen_perfetto_print(items, count, &text));
    *root = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES, &error);
    if (*root == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    pen_text_release(&text);
    return json_object_get(*root, "traceEvents");
}

static bool has_phase(const json_t *event, const char *phase)
{
    const char *found = json_string_value(json_object_get(event, "ph"));
    return strcmp(found, phase) == 0;
}

static double number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    if (!json_is_number(value))
        fail_msg("an event has no %s", key);
    return json_number_value(value);
}

static void expect_trace(const char *name, uint32_t ranks,
                         uint32_t microbatches, double latency_sec)
{
    struct pen_picture_item item =
        make_item(name, ranks, microbatches, latency_sec);
    json_t *root = NULL;
    json_t *events = events_of(&item, 1, &root);
    double busy_usec[16] = {0};
    double peak[16] = {0};
    double path_usec = 0;
    uint32_t slices = 0;
    size_t i = 0;
    json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        uint32_t rank = (uint32_t)number(event, "pid") - 1;
        assert_in_range(rank, 0, ranks);
        if (rank == ranks) { /* the critical path */
            if (has_phase(event, "X"))
                path_usec += number(event, "dur");
            continue;
        }
        if (has_phase(event, "X") && number(event, "tid") == COMPUTE) {
            busy_usec[rank] += number(event, "dur");
            slices++;
        }
        if (has_phase(event, "C")) {
            const json_t *args = json_object_get(event, "args");
            peak[rank] = fmax(peak[rank], number(args, "A"));
        }
    }
    assert_int_equal(count_compute(item.schedule), slices);
    if (latency_sec == 0)
        expect_close(item.timing->makespan_sec * 1e6, path_usec, "path");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct pen_rank_time *time = &item.timing->ranks[rank];
        expect_close(time->busy_sec * 1e6, busy_usec[rank], "busy");
        expect_close(time->peak, peak[rank], "peak");
    }
    json_decref(root);
    free_item(&item);
}

static void slices_sum_to_the_busy_time(void **state)
{
    (void)state;
    expect_trace("gpipe", 4, 8, 0);
    expect_trace("1f1b", 4, 8, 0.25);
    expect_trace("zb-h1", 8, 16, 0.1);
    expect_trace("dualpipe", 4, 8, 0);
    expect_trace("bpipe", 4, 8, 0);
    expect_trace("1f1b", 1, 3, 0);
}

/* Every message is one arrow: it starts once and ends once, later. */
static void arrows_join_sends_and_receives(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("interleaved", 4, 8, 0.5);
    json_t *root = NULL;
    json_t *events = events_of(&item, 1, &root);
    enum { MOST = 2 * 8 * 8 };
    double start_usec[MOST];
    double end_usec[MOST];
    for (int flow = 0; flow < MOST; flow++)
        start_usec[flow] = end_usec[flow] = -1;
    size_t i = 0;
    json_t *event = NULL;
    uint32_t sends = 0;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        sends += strncmp(name, "send", 4) == 0;
        bool is_start = has_phase(event, "s");
        if (!is_start && !has_phase(event, "f"))
            continue;
        double *at_usec = is_start ? start_usec : end_usec;
        size_t flow = (size_t)number(event, "id");
        assert_in_range(flow, 0, MOST - 1);
        assert_true(at_usec[flow] < 0);
        at_usec[flow] = number(event, "ts");
    }
    uint32_t arrows = 0;
    for (int flow = 0; flow < MOST; flow++) {
        assert_int_equal(start_usec[flow] < 0, end_usec[flow] < 0);
        if (start_usec[flow] >= 0 && end_usec[flow] <= start_usec[flow])
            fail_msg("arrow %d goes from %g to %g", flow, start_usec[flow],
                     end_usec[flow]);
        arrows += start_usec[flow] >= 0;
    }
    assert_int_equal(2 * 7 * 8, sends); /* 8 stages have 7 hops each way */
    assert_int_equal(sends, arrows);
    json_decref(root);
    free_item(&item);
}

/* Perfetto cannot show slices of one track that cross. */
static void slices_of_a_track_do_not_cross(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("zb-v", 4, 8, 0.3);
    json_t *root = NULL;
    json_t *events = events_of(&item, 1, &root);
    double end_usec[5][4] = {{0}}; /* per process and track */
    size_t i = 0;
    json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        if (!has_phase(event, "X"))
            continue;
        double *last =
            &end_usec[(int)number(event, "pid") - 1][(int)number(event, "tid")];
        double start = number(event, "ts");
        if (start < *last - 1e-3)
            fail_msg("a slice starts at %g before %g", start, *last);
        *last = start + number(event, "dur");
    }
    json_decref(root);
    free_item(&item);
}

static void processes_carry_the_label_of_their_schedule(void **state)
{
    (void)state;
    struct pen_picture_item items[] = {make_item("gpipe", 2, 2, 0),
                                       make_item("1f1b", 2, 2, 0)};
    items[1].label = STRANGE_LABEL;
    static const char *const expected[] = {
        "gpipe rank 0",
        "gpipe rank 1",
        "gpipe critical path",
        STRANGE_LABEL_CLEAN " rank 0",
        STRANGE_LABEL_CLEAN " rank 1",
        STRANGE_LABEL_CLEAN " critical path",
    };
    json_t *root = NULL;
    json_t *events = events_of(items, 2, &root);
    size_t i = 0;
    size_t found = 0;
    json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        if (strcmp(name, "process_name") != 0)
            continue;
        const json_t *args = json_object_get(event, "args");
        assert_in_range(found, 0, 5);
        assert_string_equal(expected[found++],
                            json_string_value(json_object_get(args, "name")));
    }
    assert_int_equal(6, found);
    json_decref(root);
    free_item(&items[0]);
    free_item(&items[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_sum_to_the_busy_time),
        cmocka_unit_test(arrows_join_sends_and_receives),
        cmocka_unit_test(slices_of_a_track_do_not_cross),
        cmocka_unit_test(processes_carry_the_label_of_their_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
