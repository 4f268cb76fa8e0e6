/*
 * What a view says of a trace is what happened: traces are made of known
 * causes (a slow rank, a slow link, everything slow), and these are found.
 */
#include "support/folder.h"
#include "support/support.h"
#include "support/synthetic.h"
#include "view/page.h"
#include "view/spent.h"
#include "view/view_internal.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define HEAD                                                                   \
    "{\"format\":\"penstock-costs\",\"version\":1,\"f\":0.002,\"i\":0.003,"    \
    "\"w\":0.001,\"step\":0.001,\"comm\":0.0001"
#define AS_PREDICTED HEAD "}"

static struct pen_costs costs_of(const char *text)
{
    struct pen_costs costs = unit_costs();
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_costs_parse_json(text, strlen(text), &costs, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return costs;
}

static struct pen_view *load(const uint32_t *step)
{
    struct pen_view *view = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_view_load(folder, step, &view, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return view;
}

/* A trace of a truth in each replica, or fails. `predicted` may be NULL. */
static void write_trace(const struct pen_schedule *schedule,
                        const char *predicted, const char *const *truth,
                        uint32_t num_replicas, uint32_t num_steps)
{
    struct pen_costs costs[2];
    struct pen_costs prediction = unit_costs();
    struct synthetic synthetic = {.schedule = schedule,
                                  .truth = costs,
                                  .num_replicas = num_replicas,
                                  .num_steps = num_steps};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (predicted != NULL) {
        prediction = costs_of(predicted);
        synthetic.predicted = &prediction;
    }
    for (uint32_t i = 0; i < num_replicas; i++)
        costs[i] = costs_of(truth[i]);
    if (write_synthetic(&synthetic, folder, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    for (uint32_t i = 0; i < num_replicas; i++)
        pen_costs_release(&costs[i]);
    pen_costs_release(&prediction);
    pen_text_release(&why);
}

static struct pen_view *view_of(const struct pen_schedule *schedule,
                                const char *truth)
{
    write_trace(schedule, AS_PREDICTED, &truth, 1, 3);
    return load(NULL);
}

/* The root that every line, the step and the waiting of all are late for. */
static uint32_t common_root(const struct pen_view *view)
{
    const struct pen__findings *findings = &view->findings;
    uint32_t root = pen__largest_root(&findings->chain_blame, true);
    assert_int_not_equal(PEN__NOBODY, root);
    assert_int_equal(root, pen__largest_root(&findings->wait_blame, true));
    for (uint32_t line = 0; line < findings->num_lines; line++) {
        assert_int_equal(root, findings->lines[line].root);
        assert_true(findings->lines[line].root_share > 0.9);
    }
    return root;
}

static void expect_line_root(const struct pen_view *view,
                             enum pen__root_kind kind, uint32_t line)
{
    uint32_t root = common_root(view);
    const struct pen__blame *blame = &view->findings.chain_blame;
    assert_int_equal(kind, pen__root_kind_of(blame, root));
    assert_int_equal(line, pen__root_index(blame, root));
}

static void expect_as_predicted(const struct pen_view *view)
{
    const struct pen__findings *findings = &view->findings;
    expect_close(view->predicted.end_sec, view->measured.end_sec, "end");
    assert_true(findings->scale == 1);
    assert_int_equal(0, findings->num_slow);
    assert_int_equal(0, findings->num_late);
    for (uint32_t i = 0; i < findings->chain_blame.num_roots; i++) {
        double sec = findings->chain_blame.roots[i].excess_sec;
        if (sec > 1e-6)
            fail_msg("%s: root %u is late by %g s", view->schedule->name, i,
                     sec);
    }
    for (uint32_t line = 0; line < findings->num_lines; line++) {
        const struct pen__line_facts *facts = &findings->lines[line];
        assert_int_equal(PEN__NOBODY, facts->root);
        assert_true(
            fabs(facts->computing_sec - facts->predicted_computing_sec) < 1e-6);
        assert_true(fabs(facts->waiting_sec - facts->predicted_waiting_sec) <
                    1e-6);
    }
}

static void every_schedule_that_runs_as_predicted_is_said_to(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct pen_costs costs = unit_costs();
        struct pen_generator_args args = {
            .ranks = 4, .microbatches = 8, .costs = &costs};
        struct pen_schedule *schedule = NULL;
        if (pen_generator_make(generator, &args, &schedule, NULL) != PEN_OK)
            continue;
        struct pen_view *view = view_of(schedule, AS_PREDICTED);
        assert_int_equal(1, view->step);
        expect_as_predicted(view);
        pen_view_free(view);
        pen_schedule_free(schedule);
        count++;
    }
    assert_true(count >= 15);
}

static void one_slow_rank_is_the_root_of_all_waiting(void **state)
{
    (void)state;
    static const char *const names[] = {"1f1b", "zb-h1", "interleaved"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pen_schedule *schedule = make(names[i], 4, 8, 0);
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct pen_text truth = PEN_TEXT_EMPTY;
            pen_text_add_string(&truth, HEAD ",\"ranks\":[");
            for (uint32_t j = 0; j < 4; j++)
                pen_text_add(&truth, "%s%s", j == 0 ? "" : ",",
                             j == rank ? "{\"f\":0.004,\"i\":0.006,\"w\":0.002}"
                                       : "{}");
            pen_text_add_string(&truth, "]}");
            struct pen_view *view = view_of(schedule, pen_text_string(&truth));
            expect_line_root(view, PEN__ROOT_WORK, rank);
            assert_true(view->findings.scale == 1);
            assert_true(view->findings.num_slow > 0);
            assert_int_equal(0, view->findings.num_late);
            for (size_t j = 0; j < view->findings.num_slow; j++) {
                assert_int_equal(rank, view->findings.slow[j].line);
                assert_true(fabs(view->findings.slow[j].ratio - 2) < 1e-5);
            }
            pen_view_free(view);
            pen_text_release(&truth);
        }
        pen_schedule_free(schedule);
    }
}

static void expect_link_root(const struct pen_view *view, uint32_t from,
                             uint32_t to)
{
    const struct pen__findings *findings = &view->findings;
    uint32_t root = pen__largest_root(&findings->chain_blame, true);
    enum pen_direction direction =
        from < to ? PEN_DIRECTION_ACT : PEN_DIRECTION_GRAD;
    assert_int_not_equal(PEN__NOBODY, root);
    assert_int_equal(root, findings->lines[0].root);
    assert_int_equal(root, pen__largest_root(&findings->wait_blame, true));
    assert_int_equal(PEN__ROOT_LINK,
                     pen__root_kind_of(&findings->chain_blame, root));
    uint32_t index = pen__root_index(&findings->chain_blame, root);
    struct pen__link link = pen__link_at(&view->measured, index);
    assert_int_equal(from, link.from_line);
    assert_int_equal(to, link.to_line);
    assert_int_equal(direction, link.direction);
    assert_int_equal(0, findings->num_slow);
    assert_int_equal(1, findings->num_late);
    assert_int_equal(index, findings->late[0].link);
    /* At least what was waited for, at most what it took. */
    assert_true(findings->late[0].transit_sec > 0.0015);
    assert_true(findings->late[0].transit_sec < 0.006 + 1e-6);
    assert_true(fabs(findings->late[0].expected_sec - 0.0001) < 1e-9);
    assert_true(fabs(findings->late[0].most_late_sec - 0.0059) < 1e-6);
}

static void one_slow_link_is_the_root_of_all_waiting(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (uint32_t is_back = 0; is_back < 2; is_back++) {
            uint32_t from = rank + is_back;
            uint32_t to = rank + 1 - is_back;
            struct pen_text truth = PEN_TEXT_EMPTY;
            pen_text_add(&truth,
                         HEAD ",\"links\":[{\"from\":%u,\"to\":%u,"
                              "\"latency\":0.006}]}",
                         from, to);
            struct pen_view *view = view_of(schedule, pen_text_string(&truth));
            expect_link_root(view, from, to);
            pen_view_free(view);
            pen_text_release(&truth);
        }
    }
    pen_schedule_free(schedule);
}

#define ALL_SLOWER                                                             \
    "{\"format\":\"penstock-costs\",\"version\":1,\"f\":0.003,\"i\":0.0045,"   \
    "\"w\":0.0015,\"step\":0.0015,\"comm\":0.0001"

static void what_is_common_to_all_ranks_is_not_blamed_on_one(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 0);
    struct pen_view *view = view_of(schedule, ALL_SLOWER "}");
    assert_true(fabs(view->findings.scale - 1.5) < 1e-5);
    for (uint32_t line = 0; line < 4; line++)
        assert_int_equal(PEN__NOBODY, view->findings.lines[line].root);
    assert_int_equal(0, view->findings.num_late);
    assert_int_equal(12, view->findings.num_slow);
    pen_view_free(view);

    view = view_of(schedule, ALL_SLOWER ",\"ranks\":[{},{\"f\":0.009,"
                                        "\"i\":0.009,\"w\":0.004},{},{}]}");
    assert_true(fabs(view->findings.scale - 1.5) < 1e-5);
    expect_line_root(view, PEN__ROOT_WORK, 1);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

static void a_slow_replica_holds_up_the_others(void **state)
{
    (void)state;
    static const char *const truth[] = {
        AS_PREDICTED, HEAD ",\"ranks\":[{\"count\":3},{\"f\":0.004,"
                           "\"i\":0.006,\"w\":0.002}]}"};
    struct pen_schedule *schedule = make("1f1b", 4, 8, 0);
    write_trace(schedule, AS_PREDICTED, truth, 2, 1);
    struct pen_view *view = load(NULL);
    assert_int_equal(8, view->lines.count);
    expect_line_root(view, PEN__ROOT_WORK, 7);
    assert_int_equal(7, view->lines.ranks[7]);
    assert_int_equal(2, view->lines.ranks[1]);
    assert_int_equal(7, view->findings.lines[3].waits_for);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

/* Loads the trace, lets it be changed, and saves it again. */
static void change_trace(void (*change)(struct pen_trace *trace))
{
    struct pen_trace *trace = NULL;
    assert_int_equal(PEN_OK, pen_trace_load(folder, &trace, NULL));
    change(trace);
    assert_int_equal(PEN_OK, pen_trace_save(trace, folder, NULL));
    pen_trace_free(trace);
}

static struct pen_schedule *changed;

/* As an executor does that takes a synchronisation for work. */
static void work_in_sync(struct pen_trace *trace)
{
    for (uint32_t rank = 0; rank < trace->num_ranks; rank++) {
        struct pen_rank_trace *from = &trace->ranks[rank];
        const struct pen_row *row = &changed->rows[from->head.row];
        for (uint64_t i = 0; i < from->head.num_events; i++) {
            struct pen_trace_event *event = &from->events[i];
            if (row->ops[event->position].kind == PEN_OP_SYNC_GRAD)
                event->ready_ns = event->begin_ns;
        }
    }
}

static void a_synchronisation_waits_for_the_last_one(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED, HEAD
                                        ",\"ranks\":[{\"f\":0.004,\"i\":0.006,"
                                        "\"w\":0.002},{\"count\":3}]}"};
    changed = make("1f1b", 4, 8, 0);
    write_trace(changed, AS_PREDICTED, truth, 2, 1);
    change_trace(work_in_sync);
    struct pen_view *view = load(NULL);
    expect_line_root(view, PEN__ROOT_WORK, 4);
    assert_int_equal(4, view->findings.lines[0].waits_for);
    pen_view_free(view);
    pen_schedule_free(changed);
}

/* As an executor does that looks for room before it computes. */
static void wait_before_computing(struct pen_trace *trace)
{
    struct pen_rank_trace *from = &trace->ranks[0];
    const struct pen_row *row = &changed->rows[0];
    for (uint64_t i = 0; i + 1 < from->head.num_events; i++) {
        struct pen_trace_event *event = &from->events[i];
        if (row->ops[event->position].kind != PEN_OP_SEND_ACT)
            continue;
        event->ready_ns = event->begin_ns;
        event->end_ns = event->begin_ns;
        event[1].begin_ns = event->begin_ns;
    }
}

static void waiting_for_room_is_waiting_for_the_receiver(void **state)
{
    (void)state;
    static const char *const truth[] = {
        HEAD ",\"ranks\":[{},{\"f\":0.008,\"i\":0.003,\"w\":0.001}]}"};
    changed = make("gpipe", 2, 8, 0);
    write_trace(changed, AS_PREDICTED, truth, 1, 1);
    change_trace(wait_before_computing);
    struct pen_view *view = load(NULL);
    uint32_t count = 0;
    for (uint32_t i = 0; i < changed->rows[0].count; i++) {
        const struct pen__span *span = &view->measured.spans[0][i];
        if (changed->rows[0].ops[i].kind != PEN_OP_FORWARD ||
            span->ready_sec - span->begin_sec < 1e-6)
            continue;
        struct pen__source source =
            pen__source_of(&view->sources, &view->measured, 0, i);
        assert_int_equal(PEN__SOURCE_WINDOW, source.kind);
        assert_int_equal(1, source.line);
        count++;
    }
    assert_true(count >= 4);
    expect_line_root(view, PEN__ROOT_WORK, 1);
    pen_view_free(view);
    pen_schedule_free(changed);
}

/* As a norm of all gradients makes it: everybody waits for the last STEP. */
static void step_together(struct pen_trace *trace)
{
    int64_t last_ns = 0;
    for (uint32_t rank = 0; rank < trace->num_ranks; rank++) {
        const struct pen_rank_trace *from = &trace->ranks[rank];
        const struct pen_trace_event *step =
            &from->events[from->head.num_events - 1];
        int64_t ns = step->begin_ns + from->head.clock_offset_ns;
        last_ns = ns > last_ns ? ns : last_ns;
    }
    for (uint32_t rank = 0; rank < trace->num_ranks; rank++) {
        struct pen_rank_trace *from = &trace->ranks[rank];
        struct pen_trace_event *step = &from->events[from->head.num_events - 1];
        int64_t work_ns = step->end_ns - step->ready_ns;
        step->ready_ns = last_ns - from->head.clock_offset_ns;
        step->end_ns = step->ready_ns + work_ns;
    }
}

static void a_common_step_waits_for_the_last_one(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED};
    struct pen_schedule *schedule = make("1f1b", 4, 8, 0);
    write_trace(schedule, AS_PREDICTED, truth, 1, 1);
    change_trace(step_together);
    struct pen_view *view = load(NULL);
    for (uint32_t line = 1; line < 4; line++) {
        uint32_t position = schedule->rows[line].count - 1;
        struct pen__source source =
            pen__source_of(&view->sources, &view->measured, line, position);
        assert_int_equal(PEN__SOURCE_GROUP, source.kind);
        assert_int_equal(0, source.line);
        assert_int_equal(PEN__NOBODY, view->findings.lines[line].root);
    }
    pen_view_free(view);
    pen_schedule_free(schedule);
}

static void without_a_prediction_waiting_still_has_roots(void **state)
{
    (void)state;
    static const char *const truth[] = {
        HEAD ",\"ranks\":[{\"count\":3},{\"f\":0.02,\"i\":0.02,\"w\":0.02}]}"};
    struct pen_schedule *schedule = make("1f1b", 4, 8, 0);
    write_trace(schedule, AS_PREDICTED, truth, 1, 1);
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/costs.json", folder);
    assert_int_equal(0, remove(pen_text_string(&path)));
    struct pen_view *view = load(NULL);
    assert_null(view->timing);
    uint32_t root = pen__largest_root(&view->findings.wait_blame, false);
    assert_int_equal(3, root);
    for (uint32_t line = 0; line < 3; line++) {
        assert_int_equal(line + 1, view->findings.lines[line].waits_for);
        assert_int_equal(3, view->findings.lines[line].root);
        assert_true(isnan(view->findings.lines[line].predicted_total_sec));
    }
    pen_view_free(view);
    pen_text_release(&path);
    pen_schedule_free(schedule);
}

static void pause_in_the_middle(struct pen_trace *trace)
{
    struct pen_rank_trace *rank = &trace->ranks[0];
    for (uint64_t i = rank->head.num_events / 2; i < rank->head.num_events;
         i++) {
        rank->events[i].begin_ns += 50000000;
        rank->events[i].ready_ns += 50000000;
        rank->events[i].end_ns += 50000000;
    }
}

static void time_between_ops_is_told_apart(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED};
    struct pen_schedule *schedule = make("1f1b", 1, 4, 0);
    write_trace(schedule, AS_PREDICTED, truth, 1, 1);
    change_trace(pause_in_the_middle);
    struct pen_view *view = load(NULL);
    uint32_t root = view->findings.lines[0].root;
    assert_int_not_equal(PEN__NOBODY, root);
    assert_int_equal(PEN__ROOT_BETWEEN,
                     pen__root_kind_of(&view->findings.chain_blame, root));
    assert_true(fabs(view->findings.chain_blame.roots[root].excess_sec - 0.05) <
                1e-6);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

/* A moment in which an executor looks for its message, which is there. */
static void look_for_messages(struct pen_trace *trace)
{
    for (uint32_t rank = 0; rank < trace->num_ranks; rank++) {
        struct pen_rank_trace *from = &trace->ranks[rank];
        for (uint64_t i = 0; i < from->head.num_events; i++) {
            struct pen_trace_event *event = &from->events[i];
            if (event->end_ns - event->ready_ns > 100000 &&
                event->ready_ns == event->begin_ns)
                event->ready_ns += 1000;
        }
    }
}

static void a_message_that_lay_ready_is_not_late(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED};
    struct pen_schedule *schedule = make("gpipe", 4, 16, 0);
    write_trace(schedule, AS_PREDICTED, truth, 1, 1);
    change_trace(look_for_messages);
    struct pen_view *view = load(NULL);
    assert_int_equal(0, view->findings.num_late);
    for (uint32_t line = 0; line < 4; line++)
        assert_int_equal(PEN__NOBODY, view->findings.lines[line].root);
    for (uint32_t i = 0; i < view->findings.chain_blame.num_roots; i++)
        assert_true(view->findings.chain_blame.roots[i].excess_sec < 1e-4);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

static void lose_the_end(struct pen_trace *trace)
{
    trace->ranks[1].head.num_events -= 5;
    trace->ranks[1].head.num_lost = 5;
}

static void expect_refusal(const uint32_t *step, const char *expected)
{
    struct pen_view *view = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_view_load(folder, step, &view, &why));
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(view);
    pen_text_release(&why);
}

static void the_median_step_is_shown_or_the_one_asked_for(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED};
    static const struct {
        uint32_t step;
        double factor;
    } expected[] = {{0, 0.8}, {1, 1}, {2, 1.2}, {3, 0.9}, {4, 1.1}};
    struct pen_schedule *schedule = make("1f1b", 2, 4, 0);
    write_trace(schedule, AS_PREDICTED, truth, 1, 5);
    struct pen_view *view = load(NULL);
    assert_int_equal(1, view->step);
    assert_int_equal(5, view->num_steps);
    pen_view_free(view);
    for (size_t i = 0; i < 5; i++) {
        view = load(&expected[i].step);
        double ratio = view->measured.end_sec / view->predicted.end_sec;
        assert_true(fabs(ratio - expected[i].factor) < 1e-5);
        pen_view_free(view);
    }
    change_trace(lose_the_end);
    expect_refusal(
        &expected[4].step,
        "step 4 was not recorded completely; 4 steps from 0 to 3 were");
    view = load(NULL);
    assert_int_equal(3, view->step);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

static void repeat_an_event(struct pen_trace *trace)
{
    trace->ranks[1].events[4] = trace->ranks[1].events[0];
}

static void take_the_other_row(struct pen_trace *trace)
{
    trace->ranks[1].head.row = 0;
    trace->ranks[1].head.num_ops = trace->ranks[0].head.num_ops;
}

static void shorten_the_row(struct pen_trace *trace)
{
    trace->ranks[1].head.num_ops++;
}

static void leave_the_schedule(struct pen_trace *trace)
{
    trace->ranks[1].head.replica = 1;
}

static void forget_all(struct pen_trace *trace)
{
    trace->ranks[0].head.num_events = 0;
}

static void traces_that_do_not_fit_the_schedule_are_refused(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED};
    static const struct {
        void (*change)(struct pen_trace *trace);
        const char *refusal;
    } cases[] = {
        {repeat_an_event, "rank 1 has two events of op 0 in step 0"},
        {take_the_other_row, "ranks 0 and 1 both execute row 0 of replica 0"},
        {shorten_the_row,
         "rank 1 executed 19 ops, but its row of the schedule has 18"},
        {leave_the_schedule,
         "rank 1 executes row 1 of replica 1, but the schedule has 2 rows and "
         "there are 2 ranks"},
        {forget_all, "no complete step was recorded; 1 steps were begun"}};
    struct pen_schedule *schedule = make("1f1b", 2, 4, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_trace(schedule, AS_PREDICTED, truth, 1, 1);
        change_trace(cases[i].change);
        expect_refusal(NULL, cases[i].refusal);
    }
    pen_schedule_free(schedule);
}

static double number(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static void the_events_have_one_process_per_rank(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED, AS_PREDICTED};
    struct pen_schedule *schedule = make("1f1b", 2, 4, 0);
    struct pen_text text = PEN_TEXT_EMPTY;
    double sums_usec[4][4] = {{0}}; /* per process and track */
    uint32_t processes = 0;
    write_trace(schedule, AS_PREDICTED, truth, 2, 1);
    struct pen_view *view = load(NULL);
    pen__view_print_events(view, &text);
    json_t *root = json_loadb(text.bytes, text.length, 0, NULL);
    json_t *events = json_object_get(root, "traceEvents");
    assert_non_null(events);
    size_t i = 0;
    json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "name"));
        processes += strcmp(name, "process_name") == 0;
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0)
            sums_usec[(int)number(event, "pid") - 1]
                     [(int)number(event, "tid")] += number(event, "dur");
    }
    assert_int_equal(4, processes);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct pen_trace_head *head = &view->trace->ranks[rank].head;
        const struct pen__line_facts *facts =
            &view->findings.lines[head->replica * 2 + head->row];
        assert_true(fabs(sums_usec[rank][1] -
                         facts->predicted_computing_sec * 1e6) < 1);
        assert_true(fabs(sums_usec[rank][2] - facts->computing_sec * 1e6) < 1);
        assert_true(fabs(sums_usec[rank][3] - facts->waiting_sec * 1e6) < 1);
    }
    json_decref(root);
    pen_text_release(&text);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

static void rows_lie_under_their_prediction(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 3, 4, 0);
    struct pen_costs costs = unit_costs();
    const struct pen_time_options options = {.with_ops = true};
    struct pen_timing *timing = NULL;
    assert_int_equal(
        PEN_OK, pen_schedule_time(schedule, &costs, &options, &timing, NULL));
    const struct pen_picture_item items[] = {{schedule, timing, .label = "a"},
                                             {schedule, timing, .label = "b"}};
    struct pen__sheet *sheets = pen__sheets_create(items, 2);
    struct pen__page page;
    pen__page_init(&page, sheets, 2, true);
    double bottom = 0;
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (size_t i = 0; i < 2; i++) {
            double y = pen__page_row_y(&page, i, rank);
            assert_true(y > bottom);
            bottom = y + page.cell_height;
        }
    }
    assert_true(pen__page_panel_y(&page, 1) + page.title_height <=
                pen__page_row_y(&page, 0, 0));
    assert_true(bottom < pen__page_panel_y(&page, 2));
    assert_true(pen__page_panel_y(&page, 2) < page.legend_y);
    pen__sheets_free(sheets, 2);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

/* Whatever a rank did or waited for, together it is the step. */
static void the_parts_of_a_rank_are_the_step(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 0);
    struct pen_view *view =
        view_of(schedule, HEAD ",\"ranks\":[{\"count\":2},{\"f\":0.003},{}]}");
    struct pen_spent spent;
    assert_int_equal(PEN_OK, pen_spent_init(&spent, view));
    assert_int_equal(4, spent.num_ranks);
    double busy_sec = 0;
    for (uint32_t rank = 0; rank < 4; rank++) {
        double sum_sec = 0;
        for (int part = 0; part < PEN_SPENTS; part++)
            sum_sec += spent.ranks[rank].sec[part];
        expect_close(spent.sec, sum_sec, "parts");
        expect_close(8 * (rank == 2 ? 0.003 : 0.002),
                     spent.ranks[rank].sec[PEN_SPENT_FORWARD], "forward");
        busy_sec += spent.ranks[rank].computing_sec;
    }
    expect_close(1 - busy_sec / (4 * spent.sec), spent.bubble, "bubble");
    assert_int_equal(32, spent.kinds[PEN_OP_FORWARD].count);
    expect_close(8 * 0.009, spent.kinds[PEN_OP_FORWARD].sec, "forward");
    expect_close(8 * 0.008, spent.kinds[PEN_OP_FORWARD].predicted_sec,
                 "predicted");
    assert_int_equal(PEN_CAUSE_WORK, spent.cause);
    assert_string_equal("rank 2 computing",
                        pen_text_string(&spent.cause_words));
    assert_true(spent.bubble > spent.predicted_bubble);
    pen_spent_release(&spent);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

static void a_step_as_predicted_has_its_bubble_and_no_cause(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("zb-h1", 4, 8, 0);
    struct pen_view *view = view_of(schedule, AS_PREDICTED);
    struct pen_spent spent;
    assert_int_equal(PEN_OK, pen_spent_init(&spent, view));
    expect_close(spent.predicted_bubble, spent.bubble, "bubble");
    expect_close(spent.predicted_sec, spent.sec, "step");
    assert_int_equal(PEN_CAUSE_NONE, spent.cause);
    pen_spent_release(&spent);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

/* Four ranks of a synthetic trace are on one machine. */
static void the_machine_is_named_where_there_are_several(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 8, 8, 0);
    struct pen_view *view =
        view_of(schedule, HEAD ",\"ranks\":[{\"count\":5},{\"f\":0.004},"
                               "{\"count\":2}]}");
    struct pen_spent spent;
    assert_int_equal(PEN_OK, pen_spent_init(&spent, view));
    assert_string_equal("rank 5 computing on node1",
                        pen_text_string(&spent.cause_words));
    pen_spent_release(&spent);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

/* Of many replicas some are drawn; one that is too long is not. */
static void drawings_for_a_page_have_a_limit(void **state)
{
    (void)state;
    static const char *const truth[] = {AS_PREDICTED, AS_PREDICTED};
    struct pen_schedule *schedule = make("1f1b", 2, 4, 0);
    struct pen_text svg = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    uint64_t ops = pen_schedule_count(schedule);
    write_trace(schedule, AS_PREDICTED, truth, 2, 1);
    struct pen_view *view = load(NULL);
    uint32_t drawn = 0;
    assert_int_equal(PEN_OK,
                     pen_view_print_svg(view, 3 * ops, &svg, &drawn, &why));
    assert_int_equal(2, drawn);
    size_t both = svg.length;
    assert_non_null(strstr(pen_text_string(&svg), "<svg"));
    pen_text_clear(&svg);
    assert_int_equal(PEN_OK,
                     pen_view_print_svg(view, 3 * ops - 1, &svg, &drawn, &why));
    assert_int_equal(1, drawn);
    assert_true(svg.length < both);
    assert_int_equal(PEN_INVALID,
                     pen_view_print_svg(view, 2 * ops - 1, &svg, &drawn, &why));
    assert_non_null(strstr(pen_text_string(&why), "too long to draw"));
    pen_text_release(&svg);
    pen_text_release(&why);
    pen_view_free(view);
    pen_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_that_runs_as_predicted_is_said_to),
        cmocka_unit_test(one_slow_rank_is_the_root_of_all_waiting),
        cmocka_unit_test(one_slow_link_is_the_root_of_all_waiting),
        cmocka_unit_test(what_is_common_to_all_ranks_is_not_blamed_on_one),
        cmocka_unit_test(a_slow_replica_holds_up_the_others),
        cmocka_unit_test(a_synchronisation_waits_for_the_last_one),
        cmocka_unit_test(waiting_for_room_is_waiting_for_the_receiver),
        cmocka_unit_test(a_common_step_waits_for_the_last_one),
        cmocka_unit_test(without_a_prediction_waiting_still_has_roots),
        cmocka_unit_test(time_between_ops_is_told_apart),
        cmocka_unit_test(a_message_that_lay_ready_is_not_late),
        cmocka_unit_test(the_median_step_is_shown_or_the_one_asked_for),
        cmocka_unit_test(traces_that_do_not_fit_the_schedule_are_refused),
        cmocka_unit_test(the_events_have_one_process_per_rank),
        cmocka_unit_test(rows_lie_under_their_prediction),
        cmocka_unit_test(the_parts_of_a_rank_are_the_step),
        cmocka_unit_test(a_step_as_predicted_has_its_bubble_and_no_cause),
        cmocka_unit_test(the_machine_is_named_where_there_are_several),
        cmocka_unit_test(drawings_for_a_page_have_a_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
