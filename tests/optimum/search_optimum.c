/*
 * The search against the proven optimum of tiny cases. The optimum is that of
 * an integer program, solved by CBC: it knows the rules of a schedule (who
 * waits for whom, one op at a time on a rank, the memory limit) and shares
 * nothing with the search but the description of the problem.
 *
 *   start of every op         continuous
 *   op x before op y          binary, for two ops of one rank whose order is
 *                             not fixed already
 *   span                      minimised; >= end - first start of every rank
 *
 * Sends are not limited (the search gets a window of m), so the program is
 * exact. One line per case; fails when the search ends above the optimum in a
 * case where it is known to reach it, or below it anywhere.
 */
#include "schedule/search.h"
#include "schedule/search_bound.h"
#include "schedule/search_problem.h"

#include <coin/Cbc_C_Interface.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct program {
    struct pen__problem problem;
    Cbc_Model *model;
    int span;     /* column */
    double big;   /* no schedule worth having is longer */
    int *before;  /* op * ops + op: column, or FIRST, LAST */
    uint32_t ops; /* of one rank */
};

enum { FIRST = -1, LAST = -2 }; /* the first op comes first, or last */

static void *allocate(size_t count, size_t size)
{
    void *bytes = calloc(count, size);
    if (bytes == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return bytes;
}

static double seconds_of(const struct program *it, int64_t ticks)
{
    return (double)ticks / it->problem.per_sec;
}

/* Columns 0 to p*ops-1 are the starts. */
static int start_of(const struct program *it, uint32_t rank, uint32_t op)
{
    return (int)(rank * it->ops + op);
}

static const struct pen__task *task_of(const struct program *it, uint32_t rank,
                                       uint32_t op)
{
    return pen__task_of(&it->problem, rank, op / it->problem.num_microbatches);
}

/* column[y] - column[x] >= least */
static void follow(struct program *it, int x, int y, double least)
{
    int columns[] = {x, y};
    double values[] = {-1, 1};
    Cbc_addRow(it->model, "follow", 2, columns, values, 'G', least);
}

static void add_starts(struct program *it)
{
    for (uint32_t rank = 0; rank < it->problem.num_ranks; rank++) {
        for (uint32_t op = 0; op < it->ops; op++)
            Cbc_addCol(it->model, "start", 0, it->big, 0, 0, 0, NULL, NULL);
    }
    it->span = Cbc_getNumCols(it->model);
    Cbc_addCol(it->model, "span", 0, it->big, 1, 0, 0, NULL, NULL);
    for (uint32_t rank = 0; rank < it->problem.num_ranks; rank++) {
        double head = seconds_of(it, it->problem.head[rank]);
        for (uint32_t op = 0; op < it->ops; op++)
            follow(it, start_of(it, rank, op), it->span,
                   seconds_of(it, task_of(it, rank, op)->ticks) - head);
    }
}

/* Op of another rank that feeds this one, with its rank; false: none. */
static bool feeder(const struct program *it, uint32_t rank, uint32_t op,
                   uint32_t *from, uint32_t *source)
{
    const struct pen__problem *problem = &it->problem;
    uint32_t m = problem->num_microbatches;
    const struct pen__task *task = task_of(it, rank, op);
    if (task->recv == PEN__NONE)
        return false;
    *from = problem->channels.channels[task->recv].source;
    uint32_t role = op / m % PEN__ROLES;
    uint32_t type = role;
    while (pen__task_of(problem, *from, type)->stage != task->expects)
        type += PEN__ROLES;
    *source = type * m + op % m;
    return true;
}

static void add_precedence(struct program *it)
{
    uint32_t m = it->problem.num_microbatches;
    for (uint32_t rank = 0; rank < it->problem.num_ranks; rank++) {
        for (uint32_t op = 0; op < it->ops; op++) {
            const struct pen__task *task = task_of(it, rank, op);
            uint32_t from = 0;
            uint32_t source = 0;
            int here = start_of(it, rank, op);
            if (op % m > 0)
                follow(it, here - 1, here, seconds_of(it, task->ticks));
            if (task->before != PEN__NONE) {
                uint32_t other = (uint32_t)task->before * m + op % m;
                follow(it, start_of(it, rank, other), here,
                       seconds_of(it, task_of(it, rank, other)->ticks));
            }
            if (feeder(it, rank, op, &from, &source))
                follow(it, start_of(it, from, source), here,
                       seconds_of(it, task_of(it, from, source)->ticks +
                                          it->problem.latency[task->recv]));
        }
    }
}

/* The order that micro-batches and chains fix: F n < I n' < W n'' and so on. */
static bool is_fixed(const struct program *it, uint32_t x, uint32_t y)
{
    uint32_t m = it->problem.num_microbatches;
    uint32_t last = it->problem.num_types / PEN__ROLES - 1;
    uint32_t chunk_x = x / m / PEN__ROLES;
    uint32_t chunk_y = y / m / PEN__ROLES;
    uint32_t role_x = x / m % PEN__ROLES;
    uint32_t role_y = y / m % PEN__ROLES;
    /* Place of F and I of a micro-batch on its way; W follows its I. */
    uint32_t way_x = role_x == PEN__F ? chunk_x : 2 * last + 1 - chunk_x;
    uint32_t way_y = role_y == PEN__F ? chunk_y : 2 * last + 1 - chunk_y;
    if (x % m > y % m)
        return false;
    if (role_x == PEN__W)
        return role_y == PEN__W && chunk_x == chunk_y && x != y;
    return way_x < way_y || (way_x == way_y && x != y && role_x <= role_y);
}

static void add_disjunctions(struct program *it, uint32_t rank)
{
    for (uint32_t x = 0; x < it->ops; x++) {
        for (uint32_t y = x + 1; y < it->ops; y++) {
            int *before = &it->before[x * it->ops + y];
            int *after = &it->before[y * it->ops + x];
            *before = is_fixed(it, x, y) ? FIRST : LAST;
            *after = is_fixed(it, y, x) ? FIRST : LAST;
            if (*before == FIRST || *after == FIRST)
                continue;
            *before = Cbc_getNumCols(it->model);
            *after = *before;
            Cbc_addCol(it->model, "before", 0, 1, 0, 1, 0, NULL, NULL);
            int start_x = start_of(it, rank, x);
            int start_y = start_of(it, rank, y);
            double ticks_x = seconds_of(it, task_of(it, rank, x)->ticks);
            double ticks_y = seconds_of(it, task_of(it, rank, y)->ticks);
            int columns[] = {start_y, start_x, *before};
            double x_first[] = {1, -1, -it->big - ticks_x};
            double y_first[] = {-1, 1, it->big + ticks_y};
            Cbc_addRow(it->model, "x first", 3, columns, x_first, 'G',
                       -it->big);
            Cbc_addRow(it->model, "y first", 3, columns, y_first, 'G', ticks_y);
        }
    }
}

/* What the rank holds when this F runs, it included, fits. */
static void add_limit(struct program *it, uint32_t rank, uint32_t op)
{
    int *columns = allocate(it->ops, sizeof *columns);
    double *values = allocate(it->ops, sizeof *values);
    int count = 0;
    double held = task_of(it, rank, op)->memory;
    for (uint32_t x = 0; x < it->ops; x++) {
        double memory = task_of(it, rank, x)->memory;
        int before = it->before[x * it->ops + op];
        if (x == op || before == LAST)
            continue;
        if (before == FIRST) {
            held += memory;
            continue;
        }
        /* The column says that the smaller op comes first. */
        columns[count] = before;
        values[count++] = x < op ? memory : -memory;
        held += x < op ? 0 : memory;
    }
    Cbc_addRow(it->model, "limit", count, columns, values, 'L',
               it->problem.limit - held);
    free(columns);
    free(values);
}

static void build(struct program *it)
{
    add_starts(it);
    add_precedence(it);
    for (uint32_t rank = 0; rank < it->problem.num_ranks; rank++) {
        add_disjunctions(it, rank);
        for (uint32_t op = 0; op < it->ops; op++) {
            uint32_t role = op / it->problem.num_microbatches % PEN__ROLES;
            if (role == PEN__F && isfinite(it->problem.limit))
                add_limit(it, rank, op);
        }
    }
}

/* The least span; `most` is a span that can be reached. */
static double solve(const struct pen_shape *shape,
                    const struct pen_costs *costs, double limit, double most,
                    double *bound)
{
    struct program it = {.model = Cbc_newModel()};
    if (pen__problem_init(&it.problem, shape, costs, limit,
                          shape->num_microbatches, NULL) != PEN_OK)
        exit(EXIT_FAILURE);
    it.ops = it.problem.length;
    it.before = allocate((size_t)it.ops * it.ops, sizeof *it.before);
    it.big =
        most + 1 + seconds_of(&it, it.problem.head[it.problem.num_ranks - 1]);
    build(&it);
    Cbc_setLogLevel(it.model, 0);
    Cbc_setColUpper(it.model, it.span, most + 1e-6);
    Cbc_solve(it.model);
    if (!Cbc_isProvenOptimal(it.model)) {
        fprintf(stderr, "the integer program has no proven optimum\n");
        exit(EXIT_FAILURE);
    }
    double least = Cbc_getObjValue(it.model);
    *bound = seconds_of(&it, pen__span_bound(&it.problem));
    Cbc_deleteModel(it.model);
    pen__problem_release(&it.problem);
    free(it.before);
    return least;
}

struct tiny {
    uint32_t ranks;
    uint32_t microbatches;
    double limit;
    bool is_v;
    bool is_uneven;
};

static const struct tiny cases[] = {
    {2, 2, 0, false, false},  {2, 2, 1, false, true},
    {2, 3, 1, false, true},   {2, 3, 1.5, false, true},
    {2, 3, 2, false, true},   {2, 4, 1.5, false, true},
    {2, 4, 2, false, false},  {2, 4, 2, false, true},
    {2, 4, 3, false, true},   {2, 2, 1, true, true},
    {2, 2, 1.5, true, true},  {2, 3, 1.5, true, true},
    {3, 2, 1, false, true},   {3, 2, 1.5, false, true},
    {3, 3, 1.5, false, true}, {3, 3, 2, false, false},
    {3, 3, 2, false, true},   {3, 4, 2, false, true},
    {3, 4, 3, false, true},   {3, 4, 3, false, false},
};

/* True when the search reached the optimum, and not less. */
static bool compare(const struct tiny *tiny)
{
    struct pen_costs costs;
    struct pen_cost items[3];
    pen_costs_init(&costs);
    costs.memory =
        (struct pen_memory){.forward = 1, .input = -0.5, .weight = -0.5};
    for (uint32_t i = 0; i < tiny->ranks; i++) {
        items[i] = costs.uniform;
        items[i].forward_sec = 1 + 0.5 * i;
        items[i].input_sec = 2 - 0.25 * i;
        items[i].weight_sec = 1.25;
    }
    if (tiny->is_uneven) {
        costs.scope = PEN_COST_PER_RANK;
        costs.items = items;
        costs.num_items = tiny->ranks;
        costs.latency_sec = 0.5;
    }
    struct pen_search_args args = {.ranks = tiny->ranks,
                                   .microbatches = tiny->microbatches,
                                   .placements = tiny->is_v ? PEN_SEARCH_V
                                                            : PEN_SEARCH_LINEAR,
                                   .memory_limit = tiny->limit,
                                   .has_memory = true,
                                   .costs = &costs,
                                   .send_window = tiny->microbatches,
                                   .effort = 0.1,
                                   .seed = 1};
    struct pen_schedule *schedule = NULL;
    struct pen_search_report report;
    if (pen_schedule_search(&args, &schedule, &report, NULL) != PEN_OK)
        exit(EXIT_FAILURE);
    double bound = 0;
    double least =
        solve(&schedule->shape, &costs, tiny->limit, report.span_sec, &bound);
    printf("%u\t%u\t%g\t%s\t%s\t%.6f\t%.6f\t%.4f%%\t%.6f\n", tiny->ranks,
           tiny->microbatches, tiny->limit, tiny->is_v ? "v" : "linear",
           tiny->is_uneven ? "uneven" : "equal", least, report.span_sec,
           100 * (report.span_sec / least - 1), bound);
    fflush(stdout);
    pen_schedule_free(schedule);
    /* CBC works to about 1e-7; times are multiples of 1/8. */
    return fabs(report.span_sec - round(least * 1024) / 1024) < 1e-9 &&
           bound < least + 1e-6;
}

int main(void)
{
    unsigned missed = 0;
    printf("p\tm\tlimit\tplacement\tcosts\toptimum\tsearch\tgap\tbound\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        missed += !compare(&cases[i]);
    printf("# not equal to the optimum: %u of %zu\n", missed,
           sizeof cases / sizeof *cases);
    return missed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
