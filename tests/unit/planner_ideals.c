/* A graph's downward-closed sets are all there, each once, small ones first. */
#include "support/support.h"

#include "base/random.h"
#include "planner/ideals.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 12, CASES = 300 };

static struct pen_ideals *
ideals_of(uint32_t num_nodes, const struct pen_edge *edges, uint32_t num_edges)
{
    struct pen_graph graph;
    struct pen_ideals *ideals = NULL;
    assert_int_equal(PEN_OK,
                     pen_graph_init(&graph, num_nodes, edges, num_edges, NULL));
    assert_int_equal(
        PEN_OK, pen_ideals_create(&graph, 1u << MOST_NODES, &ideals, NULL));
    pen_graph_release(&graph);
    return ideals;
}

static bool is_closed(uint64_t set, const struct pen_edge *edges,
                      uint32_t num_edges)
{
    for (uint32_t i = 0; i < num_edges; i++)
        if ((set >> edges[i].to & 1) != 0 && (set >> edges[i].from & 1) == 0)
            return false;
    return true;
}

static uint32_t size_of(uint64_t set)
{
    uint32_t size = 0;
    for (; set != 0; set &= set - 1)
        size++;
    return size;
}

/* Steps lead to sets with one node more; every set but the first is met. */
static void expect_steps(const struct pen_ideals *ideals)
{
    bool is_met[1u << MOST_NODES] = {true};
    for (uint32_t i = 0; i < ideals->count; i++) {
        for (uint32_t j = ideals->up_begin[i]; j < ideals->up_begin[i + 1];
             j++) {
            uint64_t set = *pen_ideal_set(ideals, i);
            assert_false(pen_set_has(&set, ideals->up[j].node));
            pen_set_add(&set, ideals->up[j].node);
            assert_int_equal(set, *pen_ideal_set(ideals, ideals->up[j].ideal));
            assert_true(pen_ideal_is_part(ideals, i, ideals->up[j].ideal));
            assert_false(pen_ideal_is_part(ideals, ideals->up[j].ideal, i));
            is_met[ideals->up[j].ideal] = true;
        }
    }
    for (uint32_t i = 0; i < ideals->count; i++)
        assert_true(is_met[i]);
}

static void random_graphs_have_all_their_sets(void **state)
{
    (void)state;
    struct pen_random random = {.state = 5};
    for (int i = 0; i < CASES; i++) {
        struct pen_edge edges[MOST_NODES * MOST_NODES];
        uint32_t n = 1 + pen_random_below(&random, MOST_NODES);
        uint32_t num_edges = 0;
        uint32_t chance = 1 + pen_random_below(&random, 8);
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = a + 1; b < n; b++)
                if (pen_random_below(&random, chance) == 0)
                    edges[num_edges++] = (struct pen_edge){a, b};
        struct pen_ideals *ideals = ideals_of(n, edges, num_edges);
        uint32_t expected = 0;
        for (uint64_t set = 0; set < (uint64_t)1 << n; set++)
            expected += is_closed(set, edges, num_edges) ? 1 : 0;
        assert_int_equal(expected, ideals->count);
        for (uint32_t j = 0; j < ideals->count; j++) {
            uint64_t set = *pen_ideal_set(ideals, j);
            assert_true(is_closed(set, edges, num_edges));
            if (j > 0)
                assert_true(size_of(set) >=
                            size_of(*pen_ideal_set(ideals, j - 1)));
        }
        expect_steps(ideals);
        pen_ideals_free(ideals);
    }
}

static void a_long_chain_has_a_set_for_each_place(void **state)
{
    (void)state;
    enum { NODES = 1000 };
    struct pen_edge edges[NODES];
    for (uint32_t i = 0; i + 1 < NODES; i++)
        edges[i] = (struct pen_edge){i, i + 1};
    edges[NODES - 1] = edges[0]; /* the same edge twice */
    struct pen_ideals *ideals = ideals_of(NODES, edges, NODES);
    assert_int_equal(NODES + 1, ideals->count);
    pen_ideals_free(ideals);
}

static void too_many_sets_are_refused(void **state)
{
    (void)state;
    struct pen_graph graph;
    struct pen_ideals *ideals = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_graph_init(&graph, 64, NULL, 0, NULL));
    assert_int_equal(PEN_INFEASIBLE,
                     pen_ideals_create(&graph, 1000, &ideals, &why));
    assert_string_equal("the graph has more than 1000 downward-closed sets",
                        pen_text_string(&why));
    assert_null(ideals);
    pen_text_release(&why);
    pen_graph_release(&graph);
}

static void a_cycle_is_refused(void **state)
{
    (void)state;
    const struct pen_edge edges[] = {{0, 1}, {1, 2}, {2, 1}};
    const struct pen_edge far[] = {{0, 3}};
    struct pen_graph graph;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_graph_init(&graph, 3, edges, 3, &why));
    assert_string_equal("the graph has a cycle at or before node 1",
                        pen_text_string(&why));
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_graph_init(&graph, 3, far, 1, &why));
    assert_string_equal("edge 0 from 0 to 3 names a node beyond the 3 nodes",
                        pen_text_string(&why));
    pen_text_release(&why);
}

/* 0 -> {1 -> 2, 3} -> 4: the branch of 1 and 2 stays together. */
static void the_order_follows_branches(void **state)
{
    (void)state;
    const struct pen_edge edges[] = {{0, 1}, {0, 3}, {1, 2}, {2, 4}, {3, 4}};
    const uint32_t expected[] = {0, 1, 2, 3, 4};
    struct pen_graph graph;
    assert_int_equal(PEN_OK, pen_graph_init(&graph, 5, edges, 5, NULL));
    assert_memory_equal(expected, graph.order, sizeof expected);
    pen_graph_release(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_have_all_their_sets),
        cmocka_unit_test(a_long_chain_has_a_set_for_each_place),
        cmocka_unit_test(too_many_sets_are_refused),
        cmocka_unit_test(a_cycle_is_refused),
        cmocka_unit_test(the_order_follows_branches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
