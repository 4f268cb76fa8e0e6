/* A result that went through a file is the same; one that is cut off is not. */
#include "sim/run.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 2u
#define RANKS 4u
#define STEPS 3u

static void fill_trace(struct pen_sim_result *result)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        struct pen_rank_trace *trace = &result->trace->ranks[i];
        trace->head.num_events = i == 2 ? 0 : trace->head.num_ops * STEPS;
        for (uint32_t k = 0; k < trace->head.num_events; k++) {
            trace->events[k] =
                (struct pen_trace_event){.step = k / trace->head.num_ops,
                                         .position = k % trace->head.num_ops,
                                         .begin_ns = 100 * i + 10 * k,
                                         .ready_ns = 100 * i + 10 * k + 1,
                                         .end_ns = 100 * i + 10 * k + 5};
            result->waited_for[i][k] = k % 3 == 0 ? UINT32_MAX : k % RANKS;
        }
    }
}

/* Every field differs from every other and from zero. */
static void begin(struct pen_sim_result *result, bool with_trace)
{
    struct pen_schedule *schedule = make("1f1b", ROWS, 3, 0);
    struct pen_simulation simulation = {
        .schedule = schedule,
        .mesh = pen_mesh_of(PEN_MESH_PIPELINE_FIRST, ROWS, RANKS / ROWS),
        .num_steps = STEPS,
        .platform = {.num_ranks = RANKS},
        .with_trace = with_trace};
    assert_int_equal(PEN_OK, pen__result_init(result, &simulation));
    pen_schedule_free(schedule);
    for (uint32_t i = 0; i < STEPS; i++)
        result->step_sec[i] = 0.5 + i;
    for (uint32_t i = 0; i < RANKS; i++) {
        result->ranks[i] = (struct pen_rank_seconds){.busy_sec = 1.0 + i,
                                                     .pipeline_sec = 2.0 + i,
                                                     .sums_sec = 3.0 + i,
                                                     .all_sec = 4.0 + i,
                                                     .inside_sec = 6.0 + i,
                                                     .longest_for = i,
                                                     .longest_sec = 5.0 + i};
        result->waiting_for[i] = 40 + i;
    }
    strcpy(result->links[0].name, "rank-1.network");
    result->links[0].bytes = 6;
    result->links[0].utilisation = 0.7;
    result->num_links = 1;
    result->num_messages = 8;
    result->host_sec = 9;
    result->peak_bytes = 10;
    result->is_stuck = true;
    if (with_trace)
        fill_trace(result);
}

static void expect_same_trace(const struct pen_sim_result *expected,
                              const struct pen_sim_result *found)
{
    assert_int_equal(RANKS, found->trace->num_ranks);
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct pen_rank_trace *one = &expected->trace->ranks[i];
        const struct pen_rank_trace *other = &found->trace->ranks[i];
        size_t count = one->head.num_events;
        assert_memory_equal(&one->head, &other->head, sizeof one->head);
        if (count == 0)
            continue;
        assert_memory_equal(one->events, other->events,
                            count * sizeof *one->events);
        assert_memory_equal(expected->waited_for[i], found->waited_for[i],
                            count * sizeof *found->waited_for[i]);
    }
}

static void expect_same(const struct pen_sim_result *expected,
                        const struct pen_sim_result *found)
{
    assert_int_equal(STEPS, found->num_steps);
    assert_int_equal(RANKS, found->num_ranks);
    assert_memory_equal(expected->step_sec, found->step_sec,
                        STEPS * sizeof *found->step_sec);
    assert_memory_equal(expected->waiting_for, found->waiting_for,
                        RANKS * sizeof *found->waiting_for);
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct pen_rank_seconds *one = &expected->ranks[i];
        const struct pen_rank_seconds *other = &found->ranks[i];
        assert_true(one->busy_sec == other->busy_sec);
        assert_true(one->pipeline_sec == other->pipeline_sec);
        assert_true(one->inside_sec == other->inside_sec);
        assert_true(one->sums_sec == other->sums_sec);
        assert_true(one->all_sec == other->all_sec);
        assert_int_equal(one->longest_for, other->longest_for);
        assert_true(one->longest_sec == other->longest_sec);
    }
    assert_int_equal(1, found->num_links);
    assert_string_equal("rank-1.network", found->links[0].name);
    assert_true(found->links[0].bytes == 6);
    assert_true(found->links[0].utilisation == 0.7);
    assert_int_equal(8, found->num_messages);
    assert_true(found->host_sec == 9);
    assert_int_equal(10, found->peak_bytes);
    assert_true(found->is_stuck);
    assert_int_equal(expected->trace == NULL, found->trace == NULL);
    if (expected->trace != NULL)
        expect_same_trace(expected, found);
}

static void a_result_comes_back_as_it_was(void **state)
{
    (void)state;
    for (int with_trace = 0; with_trace < 2; with_trace++) {
        struct pen_sim_result result;
        struct pen_sim_result found;
        FILE *file = tmpfile();
        assert_non_null(file);
        begin(&result, with_trace);
        assert_true(pen__result_write(&result, file));
        rewind(file);
        assert_true(pen__result_read(&found, file));
        expect_same(&result, &found);
        fclose(file);
        pen_sim_result_release(&found);
        pen_sim_result_release(&result);
    }
}

/* Wherever: what was read until then can be released. */
static void what_is_cut_off_is_refused(void **state)
{
    (void)state;
    struct pen_sim_result result;
    char *bytes = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&bytes, &length);
    assert_non_null(file);
    begin(&result, true);
    assert_true(pen__result_write(&result, file));
    fclose(file);
    for (size_t rest = 1; rest < length; rest++) {
        struct pen_sim_result found;
        FILE *from = fmemopen(bytes, rest, "r");
        assert_non_null(from);
        if (pen__result_read(&found, from))
            fail_msg("%zu of %zu bytes are a result", rest, length);
        fclose(from);
        pen_sim_result_release(&found);
    }
    free(bytes);
    pen_sim_result_release(&result);
}

static void a_full_disk_is_noticed(void **state)
{
    (void)state;
    char room[100];
    struct pen_sim_result result;
    FILE *file = fmemopen(room, sizeof room, "w");
    assert_non_null(file);
    setbuf(file, NULL);
    begin(&result, true);
    assert_false(pen__result_write(&result, file));
    fclose(file);
    pen_sim_result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_comes_back_as_it_was),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(a_full_disk_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
