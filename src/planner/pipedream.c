/*
 * The recurrence of PipeDream, on one level of the network, from state i to
 * state j with m devices:
 *
 *   A(i, j, m)  =  least of  T(i, j, m)
 *                  and, over k between i and j and m' < m, of
 *                  max( A(i, k, m - m'), 2 a_k / (B m'), T(k, j, m') )
 *
 *   T(i, j, m)  =  (t(i, j) + 4 (m - 1) / (m B) * w(i, j)) / m
 *
 * t is the time of one device: that of the layers between the states, on the
 * innermost level; A of the level below with all its devices, on others. w are
 * parameter bytes, a_k the activations that leave k, B is the bandwidth of the
 * level. A stage on m devices of M needs ceil((M - m) / m) times its parameters
 * and activations, for that many micro-batches are on their way.
 *
 * As in the released program, the reduction over machines that hold n devices
 * each is n times as fast for a stage that takes all of the network, and the
 * transfer after a stage counts as well as the one before it.
 */
#include "planner/pipedream.h"

#include "base/bug.h"
#include "planner/pipedream_states.h"

#include <math.h>
#include <stdlib.h>

#define MAX_NODES 8192u
#define MAX_STEPS 4e10 /* of the innermost loop: minutes */

/* How the best of (state, devices) ends: with `replicas` devices from k on. */
struct choice {
    uint32_t from;
    uint32_t replicas;
};

struct solver {
    const struct pen_pipedream_problem *problem;
    struct pen__pipedream_states states;
    uint32_t most_devices;
    double *inner[PEN_PIPEDREAM_MAX_LEVELS]; /* (count, count): t of a level;
                                                NULL on the innermost */
    double *best;                            /* (count, most_devices + 1) */
    struct choice *choices;
    double *last_sec; /* (most_devices + 1) of one stage */
    struct pen_pipedream_plan *plan;
    uint32_t capacity; /* of plan->stages */
    struct pen_text *why;
};

/* Two states of one level: what a stage has between them. */
struct span {
    const struct solver *solver;
    uint32_t level;
    uint32_t from;
    uint32_t to;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double one_device_sec(const struct span *span)
{
    const struct pen__pipedream_states *states = &span->solver->states;
    const double *inner = span->solver->inner[span->level];
    if (inner != NULL)
        return inner[(size_t)span->from * states->count + span->to];
    return states->compute_sec[span->to] - states->compute_sec[span->from];
}

static double between(const double *sums, const struct span *span)
{
    return sums[span->to] - sums[span->from];
}

static bool fits(const struct span *span, uint32_t ahead, uint32_t replicas)
{
    const struct pen__pipedream_states *states = &span->solver->states;
    double memory = span->solver->problem->memory_bytes;
    double waves = ceil((double)ahead / replicas);
    return memory <= 0 || waves * (between(states->activation_bytes, span) +
                                   between(states->parameter_bytes, span)) <=
                              memory;
}

static double replicated_sec(const struct span *span, uint32_t replicas,
                             double within)
{
    const struct pen_pipedream_level *level =
        &span->solver->problem->levels[span->level];
    double bytes = between(span->solver->states.parameter_bytes, span);
    double reduce =
        4 * (replicas - 1) * bytes / (level->bytes_per_sec * replicas) / within;
    return (one_device_sec(span) + reduce) / replicas;
}

/* Activations into and out of a stage. */
static double transfer_sec(const struct span *span, uint32_t replicas)
{
    const struct pen__pipedream_states *states = &span->solver->states;
    double rate =
        span->solver->problem->levels[span->level].bytes_per_sec * replicas;
    double bytes = states->output_bytes[span->from];
    if (span->to + 1 < states->count && states->output_bytes[span->to] > bytes)
        bytes = states->output_bytes[span->to];
    return 2 * bytes / rate;
}

static uint32_t devices_of(const struct solver *solver, uint32_t level)
{
    return solver->problem->levels[level].num_devices;
}

static void try_alone(struct solver *solver, const struct span *span)
{
    uint32_t devices = devices_of(solver, span->level);
    size_t row = (size_t)span->to * (solver->most_devices + 1);
    double within = span->level == 0 ? 1 : devices_of(solver, span->level - 1);
    solver->best[row] = INFINITY;
    for (uint32_t m = 1; m <= devices; m++) {
        bool is_allowed = m == 1 || !solver->problem->is_straight;
        solver->best[row + m] = is_allowed && fits(span, devices - m, m)
                                    ? replicated_sec(span, m, within)
                                    : INFINITY;
        solver->choices[row + m] = (struct choice){span->from, m};
    }
}

/*
 * All ways to end with a stage over this span, after the best way to what is
 * before.
 */
static void try_behind(struct solver *solver, const struct span *last)
{
    uint32_t devices = devices_of(solver, last->level);
    size_t width = (size_t)solver->most_devices + 1;
    const double *before = &solver->best[last->from * width];
    double *best = &solver->best[last->to * width];
    struct choice *choices = &solver->choices[last->to * width];
    uint32_t most = solver->problem->is_straight ? 1 : devices - 1;
    for (uint32_t r = 1; r <= most; r++) {
        double sec = replicated_sec(last, r, 1);
        if (solver->problem->has_transfers)
            sec = larger(sec, transfer_sec(last, r));
        solver->last_sec[r] = sec;
    }
    for (uint32_t m = 2; m <= devices; m++) {
        for (uint32_t r = 1; r < m && r <= most; r++) {
            double sec = larger(before[m - r], solver->last_sec[r]);
            if (sec < best[m] && fits(last, devices - m, r)) {
                best[m] = sec;
                choices[m] = (struct choice){last->from, r};
            }
        }
    }
}

/* Fills best and choices of all states after `from`. */
static void solve_from(struct solver *solver, uint32_t level, uint32_t from)
{
    size_t count = solver->states.count;
    const uint8_t *is_part = solver->states.is_part;
    for (uint32_t to = from + 1; to < count; to++) {
        if (!is_part[from * count + to])
            continue;
        struct span alone = {solver, level, from, to};
        try_alone(solver, &alone);
        for (uint32_t k = from + 1; k < to; k++) {
            struct span last = {solver, level, k, to};
            if (is_part[from * count + k] && is_part[k * count + to])
                try_behind(solver, &last);
        }
    }
}

/* A whole machine of this level is one device of the next. */
static pen_status solve_level(struct solver *solver, uint32_t level)
{
    size_t count = solver->states.count;
    double *inner = malloc(count * count * sizeof *inner);
    if (inner == NULL) {
        pen_why(solver->why, "no memory for %zu states", count);
        return PEN_NOMEM;
    }
    for (uint32_t from = 0; from < count; from++) {
        solve_from(solver, level, from);
        for (uint32_t to = from + 1; to < count; to++)
            if (solver->states.is_part[from * count + to])
                inner[from * count + to] =
                    solver->best[to * (size_t)(solver->most_devices + 1) +
                                 devices_of(solver, level)];
    }
    solver->inner[level + 1] = inner;
    return PEN_OK;
}

/* ---- the plan ---- */

static pen_status add_stage(struct solver *solver, const struct span *span,
                            uint32_t replicas)
{
    struct pen_pipedream_plan *plan = solver->plan;
    if (plan->num_stages == solver->capacity) {
        uint32_t capacity = solver->capacity * 2 + 16;
        void *larger = realloc(plan->stages, capacity * sizeof *plan->stages);
        if (larger == NULL) {
            pen_why(solver->why, "no memory for %u stages", capacity);
            return PEN_NOMEM;
        }
        plan->stages = larger;
        solver->capacity = capacity;
    }
    plan->stages[plan->num_stages++] = (struct pen_pipedream_stage){
        .level = span->level,
        .num_replicas = replicas,
        .compute_sec = between(solver->states.compute_sec, span)};
    return PEN_OK;
}

/* The cuts of one level between two states, in order. */
struct cuts {
    uint32_t *states; /* (count + 1): the first is where the span begins */
    uint32_t *replicas;
    uint32_t count;
};

static pen_status read_choices(struct solver *solver, const struct span *span,
                               struct cuts *out)
{
    size_t width = (size_t)solver->most_devices + 1;
    uint32_t most = devices_of(solver, span->level);
    struct cuts cuts = {.states = calloc(most + 1u, sizeof *cuts.states),
                        .replicas = calloc(most, sizeof *cuts.replicas)};
    if (cuts.states == NULL || cuts.replicas == NULL) {
        free(cuts.states);
        free(cuts.replicas);
        pen_why(solver->why, "no memory for %u stages", most);
        return PEN_NOMEM;
    }
    uint32_t devices = most;
    cuts.states[most] = span->to;
    for (uint32_t at = span->to; at != span->from; cuts.count++) {
        PEN_BUG_UNLESS(devices > 0);
        struct choice choice = solver->choices[at * width + devices];
        uint32_t place = most - 1 - cuts.count;
        cuts.states[place] = choice.from;
        cuts.replicas[place] = choice.replicas;
        devices -= choice.replicas;
        at = choice.from;
    }
    for (uint32_t i = 0; i < cuts.count; i++) {
        cuts.states[i] = cuts.states[most - cuts.count + i];
        cuts.replicas[i] = cuts.replicas[most - cuts.count + i];
    }
    cuts.states[cuts.count] = span->to;
    *out = cuts;
    return PEN_OK;
}

/* Joins the cuts of a span to those before it. */
static pen_status append_cuts(struct solver *solver, const struct cuts *found,
                              struct cuts *all)
{
    size_t count = (size_t)all->count + found->count;
    uint32_t *states = realloc(all->states, (count + 1) * sizeof *states);
    if (states != NULL)
        all->states = states;
    if (states == NULL) {
        pen_why(solver->why, "no memory for %zu stages", count);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i <= found->count; i++)
        states[all->count + i] = found->states[i];
    all->count = (uint32_t)count;
    return PEN_OK;
}

static pen_status trace_span(struct solver *solver, const struct span *span,
                             struct cuts *all)
{
    struct cuts found;
    solve_from(solver, span->level, span->from);
    pen_status status = read_choices(solver, span, &found);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < found.count && status == PEN_OK; i++) {
        struct span stage = {solver, span->level, found.states[i],
                             found.states[i + 1]};
        status = add_stage(solver, &stage, found.replicas[i]);
    }
    if (status == PEN_OK)
        status = append_cuts(solver, &found, all);
    free(found.states);
    free(found.replicas);
    return status;
}

static pen_status trace_spans(struct solver *solver, const uint32_t *begins,
                              uint32_t num_spans, uint32_t level,
                              struct cuts *out)
{
    struct cuts all = {0};
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < num_spans && status == PEN_OK; i++) {
        struct span span = {solver, level, begins[i], begins[i + 1]};
        status = trace_span(solver, &span, &all);
    }
    if (status == PEN_OK)
        *out = all;
    else
        free(all.states);
    return status;
}

/* A layer belongs to the stage whose end first has it. */
static void assign_layers(struct solver *solver, const struct cuts *cuts)
{
    const struct pen__pipedream_states *states = &solver->states;
    for (uint32_t i = 0; i < states->ideals->num_nodes; i++) {
        uint32_t stage = 0;
        while (!pen__pipedream_state_has(states, cuts->states[stage + 1], i))
            stage++;
        solver->plan->node_stages[states->layers[i]] = stage;
    }
}

/*
 * Inputs go to the first stage, tuples that no layer reads to their layer's
 * stage.
 */
static void assign_nodes(struct solver *solver, const struct cuts *cuts)
{
    const struct pen_graph *graph = &solver->problem->profile->graph;
    uint32_t *stages = solver->plan->node_stages;
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        stages[i] = PEN_PIPEDREAM_NO_STAGE;
    assign_layers(solver, cuts);
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        uint32_t node = graph->order[i];
        uint32_t begin = graph->in_begin[node];
        if (stages[node] != PEN_PIPEDREAM_NO_STAGE)
            continue;
        stages[node] = 0;
        if (begin < graph->in_begin[node + 1])
            stages[node] = stages[graph->in[begin]];
    }
}

static pen_status trace(struct solver *solver)
{
    struct cuts cuts = {.states = calloc(2, sizeof *cuts.states), .count = 1};
    pen_status status = PEN_OK;
    if (cuts.states == NULL) {
        pen_why(solver->why, "no memory for stages");
        return PEN_NOMEM;
    }
    cuts.states[1] = solver->states.count - 1;
    for (uint32_t level = solver->problem->num_levels;
         level-- > 0 && status == PEN_OK;) {
        struct cuts finer = {0};
        status = trace_spans(solver, cuts.states, cuts.count, level, &finer);
        if (status == PEN_OK) {
            free(cuts.states);
            cuts = finer;
        }
    }
    if (status == PEN_OK)
        assign_nodes(solver, &cuts);
    free(cuts.states);
    return status;
}

static double data_parallel_sec(const struct solver *solver)
{
    const struct pen_pipedream_problem *problem = solver->problem;
    uint32_t last = solver->states.count - 1;
    double sec = solver->states.compute_sec[last];
    double within = 1;
    for (uint32_t i = 0; i < problem->num_levels; i++) {
        double m = problem->levels[i].num_devices;
        double reduce = 4 * (m - 1) * solver->states.parameter_bytes[last] /
                        (problem->levels[i].bytes_per_sec * m) / within;
        sec = (sec + reduce) / m;
        within = m;
    }
    return sec;
}

/* ---- all of it ---- */

static pen_status check(const struct pen_pipedream_problem *problem,
                        struct pen_text *why)
{
    if (problem->num_levels == 0 ||
        problem->num_levels > PEN_PIPEDREAM_MAX_LEVELS) {
        pen_why(why, "%u levels of devices; there must be 1 to %u",
                problem->num_levels, PEN_PIPEDREAM_MAX_LEVELS);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < problem->num_levels; i++) {
        const struct pen_pipedream_level *level = &problem->levels[i];
        if (level->num_devices >= 1 &&
            level->num_devices <= PEN_PIPEDREAM_MAX_DEVICES &&
            isfinite(level->bytes_per_sec) && level->bytes_per_sec > 0)
            continue;
        pen_why(why, "level %u has %u devices at %g bytes per second", i,
                level->num_devices, level->bytes_per_sec);
        return PEN_INVALID;
    }
    if (problem->profile->graph.num_nodes > MAX_NODES) {
        pen_why(why, "%u nodes are more than the %u that are searched",
                problem->profile->graph.num_nodes, MAX_NODES);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_size(const struct solver *solver)
{
    double count = solver->states.count;
    double steps = 0;
    for (uint32_t i = 0; i < solver->problem->num_levels; i++) {
        double devices = devices_of(solver, i);
        double spans = i + 1 < solver->problem->num_levels
                           ? count * count * count / 6
                           : count * count / 2;
        steps += spans * devices * devices / 2;
    }
    if (steps <= MAX_STEPS)
        return PEN_OK;
    pen_why(solver->why,
            "%u states on these devices need %.0e search steps, more than "
            "%.0e",
            solver->states.count, steps, MAX_STEPS);
    return PEN_INFEASIBLE;
}

static pen_status solve(struct solver *solver)
{
    uint32_t top = solver->problem->num_levels - 1;
    uint32_t last = solver->states.count - 1;
    pen_status status = check_size(solver);
    for (uint32_t level = 0; level < top && status == PEN_OK; level++)
        status = solve_level(solver, level);
    if (status != PEN_OK)
        return status;
    solve_from(solver, top, 0);
    struct pen_pipedream_plan *plan = solver->plan;
    plan->stage_sec = solver->best[last * (size_t)(solver->most_devices + 1) +
                                   devices_of(solver, top)];
    if (!isfinite(plan->stage_sec)) {
        pen_why(solver->why, "no stages fit in %g bytes of memory",
                solver->problem->memory_bytes);
        return PEN_INFEASIBLE;
    }
    plan->num_states = last;
    plan->one_device_sec = solver->states.compute_sec[last];
    plan->data_parallel_sec = data_parallel_sec(solver);
    return trace(solver);
}

static pen_status run(struct solver *solver)
{
    const struct pen_pipedream_problem *problem = solver->problem;
    for (uint32_t i = 0; i < problem->num_levels; i++)
        if (problem->levels[i].num_devices > solver->most_devices)
            solver->most_devices = problem->levels[i].num_devices;
    size_t width = (size_t)solver->most_devices + 1;
    size_t cells = solver->states.count * width;
    solver->best = calloc(cells, sizeof *solver->best);
    solver->choices = calloc(cells, sizeof *solver->choices);
    solver->last_sec = calloc(width, sizeof *solver->last_sec);
    solver->plan = calloc(1, sizeof *solver->plan);
    if (solver->plan != NULL)
        solver->plan->node_stages = calloc(problem->profile->graph.num_nodes,
                                           sizeof *solver->plan->node_stages);
    if (solver->best == NULL || solver->choices == NULL ||
        solver->last_sec == NULL || solver->plan == NULL ||
        solver->plan->node_stages == NULL) {
        pen_why(solver->why, "no memory for %zu cells", cells);
        return PEN_NOMEM;
    }
    return solve(solver);
}

pen_status pen_pipedream_solve(const struct pen_pipedream_problem *problem,
                               struct pen_pipedream_plan **out,
                               struct pen_text *why)
{
    struct solver solver = {.problem = problem, .why = why};
    pen_status status = check(problem, why);
    if (status == PEN_OK)
        status =
            pen__pipedream_states_init(&solver.states, problem->profile, why);
    if (status != PEN_OK)
        return status;
    status = run(&solver);
    free(solver.best);
    free(solver.choices);
    free(solver.last_sec);
    for (uint32_t i = 0; i < PEN_PIPEDREAM_MAX_LEVELS; i++)
        free(solver.inner[i]);
    pen__pipedream_states_release(&solver.states);
    if (status == PEN_OK)
        *out = solver.plan;
    else
        pen_pipedream_plan_free(solver.plan);
    return status;
}

void pen_pipedream_plan_free(struct pen_pipedream_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->stages);
    free(plan->node_stages);
    free(plan);
}
