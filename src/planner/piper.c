/*
 * The recurrence of Piper over sets that are closed upwards: what runs after a
 * stage is solved first, for it says how many micro-batches the stage holds.
 *
 *   best(I, k, s)  =  least over J < I, degrees t and d of
 *                     max( best(J, k - t d, s - d), sec(I \ J, t, d, s) )
 *
 * on k devices, with s replicas from here to the end. A stage with ceil(s / d)
 * micro-batches on their way takes
 *
 *   sum over its nodes of  compute / d
 *                          + 2 * bytes of edges that are cut / d / B
 *                          + 4 (d - 1) / d * parameters / micro-batches / B
 *
 * in modes that fit in memory together, which is a knapsack. As in max_load.c,
 * stages are grown node by node under a ceiling that is raised until something
 * is found, and one fixed order of the nodes is solved before all orders.
 */
#include "planner/piper.h"

#include "base/bug.h"
#include "planner/ideals.h"
#include "planner/knapsack.h"

#include <math.h>
#include <stdlib.h>

#define DEFAULT_IDEALS 100000u
#define DEFAULT_PAIRS 4000000u
#define MAX_CELLS ((size_t)1 << 24)
#define MOST_STEPS 4096 /* of a knapsack */
#define MOST_DOUBTS 65536u
#define FIRST_GAP 0.02
#define LAST_GAP 1000

struct cell {
    double best;
    uint32_t before; /* the set after the stage */
    uint32_t tensor_degree;
    uint32_t data_degree;
};

struct walk_step {
    uint32_t ideal;
    uint32_t next;
};

/* A choice of modes that was cut short: what it is, what it might be. */
struct doubt {
    double found;
    double bound;
};

struct solver {
    const struct pen_piper_profile *profile;
    uint32_t num_devices;
    uint32_t most_replicas; /* in all stages */
    uint32_t *degrees;      /* of tensors that occur */
    uint32_t num_degrees;

    struct pen_ideals *ideals;
    struct cell *cells;
    uint32_t *visits;
    struct walk_step *steps;

    /* The stage that is looked at. */
    uint32_t *nodes;
    uint32_t num_nodes;
    uint8_t *is_inside; /* per node of the profile */
    struct pen_knapsack_choice *choices;
    uint32_t *begins;
    uint32_t *modes; /* per choice: mode of its node */
    struct pen_knapsack_room *room;

    double ceiling;
    uint64_t pairs_left;
    bool has_stopped;
    struct doubt *doubts; /* of this pass */
    uint32_t num_doubts;
    struct pen_text *why;
};

/* How a stage is spread. */
struct spread {
    uint32_t tensor_degree;
    uint32_t data_degree;
    uint32_t in_flight;
};

static struct cell *cell_of(const struct solver *solver, uint32_t ideal,
                            uint32_t devices, uint32_t replicas)
{
    size_t row = (size_t)ideal * (solver->num_devices + 1) + devices;
    return &solver->cells[row * (solver->most_replicas + 1) + replicas];
}

/* ---- a stage ---- */

static double cut_bytes(const struct solver *solver, uint32_t node,
                        const struct pen_piper_mode *mode)
{
    const struct pen_graph *graph = &solver->profile->graph;
    double bytes = 0;
    for (uint32_t i = graph->in_begin[node]; i < graph->in_begin[node + 1]; i++)
        if (!solver->is_inside[graph->in[i]])
            bytes += mode->in_bytes[i - graph->in_begin[node]];
    for (uint32_t i = graph->out_begin[node]; i < graph->out_begin[node + 1];
         i++)
        if (!solver->is_inside[graph->out[i]])
            bytes += mode->out_bytes[i - graph->out_begin[node]];
    return 2 * bytes;
}

static double mode_sec(const struct solver *solver, uint32_t node,
                       const struct pen_piper_mode *mode, uint32_t d)
{
    const struct pen_piper_profile *profile = solver->profile;
    double bytes =
        cut_bytes(solver, node, mode) / d +
        4.0 * (d - 1) / d * mode->parameter_bytes / profile->num_microbatches;
    return mode->compute_sec / d + bytes / profile->bytes_per_sec;
}

/* Lists the choices; false when a node has no mode of this degree. */
static bool fill_choices(struct solver *solver, const struct spread *spread)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < solver->num_nodes; i++) {
        uint32_t number = solver->nodes[i];
        const struct pen_piper_node *node = &solver->profile->nodes[number];
        solver->begins[i] = count;
        for (uint32_t j = 0; j < node->num_modes; j++) {
            const struct pen_piper_mode *mode = &node->modes[j];
            if (mode->degree != spread->tensor_degree)
                continue;
            solver->choices[count] = (struct pen_knapsack_choice){
                .cost = mode_sec(solver, number, mode, spread->data_degree),
                .size =
                    mode->wave_bytes * spread->in_flight + mode->fixed_bytes};
            solver->modes[count++] = j;
        }
        if (count == solver->begins[i])
            return false;
    }
    solver->begins[solver->num_nodes] = count;
    return true;
}

/* Seconds of the stage, or INFINITY; the modes are in room. */
static double stage_sec(struct solver *solver, const struct spread *spread)
{
    if (!fill_choices(solver, spread))
        return INFINITY;
    const struct pen_knapsack knapsack = {
        .choices = solver->choices,
        .begins = solver->begins,
        .num_items = solver->num_nodes,
        .capacity = solver->profile->memory_bytes,
        .most_steps = MOST_STEPS + 2 * (uint64_t)solver->num_nodes};
    double bound;
    double found = pen_knapsack_solve(&knapsack, solver->room, &bound);
    if (bound < found && bound < solver->ceiling) {
        solver->doubts[solver->num_doubts % MOST_DOUBTS] =
            (struct doubt){found, bound};
        solver->num_doubts++;
    }
    return found;
}

/*
 * Whether a stage could be faster than it is taken for, and by that the plan.
 * One that is below the plan's slowest stage already could not.
 */
static bool has_doubt(const struct solver *solver, double sec)
{
    if (solver->num_doubts > MOST_DOUBTS)
        return true;
    for (uint32_t i = 0; i < solver->num_doubts; i++)
        if (solver->doubts[i].bound < sec && solver->doubts[i].found >= sec)
            return true;
    return false;
}

/* Least seconds of all that is inside with this tensor degree, alone. */
static double least_sec(const struct solver *solver, uint32_t degree)
{
    double sum = 0;
    for (uint32_t i = 0; i < solver->num_nodes; i++) {
        const struct pen_piper_node *node =
            &solver->profile->nodes[solver->nodes[i]];
        double least = INFINITY;
        for (uint32_t j = 0; j < node->num_modes; j++)
            if (node->modes[j].degree == degree)
                least = fmin(least, node->modes[j].compute_sec);
        sum += least;
    }
    return sum;
}

/* ---- the table ---- */

static void try_replicas(struct solver *solver, uint32_t from, uint32_t to,
                         const struct spread *shape)
{
    uint32_t taken = shape->tensor_degree * shape->data_degree;
    uint32_t d = shape->data_degree;
    double sec = INFINITY;
    uint32_t known = 0; /* micro-batches that sec belongs to */
    for (uint32_t s = d; s <= solver->most_replicas; s++) {
        struct spread spread = *shape;
        spread.in_flight = s / d + (s % d != 0);
        for (uint32_t k = taken; k <= solver->num_devices; k++) {
            double behind = cell_of(solver, from, k - taken, s - d)->best;
            struct cell *cell = cell_of(solver, to, k, s);
            if (!(behind < solver->ceiling) || behind >= cell->best)
                continue;
            if (known != spread.in_flight) {
                sec = stage_sec(solver, &spread);
                known = spread.in_flight;
            }
            double most = sec > behind ? sec : behind;
            if (most < solver->ceiling && most < cell->best)
                *cell = (struct cell){most, from, shape->tensor_degree, d};
        }
    }
}

/* False when no larger stage can be below the ceiling either. */
static bool take_stage(struct solver *solver, uint32_t from, uint32_t to)
{
    bool has_any = false;
    for (uint32_t i = 0; i < solver->num_degrees; i++) {
        uint32_t t = solver->degrees[i];
        double least = least_sec(solver, t);
        for (uint32_t d = 1; t * d <= solver->num_devices; d++) {
            if (!(least / d < solver->ceiling) && isfinite(solver->ceiling))
                continue;
            has_any = true;
            if (solver->profile->num_microbatches % d != 0 ||
                d > solver->most_replicas || isinf(least))
                continue;
            const struct spread shape = {.tensor_degree = t, .data_degree = d};
            try_replicas(solver, from, to, &shape);
        }
    }
    return has_any;
}

static void enter(struct solver *solver, uint32_t node)
{
    solver->nodes[solver->num_nodes++] = node;
    solver->is_inside[node] = 1;
}

static void leave(struct solver *solver)
{
    solver->is_inside[solver->nodes[--solver->num_nodes]] = 0;
}

static void walk_up(struct solver *solver, uint32_t from)
{
    const struct pen_ideals *ideals = solver->ideals;
    uint32_t depth = 0;
    solver->steps[0] = (struct walk_step){from, ideals->up_begin[from]};
    for (;;) {
        struct walk_step *step = &solver->steps[depth];
        if (step->next == ideals->up_begin[step->ideal + 1]) {
            if (depth == 0)
                return;
            leave(solver);
            depth--;
            continue;
        }
        struct pen_ideal_step up = ideals->up[step->next++];
        if (solver->visits[up.ideal] == from + 1)
            continue;
        solver->visits[up.ideal] = from + 1;
        if (solver->pairs_left == 0) {
            solver->has_stopped = true;
            step->next = ideals->up_begin[step->ideal + 1];
            continue;
        }
        solver->pairs_left--;
        enter(solver, up.node);
        if (!take_stage(solver, from, up.ideal)) {
            leave(solver);
            continue;
        }
        solver->steps[++depth] =
            (struct walk_step){up.ideal, ideals->up_begin[up.ideal]};
    }
}

/* Device seconds of a node in its cheapest mode. */
static double least_work(const struct solver *solver, uint32_t number)
{
    const struct pen_piper_node *node = &solver->profile->nodes[number];
    double least = INFINITY;
    for (uint32_t i = 0; i < node->num_modes; i++)
        least = fmin(least, node->modes[i].compute_sec * node->modes[i].degree);
    return least;
}

/* Drops states that the remaining devices could not complete. */
static bool keep_hopeful(struct solver *solver, uint32_t ideal)
{
    const uint64_t *set = pen_ideal_set(solver->ideals, ideal);
    double rest = 0;
    bool has_any = false;
    for (uint32_t i = 0; i < solver->profile->graph.num_nodes; i++)
        if (!pen_set_has(set, i))
            rest += least_work(solver, i);
    for (uint32_t k = 0; k <= solver->num_devices; k++) {
        bool is_hopeless =
            rest * (1 - 1e-12) > (solver->num_devices - k) * solver->ceiling;
        for (uint32_t s = 0; s <= solver->most_replicas; s++) {
            struct cell *cell = cell_of(solver, ideal, k, s);
            if (is_hopeless)
                cell->best = INFINITY;
            has_any = has_any || cell->best < INFINITY;
        }
    }
    return has_any;
}

/* The best of all nodes: its devices and replicas; false without one. */
static bool find_best(const struct solver *solver, uint32_t *devices,
                      uint32_t *replicas)
{
    double least = INFINITY;
    for (uint32_t k = 0; k <= solver->num_devices; k++) {
        for (uint32_t s = 0; s <= solver->most_replicas; s++) {
            double best =
                cell_of(solver, solver->ideals->count - 1, k, s)->best;
            if (best < least) {
                least = best;
                *devices = k;
                *replicas = s;
            }
        }
    }
    return least < INFINITY;
}

static bool run_pass(struct solver *solver)
{
    uint32_t devices;
    uint32_t replicas;
    size_t count = (size_t)solver->ideals->count * (solver->num_devices + 1) *
                   (solver->most_replicas + 1);
    for (size_t i = 0; i < count; i++)
        solver->cells[i].best = INFINITY;
    for (uint32_t i = 0; i < solver->ideals->count; i++)
        solver->visits[i] = 0;
    cell_of(solver, 0, 0, 0)->best = 0;
    solver->num_doubts = 0;
    for (uint32_t i = 0; i + 1 < solver->ideals->count && !solver->has_stopped;
         i++)
        if (keep_hopeful(solver, i))
            walk_up(solver, i);
    return find_best(solver, &devices, &replicas);
}

/* ---- the plan ---- */

static void fill_stage(struct solver *solver, struct pen_piper_plan *plan,
                       uint32_t number, const struct spread *spread)
{
    struct pen_piper_stage *stage = &plan->stages[number];
    stage->tensor_degree = spread->tensor_degree;
    stage->data_degree = spread->data_degree;
    stage->num_in_flight = spread->in_flight;
    stage->stage_sec = stage_sec(solver, spread);
    stage->bytes = 0;
    for (uint32_t i = 0; i < solver->num_nodes; i++) {
        uint32_t choice = solver->begins[i] + solver->room[i].pick;
        plan->node_stages[solver->nodes[i]] = number;
        plan->node_modes[solver->nodes[i]] = solver->modes[choice];
        stage->bytes += solver->choices[choice].size;
    }
}

/* The first stage of the pipeline is the last one that was added. */
static void trace(struct solver *solver, struct pen_piper_plan *plan)
{
    uint32_t devices = 0;
    uint32_t replicas = 0;
    bool is_there = find_best(solver, &devices, &replicas);
    PEN_BUG_UNLESS(is_there);
    plan->num_stages = 0;
    plan->stage_sec = 0;
    for (uint32_t at = solver->ideals->count - 1; at != 0;) {
        struct cell cell = *cell_of(solver, at, devices, replicas);
        const uint64_t *high = pen_ideal_set(solver->ideals, at);
        const uint64_t *low = pen_ideal_set(solver->ideals, cell.before);
        uint32_t d = cell.data_degree;
        for (uint32_t i = 0; i < solver->profile->graph.num_nodes; i++)
            if (pen_set_has(high, i) && !pen_set_has(low, i))
                enter(solver, i);
        const struct spread spread = {cell.tensor_degree, d,
                                      replicas / d + (replicas % d != 0)};
        fill_stage(solver, plan, plan->num_stages, &spread);
        plan->stage_sec =
            fmax(plan->stage_sec, plan->stages[plan->num_stages++].stage_sec);
        while (solver->num_nodes > 0)
            leave(solver);
        devices -= cell.tensor_degree * d;
        replicas -= d;
        at = cell.before;
    }
}

/* ---- all of it ---- */

/* A bound: every device is always busy, with the cheapest modes. */
static double lower_bound(const struct solver *solver)
{
    double sum = 0;
    for (uint32_t i = 0; i < solver->profile->graph.num_nodes; i++)
        sum += least_work(solver, i);
    return sum / solver->num_devices;
}

static void raise_ceiling(struct solver *solver, struct pen_piper_plan *plan)
{
    double most = plan->stage_sec;
    for (double gap = FIRST_GAP;; gap *= 2) {
        double ceiling = lower_bound(solver) * (1 + gap);
        bool is_last = gap > LAST_GAP || !(ceiling < most);
        solver->ceiling = is_last ? most : ceiling;
        bool has_found = run_pass(solver);
        if (has_found)
            trace(solver, plan);
        if (has_found || solver->has_stopped || is_last)
            return;
    }
}

static void release_pass(struct solver *solver)
{
    pen_ideals_free(solver->ideals);
    free(solver->cells);
    free(solver->visits);
    solver->ideals = NULL;
    solver->cells = NULL;
    solver->visits = NULL;
}

static pen_status prepare_pass(struct solver *solver,
                               const struct pen_graph *graph, uint32_t most)
{
    struct pen_ideals *ideals = NULL;
    pen_status status = pen_ideals_create(graph, most, &ideals, solver->why);
    if (status != PEN_OK)
        return status;
    solver->ideals = ideals;
    size_t count = ideals->count;
    size_t width =
        (size_t)(solver->num_devices + 1) * (solver->most_replicas + 1);
    if (width > MAX_CELLS / count) {
        pen_why(solver->why, "%zu sets on %u devices are too many", count,
                solver->num_devices);
        return PEN_INFEASIBLE;
    }
    solver->cells = calloc(count * width, sizeof *solver->cells);
    solver->visits = calloc(count, sizeof *solver->visits);
    if (solver->cells == NULL || solver->visits == NULL) {
        pen_why(solver->why, "no memory for %zu sets", count);
        return PEN_NOMEM;
    }
    return PEN_OK;
}

/* The graph with all edges turned, or one chain against its order. */
static pen_status turn_graph(const struct solver *solver, bool is_chain,
                             struct pen_graph *out)
{
    const struct pen_graph *graph = &solver->profile->graph;
    size_t most = (size_t)graph->num_edges + graph->num_nodes;
    struct pen_edge *edges = calloc(most, sizeof *edges);
    uint32_t count = 0;
    if (edges == NULL) {
        pen_why(solver->why, "no memory for %u nodes", graph->num_nodes);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i + 1 < graph->num_nodes && is_chain; i++)
        edges[count++] =
            (struct pen_edge){graph->order[i + 1], graph->order[i]};
    for (uint32_t i = 0; i < graph->num_nodes && !is_chain; i++)
        for (uint32_t j = graph->out_begin[i]; j < graph->out_begin[i + 1]; j++)
            edges[count++] = (struct pen_edge){graph->out[j], i};
    pen_status status =
        pen_graph_init(out, graph->num_nodes, edges, count, solver->why);
    free(edges);
    return status;
}

static pen_status solve_order(struct solver *solver, bool is_chain,
                              uint32_t most, struct pen_piper_plan *plan)
{
    struct pen_graph turned;
    pen_status status = turn_graph(solver, is_chain, &turned);
    if (status != PEN_OK)
        return status;
    status = prepare_pass(solver, &turned, most);
    if (status == PEN_OK)
        raise_ceiling(solver, plan);
    pen_graph_release(&turned);
    release_pass(solver);
    return status;
}

static pen_status solve_all(struct solver *solver,
                            const struct pen_piper_problem *problem,
                            struct pen_piper_plan *plan)
{
    struct pen_text *why = solver->why;
    uint32_t most =
        problem->most_ideals == 0 ? DEFAULT_IDEALS : problem->most_ideals;
    solver->why = NULL;
    solver->pairs_left =
        problem->most_pairs == 0 ? DEFAULT_PAIRS : problem->most_pairs;
    pen_status status = solve_order(solver, false, most, plan);
    solver->why = why;
    if (status != PEN_OK)
        plan->left_out =
            "the graph has too many downward-closed sets; its nodes were "
            "cut in one fixed order only";
    else if (solver->has_stopped)
        plan->left_out =
            "there are too many possible stages to try all of them";
    else if (has_doubt(solver, plan->stage_sec))
        plan->left_out =
            "the modes of some stages have too many combinations to try "
            "all of them";
    return PEN_OK;
}

static pen_status solve(struct solver *solver,
                        const struct pen_piper_problem *problem,
                        struct pen_piper_plan *plan)
{
    plan->stage_sec = INFINITY;
    solver->pairs_left = DEFAULT_PAIRS;
    pen_status status =
        solve_order(solver, true, solver->profile->graph.num_nodes + 1, plan);
    if (status == PEN_OK && solver->has_stopped) {
        pen_why(solver->why, "%u nodes are too many to cut",
                solver->profile->graph.num_nodes);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = solve_all(solver, problem, plan);
    if (status == PEN_OK && isinf(plan->stage_sec)) {
        pen_why(solver->why, "nothing fits on %u devices with %g bytes each",
                solver->num_devices, solver->profile->memory_bytes);
        status = PEN_INFEASIBLE;
    }
    return status;
}

static bool has_degree(const struct solver *solver, uint32_t degree)
{
    for (uint32_t i = 0; i < solver->num_degrees; i++)
        if (solver->degrees[i] == degree)
            return true;
    return false;
}

/*
 * Counts modes, and collects the degrees that occur and that the devices can
 * have.
 */
static size_t count_modes(struct solver *solver)
{
    const struct pen_piper_profile *profile = solver->profile;
    size_t count = 0;
    for (uint32_t i = 0; i < profile->graph.num_nodes; i++) {
        const struct pen_piper_node *node = &profile->nodes[i];
        count += node->num_modes;
        for (uint32_t j = 0; j < node->num_modes; j++) {
            uint32_t degree = node->modes[j].degree;
            if (degree <= profile->num_devices &&
                solver->num_degrees < PEN_PIPER_MAX_MODES &&
                !has_degree(solver, degree))
                solver->degrees[solver->num_degrees++] = degree;
        }
    }
    return count;
}

static pen_status run(struct solver *solver,
                      const struct pen_piper_problem *problem,
                      struct pen_piper_plan *plan)
{
    const struct pen_piper_profile *profile = solver->profile;
    size_t nodes = (size_t)profile->graph.num_nodes + 1;
    solver->degrees = calloc(PEN_PIPER_MAX_MODES, sizeof *solver->degrees);
    size_t modes = solver->degrees == NULL ? 0 : count_modes(solver);
    solver->steps = calloc(nodes, sizeof *solver->steps);
    solver->nodes = calloc(nodes, sizeof *solver->nodes);
    solver->is_inside = calloc(nodes, sizeof *solver->is_inside);
    solver->choices = calloc(modes + 1, sizeof *solver->choices);
    solver->begins = calloc(nodes, sizeof *solver->begins);
    solver->modes = calloc(modes + 1, sizeof *solver->modes);
    solver->room = calloc(nodes, sizeof *solver->room);
    solver->doubts = calloc(MOST_DOUBTS, sizeof *solver->doubts);
    plan->stages = calloc(nodes, sizeof *plan->stages);
    plan->node_stages = calloc(nodes, sizeof *plan->node_stages);
    plan->node_modes = calloc(nodes, sizeof *plan->node_modes);
    pen_status status = PEN_NOMEM;
    if (solver->degrees == NULL || solver->steps == NULL ||
        solver->nodes == NULL || solver->is_inside == NULL ||
        solver->choices == NULL || solver->begins == NULL ||
        solver->modes == NULL || solver->room == NULL ||
        solver->doubts == NULL || plan->stages == NULL ||
        plan->node_stages == NULL || plan->node_modes == NULL)
        pen_why(solver->why, "no memory for %u nodes",
                profile->graph.num_nodes);
    else
        status = solve(solver, problem, plan);
    free(solver->degrees);
    free(solver->steps);
    free(solver->nodes);
    free(solver->is_inside);
    free(solver->choices);
    free(solver->begins);
    free(solver->modes);
    free(solver->room);
    free(solver->doubts);
    return status;
}

pen_status pen_piper_solve(const struct pen_piper_problem *problem,
                           struct pen_piper_plan **out, struct pen_text *why)
{
    const struct pen_piper_profile *profile = problem->profile;
    struct pen_piper_plan *plan = calloc(1, sizeof *plan);
    struct solver solver = {.profile = profile,
                            .num_devices = profile->num_devices,
                            .most_replicas = profile->num_devices,
                            .why = why};
    if (plan == NULL) {
        pen_why(why, "no memory for a plan");
        return PEN_NOMEM;
    }
    if (solver.most_replicas > profile->num_microbatches)
        solver.most_replicas = profile->num_microbatches;
    pen_status status = run(&solver, problem, plan);
    if (status == PEN_OK)
        *out = plan;
    else
        pen_piper_plan_free(plan);
    return status;
}

void pen_piper_plan_free(struct pen_piper_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->stages);
    free(plan->node_stages);
    free(plan->node_modes);
    free(plan);
}
