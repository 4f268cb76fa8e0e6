/* The charts of a report. */
#include "cli/plan/report.h"

#include "base/sort.h"
#include "cli/plan/cells.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- bars ---- */

/* Short steps are shown in milliseconds. */
static double scale_of(const struct pen_plan_ranking *ranking)
{
    return ranking->found[0].prediction.step_sec < 1 ? 1e3 : 1;
}

bool pen__plan_spent_bars(const struct pen_plan_ranking *ranking,
                          struct pen__chart_bars *out)
{
    double scale = scale_of(ranking);
    if (!pen__chart_bars_init(out, ranking->num_found, PEN_SPENDINGS))
        return false;
    out->chart.unit = scale > 1 ? "ms" : "s";
    out->chart.names = pen_spending_names;
    for (uint32_t i = 0; i < ranking->num_found; i++) {
        const struct pen_prediction *it = &ranking->found[i].prediction;
        double *parts = pen__chart_bars_add(out);
        for (int k = 0; k < PEN_SPENDINGS; k++)
            parts[k] = scale * it->spent[k];
        snprintf(out->labels[i], sizeof *out->labels, "plan %u", i + 1);
        snprintf(out->notes[i], sizeof *out->notes, "%.4g %s",
                 scale * it->step_sec, out->chart.unit);
    }
    return true;
}

/*
 * Returns the least memory of the devices that carry this rank of the pipeline.
 */
static uint64_t limit_of(const struct pen_setting *setting,
                         const struct pen_plan *plan, uint32_t rank)
{
    const struct pen_cluster *cluster = setting->cluster;
    uint64_t size = pen_plan_num_ranks(plan) / plan->degrees[PEN_DEGREE_PP];
    uint64_t first = rank * size;
    uint64_t begin = 0;
    uint64_t least =
        setting->memory_limit > 0 ? setting->memory_limit : UINT64_MAX;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        const struct pen_device_group *group = &cluster->groups[i];
        bool is_used = begin < first + size && first < begin + group->count;
        if (is_used && group->device.memory_bytes < least)
            least = group->device.memory_bytes;
        begin += group->count;
    }
    return least;
}

bool pen__plan_memory_bars(const struct pen_setting *setting,
                           const struct pen_plan_found *found,
                           struct pen__chart_bars *out)
{
    const struct pen_prediction *prediction = &found->prediction;
    if (!pen__chart_bars_init(out, prediction->num_memory, PEN_MEMORY_PARTS))
        return false;
    out->chart.unit = "GiB";
    out->chart.names = pen_memory_names;
    for (uint32_t first = 0; first < prediction->num_memory;) {
        const struct pen_plan_memory *memory = &prediction->memory[first];
        uint32_t count = pen__plan_same_ranks(prediction, first);
        size_t i = out->chart.num_bars;
        double *parts = pen__chart_bars_add(out);
        double limit = pen__gib(limit_of(setting, found->plan, first));
        double sum = pen__gib(pen_plan_memory_bytes(memory));
        for (int k = 0; k < PEN_MEMORY_PARTS; k++)
            parts[k] = pen__gib(memory->bytes[k]);
        out->bars[i].limit = limit;
        if (count > 1)
            snprintf(out->labels[i], sizeof *out->labels, "ranks %u to %u",
                     first, first + count - 1);
        else
            snprintf(out->labels[i], sizeof *out->labels, "rank %u", first);
        snprintf(out->notes[i], sizeof *out->notes, "%.1f GiB, %.0f %%", sum,
                 100 * sum / limit);
        first += count;
    }
    snprintf(out->limit_name, sizeof out->limit_name, "limit %.4g GiB",
             out->bars[0].limit);
    out->chart.limit_name = out->limit_name;
    return true;
}

/* ---- time against memory ---- */

/* Compares by time, and among equals by memory. */
static int by_time(const void *a, const void *b)
{
    const struct pen_report_point *left = a;
    const struct pen_report_point *right = b;
    if (left->x != right->x)
        return left->x < right->x ? -1 : 1;
    return left->y == right->y ? 0 : left->y < right->y ? -1 : 1;
}

static void add_points(const struct pen_plan_ranking *ranking, double scale,
                       struct pen__plan_front *out)
{
    for (uint32_t i = 0; ranking != NULL && i < ranking->num_found; i++) {
        const struct pen_plan_found *found = &ranking->found[i];
        struct pen_text *note = &out->notes[out->num_points];
        pen_candidate_print(&found->candidate, note);
        out->points[out->num_points++] = (struct pen_report_point){
            .x = scale * found->prediction.step_sec,
            .y = pen__gib(found->prediction.peak_bytes),
            .note = pen_text_string(note)};
    }
}

/*
 * Sorts the points: first those that need less memory than all faster ones,
 * then the rest.
 */
static bool split_points(struct pen__plan_front *out)
{
    struct pen_report_point *sorted = out->points;
    size_t count = out->num_points;
    struct pen_report_point *split = calloc(count, sizeof *split);
    size_t others = 0;
    if (split == NULL)
        return false;
    pen_sort_few(sorted, count, sizeof *sorted, by_time);
    for (size_t i = 0; i < count; i++) {
        size_t front = out->num_front;
        if (front == 0 || sorted[i].y < split[front - 1].y)
            split[out->num_front++] = sorted[i];
        else
            split[count - ++others] = sorted[i];
    }
    free(out->points);
    out->points = split;
    return true;
}

bool pen__plan_front_init(const struct pen__plan_report *report,
                          struct pen__plan_front *out)
{
    double scale = scale_of(report->ranking);
    size_t most = report->ranking->num_found;
    if (report->front != NULL)
        most += report->front->num_found;
    *out = (struct pen__plan_front){.num_points = 0};
    out->points = calloc(most, sizeof *out->points);
    out->notes = calloc(most, sizeof *out->notes);
    out->labels = calloc(most, sizeof *out->labels);
    if (out->points == NULL || out->notes == NULL || out->labels == NULL)
        return false;
    add_points(report->ranking, scale, out);
    add_points(report->front, scale, out);
    if (!split_points(out))
        return false;
    for (size_t i = 0; i < out->num_front; i++) {
        snprintf(out->labels[i], sizeof *out->labels, "%.4g %s",
                 out->points[i].x, scale > 1 ? "ms" : "s");
        out->points[i].label = out->labels[i];
    }
    out->series[0] =
        (struct pen_report_series){"no other plan is faster and smaller",
                                   out->points, out->num_front, true};
    out->series[1] =
        (struct pen_report_series){"other plans", out->points + out->num_front,
                                   out->num_points - out->num_front, false};
    out->chart = (struct pen_report_scatter){
        scale > 1 ? "step, ms" : "step, s", "memory of the fullest device, GiB",
        out->series, 2};
    return true;
}

void pen__plan_front_release(struct pen__plan_front *front)
{
    for (size_t i = 0; front->notes != NULL && i < front->num_points; i++)
        pen_text_release(&front->notes[i]);
    free(front->points);
    free(front->notes);
    free(front->labels);
}
