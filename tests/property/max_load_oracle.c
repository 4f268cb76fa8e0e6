/* No placement of a small network has less load than the one that is found. */
#include "support/support.h"

#include "base/random.h"
#include "planner/max_load.h"

#include <math.h>
#include <string.h>

enum { MOST_COLORS = 6, MOST_NODES = 2 * MOST_COLORS, MOST_PLACES = 4 };

#define CASES 600

struct drawing {
    struct pen_placement_graph graph;
    struct pen_placement_node nodes[MOST_NODES];
    struct pen_edge edges[MOST_NODES * MOST_NODES];
    uint32_t num_nodes;
    uint32_t num_edges;
};

static double draw_cost(struct pen_random *random)
{
    return 1 + pen_random_below(random, 20);
}

static void draw_node(struct drawing *drawing, struct pen_random *random,
                      uint32_t color, bool is_backward)
{
    bool is_for_cpu = pen_random_below(random, 12) == 0;
    drawing->nodes[drawing->num_nodes++] = (struct pen_placement_node){
        .id = drawing->num_nodes,
        .color = color,
        .is_backward = is_backward,
        .runs_on_devices = !is_for_cpu || drawing->graph.num_cpus == 0,
        .device_cost = draw_cost(random),
        .cpu_cost = draw_cost(random) * 2,
        .bytes = 1 + pen_random_below(random, 10),
        .transfer_cost = pen_random_below(random, 8)};
}

/*
 * Forward nodes first, then backward ones that run the other way round; colors
 * of two forward nodes here and there.
 */
static void draw(struct drawing *drawing, struct pen_random *random,
                 bool is_limited)
{
    memset(drawing, 0, sizeof *drawing);
    uint32_t n = 2 + pen_random_below(random, MOST_COLORS - 1);
    uint32_t colors = n;
    bool is_training = pen_random_below(random, 2) == 0;
    drawing->graph.num_devices = 1 + pen_random_below(random, 3);
    drawing->graph.num_cpus = pen_random_below(random, 2);
    drawing->graph.memory_bytes =
        is_limited ? 12 + pen_random_below(random, 30) : 1e6;
    for (uint32_t i = 0; i < n; i++)
        draw_node(drawing, random,
                  i > 0 && pen_random_below(random, 5) == 0 ? i - 1 : i, false);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (pen_random_below(random, 3) == 0)
                drawing->edges[drawing->num_edges++] = (struct pen_edge){a, b};
    for (uint32_t i = 0; i < n && is_training; i++)
        draw_node(drawing, random, drawing->nodes[n - 1 - i].color, true);
    for (uint32_t a = n; a < drawing->num_nodes; a++) {
        drawing->edges[drawing->num_edges++] =
            (struct pen_edge){2 * n - 1 - a, a};
        for (uint32_t b = a + 1; b < drawing->num_nodes; b++)
            if (pen_random_below(random, 3) == 0)
                drawing->edges[drawing->num_edges++] = (struct pen_edge){a, b};
    }
    drawing->graph.num_colors = colors;
    drawing->graph.nodes = drawing->nodes;
    assert_int_equal(PEN_OK,
                     pen_graph_init(&drawing->graph.graph, drawing->num_nodes,
                                    drawing->edges, drawing->num_edges, NULL));
}

struct oracle {
    const struct drawing *drawing;
    uint32_t places[MOST_COLORS]; /* per color: position in the pipeline */
    uint32_t num_places;
    uint32_t cpu; /* the position that is the CPU; num_places: none */
    double least;
};

/* Colors keep the order of the forward pass; none is without a place. */
static bool is_in_order(const struct oracle *oracle)
{
    const struct drawing *drawing = oracle->drawing;
    for (uint32_t i = 0; i < drawing->num_edges; i++) {
        const struct pen_placement_node *from =
            &drawing->nodes[drawing->edges[i].from];
        const struct pen_placement_node *to =
            &drawing->nodes[drawing->edges[i].to];
        if (!from->is_backward && !to->is_backward &&
            oracle->places[from->color] > oracle->places[to->color])
            return false;
    }
    return true;
}

static bool fits(const struct oracle *oracle)
{
    double bytes[MOST_PLACES] = {0};
    for (uint32_t i = 0; i < oracle->drawing->num_nodes; i++) {
        const struct pen_placement_node *node = &oracle->drawing->nodes[i];
        uint32_t place = oracle->places[node->color];
        if (place == oracle->cpu)
            continue;
        bytes[place] += node->bytes;
        if (!node->runs_on_devices ||
            bytes[place] > oracle->drawing->graph.memory_bytes)
            return false;
    }
    return true;
}

static double load_of(const struct oracle *oracle, uint32_t place)
{
    const struct drawing *drawing = oracle->drawing;
    bool is_paid[MOST_NODES] = {false};
    double load = 0;
    for (uint32_t i = 0; i < drawing->num_nodes; i++)
        if (oracle->places[drawing->nodes[i].color] == place)
            load += place == oracle->cpu ? drawing->nodes[i].cpu_cost
                                         : drawing->nodes[i].device_cost;
    for (uint32_t i = 0; i < drawing->num_edges && place != oracle->cpu; i++) {
        struct pen_edge edge = drawing->edges[i];
        uint32_t from = oracle->places[drawing->nodes[edge.from].color];
        uint32_t to = oracle->places[drawing->nodes[edge.to].color];
        if (from == to || (from != place && to != place) || is_paid[edge.from])
            continue;
        is_paid[edge.from] = true;
        load += drawing->nodes[edge.from].transfer_cost;
    }
    return load;
}

static void try_colors(struct oracle *oracle, uint32_t color)
{
    if (color < MOST_COLORS && color < oracle->drawing->graph.num_colors) {
        for (uint32_t i = 0; i < oracle->num_places; i++) {
            oracle->places[color] = i;
            try_colors(oracle, color + 1);
        }
        return;
    }
    if (!is_in_order(oracle) || !fits(oracle))
        return;
    double most = 0;
    for (uint32_t i = 0; i < oracle->num_places; i++)
        most = fmax(most, load_of(oracle, i));
    oracle->least = fmin(oracle->least, most);
}

static double least_load(const struct drawing *drawing)
{
    struct oracle oracle = {.drawing = drawing, .least = INFINITY};
    oracle.num_places = drawing->graph.num_devices;
    oracle.cpu = oracle.num_places;
    try_colors(&oracle, 0);
    oracle.num_places += drawing->graph.num_cpus;
    for (oracle.cpu = 0;
         oracle.cpu < oracle.num_places && drawing->graph.num_cpus > 0;
         oracle.cpu++)
        try_colors(&oracle, 0);
    return oracle.least;
}

/* The plan says what it is: its loads, and those of its nodes. */
static void expect_true(const struct drawing *drawing,
                        const struct pen_max_load_plan *plan)
{
    uint32_t places[MOST_NODES];
    uint32_t device = 0;
    uint32_t of_stage[MOST_PLACES];
    double most = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        of_stage[i] =
            plan->stages[i].is_cpu ? drawing->graph.num_devices : device++;
        most = fmax(most, plan->stages[i].load);
    }
    for (uint32_t i = 0; i < drawing->num_nodes; i++)
        places[i] = of_stage[plan->node_stages[i]];
    expect_close(plan->load, most, "the load of its stages");
    expect_close(plan->load, pen_max_load_of(&drawing->graph, places),
                 "the load of its nodes");
}

static void compare(bool is_limited)
{
    struct pen_random random = {.state = is_limited ? 2 : 1};
    int num_infeasible = 0;
    for (int i = 0; i < CASES; i++) {
        struct drawing drawing;
        draw(&drawing, &random, is_limited);
        const struct pen_max_load_problem problem = {.graph = &drawing.graph};
        struct pen_max_load_plan *plan = NULL;
        double expected = least_load(&drawing);
        pen_status status = pen_max_load_solve(&problem, &plan, NULL);
        if (isinf(expected)) {
            assert_int_equal(PEN_INFEASIBLE, status);
            num_infeasible++;
        } else {
            assert_int_equal(PEN_OK, status);
            expect_close(expected, plan->load, "the largest load");
            expect_close(expected, plan->bound, "what cannot be beaten");
            assert_null(plan->left_out);
            expect_true(&drawing, plan);
            pen_max_load_plan_free(plan);
        }
        pen_graph_release(&drawing.graph.graph);
    }
    print_message("%d cases equal to brute force, %d of them infeasible\n",
                  CASES, num_infeasible);
    assert_true(is_limited ? num_infeasible > CASES / 50
                           : num_infeasible < CASES / 2);
}

static void a_placement_is_the_best_of_all(void **state)
{
    (void)state;
    compare(false);
}

static void a_placement_is_the_best_that_fits(void **state)
{
    (void)state;
    compare(true);
}

/* Without room for sets, nodes keep one order; the bound stays below. */
static void what_is_left_out_is_told(void **state)
{
    (void)state;
    struct pen_random random = {.state = 3};
    int num_told = 0;
    for (int i = 0; i < CASES; i++) {
        struct drawing drawing;
        draw(&drawing, &random, false);
        const struct pen_max_load_problem problem = {
            .graph = &drawing.graph,
            .most_ideals = 4 + (uint32_t)i % 5,
            .most_pairs = i % 2 == 0 ? 0 : 1 + (uint64_t)i % 20};
        struct pen_max_load_plan *plan = NULL;
        double best = least_load(&drawing);
        if (pen_max_load_solve(&problem, &plan, NULL) == PEN_OK) {
            assert_true(plan->load >= best - 1e-9);
            assert_true(plan->bound <= best + 1e-9);
            assert_true(plan->left_out != NULL || plan->load < best + 1e-9);
            num_told += plan->left_out != NULL ? 1 : 0;
            expect_true(&drawing, plan);
            pen_max_load_plan_free(plan);
        }
        pen_graph_release(&drawing.graph.graph);
    }
    print_message("%d of %d cases were cut short\n", num_told, CASES);
    assert_true(num_told > CASES / 4 && num_told < CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_placement_is_the_best_of_all),
        cmocka_unit_test(a_placement_is_the_best_that_fits),
        cmocka_unit_test(what_is_left_out_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
