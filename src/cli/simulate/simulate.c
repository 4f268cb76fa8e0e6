/*
 * penstock simulate: a plan on simulated ranks.
 */
#include "cli/simulate/print.h"
#include "cli/simulate/run.h"
#include "cli/simulate/sweep.h"

#include "base/file.h"
#include "cli/program/answer.h"
#include "culprits/blame.h"

/* ---- a trace ---- */

static pen_status save_costs(const struct pen_costs *costs, const char *path,
                             struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_costs_print(costs, &text);
    pen_status status = pen_file_write_text(path, &text, why);
    pen_text_release(&text);
    return status;
}

/* Saves the trace as `penstock train --trace` writes it. */
static pen_status save_trace(const struct pen__simulate_job *job,
                             const struct pen_trace *trace, const char *folder,
                             struct pen_text *why)
{
    struct pen_text schedule = PEN_TEXT_EMPTY;
    struct pen_text costs = PEN_TEXT_EMPTY;
    pen_text_add(&schedule, "%s/schedule.pen", folder);
    pen_text_add(&costs, "%s/costs.json", folder);
    pen_status status = pen_trace_save(trace, folder, why);
    if (status == PEN_OK)
        status = pen_schedule_save(job->simulated.schedule,
                                   pen_text_string(&schedule), why);
    if (status == PEN_OK)
        status =
            save_costs(&job->simulated.costs, pen_text_string(&costs), why);
    pen_text_release(&schedule);
    pen_text_release(&costs);
    return status;
}

/* ---- the runs ---- */

/* The runs; the undisturbed one only where it is compared with another. */
struct outcome {
    struct pen_sim_result result;
    struct pen_sim_result plain;
    bool has_plain;
};

/* Events that are kept of a run to find out what it waited for. */
#define MOST_EVENTS ((uint64_t)1 << 22)

static bool wants_trace(const struct pen__simulate_job *job,
                        const struct pen__simulate_args *args)
{
    const struct pen_simulation *simulation = &job->simulation;
    uint64_t num_events = pen_schedule_count(simulation->schedule) *
                          pen_mesh_num_replicas(&simulation->mesh) *
                          simulation->num_steps;
    return args->trace != NULL ||
           (!pen_disturbances_are_none(&args->disturbances) &&
            num_events <= MOST_EVENTS);
}

static pen_status run_both(struct pen__simulate_job *job,
                           const struct pen_disturbances *disturbances,
                           struct outcome *out, struct pen_text *why)
{
    struct pen__simulate_runs runs;
    bool is_plain = pen_disturbances_are_none(disturbances);
    pen_status status = PEN_OK;
    pen__simulate_runs_begin(&runs, job, is_plain ? 1 : 2);
    if (!is_plain)
        status = pen__simulate_run(&runs, NULL, &out->plain, why);
    out->has_plain = !is_plain && status == PEN_OK;
    if (status == PEN_OK)
        status = pen__simulate_run(&runs, is_plain ? NULL : disturbances,
                                   &out->result, why);
    if (status != PEN_OK && out->has_plain)
        pen_sim_result_release(&out->plain);
    pen__simulate_runs_end(&runs);
    return status;
}

static int print(const struct pen__simulate_report *report)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (pen__answer_is_json())
        return pen__print_json("simulate", pen__simulate_json(report));
    pen__simulate_print(report, &text);
    return pen__print(&text);
}

static int report_outcome(const struct pen__simulate_job *job,
                          const struct pen__simulate_args *args,
                          const struct outcome *outcome)
{
    struct pen_text waited_for = PEN_TEXT_EMPTY;
    const struct pen_sim_result *result = &outcome->result;
    if (outcome->has_plain && !result->is_stuck) {
        struct pen_run_figures before = pen_sim_result_figures(&outcome->plain);
        struct pen_run_figures after = pen_sim_result_figures(result);
        pen_blame_tell(&after, &before, job->simulation.schedule, &waited_for);
    }
    const struct pen__simulate_report report = {
        .args = args,
        .job = job,
        .result = result,
        .plain = outcome->has_plain ? &outcome->plain : NULL,
        .waited_for = pen_text_string(&waited_for)};
    int code = print(&report);
    pen_text_release(&waited_for);
    return code == PEN__EXIT_OK && result->is_stuck ? PEN__EXIT_NO : code;
}

static int simulate(struct pen__simulate_job *job,
                    const struct pen__simulate_args *args)
{
    struct outcome outcome;
    struct pen_text why = PEN_TEXT_EMPTY;
    job->simulation.with_trace = wants_trace(job, args);
    pen_status status = args->trace == NULL
                            ? PEN_OK
                            : pen_file_make_folder(args->trace, 0777, &why);
    if (status == PEN_OK)
        status = run_both(job, &args->disturbances, &outcome, &why);
    int code = PEN__EXIT_NO;
    if (status == PEN_OK) {
        code = report_outcome(job, args, &outcome);
        if (args->trace != NULL && outcome.result.trace != NULL)
            status = save_trace(job, outcome.result.trace, args->trace, &why);
        pen_sim_result_release(&outcome.result);
        if (outcome.has_plain)
            pen_sim_result_release(&outcome.plain);
    }
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    pen_text_release(&why);
    return code;
}

/* ---- the command ---- */

static int run(int argc, char **argv)
{
    struct pen__simulate_args args;
    struct pen__simulate_job job;
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = pen__simulate_args_parse(&args, argc, argv);
    if (code == PEN__EXIT_OK) {
        pen_status status = pen__simulate_job_open(&job, &args, &why);
        if (status != PEN_OK)
            code = pen__refuse_as(status, &why);
        else
            code = (args.sweep.is_there ? pen__simulate_sweep
                                        : simulate)(&job, &args);
        pen__simulate_job_close(&job);
    }
    pen__simulate_args_release(&args);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__simulate = {
    "simulate", "runs a plan on simulated ranks", run, NULL};
