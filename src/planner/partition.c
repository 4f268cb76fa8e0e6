/*
 * Two passes of one dynamic program over (parts, layers):
 *
 *   best(j, i)  of layers 0..i-1 in j parts
 *             = least over c of  join(best(j-1, c), layers c..i-1 as part j)
 *
 * The first pass joins by the maximum and finds the bound, the second adds
 * squares under that bound. The last part grows from layer i-1 downwards and
 * its cost never falls, so a search ends as soon as the part alone is too
 * expensive: a row takes about layers^2 / parts steps.
 */
#include "planner/partition.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define UNITS 1073741824.0 /* of all costs together: squares fit 64 bits */
#define MAX_CELLS ((uint64_t)1 << 28)
#define NONE UINT64_MAX

struct table {
    const struct pen_partition_problem *problem;
    uint64_t *units;   /* per layer */
    uint64_t *before;  /* best of one part less, by layers */
    uint64_t *best;    /* of this row */
    uint32_t *cuts;    /* per part and layers: where the part begins */
    uint64_t bound;    /* of one part, in units */
    bool adds_squares; /* else takes the maximum */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The least of the last part, alone or with what is before it. */
static void find_cut(struct table *table, uint32_t part, uint32_t layers)
{
    const struct pen_partition_problem *problem = table->problem;
    uint32_t *cut = &table->cuts[(size_t)part * (problem->num_layers + 1)];
    uint64_t sum = 0;
    uint64_t bytes = 0;
    uint64_t least = NONE;
    for (uint32_t c = layers; c-- > part;) {
        sum += table->units[c];
        if (problem->limits != NULL)
            bytes += problem->bytes[c];
        uint64_t alone = table->adds_squares ? sum * sum : sum;
        if (sum > table->bound || alone > least ||
            (problem->limits != NULL && bytes > problem->limits[part]))
            break;
        if (table->before[c] == NONE)
            continue;
        uint64_t joined = table->adds_squares ? table->before[c] + alone
                                              : larger(table->before[c], alone);
        if (joined <= least) {
            least = joined;
            cut[layers] = c;
        }
    }
    table->best[layers] = least;
}

/* Fills the cuts; returns the best of all layers, or NONE. */
static uint64_t solve(struct table *table)
{
    const struct pen_partition_problem *problem = table->problem;
    uint32_t n = problem->num_layers;
    for (uint32_t i = 0; i <= n; i++)
        table->best[i] = i == 0 ? 0 : NONE;
    for (uint32_t part = 0; part < problem->num_parts; part++) {
        uint64_t *row = table->before;
        table->before = table->best;
        table->best = row;
        /* Each part behind this one needs a layer, too. */
        uint32_t last = n - (problem->num_parts - 1 - part);
        for (uint32_t i = 0; i <= n; i++)
            table->best[i] = NONE;
        for (uint32_t i = part + 1; i <= last; i++)
            find_cut(table, part, i);
    }
    return table->best[n];
}

static void count_layers(const struct table *table, uint32_t *counts)
{
    const struct pen_partition_problem *problem = table->problem;
    uint32_t end = problem->num_layers;
    for (uint32_t part = problem->num_parts; part-- > 0;) {
        uint32_t begin =
            table->cuts[(size_t)part * (problem->num_layers + 1) + end];
        counts[part] = end - begin;
        end = begin;
    }
}

static void fill_units(struct table *table)
{
    const struct pen_partition_problem *problem = table->problem;
    double sum = 0;
    for (uint32_t i = 0; i < problem->num_layers; i++)
        sum += problem->costs[i];
    for (uint32_t i = 0; i < problem->num_layers; i++)
        table->units[i] =
            sum > 0 ? (uint64_t)llround(problem->costs[i] / sum * UNITS) : 0;
}

static pen_status check(const struct pen_partition_problem *problem,
                        struct pen_text *why)
{
    uint32_t n = problem->num_layers;
    if (problem->num_parts == 0 || n < problem->num_parts ||
        n > PEN_PARTITION_MAX_LAYERS) {
        pen_why(why, "%u layers cannot be cut into %u stages", n,
                problem->num_parts);
        return PEN_INVALID;
    }
    if (((uint64_t)n + 1) * problem->num_parts > MAX_CELLS) {
        pen_why(why, "%u layers in %u stages are too many to cut well", n,
                problem->num_parts);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (isfinite(problem->costs[i]) && problem->costs[i] >= 0)
            continue;
        pen_why(why, "layer %u has the cost %g", i, problem->costs[i]);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status run(struct table *table, uint32_t *counts,
                      struct pen_text *why)
{
    fill_units(table);
    table->bound = NONE - 1;
    table->bound = solve(table);
    if (table->bound == NONE) {
        pen_why(why, "no cut of %u layers into %u stages fits into memory",
                table->problem->num_layers, table->problem->num_parts);
        return PEN_INFEASIBLE;
    }
    /* Sums that are equal may differ by the rounding of their layers. */
    table->bound += table->problem->num_layers;
    table->adds_squares = true;
    (void)solve(table);
    count_layers(table, counts);
    return PEN_OK;
}

pen_status pen_partition(const struct pen_partition_problem *problem,
                         uint32_t *counts, struct pen_text *why)
{
    pen_status status = check(problem, why);
    if (status != PEN_OK)
        return status;
    size_t width = (size_t)problem->num_layers + 1;
    struct table table = {.problem = problem};
    table.units = calloc(width, sizeof *table.units);
    table.before = calloc(width, sizeof *table.before);
    table.best = calloc(width, sizeof *table.best);
    table.cuts = calloc(width * problem->num_parts, sizeof *table.cuts);
    if (table.units == NULL || table.before == NULL || table.best == NULL ||
        table.cuts == NULL) {
        pen_why(why, "no memory to cut %u layers into %u stages",
                problem->num_layers, problem->num_parts);
        status = PEN_NOMEM;
    } else {
        status = run(&table, counts, why);
    }
    free(table.units);
    free(table.before);
    free(table.best);
    free(table.cuts);
    return status;
}
