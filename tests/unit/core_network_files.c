/*
 * Networks in the files of PipeDream, dnn-partitioning and Piper are read as
 * they are meant, and what is wrong in them is named.
 */
#include "support/support.h"

#include "graph/pipedream_profile.h"
#include "graph/piper_profile.h"
#include "graph/placement_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VALIDATION PEN_SOURCE_DIR "/../shared/validation/"

static void expect_words(const char *expected, struct pen_text *why)
{
    assert_string_equal(expected, pen_text_string(why));
    pen_text_release(why);
}

/* ---- PipeDream ---- */

#define FIGURES(f, b, a, p)                                                    \
    " -- forward_compute_time=" f ", backward_compute_time=" b                 \
    ", activation_size=" a ", parameter_size=" p

static void a_profile_of_pipedream_is_read(void **state)
{
    (void)state;
    static const char text[] = "n2 -- Input0" FIGURES(
        "0.000", "0.000", "0.0",
        "0.000") "\n"
                 "n10 -- LSTM(1, 2)" FIGURES(
                     "1.5", "2.5", "[8.0; 4.0; 1.0]",
                     "64") " -- stage_id=3\r\n"
                           "n1 -- Add" FIGURES(
                               ".25", "0", "4",
                               "0") "\n"
                                    "\tn2 -- n10\n\tn10 -- n1\n\tn2 -- n1";
    struct pen_pipedream_profile *profile = NULL;
    assert_int_equal(PEN_OK, pen_pipedream_profile_parse(text, sizeof text - 1,
                                                         &profile, NULL));
    const struct pen_pipedream_node *nodes = profile->nodes;
    assert_int_equal(3, profile->graph.num_nodes);
    assert_int_equal(3, profile->graph.num_edges);
    assert_string_equal("n10", nodes[1].id);
    assert_string_equal("LSTM(1, 2)", nodes[1].layer);
    expect_close(.0015, nodes[1].forward_sec, "forward");
    expect_close(.0025, nodes[1].backward_sec, "backward");
    expect_close(13, nodes[1].activation_bytes, "the sum of outputs");
    expect_close(64, nodes[1].parameter_bytes, "parameters");
    assert_int_equal(3, nodes[1].stage);
    assert_int_equal(PEN_PIPEDREAM_NO_STAGE, nodes[2].stage);
    assert_int_equal(2,
                     profile->graph.in_begin[3] - profile->graph.in_begin[2]);
    pen_pipedream_profile_free(profile);
}

static void refuse_pipedream(const char *text, const char *expected)
{
    struct pen_pipedream_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_pipedream_profile_parse(
                                      text, strlen(text), &profile, &why));
    assert_null(profile);
    expect_words(expected, &why);
}

static void wrong_profiles_of_pipedream_are_refused(void **state)
{
    (void)state;
#define GOOD FIGURES("1", "1", "1", "1") "\n"
    refuse_pipedream("", "line 0: the profile has no node");
    refuse_pipedream("a -- b\n", "line 1: expected NODE -- LAYER -- FIGURES");
    refuse_pipedream("a -- b" GOOD "\na -- b" GOOD,
                     "line 2: expected NODE -- LAYER -- FIGURES");
    refuse_pipedream("a -- b" FIGURES("-1", "1", "1", "1"),
                     "line 1: expected forward_compute_time=MILLISECONDS");
    refuse_pipedream("a -- b" FIGURES("1", "nan", "1", "1"),
                     "line 1: expected backward_compute_time=MILLISECONDS");
    refuse_pipedream("a -- b" FIGURES("1", "1", "[1; ", "1"),
                     "line 1: expected activation_size=BYTES or [A; B]");
    refuse_pipedream("a -- b" FIGURES("1", "1", "1", "1e19"),
                     "line 1: expected parameter_size=BYTES");
    refuse_pipedream("a -- b" FIGURES("1", "1", "1", "1") " -- stage_id=.5",
                     "line 1: expected stage_id=NUMBER");
    refuse_pipedream("a -- b" FIGURES("1", "1", "1", "1") ", x=1",
                     "line 1: unexpected text after the last figure");
    refuse_pipedream("a -- b" GOOD "a -- c" GOOD "\ta -- a",
                     "line 3: a node before this line is defined twice");
    refuse_pipedream(
        "a -- b" GOOD "\ta -- c",
        "line 2: expected an edge between two nodes of the lines above");
    refuse_pipedream(
        "a -- b" GOOD "\ta -- a\nb -- b" GOOD,
        "line 3: a node after the first edge; nodes must come before "
        "edges");
    refuse_pipedream("a -- b" GOOD "\ta -- a",
                     "the graph has a cycle at or before node 0");
}

/* ---- dnn-partitioning ---- */

#define NODE(id, more)                                                         \
    "{\"id\": " id ", \"supportedOnFpga\": 1, \"cpuLatency\": 5, "             \
    "\"fpgaLatency\": 2, \"isBackwardNode\": " more "}"
#define PLACEMENT(nodes, edges)                                                \
    "{\"maxSizePerFPGA\": 100, \"maxFPGAs\": 2, \"maxCPUs\": 1, \"nodes\": "   \
    "[" nodes "], \"edges\": [" edges "]}"

static void a_placement_is_read(void **state)
{
    (void)state;
    static const char text[] = PLACEMENT(
        NODE("7", "0, \"colorClass\": 90, \"size\": 3") ", " NODE(
            "5",
            "false, \"name\": \"x\"") ", " NODE("6",
                                                "true, \"colorClass\": 90"),
        "{\"sourceId\": 7, \"destId\": 5, \"cost\": 1.5, \"size\": 9},"
        "{\"sourceId\": 7, \"destId\": 6, \"cost\": 1.5}");
    struct pen_placement_graph *graph = NULL;
    assert_int_equal(
        PEN_OK, pen_placement_graph_parse(text, sizeof text - 1, &graph, NULL));
    assert_int_equal(2, graph->num_devices);
    assert_int_equal(1, graph->num_cpus);
    assert_int_equal(2, graph->num_colors);
    assert_int_equal(graph->nodes[0].color, graph->nodes[2].color);
    assert_int_not_equal(graph->nodes[0].color, graph->nodes[1].color);
    assert_true(graph->nodes[2].is_backward && !graph->nodes[1].is_backward);
    expect_close(1.5, graph->nodes[0].transfer_cost, "the cost of an output");
    expect_close(0, graph->nodes[1].transfer_cost, "one that nobody reads");
    expect_close(3, graph->nodes[0].bytes, "bytes");
    pen_placement_graph_free(graph);
}

static void refuse_placement(const char *text, const char *expected)
{
    struct pen_placement_graph *graph = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_placement_graph_parse(text, strlen(text),
                                                            &graph, &why));
    assert_null(graph);
    expect_words(expected, &why);
}

static void wrong_placements_are_refused(void **state)
{
    (void)state;
#define EDGE(from, to, cost)                                                   \
    "{\"sourceId\": " from ", \"destId\": " to ", \"cost\": " cost "}"
    refuse_placement("{", "line 1, column 1: string or '}' expected near end "
                          "of file");
    refuse_placement("{}", "maxSizePerFPGA is missing");
    refuse_placement(
        PLACEMENT("", ""),
        "nodes must be a list of 1 to 65536 entries, edges a list of "
        "at most 1048576");
    refuse_placement(PLACEMENT(NODE("1", "2"), ""),
                     "nodes[0].isBackwardNode must be an integer from 0 to 1");
    refuse_placement(PLACEMENT(NODE("1", "0") "," NODE("1", "0"), ""),
                     "nodes[1] has the same id as nodes[0]");
    refuse_placement(PLACEMENT(NODE("1", "0, \"extra\": 1"), ""),
                     "nodes[0].extra is not a key of this format; expected one "
                     "of id supportedOnFpga cpuLatency fpgaLatency "
                     "isBackwardNode colorClass size name layerId");
    refuse_placement(PLACEMENT(NODE("1", "0"), EDGE("1", "2", "0")),
                     "edges[0].destId is not the id of a node");
    refuse_placement(PLACEMENT(NODE("1", "0"), EDGE("1", "1", "0")),
                     "the graph has a cycle at or before node 0");
    refuse_placement(
        PLACEMENT(NODE("1", "1") "," NODE("2", "0"), EDGE("1", "2", "0")),
        "edges[0].destId is a node before the backward pass");
    refuse_placement(
        PLACEMENT(NODE("1", "0") "," NODE("2", "0"),
                  EDGE("1", "2", "0") "," EDGE("1", "2", "1")),
        "edges[1].cost differs from the cost of its node's other edges");
}

/* ---- Piper ---- */

#define MODE(name, in, out)                                                    \
    "{\"id\": \"" name "\", \"timePerSample\": 0.5, \"parameterSize\": 8, "    \
    "\"memoryUsageA\": 3, \"memoryUsageB\": 4, \"syncTimeFw\": {" in "}, "     \
    "\"syncTimeBw\": {" out "}}"
#define PIPER(nodes, edges)                                                    \
    "{\"maxDevices\": 4, \"maxMemoryPerDevice\": 100, \"bandwidth\": 10, "     \
    "\"mbsInBatch\": 6, \"nodes\": [" nodes "], \"edges\": [" edges "]}"
#define HOP "{\"sourceId\": 3, \"destId\": 9, \"communicationCost\": 40}"

static void a_profile_of_piper_is_read(void **state)
{
    (void)state;
    static const char text[] = PIPER(
        "{\"id\": 9, \"TMPCs\": {\"2\": [" MODE(
            "b", "\"3\": 2",
            "") "],"
                "\"1\": [" MODE("a", "\"3\": 1",
                                "") "]}},"
                                    "{\"id\": 3, \"name\": \"x\", \"TMPCs\": "
                                    "{\"1\": [" MODE("c", "", "\"9\": 5") "]}}",
        HOP);
    struct pen_piper_profile *profile = NULL;
    assert_int_equal(
        PEN_OK, pen_piper_profile_parse(text, sizeof text - 1, &profile, NULL));
    assert_int_equal(4, profile->num_devices);
    assert_int_equal(6, profile->num_microbatches);
    const struct pen_piper_node *node = &profile->nodes[0];
    assert_int_equal(2, node->num_modes);
    assert_int_equal(1, node->modes[0].degree);
    assert_string_equal("a", node->modes[0].name);
    assert_int_equal(2, node->modes[1].degree);
    expect_close(42, node->modes[1].in_bytes[0], "edge and share");
    expect_close(45, profile->nodes[1].modes[0].out_bytes[0], "the other end");
    expect_close(3, node->modes[0].wave_bytes, "of a micro-batch");
    expect_close(4, node->modes[0].fixed_bytes, "of none");
    pen_piper_profile_free(profile);
}

static void refuse_piper(const char *text, const char *expected)
{
    struct pen_piper_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_piper_profile_parse(text, strlen(text),
                                                          &profile, &why));
    assert_null(profile);
    expect_words(expected, &why);
}

static void wrong_profiles_of_piper_are_refused(void **state)
{
    (void)state;
#define TWO(modes)                                                             \
    "{\"id\": 3, \"TMPCs\": {\"1\": [" MODE(                                   \
        "c", "", "\"9\": 5") "]}},"                                            \
                             "{\"id\": 9, \"TMPCs\": {" modes "}}"
    refuse_piper(PIPER("{\"id\": 1, \"TMPCs\": {}}", ""),
                 "nodes[0].TMPCs must have 1 to 64 modes");
    refuse_piper(PIPER("{\"id\": 1, \"TMPCs\": {\"01\": [{}]}}", ""),
                 "nodes[0].TMPCs must have numbers of devices from 1 to 10000");
    refuse_piper(PIPER(TWO("\"1\": [" MODE("m", "", "") "]"), HOP),
                 "nodes[1].TMPCs.1[0].syncTimeFw.3 is missing");
    refuse_piper(
        PIPER(TWO("\"1\": [" MODE("m", "\"3\": 1, \"4\": 1", "") "]"), HOP),
        "nodes[1].TMPCs.1[0].syncTimeFw names a node without an edge");
    refuse_piper(PIPER(TWO("\"1\": []"), HOP),
                 "nodes[1].TMPCs must have 1 to 64 modes");
    refuse_piper(PIPER(TWO(""), HOP "," HOP),
                 "edges has the edge from 3 to 9 twice");
    refuse_piper(PIPER("{\"id\": 1, \"TMPCs\": {}}", HOP),
                 "edges[0].sourceId is not the id of a node");
    refuse_piper("{\"maxDevices\": 0}", "maxMemoryPerDevice is missing");
}

/* ---- files of the authors ---- */

static void files_of_the_authors_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t nodes;
        uint32_t edges;
    } files[] = {
        {"bert32a100", 37, 67}, {"gnmt", 78, 104}, {"resnet", 177, 193}};
    struct stat about;
    if (stat(VALIDATION, &about) != 0) {
        if (getenv("PEN_REQUIRE_SHARED") != NULL)
            fail_msg("%s is missing", VALIDATION);
        print_message("%s is missing\n", VALIDATION);
        skip();
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[1000];
        struct pen_piper_profile *profile = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        snprintf(path, sizeof path, VALIDATION "piper/piper_inputs/%s.json",
                 files[i].name);
        if (pen_piper_profile_load(path, &profile, &why) != PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        assert_int_equal(files[i].nodes, profile->graph.num_nodes);
        assert_int_equal(files[i].edges, profile->graph.num_edges);
        pen_piper_profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_of_pipedream_is_read),
        cmocka_unit_test(wrong_profiles_of_pipedream_are_refused),
        cmocka_unit_test(a_placement_is_read),
        cmocka_unit_test(wrong_placements_are_refused),
        cmocka_unit_test(a_profile_of_piper_is_read),
        cmocka_unit_test(wrong_profiles_of_piper_are_refused),
        cmocka_unit_test(files_of_the_authors_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
