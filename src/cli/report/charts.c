/* The charts of penstock report. */
#include "cli/report/report.h"

#include "view/ranked.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 32u /* that have a bar */

/* ---- bars ---- */

/* Chooses all in their order or, among many, those with the largest keys. */
static uint32_t choose(struct pen_ranked *ranks, uint32_t count)
{
    if (count <= MOST_RANKS)
        return count;
    pen_ranked_sort(ranks, count);
    return MOST_RANKS;
}

bool pen__report_spent_bars(const struct pen_spent *spent,
                            struct pen__chart_bars *out)
{
    double scale = spent->sec < 1 ? 1e3 : 1;
    struct pen_ranked *ranks = calloc(spent->num_ranks, sizeof *ranks);
    bool has_room = pen__chart_bars_init(out, MOST_RANKS, PEN_SPENTS);
    for (uint32_t i = 0; i < spent->num_ranks && ranks != NULL; i++)
        ranks[i] = (struct pen_ranked){spent->ranks[i].computing_sec, i};
    out->chart.unit = scale > 1 ? "ms" : "s";
    out->chart.names = pen_spent_names;
    uint32_t count = ranks == NULL ? 0 : choose(ranks, spent->num_ranks);
    for (uint32_t i = 0; i < count && has_room; i++) {
        const struct pen_spent_rank *rank = &spent->ranks[ranks[i].rank];
        double *parts = pen__chart_bars_add(out);
        for (int part = 0; part < PEN_SPENTS; part++)
            parts[part] = scale * rank->sec[part];
        snprintf(out->labels[i], sizeof *out->labels, "rank %" PRIu32,
                 ranks[i].rank);
        snprintf(out->notes[i], sizeof *out->notes, "computes %.0f %%",
                 100 * rank->computing_sec / fmax(spent->sec, 1e-30));
    }
    free(ranks);
    return has_room && count > 0;
}

bool pen__report_memory_bars(const struct pen_run_ranks *ranks,
                             struct pen__chart_bars *out)
{
    static const char *const names[] = {"peak"};
    struct pen_ranked *order = calloc(ranks->count, sizeof *order);
    bool has_room = pen__chart_bars_init(out, MOST_RANKS, 1);
    uint64_t most = 0;
    for (uint32_t i = 0; i < ranks->count && order != NULL; i++) {
        const struct pen_run_rank *rank = &ranks->ranks[i];
        order[i] = (struct pen_ranked){
            (double)rank->peak_bytes / (double)rank->predicted_bytes, i};
        most = rank->peak_bytes > most ? rank->peak_bytes : most;
    }
    double scale = most < 10000000000u ? 1e-6 : 1e-9;
    out->chart.unit = most < 10000000000u ? "MB" : "GB";
    out->chart.names = names;
    out->chart.limit_name = "predicted";
    uint32_t count = order == NULL ? 0 : choose(order, ranks->count);
    for (uint32_t i = 0; i < count && has_room; i++) {
        const struct pen_run_rank *rank = &ranks->ranks[order[i].rank];
        *pen__chart_bars_add(out) = scale * (double)rank->peak_bytes;
        out->bars[i].limit = scale * (double)rank->predicted_bytes;
        snprintf(out->labels[i], sizeof *out->labels, "rank %" PRIu32,
                 order[i].rank);
        snprintf(
            out->notes[i], sizeof *out->notes, "%+.1f %%",
            100 *
                ((double)rank->peak_bytes / (double)rank->predicted_bytes - 1));
    }
    free(order);
    return has_room && count > 0;
}

/* ---- curves ---- */

/* The quantity that one chart shows of a step. */
enum value { VALUE_LOSS, VALUE_VALIDATION, VALUE_SPEED, VALUES };

static double value_of(const struct pen_run_step *step, enum value value)
{
    switch (value) {
    case VALUE_LOSS:
        return step->loss;
    case VALUE_VALIDATION:
        return step->val_loss;
    default:
        return step->tokens_per_sec;
    }
}

/* Makes an array of the steps, followed by the values of each kind. */
static double *make_values(const struct pen_run *log)
{
    size_t count = log->num_steps;
    double *values = malloc((1 + VALUES) * count * sizeof *values);
    for (size_t i = 0; i < count && values != NULL; i++) {
        values[i] = (double)log->steps[i].step;
        for (int k = 0; k < VALUES; k++)
            values[(size_t)(1 + k) * count + i] =
                value_of(&log->steps[i], (enum value)k);
    }
    return values;
}

/*
 * Makes a curve. Curves of a chart follow each other: losses, validations, then
 * speeds.
 */
static struct pen_report_curve make_curve(struct pen__report_curves *curves,
                                          const struct pen__report *report,
                                          size_t run, enum value value)
{
    static const char *const words[VALUES] = {"loss", "validation loss",
                                              "tokens/s"};
    const struct pen_run *log = report->runs[run].log;
    struct pen_text *name =
        &curves->names[(size_t)value * PEN__REPORT_MAX_RUNS + run];
    if (report->count == 1)
        pen_text_add_string(name, words[value]);
    else
        pen_text_add(name, "%s%s", pen_text_string(&report->runs[run].label),
                     value == VALUE_VALIDATION ? ", validation" : "");
    size_t count = log->num_steps;
    return (struct pen_report_curve){
        .name = pen_text_string(name),
        .x = curves->values[run],
        .y = curves->values[run] + (size_t)(1 + value) * count,
        .count = count,
        .colour = report->count == 1 && value == VALUE_VALIDATION ? 1 : run,
        .has_marks = value == VALUE_VALIDATION};
}

static bool has_steps(const struct pen__report_run *run)
{
    return run->log != NULL && run->log->num_steps > 0;
}

/* Returns the loss at the step of a fault; NaN where none was logged. */
static double loss_at(const struct pen_run *log, int64_t step)
{
    size_t begin = 0, end = log->num_steps;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if ((int64_t)log->steps[middle].step < step)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < log->num_steps ? log->steps[begin].loss : (double)NAN;
}

/* Marks on the loss, at the steps in which ranks failed. */
static bool make_faults(struct pen__report_curves *curves,
                        const struct pen__report *report, size_t run,
                        struct pen_report_curve *out)
{
    const struct pen__report_run *it = &report->runs[run];
    size_t count = it->events->num_faults;
    struct pen_text *name =
        &curves->names[(size_t)VALUES * PEN__REPORT_MAX_RUNS + run];
    double *values = malloc(2 * count * sizeof *values);
    if (values == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct pen_run_fault *fault = &it->events->faults[i];
        int64_t step =
            fault->failed_step >= 0 ? fault->failed_step : fault->step;
        values[i] = (double)step;
        values[count + i] = step < 0 ? (double)NAN : loss_at(it->log, step);
    }
    if (report->count > 1)
        pen_text_add(name, "%s, ", pen_text_string(&it->label));
    pen_text_add_string(name, "faults");
    curves->faults[run] = values;
    *out = (struct pen_report_curve){.name = pen_text_string(name),
                                     .x = values,
                                     .y = values + count,
                                     .count = count,
                                     .colour = report->count == 1 ? 3 : run,
                                     .has_marks = true,
                                     .is_loose = true};
    return true;
}

static bool has_faults(const struct pen__report_run *run)
{
    return has_steps(run) && run->events != NULL && run->events->num_faults > 0;
}

bool pen__report_curves_init(struct pen__report_curves *curves,
                             const struct pen__report *report)
{
    size_t count = 0;
    *curves = (struct pen__report_curves){.num_charts = 0};
    for (size_t i = 0; i < report->count; i++) {
        if (!has_steps(&report->runs[i]))
            continue;
        curves->values[i] = make_values(report->runs[i].log);
        if (curves->values[i] == NULL)
            return false;
    }
    size_t first_speed = 0;
    for (int value = 0; value < VALUES; value++) {
        for (size_t i = 0; i < report->count && value == VALUE_SPEED; i++)
            if (has_faults(&report->runs[i]) &&
                !make_faults(curves, report, i, &curves->curves[count++]))
                return false;
        if (value == VALUE_SPEED)
            first_speed = count;
        for (size_t i = 0; i < report->count; i++) {
            if (has_steps(&report->runs[i]))
                curves->curves[count++] =
                    make_curve(curves, report, i, (enum value)value);
        }
    }
    if (count == 0)
        return true;
    curves->num_charts = 2;
    curves->charts[0] = (struct pen_report_curves){.x_name = "step",
                                                   .y_name = "loss",
                                                   .curves = curves->curves,
                                                   .num_curves = first_speed};
    curves->charts[1] =
        (struct pen_report_curves){.x_name = "step",
                                   .y_name = "tokens/s",
                                   .curves = curves->curves + first_speed,
                                   .num_curves = count - first_speed,
                                   .has_zero = true};
    return true;
}

void pen__report_curves_release(struct pen__report_curves *curves)
{
    for (size_t i = 0; i < 4 * PEN__REPORT_MAX_RUNS; i++)
        pen_text_release(&curves->names[i]);
    for (size_t i = 0; i < PEN__REPORT_MAX_RUNS; i++) {
        free(curves->values[i]);
        free(curves->faults[i]);
    }
}
