/* penstock simulate --sweep: one run for each strength of a disturbance. */
#include "cli/simulate/sweep.h"

#include "base/log.h"
#include "base/table.h"
#include "cli/program/answer.h"
#include "cli/simulate/print.h"
#include "cli/simulate/run.h"
#include "view/chart.h"

#include <math.h>
#include <stdlib.h>

/* The result of one run; NaN seconds: it got stuck. */
struct point {
    double strength;
    double step_sec;
    double wait_sec; /* mean over ranks, of a step */
};

static double waiting_of(const struct pen_sim_result *result)
{
    struct pen__simulate_share shares[PEN__SIM_SPENDINGS];
    double sum = 0;
    pen__simulate_shares(result, shares);
    for (int i = 1; i < PEN__SIM_OTHER; i++) /* the first computes */
        sum += shares[i].mean_sec;
    return sum;
}

/* Adds the disturbance of one run to those of the options. */
static pen_status disturb(const struct pen__sweep *sweep, double strength,
                          struct pen_disturbances *all, struct pen_text *why)
{
    struct pen_text word = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    pen_text_add(&word, "%s=%.15g", sweep->name, strength);
    switch (sweep->kind) {
    case PEN__SWEEP_RANK:
        status =
            pen_disturbances_add_slow_rank(all, pen_text_string(&word), why);
        break;
    case PEN__SWEEP_LINK:
        status =
            pen_disturbances_add_slow_link(all, pen_text_string(&word), why);
        break;
    case PEN__SWEEP_JITTER:
    case PEN__SWEEPS:
        all->jitter = strength;
        break;
    }
    pen_text_release(&word);
    return status;
}

static pen_status run_point(struct pen__simulate_runs *runs,
                            const struct pen__simulate_args *args,
                            struct point *out, struct pen_text *why)
{
    struct pen_disturbances all = args->disturbances;
    struct pen_sim_result result;
    pen_status status = disturb(&args->sweep, out->strength, &all, why);
    if (status == PEN_OK)
        status = pen__simulate_run(runs, &all, &result, why);
    if (status != PEN_OK)
        return status;
    bool has_seconds = !result.is_stuck;
    out->step_sec = has_seconds ? pen__simulate_step_sec(&result) : (double)NAN;
    out->wait_sec = has_seconds ? waiting_of(&result) : (double)NAN;
    pen_sim_result_release(&result);
    return PEN_OK;
}

static pen_status run_points(struct pen__simulate_job *job,
                             const struct pen__simulate_args *args,
                             struct point *points, struct pen_text *why)
{
    struct pen__simulate_runs runs;
    pen_status status = PEN_OK;
    pen__simulate_runs_begin(&runs, job, args->sweep.count);
    for (uint32_t i = 0; i < args->sweep.count && status == PEN_OK; i++) {
        points[i].strength = pen__sweep_at(&args->sweep, i);
        status = run_point(&runs, args, &points[i], why);
    }
    pen__simulate_runs_end(&runs);
    return status;
}

/* ---- what it looks like ---- */

static void add_title(const struct pen__sweep *sweep, struct pen_text *out)
{
    switch (sweep->kind) {
    case PEN__SWEEP_RANK:
        pen_text_add(out, "rank %s, times as slow", sweep->name);
        break;
    case PEN__SWEEP_LINK:
        pen_text_add(out, "%s, times as slow", sweep->name);
        break;
    case PEN__SWEEP_JITTER:
    case PEN__SWEEPS:
        pen_text_add_string(out, "jitter");
        break;
    }
}

static int print_table(const struct pen__simulate_job *job,
                       const struct pen__simulate_args *args,
                       const struct point *points)
{
    struct pen_text title = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_table table;
    add_title(&args->sweep, &title);
    const struct pen_column columns[] = {{pen_text_string(&title), true, false},
                                         {"step", true, false},
                                         {"of the first", true, false},
                                         {"waiting, mean", true, false}};
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < args->sweep.count; i++) {
        pen_table_add(&table, "%.6g", points[i].strength);
        if (isnan(points[i].step_sec)) {
            pen_table_add(&table, "stuck");
            pen_table_add(&table, "-");
            pen_table_add(&table, "-");
            continue;
        }
        pen_table_add(&table, "%.4g s", points[i].step_sec);
        pen_table_add(&table, "%.3f", points[i].step_sec / points[0].step_sec);
        pen_table_add(&table, "%.4g s", points[i].wait_sec);
    }
    pen__simulate_print_head(job, args, &text);
    pen_table_print(&table, pen__page_width(), &text);
    int code = pen__print(&text);
    pen_table_release(&table);
    pen_text_release(&title);
    pen_text_release(&text);
    return code;
}

/* Returns the seconds; stuck runs have null. */
static json_t *seconds_json(double sec)
{
    return isnan(sec) ? json_null() : json_real(sec);
}

static int print_json(const struct pen__simulate_job *job,
                      const struct pen__simulate_args *args,
                      const struct point *points)
{
    json_t *object = pen__simulate_head_json(job, args);
    json_t *runs = json_array();
    for (uint32_t i = 0; i < args->sweep.count; i++)
        pen__json_append(
            &runs, json_pack("{s:f, s:o, s:o}", "strength", points[i].strength,
                             "step_sec", seconds_json(points[i].step_sec),
                             "wait_sec", seconds_json(points[i].wait_sec)));
    json_object_set_new(object, "sweep", json_string(args->sweep_text));
    json_object_set_new(object, "runs", runs);
    return pen__print_json("simulate-sweep", object);
}

static pen_status draw(const struct pen__simulate_job *job,
                       const struct pen__simulate_args *args,
                       const struct point *points, struct pen_text *why)
{
    uint32_t count = args->sweep.count;
    struct pen_text title = PEN_TEXT_EMPTY;
    struct pen_text x_name = PEN_TEXT_EMPTY;
    struct pen_chart_point *lines = calloc(2 * (size_t)count, sizeof *lines);
    if (lines == NULL) {
        pen_why(why, "no memory for a drawing");
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        lines[i] =
            (struct pen_chart_point){points[i].strength, points[i].step_sec};
        lines[count + i] =
            (struct pen_chart_point){points[i].strength, points[i].wait_sec};
    }
    const struct pen_chart_line both[] = {
        {"step", lines, count},
        {"waiting, mean over ranks", lines + count, count}};
    add_title(&args->sweep, &x_name);
    pen_text_add(&title, "%s on %s: a step under disturbance",
                 job->plan->model == NULL ? "model" : job->plan->model,
                 job->planning.cluster->name);
    const struct pen_chart chart = {.title = pen_text_string(&title),
                                    .x_name = pen_text_string(&x_name),
                                    .y_name = "seconds",
                                    .lines = both,
                                    .num_lines = 2};
    pen_status status = pen_chart_draw(&chart, args->plot, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s", args->plot);
    free(lines);
    pen_text_release(&title);
    pen_text_release(&x_name);
    return status;
}

int pen__simulate_sweep(struct pen__simulate_job *job,
                        const struct pen__simulate_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct point *points = calloc(args->sweep.count, sizeof *points);
    pen_status status = PEN_NOMEM;
    if (points == NULL)
        pen_why(&why, "no memory for %u runs", args->sweep.count);
    else if (args->plot != NULL)
        status = pen_chart_check(args->plot, &why);
    else
        status = PEN_OK;
    if (status == PEN_OK)
        status = run_points(job, args, points, &why);
    if (status == PEN_OK && args->plot != NULL)
        status = draw(job, args, points, &why);
    int code = PEN__EXIT_OK;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else
        code = (pen__answer_is_json() ? print_json : print_table)(job, args,
                                                                  points);
    free(points);
    pen_text_release(&why);
    return code;
}
