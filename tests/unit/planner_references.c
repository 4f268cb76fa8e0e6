/*
 * PipeDream's optimizer and the placement of dnn-partitioning find what the
 * programs of their authors found on the authors' own inputs.
 */
#include "support/support.h"

#include "planner/max_load.h"
#include "planner/pipedream.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VALIDATION PEN_SOURCE_DIR "/../shared/validation/"

static json_t *load_reference(const char *name)
{
    char path[1000];
    struct stat about;
    snprintf(path, sizeof path, VALIDATION "%s", name);
    if (stat(path, &about) != 0) {
        if (getenv("PEN_REQUIRE_SHARED") != NULL)
            fail_msg("%s is missing", path);
        print_message("%s is missing\n", path);
        skip();
    }
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* ---- PipeDream ---- */

static struct pen_pipedream_plan *solve_run(const json_t *run)
{
    char path[1000];
    struct pen_pipedream_profile *profile = NULL;
    struct pen_pipedream_plan *plan = NULL;
    struct pen_pipedream_level levels[PEN_PIPEDREAM_MAX_LEVELS];
    const json_t *machines = json_object_get(run, "num_machines");
    const json_t *rates = json_object_get(run, "bandwidths_Bps");
    struct pen_text why = PEN_TEXT_EMPTY;
    snprintf(path, sizeof path, VALIDATION "pipedream/profiles/%s.graph.txt",
             json_string_value(json_object_get(run, "model")));
    if (pen_pipedream_profile_load(path, &profile, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (size_t i = 0; i < json_array_size(machines); i++)
        levels[i] = (struct pen_pipedream_level){
            (uint32_t)json_integer_value(json_array_get(machines, i)),
            json_number_value(json_array_get(rates, i))};
    const struct pen_pipedream_problem problem = {
        .profile = profile,
        .levels = levels,
        .num_levels = (uint32_t)json_array_size(machines),
        .has_transfers = true};
    if (pen_pipedream_solve(&problem, &plan, &why) != PEN_OK)
        fail_msg("%s: %s", path, pen_text_string(&why));
    pen_pipedream_profile_free(profile);
    pen_text_release(&why);
    return plan;
}

/* The stages of a run, outermost level first as ours are. */
static const json_t *reference_stage(const json_t *run, uint32_t level,
                                     size_t index)
{
    char key[16];
    snprintf(key, sizeof key, "level%u", level + 1);
    return json_array_get(json_object_get(json_object_get(run, "levels"), key),
                          index);
}

static bool has_same_stages(const json_t *run,
                            const struct pen_pipedream_plan *plan)
{
    size_t index = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen_pipedream_stage *stage = &plan->stages[i];
        index =
            i > 0 && stage->level == plan->stages[i - 1].level ? index + 1 : 0;
        const json_t *expected = reference_stage(run, stage->level, index);
        if (stage->num_replicas != number_of(expected, "replicas") ||
            fabs(stage->compute_sec - number_of(expected, "compute_s")) > 1e-9)
            return false;
    }
    uint32_t inner = plan->stages[plan->num_stages - 1].level;
    return reference_stage(run, inner, index + 1) == NULL;
}

/*
 * Among stages that are equally good, theirs are chosen by the addresses of
 * Python's objects; so stages are the same where nothing is equal.
 */
static void pipedream_finds_the_reference(void **state)
{
    (void)state;
    json_t *root = load_reference("pipedream_results.json");
    const json_t *runs = json_object_get(
        json_object_get(root, "reference_optimizer_runs"), "runs");
    size_t num_same = 0;
    assert_int_equal(36, json_array_size(runs));
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        struct pen_pipedream_plan *plan = solve_run(run);
        double expected = number_of(run, "time_per_stage_s");
        bool is_whole = json_object_get(run, "levels") != NULL;
        /* One run has five digits left of its result, and no more. */
        if (is_whole)
            expect_close(expected, plan->stage_sec, "time per stage");
        else
            assert_true(fabs(expected - plan->stage_sec) < 5e-6);
        if (is_whole) {
            assert_int_equal(number_of(run, "num_states"), plan->num_states);
            expect_close(number_of(run, "single_machine_time_s"),
                         plan->one_device_sec, "one device");
            expect_close(number_of(run, "dp_speedup_vs_single"),
                         plan->one_device_sec / plan->data_parallel_sec,
                         "data parallel");
            num_same += has_same_stages(run, plan) ? 1 : 0;
        }
        pen_pipedream_plan_free(plan);
    }
    print_message("36 times per stage are equal, %zu of 35 with the same "
                  "stages and replicas\n",
                  num_same);
    assert_true(num_same >= 25);
    json_decref(root);
}

/* ---- dnn-partitioning ---- */

static struct pen_placement_graph *load_graph(const char *name)
{
    char path[1000];
    struct pen_placement_graph *graph = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    snprintf(path, sizeof path, VALIDATION "piper/dnn_partitioning/%s", name);
    if (pen_placement_graph_load(path, &graph, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return graph;
}

static double all_on_one(const struct pen_placement_graph *graph)
{
    uint32_t *places = calloc(graph->graph.num_nodes, sizeof *places);
    assert_non_null(places);
    double load = pen_max_load_of(graph, places);
    free(places);
    return load;
}

static void expect_row(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "workload"));
    const json_t *optimum = json_object_get(row, "dp");
    const json_t *expert = json_object_get(row, "human_expert");
    struct pen_placement_graph *graph = load_graph(name);
    const struct pen_max_load_problem problem = {.graph = graph};
    struct pen_max_load_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_max_load_solve(&problem, &plan, &why) != PEN_OK)
        fail_msg("%s: %s", name, pen_text_string(&why));
    if (json_is_number(optimum))
        expect_close(json_number_value(optimum), plan->load, name);
    assert_true(plan->load <= number_of(row, "pipedream_baseline") + 1e-9);
    if (expert != NULL)
        assert_true(plan->load <= json_number_value(expert));
    /* Printed with six digits. */
    double one = number_of(row, "one_device");
    assert_true(fabs(all_on_one(graph) / one - 1) < 1e-5);
    assert_null(plan->left_out);
    pen_max_load_plan_free(plan);
    pen_placement_graph_free(graph);
    pen_text_release(&why);
}

static void placements_have_the_reference_load(void **state)
{
    (void)state;
    json_t *root = load_reference("piper_dnn_partitioning_reference.json");
    const json_t *rows = json_object_get(
        json_object_get(json_object_get(root, "dnn_partitioning"),
                        "reference_runs"),
        "rows");
    assert_int_equal(16, json_array_size(rows));
    for (size_t i = 0; i < json_array_size(rows); i++)
        expect_row(json_array_get(rows, i));
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipedream_finds_the_reference),
        cmocka_unit_test(placements_have_the_reference_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
