/*
 * Piper's recurrence gives what trying all stages, degrees and modes gives, and
 * the choice of modes is the best that fits.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/knapsack.h"
#include "planner/piper.h"

#include <math.h>
#include <string.h>

enum { MOST_NODES = 4, MOST_MODES = 4, CASES = 300, MOST_ITEMS = 8 };

/* ---- modes ---- */

static double try_items(const struct pen_knapsack *knapsack, uint32_t item,
                        double cost, double size)
{
    if (item == knapsack->num_items)
        return size <= knapsack->capacity ? cost : INFINITY;
    double least = INFINITY;
    for (uint32_t i = knapsack->begins[item]; i < knapsack->begins[item + 1];
         i++)
        least = fmin(least, try_items(knapsack, item + 1,
                                      cost + knapsack->choices[i].cost,
                                      size + knapsack->choices[i].size));
    return least;
}

static void modes_are_the_best_that_fit(void **state)
{
    (void)state;
    struct pen_random random = {.state = 4};
    int num_infeasible = 0;
    for (int i = 0; i < 5 * CASES; i++) {
        struct pen_knapsack_choice choices[3 * MOST_ITEMS];
        uint32_t begins[MOST_ITEMS + 1] = {0};
        struct pen_knapsack_room room[MOST_ITEMS + 1];
        double bound;
        struct pen_knapsack knapsack = {
            .choices = choices,
            .begins = begins,
            .num_items = pen_random_below(&random, MOST_ITEMS + 1),
            .capacity = pen_random_below(&random, 50),
            .most_steps = 1000000};
        for (uint32_t j = 0; j < knapsack.num_items; j++) {
            uint32_t count = 1 + pen_random_below(&random, 3);
            begins[j + 1] = begins[j] + count;
            for (uint32_t k = begins[j]; k < begins[j + 1]; k++)
                choices[k] = (struct pen_knapsack_choice){
                    pen_random_below(&random, 9), pen_random_below(&random, 9)};
            if (j > 0 && begins[j] - begins[j - 1] == count &&
                pen_random_below(&random, 2) == 0)
                memcpy(&choices[begins[j]], &choices[begins[j - 1]],
                       count * sizeof *choices);
        }
        double expected = try_items(&knapsack, 0, 0, 0);
        double found = pen_knapsack_solve(&knapsack, room, &bound);
        assert_true(bound == found);
        num_infeasible += isinf(expected) ? 1 : 0;
        if (isinf(expected)) {
            assert_true(isinf(found));
            continue;
        }
        expect_close(expected, found, "the least cost");
        double cost = 0;
        double size = 0;
        for (uint32_t j = 0; j < knapsack.num_items; j++) {
            cost += choices[begins[j] + room[j].pick].cost;
            size += choices[begins[j] + room[j].pick].size;
        }
        expect_close(expected, cost, "the cost of its choices");
        assert_true(size <= knapsack.capacity);
    }
    print_message("%d cases equal to brute force, %d of them infeasible\n",
                  5 * CASES, num_infeasible);
    assert_true(num_infeasible > 0);
}

static void a_search_that_is_cut_short_says_so(void **state)
{
    (void)state;
    const struct pen_knapsack_choice choices[] = {
        {1, 2}, {2, 1}, {1, 3}, {3, 1}};
    const uint32_t begins[] = {0, 2, 4};
    const struct pen_knapsack knapsack = {.choices = choices,
                                          .begins = begins,
                                          .num_items = 2,
                                          .capacity = 4,
                                          .most_steps = 1};
    struct pen_knapsack_room room[3];
    double bound;
    double found = pen_knapsack_solve(&knapsack, room, &bound);
    expect_close(4, found, "what fits, if not the least");
    expect_close(3, bound, "no less than that");
}

/* ---- stages ---- */

struct drawing {
    struct pen_piper_profile profile;
    struct pen_piper_node nodes[MOST_NODES];
    struct pen_piper_mode modes[MOST_NODES][MOST_MODES];
    double bytes[MOST_NODES][MOST_MODES][2 * MOST_NODES];
    struct pen_edge edges[MOST_NODES * MOST_NODES];
};

static void draw_modes(struct drawing *drawing, struct pen_random *random,
                       uint32_t node)
{
    static const uint32_t degrees[] = {1, 1, 2, 3};
    for (uint32_t i = 0; i < MOST_MODES; i++) {
        struct pen_piper_mode *mode = &drawing->modes[node][i];
        double *bytes = drawing->bytes[node][i];
        for (uint32_t j = 0; j < 2 * MOST_NODES; j++)
            bytes[j] = pen_random_below(random, 10);
        *mode = (struct pen_piper_mode){
            .degree = degrees[i],
            .compute_sec = (1 + pen_random_below(random, 20)) /
                           (double)degrees[i] * (i == 1 ? 1.3 : 1),
            .parameter_bytes = pen_random_below(random, 20),
            .wave_bytes = pen_random_below(random, i == 1 ? 2 : 6),
            .fixed_bytes = pen_random_below(random, 6),
            .in_bytes = bytes,
            .out_bytes = bytes + MOST_NODES};
    }
    drawing->nodes[node] =
        (struct pen_piper_node){.id = node,
                                .num_modes = 1 + pen_random_below(random, 4),
                                .modes = drawing->modes[node]};
}

static void draw(struct drawing *drawing, struct pen_random *random)
{
    uint32_t n = 1 + pen_random_below(random, MOST_NODES);
    uint32_t num_edges = 0;
    memset(drawing, 0, sizeof *drawing);
    drawing->profile.num_devices = 1 + pen_random_below(random, 4);
    drawing->profile.num_microbatches = 1 + pen_random_below(random, 6);
    drawing->profile.memory_bytes = 8 + pen_random_below(random, 40);
    drawing->profile.bytes_per_sec = 5 + pen_random_below(random, 40);
    drawing->profile.nodes = drawing->nodes;
    for (uint32_t a = 0; a < n; a++) {
        draw_modes(drawing, random, a);
        for (uint32_t b = a + 1; b < n; b++)
            if (pen_random_below(random, 2) == 0)
                drawing->edges[num_edges++] = (struct pen_edge){a, b};
    }
    assert_int_equal(PEN_OK, pen_graph_init(&drawing->profile.graph, n,
                                            drawing->edges, num_edges, NULL));
}

struct oracle {
    const struct pen_piper_profile *profile;
    uint32_t num_stages;
    uint32_t stages[MOST_NODES]; /* per node */
    uint32_t modes[MOST_NODES];
    uint32_t tensor[MOST_NODES]; /* per stage */
    uint32_t data[MOST_NODES];
    double least;
};

static double cut_bytes(const struct oracle *oracle, uint32_t node,
                        const struct pen_piper_mode *mode)
{
    const struct pen_graph *graph = &oracle->profile->graph;
    double bytes = 0;
    for (uint32_t i = graph->in_begin[node]; i < graph->in_begin[node + 1]; i++)
        if (oracle->stages[graph->in[i]] != oracle->stages[node])
            bytes += mode->in_bytes[i - graph->in_begin[node]];
    for (uint32_t i = graph->out_begin[node]; i < graph->out_begin[node + 1];
         i++)
        if (oracle->stages[graph->out[i]] != oracle->stages[node])
            bytes += mode->out_bytes[i - graph->out_begin[node]];
    return bytes;
}

/* All is chosen: the slowest stage, or INFINITY when one does not fit. */
static double judge(const struct oracle *oracle)
{
    const struct pen_piper_profile *profile = oracle->profile;
    double most = 0;
    uint32_t replicas = 0;
    for (uint32_t stage = oracle->num_stages; stage-- > 0;) {
        double d = oracle->data[stage];
        double sec = 0;
        double bytes = 0;
        replicas += oracle->data[stage];
        double waves = ceil(replicas / d);
        for (uint32_t i = 0; i < profile->graph.num_nodes; i++) {
            const struct pen_piper_mode *mode =
                &profile->nodes[i].modes[oracle->modes[i]];
            if (oracle->stages[i] != stage)
                continue;
            if (mode->degree != oracle->tensor[stage])
                return INFINITY;
            sec += mode->compute_sec / d +
                   (2 * cut_bytes(oracle, i, mode) / d +
                    4 * (d - 1) / d * mode->parameter_bytes /
                        profile->num_microbatches) /
                       profile->bytes_per_sec;
            bytes += mode->wave_bytes * waves + mode->fixed_bytes;
        }
        if (bytes > profile->memory_bytes)
            return INFINITY;
        most = fmax(most, sec);
    }
    return replicas <= profile->num_microbatches ? most : INFINITY;
}

static void try_modes(struct oracle *oracle, uint32_t node)
{
    if (node == oracle->profile->graph.num_nodes || node == MOST_NODES) {
        oracle->least = fmin(oracle->least, judge(oracle));
        return;
    }
    for (uint32_t i = 0; i < oracle->profile->nodes[node].num_modes; i++) {
        oracle->modes[node] = i;
        try_modes(oracle, node + 1);
    }
}

static void try_degrees(struct oracle *oracle, uint32_t stage, uint32_t devices)
{
    if (stage == oracle->num_stages || stage == MOST_NODES) {
        try_modes(oracle, 0);
        return;
    }
    for (uint32_t t = 1; t <= devices; t++) {
        for (uint32_t d = 1; t * d <= devices; d++) {
            if (oracle->profile->num_microbatches % d != 0)
                continue;
            oracle->tensor[stage] = t;
            oracle->data[stage] = d;
            try_degrees(oracle, stage + 1, devices - t * d);
        }
    }
}

/* Stages 0..num_stages-1 are all used, and edges do not go back. */
static bool is_pipeline(const struct oracle *oracle)
{
    const struct pen_graph *graph = &oracle->profile->graph;
    uint32_t used = 0;
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        used |= 1u << oracle->stages[i];
        for (uint32_t j = graph->out_begin[i]; j < graph->out_begin[i + 1]; j++)
            if (oracle->stages[graph->out[j]] < oracle->stages[i])
                return false;
    }
    return used == (1u << oracle->num_stages) - 1;
}

static void try_stages(struct oracle *oracle, uint32_t node)
{
    if (node == oracle->profile->graph.num_nodes || node == MOST_NODES) {
        if (is_pipeline(oracle))
            try_degrees(oracle, 0, oracle->profile->num_devices);
        return;
    }
    for (uint32_t i = 0; i < oracle->num_stages; i++) {
        oracle->stages[node] = i;
        try_stages(oracle, node + 1);
    }
}

/* Its own stages, degrees and modes have the seconds that it says. */
static void expect_true(const struct drawing *drawing,
                        const struct pen_piper_plan *plan)
{
    struct oracle oracle = {.profile = &drawing->profile,
                            .num_stages = plan->num_stages};
    for (uint32_t i = 0; i < drawing->profile.graph.num_nodes; i++) {
        oracle.stages[i] = plan->node_stages[i];
        oracle.modes[i] = plan->node_modes[i];
    }
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        oracle.tensor[i] = plan->stages[i].tensor_degree;
        oracle.data[i] = plan->stages[i].data_degree;
    }
    assert_true(is_pipeline(&oracle));
    expect_close(plan->stage_sec, judge(&oracle), "its own seconds");
}

static void stages_are_the_best_of_all(void **state)
{
    (void)state;
    struct pen_random random = {.state = 6};
    int num_infeasible = 0;
    for (int i = 0; i < CASES; i++) {
        struct drawing drawing;
        struct pen_piper_plan *plan = NULL;
        draw(&drawing, &random);
        struct oracle oracle = {.profile = &drawing.profile, .least = INFINITY};
        for (oracle.num_stages = 1;
             oracle.num_stages <= drawing.profile.num_devices &&
             oracle.num_stages <= MOST_NODES;
             oracle.num_stages++)
            try_stages(&oracle, 0);
        const struct pen_piper_problem problem = {.profile = &drawing.profile};
        pen_status status = pen_piper_solve(&problem, &plan, NULL);
        num_infeasible += isinf(oracle.least) ? 1 : 0;
        assert_int_equal(isinf(oracle.least) ? PEN_INFEASIBLE : PEN_OK, status);
        if (status == PEN_OK) {
            expect_close(oracle.least, plan->stage_sec, "the slowest stage");
            assert_null(plan->left_out);
            expect_true(&drawing, plan);
            pen_piper_plan_free(plan);
        }
        pen_graph_release(&drawing.profile.graph);
    }
    print_message("%d cases equal to brute force, %d of them infeasible\n",
                  CASES, num_infeasible);
    assert_true(num_infeasible > 0 && num_infeasible < CASES * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_are_the_best_that_fit),
        cmocka_unit_test(a_search_that_is_cut_short_says_so),
        cmocka_unit_test(stages_are_the_best_of_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
