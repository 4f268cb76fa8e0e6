/* From the steps of runs to the points of curves. */
#include "view/plot_curves.h"

#include "base/bug.h"
#include "view/cells.h"
#include "view/plot_axis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A loss beyond this is a run that went astray; its curve has a gap there. */
#define MOST_VALUE 1e30

const char *const pen_plot_x_names[] = {"step", "tokens", "time", NULL};

struct time_unit {
    const char *name;
    double sec;
    double most_sec; /* the largest value shown in this unit */
};

static const struct time_unit *time_unit_for(double longest_sec)
{
    static const struct time_unit units[] = {{"time (s)", 1, 200},
                                             {"time (min)", 60, 3 * 3600.0},
                                             {"time (h)", 3600, 3 * 86400.0},
                                             {"time (days)", 86400, INFINITY}};
    const struct time_unit *unit = units;
    while (longest_sec > unit->most_sec)
        unit++;
    return unit;
}

static double longest_sec(const struct pen_plot_item *items, size_t count)
{
    double longest = 0;
    for (size_t i = 0; i < count; i++) {
        const struct pen_run *run = items[i].run;
        for (size_t j = 0; j < run->num_steps; j++)
            longest = fmax(longest, run->steps[j].elapsed_sec);
    }
    return longest;
}

/* The value of one step along an axis. */
struct measure {
    enum pen_plot_x x;
    double x_unit;
    double (*y)(const struct pen_run_step *step);
    bool is_log;
};

static double loss_of(const struct pen_run_step *step)
{
    return step->loss;
}

static double speed_of(const struct pen_run_step *step)
{
    return step->tokens_per_sec;
}

static double validation_of(const struct pen_run_step *step)
{
    return step->val_loss;
}

static struct pen__point measure_step(const struct measure *measure,
                                      const struct pen_run_step *step)
{
    double x = measure->x == PEN_PLOT_STEP     ? (double)step->step
               : measure->x == PEN_PLOT_TOKENS ? (double)step->tokens
                                               : step->elapsed_sec;
    double y = measure->y(step);
    if (fabs(y) > MOST_VALUE || (measure->is_log && y <= 0))
        y = NAN;
    return (struct pen__point){x / measure->x_unit, y};
}

static bool has_place(double x)
{
    return fabs(x) <= MOST_VALUE;
}

static pen_status make_curve(const struct pen_run *run,
                             const struct measure *measure, bool with_gaps,
                             struct pen__curve *out)
{
    if (run->num_steps == 0)
        return PEN_OK;
    out->points = malloc(run->num_steps * sizeof *out->points);
    if (out->points == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < run->num_steps; i++) {
        struct pen__point point = measure_step(measure, &run->steps[i]);
        if (has_place(point.x) && (with_gaps || !isnan(point.y)))
            out->points[out->count++] = point;
    }
    return PEN_OK;
}

static pen_status copy_curve(const struct pen__curve *curve,
                             struct pen__curve *out)
{
    if (curve->count == 0)
        return PEN_OK;
    out->points = malloc(curve->count * sizeof *out->points);
    if (out->points == NULL)
        return PEN_NOMEM;
    memcpy(out->points, curve->points, curve->count * sizeof *out->points);
    out->count = curve->count;
    return PEN_OK;
}

/* A sum over the points that are there. */
struct sum {
    double y;
    double count;
};

static struct sum add_sums(struct sum a, struct sum b)
{
    return (struct sum){a.y + b.y, a.count + b.count};
}

/*
 * Makes a binary tree of sums: node i is the sum of nodes 2i and 2i + 1, the
 * leaves are nodes n to 2n - 1. In a running sum, from which the oldest point
 * is subtracted, a spike would spoil all later values.
 */
static struct sum *make_sums(const struct pen__curve *curve)
{
    size_t count = curve->count;
    struct sum *nodes = malloc(2 * count * sizeof *nodes);
    if (nodes == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        double y = curve->points[i].y;
        nodes[count + i] = isnan(y) ? (struct sum){0, 0} : (struct sum){y, 1};
    }
    for (size_t i = count; i-- > 1;)
        nodes[i] = add_sums(nodes[2 * i], nodes[2 * i + 1]);
    return nodes;
}

/* Returns the sum over the leaves begin..end-1. */
static struct sum sum_of(const struct sum *nodes, size_t count, size_t begin,
                         size_t end)
{
    struct sum sum = {0, 0};
    for (begin += count, end += count; begin < end; begin /= 2, end /= 2) {
        if (begin % 2 == 1)
            sum = add_sums(sum, nodes[begin++]);
        if (end % 2 == 1)
            sum = add_sums(sum, nodes[--end]);
    }
    return sum;
}

pen_status pen__curve_smooth(struct pen__curve *curve, uint32_t window)
{
    size_t count = curve->count;
    if (window <= 1 || count == 0)
        return PEN_OK;
    struct sum *nodes = make_sums(curve);
    if (nodes == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < count; i++) {
        /* At the first points the window shrinks on both sides, because a loss
         * falls steeply there. */
        size_t before = i < window / 2 ? i : window / 2;
        size_t behind = i < window / 2 ? i : (window - 1) / 2;
        size_t end = i + behind + 1 < count ? i + behind + 1 : count;
        struct sum sum = sum_of(nodes, count, i - before, end);
        if (!isnan(curve->points[i].y))
            curve->points[i].y = sum.y / sum.count;
    }
    free(nodes);
    return PEN_OK;
}

/* Keeps first, least, most and last of points[begin..end), in their order. */
static size_t thin_column(struct pen__point *points, size_t begin, size_t end,
                          size_t kept)
{
    size_t least = begin;
    size_t most = begin;
    for (size_t i = begin; i < end; i++) {
        if (points[i].y < points[least].y)
            least = i;
        if (points[i].y > points[most].y)
            most = i;
    }
    for (size_t i = begin; i < end; i++) {
        if (i == begin || i == least || i == most || i == end - 1)
            points[kept++] = points[i];
    }
    return kept;
}

void pen__curve_thin(struct pen__curve *curve, struct pen__range x,
                     double columns)
{
    double per_x = x.most > x.least ? columns / (x.most - x.least) : 0;
    struct pen__point *points = curve->points;
    size_t kept = 0;
    size_t begin = 0;
    while (begin < curve->count) {
        bool is_gap = isnan(points[begin].y);
        double column = floor((points[begin].x - x.least) * per_x);
        size_t end = begin + 1;
        while (end < curve->count && isnan(points[end].y) == is_gap &&
               (is_gap || floor((points[end].x - x.least) * per_x) == column))
            end++;
        if (is_gap)
            points[kept++] = points[begin];
        else
            kept = thin_column(points, begin, end, kept);
        begin = end;
    }
    curve->count = kept;
}

const struct pen__point *pen__curve_last(const struct pen__curve *curve)
{
    for (size_t i = curve->count; i-- > 0;) {
        if (!isnan(curve->points[i].y))
            return &curve->points[i];
    }
    return NULL;
}

static const struct pen__range nothing = {INFINITY, -INFINITY};

void pen__range_widen(struct pen__range *range, double value)
{
    range->least = fmin(range->least, value);
    range->most = fmax(range->most, value);
}

static void measure_curve(struct pen__plot *plot, enum pen__chart_kind kind,
                          const struct pen__curve *curve)
{
    for (size_t i = 0; i < curve->count; i++) {
        pen__range_widen(&plot->x, curve->points[i].x);
        pen__range_widen(&plot->y[kind], curve->points[i].y);
    }
}

static pen_status make_run(struct pen__plot *plot, const struct pen_run *run,
                           double x_unit, struct pen__plot_run *out)
{
    bool is_log = plot->options.has_log_loss;
    enum pen_plot_x x = plot->options.x;
    const struct measure lines[PEN__CHARTS] = {{x, x_unit, loss_of, is_log},
                                               {x, x_unit, speed_of, false}};
    const struct measure marks = {x, x_unit, validation_of, is_log};
    pen_status status = make_curve(run, &marks, false, &out->marks);
    for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS && status == PEN_OK;
         kind++) {
        status = make_curve(run, &lines[kind], true, &out->lines[kind]);
        if (status == PEN_OK && plot->options.smooth > 1)
            status = copy_curve(&out->lines[kind], &out->faint[kind]);
        if (status == PEN_OK)
            status = pen__curve_smooth(&out->lines[kind], plot->options.smooth);
        measure_curve(plot, kind, &out->lines[kind]);
        measure_curve(plot, kind, &out->faint[kind]);
    }
    measure_curve(plot, PEN__CHART_LOSS, &out->marks);
    return status;
}

static void thin_run(const struct pen__plot *plot, struct pen__plot_run *run,
                     double columns)
{
    for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS; kind++) {
        pen__curve_thin(&run->lines[kind], plot->x, columns);
        pen__curve_thin(&run->faint[kind], plot->x, columns);
    }
    pen__curve_thin(&run->marks, plot->x, columns);
}

static pen_status make_runs(struct pen__plot *plot, double columns)
{
    double x_unit = 1;
    plot->x_name = pen_plot_x_names[plot->options.x];
    if (plot->options.x == PEN_PLOT_TIME) {
        const struct time_unit *unit =
            time_unit_for(longest_sec(plot->items, plot->count));
        plot->x_name = unit->name;
        x_unit = unit->sec;
    }
    pen_status status = PEN_OK;
    for (size_t i = 0; i < plot->count && status == PEN_OK; i++)
        status = make_run(plot, plot->items[i].run, x_unit, &plot->runs[i]);
    for (size_t i = 0; i < plot->count && status == PEN_OK; i++)
        thin_run(plot, &plot->runs[i], columns);
    return status;
}

pen_status pen__plot_init(struct pen__plot *plot,
                          const struct pen_plot_item *items, size_t count,
                          const struct pen_plot_options *options,
                          double columns, struct pen_text *why)
{
    PEN_BUG_UNLESS(count > 0);
    *plot = (struct pen__plot){.items = items,
                               .count = count,
                               .options = *options,
                               .x = nothing,
                               .y = {nothing, nothing}};
    plot->runs = calloc(count, sizeof *plot->runs);
    pen_status status =
        plot->runs == NULL ? PEN_NOMEM : make_runs(plot, columns);
    if (status != PEN_OK) {
        pen_why(why, "no memory for the curves");
    } else if (plot->x.least > plot->x.most) {
        pen_why(why, "nothing to draw: no run has %s yet",
                options->x == PEN_PLOT_TIME ? "a step with a time" : "a step");
        status = PEN_INVALID;
    }
    if (status != PEN_OK)
        pen__plot_release(plot);
    return status;
}

void pen__plot_release(struct pen__plot *plot)
{
    for (size_t i = 0; plot->runs != NULL && i < plot->count; i++) {
        for (enum pen__chart_kind kind = 0; kind < PEN__CHARTS; kind++) {
            free(plot->runs[i].lines[kind].points);
            free(plot->runs[i].faint[kind].points);
        }
        free(plot->runs[i].marks.points);
    }
    free(plot->runs);
    plot->runs = NULL;
}

void pen__plot_add_title(const struct pen__plot *plot, struct pen_text *out)
{
    if (plot->options.title != NULL) {
        pen__add_clean(plot->options.title, out);
        return;
    }
    const char *model = plot->items[0].run->model;
    for (size_t i = 1; i < plot->count; i++) {
        if (strcmp(plot->items[i].run->model, model) != 0) {
            pen_text_add(out, "%zu trainings", plot->count);
            return;
        }
    }
    pen__add_clean(model, out);
}

static void add_last(const struct pen__curve *curve, const char *before,
                     const char *behind, struct pen_text *out)
{
    const struct pen__point *last = pen__curve_last(curve);
    char number[PEN__NUMBER_SIZE];
    if (last == NULL)
        return;
    pen__print_value(last->y, number);
    pen_text_add(out, "%s%s%s", before, number, behind);
}

void pen__plot_add_words(const struct pen__plot *plot, size_t index,
                         struct pen_text *out)
{
    const struct pen__plot_run *run = &plot->runs[index];
    const struct pen_run *log = plot->items[index].run;
    if (log->num_steps == 0) {
        pen_text_add_string(out, "no step yet");
        return;
    }
    pen_text_add(out, "step %llu",
                 (unsigned long long)log->steps[log->num_steps - 1].step);
    add_last(&run->lines[PEN__CHART_LOSS], ", loss ", "", out);
    add_last(&run->marks, ", validated ", "", out);
    add_last(&run->lines[PEN__CHART_SPEED], ", ", " tokens/s", out);
}

void pen__plot_add_chart_name(const struct pen__plot *plot,
                              enum pen__chart_kind kind, struct pen_text *out)
{
    static const char *const names[PEN__CHARTS] = {"loss", "tokens/s"};
    pen_text_add_string(out, names[kind]);
    if (plot->options.smooth > 1)
        pen_text_add(out, ", mean of %u steps", plot->options.smooth);
}
