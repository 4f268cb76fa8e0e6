/*
 * The last stage first, for the micro-batches that a stage holds depend on the
 * devices behind it.
 *
 *   best(p, s, i)  of layers i.. on the last p devices, s of them in use
 *                =  least over a stage with layers i..e-1 and r replicas of
 *                   max( best(p', s - r, e), that stage )
 *
 * Devices of a group are alike, so those left out are the first of their group:
 * p - r is p', or where a group ends. While all are in use, or with one group,
 * s says nothing new and is left out of the table. It is also left out where
 * the table would be too large; s is then taken for p.
 *
 * As in max_load.c a ceiling is raised until something is found below it: a
 * stage grows layer by layer, its computing and memory never fall, and its
 * search ends at the ceiling.
 */
#include "planner/chain.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>

#define MAX_CELLS ((uint64_t)1 << 24)
#define MAX_LAYER_BYTES ((uint64_t)1 << 45) /* sums fit 64 bits */
#define FIRST_GAP 0.05
#define LAST_GAP 100

struct cell {
    double best;
    uint32_t end;      /* of the first stage */
    uint32_t row;      /* where the stages behind it are */
    uint32_t replicas; /* of the first stage */
    uint32_t place;    /* devices from it to the end, idle ones, too */
};

/* Sums over layers 0..i-1. */
struct sums {
    uint64_t *state_bytes;
    uint64_t *gradient_bytes;
    uint64_t *stash_bytes;
};

struct solver {
    const struct pen_chain_problem *problem;
    uint32_t num_devices;
    struct sums sums;
    double *seconds;      /* (groups, layers + 1): sums */
    uint32_t *group_of;   /* per device, the last one first */
    uint32_t *group_ends; /* per device: one behind the last of its group */
    bool counts_used;     /* whether rows have s */
    bool is_exact;        /* of the plan */
    uint32_t num_rows;
    struct cell *cells; /* (rows, layers + 1) */
    double ceiling;
    struct pen_text *why;
};

/* A stage that is looked at. */
struct stage {
    uint32_t group;
    uint32_t replicas;
    uint32_t in_flight; /* of one replica */
    uint32_t first;
    uint32_t end;
};

static uint32_t row_of(const struct solver *solver, uint32_t devices,
                       uint32_t used)
{
    return solver->counts_used ? devices * (solver->num_devices + 1) + used
                               : devices;
}

static struct cell *cells_of(const struct solver *solver, uint32_t row)
{
    return &solver->cells[(size_t)row * (solver->problem->num_layers + 1)];
}

static uint64_t between(const uint64_t *sums, const struct stage *stage)
{
    return sums[stage->end] - sums[stage->first];
}

/* ---- a stage ---- */

static uint32_t waves_of(const struct solver *solver, uint32_t used,
                         uint32_t replicas)
{
    const struct pen_chain_problem *problem = solver->problem;
    uint32_t waves =
        problem->in_flight == NULL ? used : problem->in_flight[used];
    if (waves > problem->num_microbatches)
        waves = problem->num_microbatches;
    return waves / replicas + (waves % replicas != 0);
}

static uint64_t bytes_of(const struct solver *solver, const struct stage *stage)
{
    uint64_t state = between(solver->sums.state_bytes, stage);
    uint64_t stash = between(solver->sums.stash_bytes, stage);
    if (stage->in_flight > 0 && stash > (UINT64_MAX - state) / stage->in_flight)
        return UINT64_MAX;
    return state + stage->in_flight * stash;
}

static bool fits(const struct solver *solver, const struct stage *stage)
{
    uint64_t memory = solver->problem->groups[stage->group].memory_bytes;
    return memory == 0 || bytes_of(solver, stage) <= memory;
}

/* What grows with every layer: computing and the reduction of gradients. */
static double work_sec(const struct solver *solver, const struct stage *stage)
{
    const struct pen_chain_problem *problem = solver->problem;
    const struct pen_chain_group *group = &problem->groups[stage->group];
    const double *seconds =
        &solver->seconds[(size_t)stage->group * (problem->num_layers + 1)];
    double work =
        (seconds[stage->end] - seconds[stage->first]) / stage->replicas;
    if (stage->replicas > 1 && group->reduce_bytes_per_sec > 0)
        work += 2.0 * (stage->replicas - 1) / stage->replicas *
                (double)between(solver->sums.gradient_bytes, stage) /
                group->reduce_bytes_per_sec / problem->num_microbatches;
    return work;
}

/* An activation and its gradient between two layers. */
static double message_sec(const struct solver *solver,
                          const struct stage *stage, uint32_t layer)
{
    const struct pen_chain_problem *problem = solver->problem;
    const struct pen_chain_group *group = &problem->groups[stage->group];
    if (layer == 0 || layer == problem->num_layers || group->bytes_per_sec <= 0)
        return 0;
    double bytes = (double)problem->layers[layer - 1].output_bytes;
    return 2 * (group->latency_sec + bytes / group->bytes_per_sec) /
           stage->replicas;
}

static double stage_sec(const struct solver *solver, const struct stage *stage,
                        double work)
{
    double before = message_sec(solver, stage, stage->first);
    double behind = message_sec(solver, stage, stage->end);
    if (!solver->problem->has_hidden_messages)
        return work + before + behind;
    double most = before > behind ? before : behind;
    return work > most ? work : most;
}

/* ---- the table ---- */

/* All stages of this shape that end before the layers of a row. */
static void add_stages(struct solver *solver, struct stage *stage,
                       uint32_t from, uint32_t to, uint32_t place)
{
    const struct cell *behind = cells_of(solver, from);
    struct cell *cells = cells_of(solver, to);
    for (uint32_t end = solver->problem->num_layers; end > 0; end--) {
        if (!(behind[end].best < solver->ceiling))
            continue;
        stage->end = end;
        for (uint32_t first = end; first-- > 0;) {
            stage->first = first;
            double work = work_sec(solver, stage);
            if (!(work < solver->ceiling) || !fits(solver, stage))
                break;
            double most = stage_sec(solver, stage, work);
            if (behind[end].best > most)
                most = behind[end].best;
            if (most < solver->ceiling && most < cells[first].best)
                cells[first] =
                    (struct cell){most, end, from, stage->replicas, place};
        }
    }
}

/* Stages on devices from `begin` on, in front of those of a row. */
static void add_replicas(struct solver *solver, uint32_t row, uint32_t begin,
                         uint32_t used)
{
    uint32_t left = solver->group_ends[begin] - begin;
    uint32_t most = solver->problem->most_replicas;
    for (uint32_t r = 1; r <= left && r <= most; r++) {
        struct stage stage = {.group = solver->group_of[begin],
                              .replicas = r,
                              .in_flight = waves_of(solver, used + r, r)};
        add_stages(solver, &stage, row, row_of(solver, begin + r, used + r),
                   begin + r);
    }
}

static bool has_any(const struct solver *solver, uint32_t row)
{
    const struct cell *cells = cells_of(solver, row);
    for (uint32_t i = 0; i <= solver->problem->num_layers; i++)
        if (cells[i].best < INFINITY)
            return true;
    return false;
}

/* The rest of a group is left out: its next row knows what this one does. */
static void leave_idle(struct solver *solver, uint32_t from, uint32_t to)
{
    const struct cell *cells = cells_of(solver, from);
    struct cell *next = cells_of(solver, to);
    for (uint32_t i = 0; i <= solver->problem->num_layers; i++)
        if (cells[i].best < next[i].best)
            next[i] = cells[i];
}

static void extend(struct solver *solver, uint32_t devices, uint32_t used)
{
    uint32_t row = row_of(solver, devices, used);
    if (devices == solver->num_devices || !has_any(solver, row))
        return;
    add_replicas(solver, row, devices, used);
    if (solver->problem->may_idle)
        leave_idle(solver, row,
                   row_of(solver, solver->group_ends[devices], used));
}

/* The row with the best of all layers; false when nothing is below. */
static bool find_best(const struct solver *solver, uint32_t *out)
{
    uint32_t first =
        solver->problem->may_idle
            ? 0
            : row_of(solver, solver->num_devices, solver->num_devices);
    double least = INFINITY;
    for (uint32_t row = first; row < solver->num_rows; row++) {
        double best = cells_of(solver, row)[0].best;
        if (best < least) {
            least = best;
            *out = row;
        }
    }
    return least < INFINITY;
}

static bool run_pass(struct solver *solver, uint32_t *out)
{
    uint32_t layers = solver->problem->num_layers;
    size_t num_cells = (size_t)solver->num_rows * (layers + 1);
    for (size_t i = 0; i < num_cells; i++)
        solver->cells[i].best = INFINITY;
    cells_of(solver, 0)[layers].best = 0;
    for (uint32_t p = 0; p <= solver->num_devices; p++) {
        if (!solver->counts_used) {
            extend(solver, p, p);
            continue;
        }
        for (uint32_t used = 0; used <= p; used++)
            extend(solver, p, used);
    }
    return find_best(solver, out);
}

/* No stage can be faster than its part of the fastest devices. */
static double lower_bound(const struct solver *solver)
{
    const struct pen_chain_problem *problem = solver->problem;
    double total = 0;
    for (uint32_t layer = 0; layer < problem->num_layers; layer++) {
        double least = INFINITY;
        for (uint32_t g = 0; g < problem->num_groups; g++) {
            const double *seconds =
                &solver->seconds[(size_t)g * (problem->num_layers + 1)];
            double sec = seconds[layer + 1] - seconds[layer];
            least = sec < least ? sec : least;
        }
        total += least;
    }
    return total / solver->num_devices;
}

static bool raise_ceiling(struct solver *solver, uint32_t *out)
{
    double bound = lower_bound(solver);
    for (double gap = FIRST_GAP; bound > 0 && gap < LAST_GAP; gap *= 2) {
        solver->ceiling = bound * (1 + gap);
        if (run_pass(solver, out))
            return true;
    }
    solver->ceiling = INFINITY;
    return run_pass(solver, out);
}

/* ---- the plan ---- */

/* Devices from the first stage of a cell to the end. */
static uint32_t used_of(const struct solver *solver, uint32_t row,
                        const struct cell *cell)
{
    return solver->counts_used ? row % (solver->num_devices + 1) : cell->place;
}

static pen_status make_plan(const struct solver *solver, uint32_t row,
                            struct pen_chain_plan **out)
{
    const struct pen_chain_problem *problem = solver->problem;
    struct pen_chain_plan *plan = calloc(1, sizeof *plan);
    uint32_t most = problem->num_layers < solver->num_devices
                        ? problem->num_layers
                        : solver->num_devices;
    if (plan != NULL)
        plan->stages = calloc(most, sizeof *plan->stages);
    if (plan == NULL || plan->stages == NULL) {
        pen_why(solver->why, "no memory for %u stages", most);
        free(plan);
        return PEN_NOMEM;
    }
    plan->stage_sec = cells_of(solver, row)[0].best;
    for (uint32_t layer = 0; layer < problem->num_layers;) {
        struct cell cell = cells_of(solver, row)[layer];
        struct stage stage = {
            .group = solver->group_of[cell.place - 1],
            .replicas = cell.replicas,
            .in_flight =
                waves_of(solver, used_of(solver, row, &cell), cell.replicas),
            .first = layer,
            .end = cell.end};
        PEN_BUG_UNLESS(plan->num_stages < most);
        plan->stages[plan->num_stages++] = (struct pen_chain_stage){
            .first_layer = layer,
            .num_layers = cell.end - layer,
            .group = stage.group,
            .num_replicas = stage.replicas,
            .num_in_flight = stage.in_flight,
            .stage_sec = stage_sec(solver, &stage, work_sec(solver, &stage)),
            .bytes = bytes_of(solver, &stage)};
        layer = cell.end;
        row = cell.row;
    }
    plan->has_all_orders = problem->num_groups == 1;
    plan->is_exact = solver->is_exact;
    *out = plan;
    return PEN_OK;
}

/* ---- what is given ---- */

static bool is_seconds(double sec)
{
    return isfinite(sec) && sec >= 0;
}

static pen_status check_group(const struct pen_chain_problem *problem,
                              uint32_t number, struct pen_text *why)
{
    const struct pen_chain_group *group = &problem->groups[number];
    for (uint32_t i = 0; i < problem->num_layers; i++) {
        const struct pen_chain_seconds *sec = &group->seconds[i];
        if (is_seconds(sec->forward_sec) && is_seconds(sec->input_sec) &&
            is_seconds(sec->weight_sec))
            continue;
        pen_why(why, "layer %u takes %g, %g and %g s on group %u", i,
                sec->forward_sec, sec->input_sec, sec->weight_sec, number);
        return PEN_INVALID;
    }
    if (group->num_devices == 0 || !is_seconds(group->latency_sec) ||
        !is_seconds(group->bytes_per_sec) ||
        !is_seconds(group->reduce_bytes_per_sec)) {
        pen_why(why, "group %u has no devices, or its link is out of range",
                number);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_layers(const struct pen_chain_problem *problem,
                               struct pen_text *why)
{
    for (uint32_t i = 0; i < problem->num_layers; i++) {
        const struct pen_chain_layer *layer = &problem->layers[i];
        if (layer->state_bytes <= MAX_LAYER_BYTES &&
            layer->gradient_bytes <= MAX_LAYER_BYTES &&
            layer->stash_bytes <= MAX_LAYER_BYTES)
            continue;
        pen_why(why, "layer %u has more than %llu bytes", i,
                (unsigned long long)MAX_LAYER_BYTES);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check(const struct pen_chain_problem *problem,
                        struct pen_text *why)
{
    uint64_t devices = 0;
    pen_status status = PEN_OK;
    if (problem->num_layers == 0 || problem->num_groups == 0 ||
        problem->num_microbatches == 0 || problem->most_replicas == 0 ||
        problem->num_layers > PEN_CHAIN_MAX_LAYERS) {
        pen_why(why, "%u layers on %u groups with %u micro-batches",
                problem->num_layers, problem->num_groups,
                problem->num_microbatches);
        return PEN_INVALID;
    }
    status = check_layers(problem, why);
    for (uint32_t i = 0; i < problem->num_groups && status == PEN_OK; i++) {
        status = check_group(problem, i, why);
        devices += problem->groups[i].num_devices;
    }
    if (status == PEN_OK && devices > PEN_CHAIN_MAX_DEVICES) {
        pen_why(why, "%llu devices are more than %u",
                (unsigned long long)devices, PEN_CHAIN_MAX_DEVICES);
        status = PEN_INVALID;
    }
    return status;
}

static void fill_sums(struct solver *solver)
{
    const struct pen_chain_problem *problem = solver->problem;
    for (uint32_t i = 0; i < problem->num_layers; i++) {
        const struct pen_chain_layer *layer = &problem->layers[i];
        struct sums *sums = &solver->sums;
        sums->state_bytes[i + 1] = sums->state_bytes[i] + layer->state_bytes;
        sums->gradient_bytes[i + 1] =
            sums->gradient_bytes[i] + layer->gradient_bytes;
        sums->stash_bytes[i + 1] = sums->stash_bytes[i] + layer->stash_bytes;
    }
    for (uint32_t g = 0; g < problem->num_groups; g++) {
        double *seconds =
            &solver->seconds[(size_t)g * (problem->num_layers + 1)];
        for (uint32_t i = 0; i < problem->num_layers; i++) {
            const struct pen_chain_seconds *sec =
                &problem->groups[g].seconds[i];
            seconds[i + 1] = seconds[i] + sec->forward_sec + sec->input_sec +
                             sec->weight_sec;
        }
    }
}

static void fill_devices(struct solver *solver)
{
    const struct pen_chain_problem *problem = solver->problem;
    uint32_t device = 0;
    for (uint32_t g = problem->num_groups; g-- > 0;) {
        uint32_t end = device + problem->groups[g].num_devices;
        for (; device < end; device++) {
            solver->group_of[device] = g;
            solver->group_ends[device] = end;
        }
    }
}

static pen_status count_rows(struct solver *solver)
{
    const struct pen_chain_problem *problem = solver->problem;
    for (uint32_t i = 0; i < problem->num_groups; i++)
        solver->num_devices += problem->groups[i].num_devices;
    uint64_t width = (uint64_t)problem->num_layers + 1;
    uint64_t rows = (uint64_t)solver->num_devices + 1;
    bool has_idle = problem->may_idle && problem->num_groups > 1;
    solver->counts_used = has_idle && rows * rows * width <= MAX_CELLS;
    solver->is_exact = !has_idle || solver->counts_used;
    if (solver->counts_used)
        rows *= rows;
    if (rows * width > MAX_CELLS) {
        pen_why(solver->why, "%u layers on %u devices are too many to cut",
                problem->num_layers, solver->num_devices);
        return PEN_INVALID;
    }
    solver->num_rows = (uint32_t)rows;
    return PEN_OK;
}

static pen_status allocate(struct solver *solver)
{
    size_t width = (size_t)solver->problem->num_layers + 1;
    size_t devices = (size_t)solver->num_devices + 1;
    struct sums *sums = &solver->sums;
    sums->state_bytes = calloc(width, sizeof *sums->state_bytes);
    sums->gradient_bytes = calloc(width, sizeof *sums->gradient_bytes);
    sums->stash_bytes = calloc(width, sizeof *sums->stash_bytes);
    solver->seconds =
        calloc(width * solver->problem->num_groups, sizeof *solver->seconds);
    solver->group_of = calloc(devices, sizeof *solver->group_of);
    solver->group_ends = calloc(devices, sizeof *solver->group_ends);
    solver->cells = calloc(width * solver->num_rows, sizeof *solver->cells);
    if (sums->state_bytes == NULL || sums->gradient_bytes == NULL ||
        sums->stash_bytes == NULL || solver->seconds == NULL ||
        solver->group_of == NULL || solver->group_ends == NULL ||
        solver->cells == NULL) {
        pen_why(solver->why, "no memory to cut %u layers on %u devices",
                solver->problem->num_layers, solver->num_devices);
        return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status solve(struct solver *solver, struct pen_chain_plan **out)
{
    uint32_t row = 0;
    fill_sums(solver);
    fill_devices(solver);
    if (raise_ceiling(solver, &row))
        return make_plan(solver, row, out);
    pen_why(solver->why, "no cut of %u layers on %u devices fits in memory",
            solver->problem->num_layers, solver->num_devices);
    return PEN_INFEASIBLE;
}

pen_status pen_chain_solve(const struct pen_chain_problem *problem,
                           struct pen_chain_plan **out, struct pen_text *why)
{
    struct solver solver = {.problem = problem, .why = why};
    pen_status status = check(problem, why);
    if (status == PEN_OK)
        status = count_rows(&solver);
    if (status == PEN_OK)
        status = allocate(&solver);
    if (status == PEN_OK)
        status = solve(&solver, out);
    free(solver.sums.state_bytes);
    free(solver.sums.gradient_bytes);
    free(solver.sums.stash_bytes);
    free(solver.seconds);
    free(solver.group_of);
    free(solver.group_ends);
    free(solver.cells);
    return status;
}

void pen_chain_plan_free(struct pen_chain_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->stages);
    free(plan);
}
