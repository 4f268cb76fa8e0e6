/*
 * The least of
 *
 *   F(s)  =  sum over layers of t(v, s_v)
 *            +  sum over edges of t(u, v, s_u, s_v)
 *
 * (pase_cost.c) by dynamic programming over a sequence of the layers. With v_i
 * the i-th of them and D(i) the later layers that v_i, or an earlier layer
 * connected to it through earlier ones, shares an edge with:
 *
 *   T_i(s of D(i))  =  least over s_v of  t(v_i, s_v)
 *                      + edges between v_i and D(i)
 *                      + T_j for each earlier j whose first of D(j) is v_i
 *
 * A table has prod K entries over D(i), K splits each. The sequence takes the
 * layer with the fewest dependent ones next (GenerateSeq), so a chain has
 * tables of one layer. The answer is read backwards.
 */
#include "planner/pase.h"

#include "base/bug.h"
#include "planner/pase_cost.h"

#include <math.h>
#include <stdlib.h>

#define MOST_STEPS 4000000000u
#define MOST_ENTRIES 100000000u
#define MOST_DEPENDENT 16u
#define NOBODY UINT32_MAX

/* The seconds of an edge for each pair of splits; edges of a pair are added. */
struct pair {
    uint32_t from;
    uint32_t to;
    double *sec; /* (splits of from, splits of to) */
};

/* A layer, and the table that it leaves. */
struct layer {
    struct pen_pase_split *splits;
    uint32_t num_splits;
    double *sec;  /* (num_splits) t(v, s) */
    bool is_done; /* is in the sequence */
    bool is_read; /* the table is part of another one */
    uint32_t num_dependent;
    uint32_t dependent[MOST_DEPENDENT];
    double *best;     /* over the splits of the dependent layers, the last one
                         fastest */
    uint16_t *choice; /* the split of this layer there */
    uint32_t chosen;
};

struct solver {
    const struct pen_split_graph *graph;
    uint32_t count;
    struct layer *layers;
    struct pair *pairs;
    uint32_t num_pairs;
    uint8_t *are_near; /* (count, count): share an edge, in the end a table */
    uint32_t *order;
    uint64_t steps_left;
    struct pen_text *why;
};

static pen_status no_memory(struct solver *solver)
{
    pen_why(solver->why, "no memory for the splits of %u layers",
            solver->count);
    return PEN_NOMEM;
}

/* ---- the ways to cut a layer ---- */

static bool can_cut(const struct pen_split_dim *dim, uint32_t parts)
{
    return parts == 1 || (!dim->is_whole && parts <= dim->size);
}

/*
 * Counts all splits whose product divides `left`, and writes them where `out`
 * is not NULL.
 */
static uint32_t list_splits(const struct pen_split_node *node, uint32_t dim,
                            uint32_t left, struct pen_pase_split *at,
                            struct pen_pase_split *out)
{
    uint32_t count = 0;
    if (dim == node->num_dims) {
        if (out != NULL)
            *out = *at;
        return 1;
    }
    for (uint32_t parts = 1; parts <= left; parts++) {
        if (left % parts != 0 || !can_cut(&node->dims[dim], parts))
            continue;
        at->parts[dim] = parts;
        count += list_splits(node, dim + 1, left / parts, at,
                             out == NULL ? NULL : out + count);
    }
    return count;
}

static pen_status find_splits(struct solver *solver)
{
    uint32_t devices = solver->graph->num_devices;
    for (uint32_t i = 0; i < solver->count; i++) {
        struct layer *layer = &solver->layers[i];
        const struct pen_split_node *node = &solver->graph->nodes[i];
        struct pen_pase_split at = {{0}};
        uint32_t count = list_splits(node, 0, devices, &at, NULL);
        PEN_BUG_UNLESS(count > 0);
        layer->num_splits = count;
        if (count > UINT16_MAX) {
            pen_why(solver->why,
                    "'%s' can be cut in more than %u ways on %u devices; name "
                    "dimensions that are not cut in its \"whole\"",
                    node->name, UINT16_MAX, devices);
            return PEN_INFEASIBLE;
        }
        layer->splits = calloc(count, sizeof *layer->splits);
        layer->sec = calloc(count, sizeof *layer->sec);
        if (layer->splits == NULL || layer->sec == NULL)
            return no_memory(solver);
        (void)list_splits(node, 0, devices, &at, layer->splits);
        for (uint32_t s = 0; s < count; s++)
            layer->sec[s] =
                pen__pase_inner_sec(solver->graph, i, &layer->splits[s]);
    }
    return PEN_OK;
}

/* ---- edges ---- */

static struct pair *find_pair(struct solver *solver, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < solver->num_pairs; i++)
        if (solver->pairs[i].from == from && solver->pairs[i].to == to)
            return &solver->pairs[i];
    struct pair *pair = &solver->pairs[solver->num_pairs++];
    size_t size =
        (size_t)solver->layers[from].num_splits * solver->layers[to].num_splits;
    PEN_BUG_UNLESS(size > 0);
    *pair = (struct pair){from, to, calloc(size, sizeof *pair->sec)};
    return pair;
}

static bool count_steps(struct solver *solver, double steps)
{
    if (steps > (double)solver->steps_left)
        return false;
    solver->steps_left -= (uint64_t)steps;
    return true;
}

static pen_status too_large(struct solver *solver, uint32_t node)
{
    pen_why(solver->why,
            "'%s' and the layers that depend on it can be cut in too many ways "
            "on %u devices; "
            "take fewer devices, or name dimensions that are not cut in "
            "\"whole\"",
            solver->graph->nodes[node].name, solver->graph->num_devices);
    return PEN_INFEASIBLE;
}

static pen_status add_edge(struct solver *solver, uint32_t to,
                           const struct pen_split_input *input)
{
    const struct layer *have = &solver->layers[input->from];
    const struct layer *need = &solver->layers[to];
    double size = (double)have->num_splits * need->num_splits;
    if (size > MOST_ENTRIES ||
        !count_steps(solver, size * solver->graph->num_devices))
        return too_large(solver, to);
    struct pair *pair = find_pair(solver, input->from, to);
    if (pair->sec == NULL)
        return no_memory(solver);
    for (uint32_t a = 0; a < have->num_splits; a++)
        for (uint32_t b = 0; b < need->num_splits; b++)
            pair->sec[(size_t)a * need->num_splits + b] +=
                pen__pase_transfer_sec(solver->graph, to, input,
                                       &have->splits[a], &need->splits[b]);
    solver->are_near[(size_t)input->from * solver->count + to] = 1;
    solver->are_near[(size_t)to * solver->count + input->from] = 1;
    return PEN_OK;
}

static pen_status find_edges(struct solver *solver)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < solver->count; i++)
        count += solver->graph->nodes[i].num_inputs;
    solver->pairs = calloc(count + 1, sizeof *solver->pairs);
    if (solver->pairs == NULL)
        return no_memory(solver);
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < solver->count; i++) {
        const struct pen_split_node *node = &solver->graph->nodes[i];
        for (uint32_t k = 0; k < node->num_inputs && status == PEN_OK; k++)
            if (node->inputs[k].from != i)
                status = add_edge(solver, i, &node->inputs[k]);
    }
    return status;
}

/* ---- the sequence ---- */

static uint32_t count_near(const struct solver *solver, uint32_t layer)
{
    const uint8_t *row = &solver->are_near[(size_t)layer * solver->count];
    uint32_t near = 0;
    for (uint32_t i = 0; i < solver->count; i++)
        near += row[i] != 0 && !solver->layers[i].is_done;
    return near;
}

static uint32_t next_layer(const struct solver *solver)
{
    uint32_t best = NOBODY;
    uint32_t least = NOBODY;
    for (uint32_t i = 0; i < solver->count; i++) {
        uint32_t near =
            solver->layers[i].is_done ? NOBODY : count_near(solver, i);
        if (near < least) {
            least = near;
            best = i;
        }
    }
    return best;
}

/* The layers that depend on this one are from now on near each other. */
static bool take(struct solver *solver, uint32_t number)
{
    struct layer *layer = &solver->layers[number];
    const uint8_t *row = &solver->are_near[(size_t)number * solver->count];
    layer->is_done = true;
    for (uint32_t i = 0; i < solver->count; i++) {
        if (row[i] == 0 || solver->layers[i].is_done)
            continue;
        if (layer->num_dependent == MOST_DEPENDENT)
            return false;
        layer->dependent[layer->num_dependent++] = i;
    }
    for (uint32_t a = 0; a < layer->num_dependent; a++)
        for (uint32_t b = 0; b < layer->num_dependent; b++)
            if (a != b)
                solver->are_near[(size_t)layer->dependent[a] * solver->count +
                                 layer->dependent[b]] = 1;
    return true;
}

/* ---- tables ---- */

/*
 * A row of seconds, one for each split of the layer of a table, `stride` apart,
 * and how far it moves with the split of a dependent layer.
 */
struct term {
    const double *sec;
    const double *row; /* where the dependent layers have their splits */
    size_t stride;
    size_t moves[MOST_DEPENDENT];
};

static uint32_t place_of(const struct layer *layer, uint32_t dependent)
{
    uint32_t i = 0;
    while (i < layer->num_dependent && layer->dependent[i] != dependent)
        i++;
    PEN_BUG_UNLESS(i < layer->num_dependent);
    return i;
}

/* Edges between the layer and those that depend on it. */
static uint32_t add_pairs(const struct solver *solver, uint32_t number,
                          struct term *terms)
{
    const struct layer *layer = &solver->layers[number];
    uint32_t count = 0;
    for (uint32_t i = 0; i < solver->num_pairs; i++) {
        const struct pair *pair = &solver->pairs[i];
        bool is_from = pair->from == number;
        uint32_t other = is_from ? pair->to : pair->from;
        size_t width = solver->layers[pair->to].num_splits;
        if ((!is_from && pair->to != number) || solver->layers[other].is_done)
            continue;
        struct term term = {.sec = pair->sec, .stride = is_from ? width : 1};
        term.moves[place_of(layer, other)] = is_from ? 1 : width;
        terms[count++] = term;
    }
    return count;
}

/* Tables that depend on this layer before they depend on any other. */
static uint32_t add_tables(struct solver *solver, uint32_t number,
                           struct term *terms)
{
    const struct layer *layer = &solver->layers[number];
    uint32_t count = 0;
    for (uint32_t i = 0; i < solver->count; i++) {
        struct layer *table = &solver->layers[i];
        size_t stride = 1;
        struct term term = {.sec = table->best};
        if (table->best == NULL || table->is_read)
            continue;
        for (uint32_t k = 0; k < table->num_dependent; k++)
            table->is_read |= table->dependent[k] == number;
        for (uint32_t k = table->num_dependent; k-- > 0 && table->is_read;) {
            uint32_t dependent = table->dependent[k];
            if (dependent == number)
                term.stride = stride;
            else
                term.moves[place_of(layer, dependent)] = stride;
            stride *= solver->layers[dependent].num_splits;
        }
        if (table->is_read)
            terms[count++] = term;
    }
    return count;
}

/* The best split of the layer where the dependent ones have theirs. */
static void fill_entry(struct layer *layer, const uint32_t *at,
                       struct term *terms, uint32_t count, size_t entry)
{
    double best = INFINITY;
    for (uint32_t t = 0; t < count; t++) {
        terms[t].row = terms[t].sec;
        for (uint32_t d = 0; d < layer->num_dependent; d++)
            terms[t].row += at[d] * terms[t].moves[d];
    }
    for (uint32_t s = 0; s < layer->num_splits; s++) {
        double sec = layer->sec[s];
        for (uint32_t t = 0; t < count; t++)
            sec += terms[t].row[s * terms[t].stride];
        if (sec < best) {
            best = sec;
            layer->choice[entry] = (uint16_t)s;
        }
    }
    layer->best[entry] = best;
}

/* The next combination of splits; false after the last. */
static bool advance(const struct solver *solver, const struct layer *layer,
                    uint32_t *at)
{
    for (uint32_t d = layer->num_dependent; d-- > 0;) {
        at[d]++;
        if (at[d] < solver->layers[layer->dependent[d]].num_splits)
            return true;
        at[d] = 0;
    }
    return false;
}

static pen_status fill_table(struct solver *solver, uint32_t number,
                             struct term *terms)
{
    struct layer *layer = &solver->layers[number];
    uint32_t at[MOST_DEPENDENT] = {0};
    double size = 1;
    for (uint32_t d = 0; d < layer->num_dependent; d++)
        size *= solver->layers[layer->dependent[d]].num_splits;
    uint32_t count = add_pairs(solver, number, terms);
    count += add_tables(solver, number, terms + count);
    if (size > MOST_ENTRIES ||
        !count_steps(solver, size * layer->num_splits * (count + 1)))
        return too_large(solver, number);
    layer->best = calloc((size_t)size, sizeof *layer->best);
    layer->choice = calloc((size_t)size, sizeof *layer->choice);
    if (layer->best == NULL || layer->choice == NULL)
        return no_memory(solver);
    size_t entry = 0;
    do {
        fill_entry(layer, at, terms, count, entry++);
    } while (advance(solver, layer, at));
    return PEN_OK;
}

static pen_status solve(struct solver *solver)
{
    size_t room = (size_t)solver->num_pairs + solver->count;
    struct term *terms = calloc(room, sizeof *terms);
    pen_status status = terms == NULL ? no_memory(solver) : PEN_OK;
    for (uint32_t i = 0; i < solver->count && status == PEN_OK; i++) {
        uint32_t number = next_layer(solver);
        solver->order[i] = number;
        status = take(solver, number) ? fill_table(solver, number, terms)
                                      : too_large(solver, number);
    }
    free(terms);
    return status;
}

/* Chooses backwards: what a layer depends on is known before it. */
static void choose(struct solver *solver, struct pen_pase_split *out)
{
    for (uint32_t i = solver->count; i-- > 0;) {
        struct layer *layer = &solver->layers[solver->order[i]];
        size_t entry = 0;
        for (uint32_t d = 0; d < layer->num_dependent; d++) {
            const struct layer *other = &solver->layers[layer->dependent[d]];
            entry = entry * other->num_splits + other->chosen;
        }
        layer->chosen = layer->choice[entry];
        out[solver->order[i]] = layer->splits[layer->chosen];
    }
}

/* ---- one way for all layers ---- */

static uint32_t most_parts(const struct pen_split_dim *dim, uint32_t devices)
{
    uint32_t parts = devices;
    while (devices % parts != 0 || !can_cut(dim, parts))
        parts--;
    return parts;
}

/* The first dimension into columns, the last into rows; a layer whose last one
 * cannot be cut so is replicated. */
static void cut_grid(const struct pen_split_graph *graph, uint32_t rows,
                     struct pen_pase_split *out)
{
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        const struct pen_split_node *node = &graph->nodes[i];
        const struct pen_split_dim *last = &node->dims[node->num_dims - 1];
        bool is_cut = node->num_dims > 1 && can_cut(last, rows);
        for (uint32_t d = 0; d < node->num_dims; d++)
            out[i].parts[d] = 1;
        out[i].parts[0] = most_parts(&node->dims[0],
                                     graph->num_devices / (is_cut ? rows : 1));
        if (is_cut)
            out[i].parts[node->num_dims - 1] = rows;
    }
}

/* Also the time of replicas, the grid of one row. */
static void find_grid(const struct pen_split_graph *graph,
                      struct pen_pase_split *splits, struct pen_pase_plan *plan)
{
    plan->grid_sec = INFINITY;
    for (uint32_t rows = 1; rows <= graph->num_devices; rows++) {
        if (graph->num_devices % rows != 0)
            continue;
        cut_grid(graph, rows, splits);
        double sec = pen_pase_step_sec(graph, splits);
        if (rows == 1)
            plan->data_parallel_sec = sec;
        if (sec < plan->grid_sec) {
            plan->grid_sec = sec;
            plan->grid_rows = rows;
            plan->grid_columns = graph->num_devices / rows;
        }
    }
}

/* ---- all of it ---- */

static pen_status init(struct solver *solver)
{
    size_t count = solver->count;
    solver->layers = calloc(count, sizeof *solver->layers);
    solver->are_near = calloc(count * count, 1);
    solver->order = calloc(count, sizeof *solver->order);
    return solver->layers != NULL && solver->are_near != NULL &&
                   solver->order != NULL
               ? PEN_OK
               : no_memory(solver);
}

static void release(struct solver *solver)
{
    for (uint32_t i = 0; solver->layers != NULL && i < solver->count; i++) {
        free(solver->layers[i].splits);
        free(solver->layers[i].sec);
        free(solver->layers[i].best);
        free(solver->layers[i].choice);
    }
    for (uint32_t i = 0; i < solver->num_pairs; i++)
        free(solver->pairs[i].sec);
    free(solver->pairs);
    free(solver->layers);
    free(solver->are_near);
    free(solver->order);
}

static pen_status make_plan(struct solver *solver, struct pen_pase_plan **out)
{
    size_t count = solver->count;
    struct pen_pase_plan *plan = calloc(1, sizeof *plan);
    if (plan != NULL) {
        plan->splits = calloc(count, sizeof *plan->splits);
        plan->node_sec = calloc(count, sizeof *plan->node_sec);
    }
    if (plan == NULL || plan->splits == NULL || plan->node_sec == NULL) {
        pen_pase_plan_free(plan);
        return no_memory(solver);
    }
    find_grid(solver->graph, plan->splits, plan);
    choose(solver, plan->splits);
    plan->step_sec = pen_pase_step_sec(solver->graph, plan->splits);
    for (uint32_t i = 0; i < solver->count; i++) {
        const struct layer *layer = &solver->layers[i];
        plan->node_sec[i] = pen_pase_node_sec(solver->graph, plan->splits, i);
        if (layer->num_dependent > plan->most_dependent)
            plan->most_dependent = layer->num_dependent;
        if (layer->num_splits > plan->most_splits)
            plan->most_splits = layer->num_splits;
    }
    *out = plan;
    return PEN_OK;
}

pen_status pen_pase_solve(const struct pen_pase_problem *problem,
                          struct pen_pase_plan **out, struct pen_text *why)
{
    struct solver solver = {.graph = problem->graph,
                            .count = problem->graph->num_nodes,
                            .steps_left = problem->most_steps > 0
                                              ? problem->most_steps
                                              : MOST_STEPS,
                            .why = why};
    pen_status status = init(&solver);
    if (status == PEN_OK)
        status = find_splits(&solver);
    if (status == PEN_OK)
        status = find_edges(&solver);
    if (status == PEN_OK)
        status = solve(&solver);
    if (status == PEN_OK)
        status = make_plan(&solver, out);
    release(&solver);
    return status;
}

void pen_pase_plan_free(struct pen_pase_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->splits);
    free(plan->node_sec);
    free(plan);
}
