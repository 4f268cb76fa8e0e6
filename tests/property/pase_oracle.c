/* No cut of a small network, layer by layer, is quicker than the one found. */
#include "support/seed.h"
#include "support/support.h"

#include "base/random.h"
#include "planner/pase.h"

#include <math.h>
#include <string.h>

enum { CASES = 500, MOST_NODES = 5, MOST_SPLITS = 40, MOST_ELEMENTS = 256 };

#define CELLS (MOST_NODES * MOST_SPLITS)

/* ---- networks ---- */

struct drawing {
    struct pen_split_graph graph;
    struct pen_split_node nodes[MOST_NODES];
};

/* Outputs are of two dimensions, "b" and "n"; "c" is summed over. */
static void draw_input(struct drawing *drawing, struct pen_random *random,
                       uint32_t number, uint32_t from)
{
    struct pen_split_node *node = &drawing->nodes[number];
    struct pen_split_input *input = &node->inputs[node->num_inputs++];
    input->from = from;
    input->copies = 1 + pen_random_below(random, 2);
    for (uint32_t i = 0; i < 2; i++) {
        input->dims[i] = i == 0 ? 0 : pen_random_below(random, 3);
        input->windows[i] = (struct pen_split_window){
            1 + pen_random_below(random, 2), 1 + pen_random_below(random, 3),
            pen_random_below(random, 3)};
    }
    if (input->dims[1] == 0)
        input->dims[1] = 1;
}

static void draw_node(struct drawing *drawing, struct pen_random *random,
                      uint32_t number)
{
    static const char names[3] = {'b', 'c', 'n'};
    struct pen_split_node *node = &drawing->nodes[number];
    bool has_weight = pen_random_below(random, 4) > 0;
    *node = (struct pen_split_node){.num_dims = 3,
                                    .num_output = 2,
                                    .output = {0, 2},
                                    .flops = pen_random_below(random, 200)};
    for (uint32_t i = 0; i < 3; i++)
        node->dims[i] = (struct pen_split_dim){
            .name = {names[i]},
            .size = 1 + pen_random_below(random, 7),
            .is_whole = pen_random_below(random, 6) == 0};
    if (has_weight) {
        node->num_weight = 2;
        node->weight[0] = 1;
        node->weight[1] = 2;
        node->weight_bytes = 1 + pen_random_below(random, 100);
    }
    for (uint32_t from = 0; from < number; from++)
        if (from + 1 == number || pen_random_below(random, 3) == 0)
            draw_input(drawing, random, number, from);
    if (pen_random_below(random, 6) == 0)
        draw_input(drawing, random, number, number);
}

static void draw(struct drawing *drawing, struct pen_random *random)
{
    static const uint32_t devices[] = {1, 2, 3, 4, 6};
    memset(drawing, 0, sizeof *drawing);
    drawing->graph = (struct pen_split_graph){
        .num_devices = devices[pen_random_below(random, 5)],
        .flops_per_sec = 8,
        .bytes_per_sec = 1 + pen_random_below(random, 16),
        .element_bytes = 1 + pen_random_below(random, 4),
        .num_nodes = 2 + pen_random_below(random, MOST_NODES - 1),
        .nodes = drawing->nodes};
    for (uint32_t i = 0; i < drawing->graph.num_nodes; i++)
        draw_node(drawing, random, i);
}

/* ---- the costs once more, element by element ---- */

/* Where a device stands in a layer; false: it has nothing to do. */
static bool stand(const struct pen_split_node *node,
                  const struct pen_pase_split *split, uint32_t device,
                  uint32_t *out)
{
    uint32_t stride = 1;
    for (uint32_t i = node->num_dims; i-- > 0;) {
        out[i] = device / stride % split->parts[i];
        stride *= split->parts[i];
    }
    return device < stride;
}

/* Whether position x of a dimension belongs to a part. */
static bool is_in(uint32_t x, uint32_t part, uint32_t parts, uint32_t size)
{
    uint32_t owner = 0;
    while ((owner + 1) * size / parts <= x)
        owner++;
    return owner == part;
}

static void mark_output(const struct pen_split_node *node,
                        const struct pen_pase_split *split, uint32_t device,
                        bool *marks)
{
    uint32_t at[PEN_SPLIT_MAX_DIMS];
    memset(marks, 0, MOST_ELEMENTS);
    if (!stand(node, split, device, at))
        return;
    const struct pen_split_dim *rows = &node->dims[node->output[0]];
    const struct pen_split_dim *columns = &node->dims[node->output[1]];
    for (uint32_t y = 0; y < rows->size; y++)
        for (uint32_t x = 0; x < columns->size; x++)
            marks[y * columns->size + x] =
                is_in(y, at[0], split->parts[0], rows->size) &&
                is_in(x, at[2], split->parts[2], columns->size);
}

/* Whether a part of a dimension reads index x of a tensor. */
static bool reads(const struct pen_split_dim *dim, uint32_t part,
                  uint32_t parts, const struct pen_split_window *window,
                  uint32_t x)
{
    /* Windows with gaps are read as their extent, from the first to the last.
     */
    int64_t first = -1;
    int64_t last = -1;
    for (uint32_t i = 0; i < dim->size; i++)
        if (is_in(i, part, parts, dim->size)) {
            first = first < 0 ? i : first;
            last = i;
        }
    int64_t begin = first * window->stride - window->shift;
    int64_t end = last * window->stride + window->kernel - window->shift;
    return x >= begin && x < end;
}

static void mark_input(const struct drawing *drawing, uint32_t number,
                       const struct pen_split_input *input,
                       const struct pen_pase_split *split, uint32_t device,
                       bool *marks)
{
    const struct pen_split_node *node = &drawing->nodes[number];
    const struct pen_split_node *from = &drawing->nodes[input->from];
    uint32_t at[PEN_SPLIT_MAX_DIMS];
    memset(marks, 0, MOST_ELEMENTS);
    if (!stand(node, split, device, at))
        return;
    uint32_t width = from->dims[2].size;
    for (uint32_t y = 0; y < from->dims[0].size; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint32_t a = input->dims[0];
            uint32_t b = input->dims[1];
            marks[y * width + x] = reads(&node->dims[a], at[a], split->parts[a],
                                         &input->windows[0], y) &&
                                   reads(&node->dims[b], at[b], split->parts[b],
                                         &input->windows[1], x);
        }
}

static double count_without(const bool *marks, const bool *others)
{
    double count = 0;
    for (uint32_t i = 0; i < MOST_ELEMENTS; i++)
        count += marks[i] && !others[i];
    return count;
}

static double transfer(const struct drawing *drawing, uint32_t number,
                       const struct pen_split_input *input,
                       const struct pen_pase_split *from,
                       const struct pen_pase_split *split)
{
    bool have[MOST_ELEMENTS];
    bool need[MOST_ELEMENTS];
    double forward = 0;
    double backward = 0;
    uint32_t others = 1;
    for (uint32_t i = 0; i < 3; i++)
        if (i != input->dims[0] && i != input->dims[1])
            others *= split->parts[i];
    for (uint32_t d = 0; d < drawing->graph.num_devices; d++) {
        mark_output(&drawing->nodes[input->from], from, d, have);
        mark_input(drawing, number, input, split, d, need);
        forward = fmax(forward, count_without(need, have));
        backward = fmax(backward, count_without(have, need));
        if (others == 1)
            backward = fmax(backward, count_without(need, have));
    }
    return (forward + backward) * input->copies * drawing->graph.element_bytes /
           drawing->graph.bytes_per_sec;
}

static double ring(const struct drawing *drawing, uint32_t devices,
                   double bytes)
{
    return 2.0 * (devices - 1) / devices * bytes / drawing->graph.bytes_per_sec;
}

static double inner(const struct drawing *drawing, uint32_t number,
                    const struct pen_pase_split *split)
{
    const struct pen_split_graph *graph = &drawing->graph;
    const struct pen_split_node *node = &drawing->nodes[number];
    const uint32_t *p = split->parts;
    double most[3];
    for (uint32_t i = 0; i < 3; i++)
        most[i] = (node->dims[i].size + p[i] - 1) / p[i];
    double share = 1;
    for (uint32_t i = 0; i < 3; i++)
        share *= most[i] / node->dims[i].size;
    double sec = 3 * node->flops * share / graph->flops_per_sec;
    sec += ring(drawing, p[1], most[0] * most[2] * graph->element_bytes);
    if (node->num_weight > 0)
        sec += ring(drawing, p[0],
                    node->weight_bytes * most[1] / node->dims[1].size *
                        most[2] / node->dims[2].size);
    for (uint32_t i = 0; i < node->num_inputs; i++) {
        const struct pen_split_input *input = &node->inputs[i];
        const struct pen_split_node *from = &graph->nodes[input->from];
        double bytes = input->copies * graph->element_bytes;
        for (uint32_t k = 0; k < 2; k++)
            bytes *=
                fmin(from->dims[from->output[k]].size,
                     (most[input->dims[k]] - 1) * input->windows[k].stride +
                         input->windows[k].kernel);
        sec += ring(drawing,
                    p[0] * p[1] * p[2] / p[input->dims[0]] / p[input->dims[1]],
                    bytes);
        if (input->from == number)
            sec += transfer(drawing, number, input, split, split);
    }
    return sec;
}

/* ---- all cuts ---- */

struct oracle {
    const struct drawing *drawing;
    struct pen_pase_split splits[MOST_NODES][MOST_SPLITS];
    uint32_t counts[MOST_NODES];
    double inner[MOST_NODES][MOST_SPLITS];
    double edges[CELLS][CELLS];
    uint32_t at[MOST_NODES];
    double least;
};

static void list(struct oracle *oracle, uint32_t number)
{
    const struct pen_split_node *node = &oracle->drawing->nodes[number];
    uint32_t devices = oracle->drawing->graph.num_devices;
    for (uint32_t code = 0; code < devices * devices * devices; code++) {
        uint32_t p[3] = {code % devices + 1, code / devices % devices + 1,
                         code / devices / devices + 1};
        bool is_allowed = devices % (p[0] * p[1] * p[2]) == 0;
        for (uint32_t i = 0; i < 3; i++)
            if (p[i] > 1 &&
                (node->dims[i].is_whole || p[i] > node->dims[i].size))
                is_allowed = false;
        if (!is_allowed)
            continue;
        struct pen_pase_split split = {{p[0], p[1], p[2]}};
        uint32_t place = oracle->counts[number]++;
        assert_true(place < MOST_SPLITS);
        oracle->splits[number][place] = split;
        oracle->inner[number][place] = inner(oracle->drawing, number, &split);
    }
}

static void fill_edges(struct oracle *oracle, uint32_t to)
{
    const struct pen_split_node *node = &oracle->drawing->nodes[to];
    for (uint32_t i = 0; i < node->num_inputs; i++) {
        uint32_t from = node->inputs[i].from;
        for (uint32_t a = 0; a < oracle->counts[from] && from != to; a++)
            for (uint32_t b = 0; b < oracle->counts[to]; b++)
                oracle->edges[from * MOST_SPLITS + a][to * MOST_SPLITS + b] +=
                    transfer(oracle->drawing, to, &node->inputs[i],
                             &oracle->splits[from][a], &oracle->splits[to][b]);
    }
}

static void try_from(struct oracle *oracle, uint32_t number, double sec)
{
    if (sec >= oracle->least)
        return;
    if (number == oracle->drawing->graph.num_nodes || number == MOST_NODES) {
        oracle->least = sec;
        return;
    }
    for (uint32_t s = 0; s < oracle->counts[number]; s++) {
        double more = sec + oracle->inner[number][s];
        for (uint32_t from = 0; from < number; from++)
            more += oracle->edges[from * MOST_SPLITS + oracle->at[from]]
                                 [number * MOST_SPLITS + s];
        oracle->at[number] = s;
        try_from(oracle, number + 1, more);
    }
}

static double least_sec(const struct drawing *drawing)
{
    static struct oracle oracle;
    memset(&oracle, 0, sizeof oracle);
    oracle.drawing = drawing;
    oracle.least = INFINITY;
    for (uint32_t i = 0; i < drawing->graph.num_nodes; i++)
        list(&oracle, i);
    for (uint32_t i = 0; i < drawing->graph.num_nodes; i++)
        fill_edges(&oracle, i);
    try_from(&oracle, 0, 0);
    return oracle.least;
}

static void compare(uint64_t seed)
{
    struct pen_random random = {.state = seed};
    uint32_t most_dependent = 0;
    for (int i = 0; i < CASES; i++) {
        struct drawing drawing;
        draw(&drawing, &random);
        const struct pen_pase_problem problem = {.graph = &drawing.graph};
        struct pen_pase_plan *plan = NULL;
        assert_int_equal(PEN_OK, pen_pase_solve(&problem, &plan, NULL));
        expect_close(least_sec(&drawing), plan->step_sec, "seconds of a step");
        assert_true(plan->step_sec <= plan->data_parallel_sec + 1e-9);
        assert_true(plan->step_sec <= plan->grid_sec + 1e-9);
        if (plan->most_dependent > most_dependent)
            most_dependent = plan->most_dependent;
        pen_pase_plan_free(plan);
    }
    print_message("seed %llu: %d cases equal to brute force, tables of up to "
                  "%u layers\n",
                  (unsigned long long)seed, CASES, most_dependent);
    assert_true(most_dependent >= 2);
}

static void a_cut_is_the_best_of_all(void **state)
{
    (void)state;
    uint64_t seeds[MOST_SEEDS];
    size_t count = seeds_of("pase_oracle", seeds);
    for (size_t i = 0; i < count; i++)
        compare(seeds[i]);
}

/* ---- the 1.5-D grid ---- */

/* The paper's sums for a chain of dense layers of size `width`. */
static double chain_sec(const struct pen_split_graph *graph, double batch,
                        double width, double rows)
{
    double columns = graph->num_devices / rows;
    double layers = graph->num_nodes;
    double outputs = batch / columns * width * graph->element_bytes;
    double weights = width * width * graph->element_bytes / rows;
    double bytes = (layers - 1) * (rows - 1) / rows * outputs /* gather */
                   + (layers - 1) * 2 * (rows - 1) / rows * outputs +
                   layers * 2 * (columns - 1) / columns * weights;
    return layers * 3 * graph->nodes[0].flops / graph->num_devices /
               graph->flops_per_sec +
           bytes / graph->bytes_per_sec;
}

static void a_grid_has_the_sums_of_its_paper(void **state)
{
    (void)state;
    enum { LAYERS = 4, DEVICES = 16, BATCH = 64, WIDTH = 128 };
    struct pen_split_node nodes[LAYERS];
    struct pen_split_graph graph = {.num_devices = DEVICES,
                                    .flops_per_sec = 1e6,
                                    .bytes_per_sec = 1e5,
                                    .element_bytes = 4,
                                    .num_nodes = LAYERS,
                                    .nodes = nodes};
    for (uint32_t i = 0; i < LAYERS; i++) {
        nodes[i] = (struct pen_split_node){.num_dims = 3,
                                           .dims = {{"b", BATCH, false},
                                                    {"c", WIDTH, false},
                                                    {"n", WIDTH, false}},
                                           .num_output = 2,
                                           .output = {0, 2},
                                           .num_weight = 2,
                                           .weight = {1, 2},
                                           .flops = 2.0 * BATCH * WIDTH * WIDTH,
                                           .weight_bytes = 4.0 * WIDTH * WIDTH,
                                           .num_inputs = i > 0};
        nodes[i].inputs[0] =
            (struct pen_split_input){.from = i - 1,
                                     .copies = 1,
                                     .dims = {0, 1},
                                     .windows = {{1, 1, 0}, {1, 1, 0}}};
    }
    double least = INFINITY;
    for (uint32_t rows = 1; rows <= DEVICES; rows *= 2) {
        struct pen_pase_split splits[LAYERS];
        for (uint32_t i = 0; i < LAYERS; i++)
            splits[i] = (struct pen_pase_split){{DEVICES / rows, 1, rows}};
        double sec = chain_sec(&graph, BATCH, WIDTH, rows);
        expect_close(sec, pen_pase_step_sec(&graph, splits), "a grid");
        least = fmin(least, sec);
    }
    const struct pen_pase_problem problem = {.graph = &graph};
    struct pen_pase_plan *plan = NULL;
    assert_int_equal(PEN_OK, pen_pase_solve(&problem, &plan, NULL));
    expect_close(least, plan->grid_sec, "the best grid");
    /* Neither pure data nor pure model parallelism, as the paper has it. */
    assert_true(plan->grid_rows > 1 && plan->grid_columns > 1);
    assert_true(plan->step_sec <= plan->grid_sec + 1e-12);
    pen_pase_plan_free(plan);
}

/* Tables that would be too large are refused before they are made. */
static void too_many_ways_are_refused(void **state)
{
    (void)state;
    struct pen_random random = {.state = 5};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct drawing drawing;
    draw(&drawing, &random);
    drawing.graph.num_devices = 6;
    const struct pen_pase_problem problem = {.graph = &drawing.graph,
                                             .most_steps = 10};
    struct pen_pase_plan *plan = NULL;
    assert_int_equal(PEN_INFEASIBLE, pen_pase_solve(&problem, &plan, &why));
    assert_null(plan);
    assert_non_null(strstr(pen_text_string(&why), "in too many ways"));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_the_best_of_all),
        cmocka_unit_test(a_grid_has_the_sums_of_its_paper),
        cmocka_unit_test(too_many_ways_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
