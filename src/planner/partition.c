/*
 * One dynamic program over (parts, layers):
 *
 *   best(j, i)  of layers 0..i-1 in j parts
 *             = least over c of  join(best(j-1, c), layers c..i-1 as part j)
 *
 * It runs twice. The first pass joins by the maximum and finds the bound, the
 * second adds squares under that bound. Without limits of bytes the bound is
 * found by bisection instead of the first pass.
 *
 * A part under the bound and its limit ends where it must, so that the parts
 * before it could reach its first layer and the parts after it can take the
 * rest. These windows of i are narrow when the bound is tight:
 *
 *   layers   0 .......... [lowest .. highest] .......... n
 *            parts 0..j end in here |  parts j+1.. have the rest
 */
#include "planner/partition.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define UNITS 1073741824.0 /* of all costs together: squares fit 64 bits */
#define MAX_CELLS ((uint64_t)1 << 28)
#define NONE UINT64_MAX

struct window {
    uint32_t lowest;
    uint32_t highest;
};

struct table {
    const struct pen_partition_problem *problem;
    uint64_t *units;        /* of the layers before each one */
    uint64_t *bytes;        /* the same; zeros where nothing is limited */
    struct window *windows; /* per part: where it may end */
    uint64_t *before;       /* best of one part less, by layers */
    uint64_t *best;         /* of this row */
    uint32_t *cuts;         /* per part and layers: where the part begins */
    uint64_t bound;         /* of one part, in units */
    bool adds_squares;      /* else takes the maximum */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Whether layers `first` to `end` - 1 may be one part. */
static bool may_be(const struct table *table, uint32_t part, uint32_t first,
                   uint32_t end)
{
    const uint64_t *limits = table->problem->limits;
    return table->units[end] - table->units[first] <= table->bound &&
           (limits == NULL ||
            table->bytes[end] - table->bytes[first] <= limits[part]);
}

/* Every part has a layer, and none ends outside of its window. */
static void find_windows(struct table *table)
{
    uint32_t n = table->problem->num_layers;
    uint32_t num_parts = table->problem->num_parts;
    uint32_t end = 0;
    for (uint32_t part = 0; part < num_parts; part++) {
        uint32_t first = end;
        while (end < n && may_be(table, part, first, end + 1))
            end++;
        uint32_t most = n - (num_parts - 1 - part);
        table->windows[part].highest = end < most ? end : most;
    }
    uint32_t first = n;
    for (uint32_t part = num_parts; part-- > 0;) {
        table->windows[part].lowest = first > part + 1 ? first : part + 1;
        end = first;
        while (first > 0 && may_be(table, part, first - 1, end))
            first--;
    }
}

/* The least of the last part, alone or with what is before it. */
static void find_cut(struct table *table, uint32_t part, uint32_t layers)
{
    const struct window before =
        part == 0 ? (struct window){0, 0} : table->windows[part - 1];
    uint32_t *cut =
        &table->cuts[(size_t)part * (table->problem->num_layers + 1)];
    uint64_t least = NONE;
    uint32_t c = before.highest < layers ? before.highest + 1 : layers;
    while (c-- > before.lowest) {
        uint64_t sum = table->units[layers] - table->units[c];
        uint64_t alone = table->adds_squares ? sum * sum : sum;
        if (alone > least || !may_be(table, part, c, layers))
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
    uint32_t n = table->problem->num_layers;
    find_windows(table);
    table->best[0] = 0;
    for (uint32_t part = 0; part < table->problem->num_parts; part++) {
        const struct window *window = &table->windows[part];
        uint64_t *row = table->before;
        table->before = table->best;
        table->best = row;
        if (window->lowest > window->highest)
            return NONE;
        for (uint32_t i = window->lowest; i <= window->highest; i++)
            find_cut(table, part, i);
    }
    return table->best[n];
}

/* Whether all layers go into the parts under a bound, whatever their bytes. */
static bool is_enough(const struct table *table, uint64_t bound)
{
    uint32_t parts = 1;
    uint32_t first = 0;
    for (uint32_t i = 0; i < table->problem->num_layers; i++) {
        if (table->units[i + 1] - table->units[first] <= bound)
            continue;
        first = i;
        if (++parts > table->problem->num_parts ||
            table->units[i + 1] - table->units[i] > bound)
            return false;
    }
    return true;
}

static uint64_t bisect(const struct table *table)
{
    uint64_t high = table->units[table->problem->num_layers];
    uint64_t low = high / table->problem->num_parts;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (is_enough(table, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
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
    for (uint32_t i = 0; i < problem->num_layers; i++) {
        double share = sum > 0 ? problem->costs[i] / sum : 0;
        table->units[i + 1] =
            table->units[i] + (uint64_t)llround(share * UNITS);
        table->bytes[i + 1] =
            table->bytes[i] + (problem->limits != NULL ? problem->bytes[i] : 0);
    }
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
    table->bound =
        table->problem->limits == NULL ? bisect(table) : solve(table);
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
    table.bytes = calloc(width, sizeof *table.bytes);
    table.windows = calloc(problem->num_parts, sizeof *table.windows);
    table.before = calloc(width, sizeof *table.before);
    table.best = calloc(width, sizeof *table.best);
    table.cuts = calloc(width * problem->num_parts, sizeof *table.cuts);
    if (table.units == NULL || table.bytes == NULL || table.windows == NULL ||
        table.before == NULL || table.best == NULL || table.cuts == NULL) {
        pen_why(why, "no memory to cut %u layers into %u stages",
                problem->num_layers, problem->num_parts);
        status = PEN_NOMEM;
    } else {
        status = run(&table, counts, why);
    }
    free(table.units);
    free(table.bytes);
    free(table.windows);
    free(table.before);
    free(table.best);
    free(table.cuts);
    return status;
}
