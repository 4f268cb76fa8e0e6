/*
 * One pass over pairs of downward-closed sets J < I:
 *
 *   best(I, c, k)  =  least over J of
 *                       max( best(J, c, k-1), load of I \ J on a device )
 *                       max( best(J, c-1, k), load of I \ J on a CPU )
 *
 * From each J the sets above it are walked through one node at a time, with the
 * outputs that are cut kept up to date; computing never gets less on the way,
 * so a walk ends where it alone is too much. Too much is a ceiling: the pass
 * finds the optimum if that is below it, and nothing otherwise. The ceiling
 * starts just above what even loads would give and is raised until something
 * is found; it never passes the load of the best placement with the nodes in
 * one fixed order, which is solved first by the same pass over a chain.
 */
#include "planner/max_load.h"

#include "planner/ideals.h"
#include "planner/max_load_units.h"

#include <math.h>
#include <stdlib.h>

#define DEFAULT_IDEALS 1000000u
#define DEFAULT_PAIRS 2000000000u
#define FIRST_GAP 0.02 /* of the first ceiling above even loads */
#define LAST_GAP 1000
#define CPU_MARK 0x80000000u
#define MAX_CELL_BYTES ((size_t)1 << 30)

/* How the best of a cell ends: the set before, marked if on a CPU. */
struct cell {
    double best;
    uint32_t before;
};

struct walk_step {
    uint32_t ideal;
    uint32_t next; /* into up */
    uint32_t node; /* that was added to come here */
};

struct solver {
    const struct pen_placement_graph *graph;
    struct pen__units units;
    uint32_t num_states; /* (CPUs + 1) * (devices + 1) */
    double total_cost;
    double cpu_ratio; /* most device cost that a unit of CPU cost stands for */

    struct pen_ideals *ideals;
    double *costs; /* per ideal: device cost of all in it */
    struct cell *cells;
    uint32_t *visits;
    struct walk_step *steps;
    uint32_t *net_counts; /* units of a net that are in the stage */

    /* The stage that is walked through. */
    double device_cost;
    double cpu_cost;
    double bytes;
    double transfers;
    uint32_t num_cpu_only;

    double ceiling;
    uint64_t pairs_left;
    uint64_t pair_price; /* more where there are many devices */
    bool has_stopped;
    struct pen_text *why;
};

static uint32_t state_of(const struct solver *solver, uint32_t cpus,
                         uint32_t devices)
{
    return cpus * (solver->graph->num_devices + 1) + devices;
}

static struct cell *cells_of(const struct solver *solver, uint32_t ideal)
{
    return &solver->cells[(size_t)ideal * solver->num_states];
}

static void add_unit(struct solver *solver, uint32_t number)
{
    const struct pen__units *units = &solver->units;
    const struct pen__unit *unit = &units->units[number];
    solver->device_cost += unit->device_cost;
    solver->cpu_cost += unit->cpu_cost;
    solver->bytes += unit->bytes;
    solver->num_cpu_only += unit->runs_on_devices ? 0 : 1;
    for (uint32_t i = units->nets_begin[number];
         i < units->nets_begin[number + 1]; i++) {
        uint32_t net = units->nets[i];
        uint32_t count = ++solver->net_counts[net];
        if (count == 1)
            solver->transfers += units->net_costs[net];
        if (count == units->net_sizes[net])
            solver->transfers -= units->net_costs[net];
    }
}

static void drop_unit(struct solver *solver, uint32_t number)
{
    const struct pen__units *units = &solver->units;
    const struct pen__unit *unit = &units->units[number];
    solver->device_cost -= unit->device_cost;
    solver->cpu_cost -= unit->cpu_cost;
    solver->bytes -= unit->bytes;
    solver->num_cpu_only -= unit->runs_on_devices ? 0 : 1;
    for (uint32_t i = units->nets_begin[number];
         i < units->nets_begin[number + 1]; i++) {
        uint32_t net = units->nets[i];
        uint32_t count = solver->net_counts[net]--;
        if (count == 1)
            solver->transfers -= units->net_costs[net];
        if (count == units->net_sizes[net])
            solver->transfers += units->net_costs[net];
    }
}

static bool is_for_device(const struct solver *solver)
{
    return solver->num_cpu_only == 0 &&
           solver->bytes <= solver->graph->memory_bytes &&
           solver->device_cost < solver->ceiling;
}

static bool is_for_cpu(const struct solver *solver)
{
    return solver->graph->num_cpus > 0 && solver->cpu_cost < solver->ceiling;
}

static void improve(struct cell *cell, double before, double load, uint32_t end)
{
    double most = before > load ? before : load;
    if (most < cell->best) {
        cell->best = most;
        cell->before = end;
    }
}

/* The stage between the two sets, on a device and on a CPU. */
static void take_stage(struct solver *solver, uint32_t from, uint32_t to)
{
    const struct cell *before = cells_of(solver, from);
    struct cell *after = cells_of(solver, to);
    uint32_t devices = solver->graph->num_devices;
    double load = solver->device_cost + solver->transfers;
    if (is_for_device(solver) && load < solver->ceiling)
        for (uint32_t c = 0; c <= solver->graph->num_cpus; c++) {
            uint32_t first = state_of(solver, c, 0);
            for (uint32_t i = first; i < first + devices; i++)
                improve(&after[i + 1], before[i].best, load, from);
        }
    if (is_for_cpu(solver))
        for (uint32_t i = 0; i + devices + 1 < solver->num_states; i++)
            improve(&after[i + devices + 1], before[i].best, solver->cpu_cost,
                    from | CPU_MARK);
}

/* All sets above this one that a stage may end with. */
static void walk_up(struct solver *solver, uint32_t from)
{
    const struct pen_ideals *ideals = solver->ideals;
    uint32_t depth = 0;
    solver->device_cost = solver->cpu_cost = 0;
    solver->bytes = solver->transfers = 0;
    solver->steps[0] = (struct walk_step){from, ideals->up_begin[from], 0};
    for (;;) {
        struct walk_step *step = &solver->steps[depth];
        if (step->next == ideals->up_begin[step->ideal + 1]) {
            if (depth == 0)
                return;
            drop_unit(solver, step->node);
            depth--;
            continue;
        }
        struct pen_ideal_step up = ideals->up[step->next++];
        if (solver->visits[up.ideal] == from + 1)
            continue;
        solver->visits[up.ideal] = from + 1;
        if (solver->pairs_left < solver->pair_price) {
            solver->has_stopped = true;
            step->next = ideals->up_begin[step->ideal + 1];
            continue;
        }
        solver->pairs_left -= solver->pair_price;
        add_unit(solver, up.node);
        if (!is_for_device(solver) && !is_for_cpu(solver)) {
            drop_unit(solver, up.node);
            continue;
        }
        take_stage(solver, from, up.ideal);
        solver->steps[++depth] =
            (struct walk_step){up.ideal, ideals->up_begin[up.ideal], up.node};
    }
}

/* Drops states that the remaining devices could not complete. */
static bool keep_hopeful(struct solver *solver, uint32_t ideal)
{
    struct cell *cells = cells_of(solver, ideal);
    double rest = solver->total_cost - solver->costs[ideal];
    bool has_any = false;
    for (uint32_t c = 0; c <= solver->graph->num_cpus; c++) {
        for (uint32_t k = 0; k <= solver->graph->num_devices; k++) {
            struct cell *cell = &cells[state_of(solver, c, k)];
            double room = solver->graph->num_devices - k;
            if (c < solver->graph->num_cpus)
                room += (solver->graph->num_cpus - c) * solver->cpu_ratio;
            if (rest * (1 - 1e-12) > room * solver->ceiling)
                cell->best = INFINITY;
            has_any = has_any || cell->best < INFINITY;
        }
    }
    return has_any;
}

/* The least load below the ceiling, or INFINITY. */
static double run_pass(struct solver *solver)
{
    const struct pen_ideals *ideals = solver->ideals;
    size_t num_cells = (size_t)ideals->count * solver->num_states;
    for (size_t i = 0; i < num_cells; i++)
        solver->cells[i].best = INFINITY;
    cells_of(solver, 0)[0].best = 0;
    for (uint32_t i = 0; i < ideals->count; i++)
        solver->visits[i] = 0;
    for (uint32_t i = 0; i + 1 < ideals->count && !solver->has_stopped; i++)
        if (keep_hopeful(solver, i))
            walk_up(solver, i);
    const struct cell *last = cells_of(solver, ideals->count - 1);
    double least = INFINITY;
    for (uint32_t i = 0; i < solver->num_states; i++)
        if (last[i].best < least)
            least = last[i].best;
    return least;
}

static void sum_costs(struct solver *solver)
{
    const struct pen_ideals *ideals = solver->ideals;
    solver->costs[0] = 0;
    for (uint32_t i = 0; i < ideals->count; i++)
        for (uint32_t j = ideals->up_begin[i]; j < ideals->up_begin[i + 1]; j++)
            solver->costs[ideals->up[j].ideal] =
                solver->costs[i] +
                solver->units.units[ideals->up[j].node].device_cost;
}

static void release_pass(struct solver *solver)
{
    pen_ideals_free(solver->ideals);
    free(solver->costs);
    free(solver->cells);
    free(solver->visits);
    solver->ideals = NULL;
    solver->costs = NULL;
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
    size_t cell_bytes = solver->num_states * sizeof *solver->cells;
    if (cell_bytes > MAX_CELL_BYTES / count) {
        pen_why(solver->why,
                "%zu downward-closed sets on these devices are too many",
                count);
        return PEN_INFEASIBLE;
    }
    solver->costs = calloc(count, sizeof *solver->costs);
    solver->cells = calloc(count * solver->num_states, sizeof *solver->cells);
    solver->visits = calloc(count, sizeof *solver->visits);
    if (solver->costs == NULL || solver->cells == NULL ||
        solver->visits == NULL) {
        pen_why(solver->why, "no memory for %zu downward-closed sets", count);
        return PEN_NOMEM;
    }
    sum_costs(solver);
    return PEN_OK;
}

/* ---- the plan ---- */

static uint32_t best_state(const struct solver *solver)
{
    const struct cell *last = cells_of(solver, solver->ideals->count - 1);
    uint32_t state = 0;
    for (uint32_t i = 1; i < solver->num_states; i++)
        if (last[i].best < last[state].best)
            state = i;
    return state;
}

static void fill_stage(struct solver *solver, uint32_t from, uint32_t to,
                       bool is_cpu, struct pen_max_load_stage *stage)
{
    const uint64_t *low = pen_ideal_set(solver->ideals, from);
    const uint64_t *high = pen_ideal_set(solver->ideals, to);
    solver->device_cost = solver->cpu_cost = 0;
    solver->bytes = solver->transfers = 0;
    for (uint32_t i = 0; i < solver->units.count; i++)
        if (pen_set_has(high, i) && !pen_set_has(low, i))
            add_unit(solver, i);
    stage->is_cpu = is_cpu;
    stage->bytes = solver->bytes;
    stage->load =
        is_cpu ? solver->cpu_cost : solver->device_cost + solver->transfers;
    for (uint32_t i = 0; i < solver->units.count; i++)
        if (pen_set_has(high, i) && !pen_set_has(low, i))
            drop_unit(solver, i);
}

static void assign_nodes(const struct solver *solver, uint32_t from,
                         uint32_t to, uint32_t stage, uint32_t *node_stages)
{
    const uint64_t *low = pen_ideal_set(solver->ideals, from);
    const uint64_t *high = pen_ideal_set(solver->ideals, to);
    for (uint32_t i = 0; i < solver->graph->graph.num_nodes; i++) {
        uint32_t unit = solver->units.of_node[i];
        if (pen_set_has(high, unit) && !pen_set_has(low, unit))
            node_stages[i] = stage;
    }
}

static uint32_t before_state(const struct solver *solver, uint32_t state,
                             bool is_cpu)
{
    return state - (is_cpu ? solver->graph->num_devices + 1 : 1);
}

static void trace(struct solver *solver, struct pen_max_load_plan *plan)
{
    uint32_t state = best_state(solver);
    uint32_t at = solver->ideals->count - 1;
    plan->num_stages = 0;
    for (uint32_t i = at, s = state; i != 0; plan->num_stages++) {
        uint32_t before = cells_of(solver, i)[s].before;
        s = before_state(solver, s, (before & CPU_MARK) != 0);
        i = before & ~CPU_MARK;
    }
    plan->load = 0;
    for (uint32_t stage = plan->num_stages; stage-- > 0;) {
        uint32_t before = cells_of(solver, at)[state].before;
        bool is_cpu = (before & CPU_MARK) != 0;
        uint32_t from = before & ~CPU_MARK;
        fill_stage(solver, from, at, is_cpu, &plan->stages[stage]);
        assign_nodes(solver, from, at, stage, plan->node_stages);
        plan->load = fmax(plan->load, plan->stages[stage].load);
        state = before_state(solver, state, is_cpu);
        at = from;
    }
}

/* ---- what cannot be beaten ---- */

static void sum_units(struct solver *solver)
{
    for (uint32_t i = 0; i < solver->units.count; i++) {
        const struct pen__unit *unit = &solver->units.units[i];
        solver->total_cost += unit->device_cost;
        if (unit->device_cost > solver->cpu_ratio * unit->cpu_cost)
            solver->cpu_ratio = unit->cpu_cost > 0
                                    ? unit->device_cost / unit->cpu_cost
                                    : INFINITY;
    }
}

/* The larger of even loads and of the largest unit where it is cheapest. */
static double lower_bound(const struct solver *solver)
{
    double room = solver->graph->num_devices;
    if (solver->graph->num_cpus > 0)
        room += solver->graph->num_cpus * solver->cpu_ratio;
    double bound = room > 0 ? solver->total_cost / room : 0;
    for (uint32_t i = 0; i < solver->units.count; i++) {
        const struct pen__unit *unit = &solver->units.units[i];
        double cost = unit->runs_on_devices ? unit->device_cost : INFINITY;
        if (solver->graph->num_cpus > 0 && unit->cpu_cost < cost)
            cost = unit->cpu_cost;
        if (isfinite(cost) && cost > bound)
            bound = cost;
    }
    return bound;
}

/* ---- all of it ---- */

/*
 * Raises the ceiling until the optimum is below it, at most to the load that
 * the plan has already.
 */
static void raise_ceiling(struct solver *solver, struct pen_max_load_plan *plan)
{
    double most = plan->load;
    for (double gap = FIRST_GAP;; gap *= 2) {
        double ceiling = lower_bound(solver) * (1 + gap);
        bool is_last = gap > LAST_GAP || !(ceiling < most);
        solver->ceiling = is_last ? most : ceiling;
        bool has_found = isfinite(run_pass(solver));
        if (has_found)
            trace(solver, plan);
        if (has_found && !solver->has_stopped)
            plan->bound = plan->load;
        else if (!solver->has_stopped)
            plan->bound = solver->ceiling;
        if (has_found || solver->has_stopped || is_last)
            return;
    }
}

static pen_status solve_in_order(struct solver *solver,
                                 struct pen_max_load_plan *plan)
{
    uint32_t count = solver->units.count;
    const uint32_t *order = solver->units.graph.order;
    struct pen_edge *edges = calloc((size_t)count + 1, sizeof *edges);
    struct pen_graph chain = {0};
    if (edges == NULL) {
        pen_why(solver->why, "no memory for %u units", count);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i + 1 < count; i++)
        edges[i] = (struct pen_edge){order[i], order[i + 1]};
    pen_status status =
        pen_graph_init(&chain, count, edges, count - 1, solver->why);
    free(edges);
    if (status == PEN_OK)
        status = prepare_pass(solver, &chain, count + 1);
    pen_graph_release(&chain);
    if (status != PEN_OK)
        return status;
    plan->load = INFINITY;
    raise_ceiling(solver, plan);
    if (!solver->has_stopped)
        return PEN_OK;
    pen_why(solver->why, "%u units are too many to cut", count);
    return PEN_INVALID;
}

static pen_status solve_exactly(struct solver *solver, uint32_t most,
                                struct pen_max_load_plan *plan)
{
    struct pen_text *why = solver->why;
    solver->why = NULL;
    pen_status status = prepare_pass(solver, &solver->units.graph, most);
    solver->why = why;
    if (status != PEN_OK) {
        plan->left_out =
            "the graph has too many downward-closed sets; its nodes were "
            "cut in one fixed order only";
        return PEN_OK;
    }
    plan->num_ideals = solver->ideals->count;
    raise_ceiling(solver, plan);
    if (solver->has_stopped)
        plan->left_out =
            "there are too many possible stages to try all of them";
    return PEN_OK;
}

static pen_status solve(struct solver *solver,
                        const struct pen_max_load_problem *problem,
                        struct pen_max_load_plan *plan)
{
    uint32_t most =
        problem->most_ideals == 0 ? DEFAULT_IDEALS : problem->most_ideals;
    uint64_t pairs =
        problem->most_pairs == 0 ? DEFAULT_PAIRS : problem->most_pairs;
    sum_units(solver);
    solver->pair_price = 1 + solver->num_states / 32;
    solver->pairs_left = DEFAULT_PAIRS;
    pen_status status = solve_in_order(solver, plan);
    release_pass(solver);
    if (status != PEN_OK)
        return status;
    plan->bound = lower_bound(solver);
    solver->pairs_left = pairs;
    status = solve_exactly(solver, most, plan);
    plan->num_pairs = (pairs - solver->pairs_left) / solver->pair_price;
    release_pass(solver);
    if (status == PEN_OK && !isfinite(plan->load)) {
        pen_why(solver->why, "no placement on %u devices with %g bytes each",
                solver->graph->num_devices, solver->graph->memory_bytes);
        status = PEN_INFEASIBLE;
    }
    return status;
}

static pen_status run(struct solver *solver,
                      const struct pen_max_load_problem *problem,
                      struct pen_max_load_plan *plan)
{
    const struct pen_placement_graph *graph = solver->graph;
    size_t most = (size_t)graph->num_devices + graph->num_cpus + 1;
    solver->num_states = (graph->num_cpus + 1) * (graph->num_devices + 1);
    solver->steps =
        calloc((size_t)solver->units.count + 1, sizeof *solver->steps);
    solver->net_counts =
        calloc((size_t)solver->units.num_nets + 1, sizeof *solver->net_counts);
    plan->stages = calloc(most, sizeof *plan->stages);
    plan->node_stages =
        calloc(graph->graph.num_nodes, sizeof *plan->node_stages);
    pen_status status = PEN_NOMEM;
    if (solver->steps == NULL || solver->net_counts == NULL ||
        plan->stages == NULL || plan->node_stages == NULL)
        pen_why(solver->why, "no memory for %u nodes", graph->graph.num_nodes);
    else
        status = solve(solver, problem, plan);
    free(solver->steps);
    free(solver->net_counts);
    return status;
}

pen_status pen_max_load_solve(const struct pen_max_load_problem *problem,
                              struct pen_max_load_plan **out,
                              struct pen_text *why)
{
    struct solver solver = {.graph = problem->graph, .why = why};
    pen_status status = pen__units_init(&solver.units, problem->graph, why);
    if (status != PEN_OK)
        return status;
    struct pen_max_load_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        pen_why(why, "no memory for a placement");
        status = PEN_NOMEM;
    } else {
        status = run(&solver, problem, plan);
    }
    pen__units_release(&solver.units);
    if (status == PEN_OK)
        *out = plan;
    else
        pen_max_load_plan_free(plan);
    return status;
}

void pen_max_load_plan_free(struct pen_max_load_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->stages);
    free(plan->node_stages);
    free(plan);
}

/* Whether a device makes or reads the output of a node, and not alone. */
static bool pays_for(const struct pen_placement_graph *placement,
                     const uint32_t *places, uint32_t node, uint32_t device)
{
    const struct pen_graph *graph = &placement->graph;
    bool is_inside = places[node] == device;
    for (uint32_t i = graph->out_begin[node]; i < graph->out_begin[node + 1];
         i++)
        if ((places[graph->out[i]] == device) != is_inside)
            return true;
    return false;
}

double pen_max_load_of(const struct pen_placement_graph *graph,
                       const uint32_t *places)
{
    double most = 0;
    for (uint32_t device = 0; device <= graph->num_devices; device++) {
        bool is_cpu = device == graph->num_devices;
        double load = 0;
        for (uint32_t i = 0; i < graph->graph.num_nodes; i++) {
            const struct pen_placement_node *node = &graph->nodes[i];
            if (places[i] == device)
                load += is_cpu ? node->cpu_cost : node->device_cost;
            if (!is_cpu && pays_for(graph, places, i, device))
                load += node->transfer_cost;
        }
        most = load > most ? load : most;
    }
    return most;
}
