/* Tables of penstock reproduce wap, its verdict and its page. */
#include "cli/reproduce/wap.h"

#include "base/table.h"
#include "cli/program/cli.h"

#include <math.h>
#include <stdlib.h>

/* A prediction of this machine that is off by more is not trusted. */
#define LARGEST_ERROR 0.1

/* Processes that want a core: our own two ranks, and hardly anything else. */
#define BUSY 2.5

static const char claim[] =
    "Shin et al. (Workload-aware Automatic Parallelization for Multi-GPU DNN "
    "Training, 2018, arXiv:1811.01532) claim that a program which analyses "
    "the workload and uses only as many devices as the workload can use is "
    "about as fast on AlexNet and VGG-16 as one that uses all of them, and "
    "needs less energy.";

/* ---- figures ---- */

/* Joules of a sample that the chosen number saves, against all devices. */
static double saved(const struct pen__wap_answer *it)
{
    double all = it->points[PEN__WAP_DEVICES - 1].joules;
    return 1 - it->points[it->chosen - 1].joules / all;
}

/*
 * Returns the share by which a step is longer than on all devices; below 0: it
 * is shorter.
 */
static double slower(const struct pen__wap_answer *it)
{
    double all = it->points[PEN__WAP_DEVICES - 1].step_sec;
    return it->points[it->chosen - 1].step_sec / all - 1;
}

struct summary {
    uint32_t num_fewer; /* workloads that are given fewer than all devices */
    double most_saved;  /* of those */
    double most_slower;
};

static struct summary summarise(const struct pen__wap *wap)
{
    struct summary sum = {.most_slower = -1};
    for (uint32_t i = 0; i < PEN__WAP_WORKLOADS; i++) {
        const struct pen__wap_answer *it = &wap->answers[i];
        if (it->chosen == PEN__WAP_DEVICES)
            continue;
        sum.num_fewer++;
        sum.most_saved = fmax(sum.most_saved, saved(it));
        sum.most_slower = fmax(sum.most_slower, slower(it));
    }
    return sum;
}

static double worst_error(const struct pen__wap *wap)
{
    double worst = 0;
    for (uint32_t i = 0; i < PEN__WAP_RANKS; i++)
        worst = fmax(worst, fabs(wap->measured.error[i]));
    return worst;
}

static void print_verdict(const struct pen__wap *wap, struct pen_text *out)
{
    struct summary sum = summarise(wap);
    if (sum.num_fewer == 0)
        pen_text_add(out,
                     "Not shown: all of the %d workloads can use all %d "
                     "devices; ",
                     PEN__WAP_WORKLOADS, PEN__WAP_DEVICES);
    else
        pen_text_add(out,
                     "Predicted for %u of %d workloads: fewer than %d devices "
                     "are at most %.1f %% slower than all of them and save up "
                     "to %.1f %% of the energy, while the others can use all; ",
                     sum.num_fewer, PEN__WAP_WORKLOADS, PEN__WAP_DEVICES,
                     100 * fmax(0, sum.most_slower), 100 * sum.most_saved);
    double worst = worst_error(wap);
    pen_text_add(out,
                 "on 1 and 2 ranks of this machine the prediction is off by "
                 "%+.1f and %+.1f %%, which is %s %.0f %%.",
                 100 * wap->measured.error[0], 100 * wap->measured.error[1],
                 worst <= LARGEST_ERROR ? "within" : "more than",
                 100 * LARGEST_ERROR);
    if (wap->measured.load > BUSY)
        pen_text_add(out,
                     " Other programs ran meanwhile (load %.1f), so the "
                     "measurement decides nothing.",
                     wap->measured.load);
    if (wap->args->is_short)
        pen_text_add_string(out, " A short run decides nothing.");
}

/* ---- tables ---- */

static const struct pen_column workload_columns[] = {
    {"network", false, false},
    {"devices", false, false},
    {"numbers", false, false},
    {"batch", true, false},
    {"1, ms", true, false},
    {"2", true, false},
    {"4", true, false},
    {"8", true, false},
    {"1, J/sample", true, false},
    {"8", true, false},
    {"fastest k", true, false},
    {"least energy k", true, false},
    {"chosen k", true, false},
    {"slower, %", true, false},
    {"saved, % energy", true, false}};

static void add_number(struct pen_table *table, double value)
{
    if (value > 0)
        pen_table_add(table, "%.4g", value);
    else
        pen_table_add(table, "-");
}

static void fill_workloads(const struct pen__wap *wap, struct pen_table *table)
{
    pen_table_init(table, workload_columns,
                   sizeof workload_columns / sizeof *workload_columns);
    for (uint32_t i = 0; i < PEN__WAP_WORKLOADS; i++) {
        const struct pen__wap_workload *it = &pen__wap_workloads[i];
        const struct pen__wap_answer *answer = &wap->answers[i];
        pen_table_add(table, "%s", it->name);
        pen_table_add(table, "%s", it->kind);
        pen_table_add(table, "%s", it->dtype);
        pen_table_add(table, "%u", it->batch);
        for (uint32_t k = 1; k <= PEN__WAP_DEVICES; k *= 2)
            add_number(table, 1e3 * answer->points[k - 1].step_sec);
        add_number(table, answer->points[0].joules);
        add_number(table, answer->points[PEN__WAP_DEVICES - 1].joules);
        pen_table_add(table, "%u", answer->fastest);
        pen_table_add(table, "%u", answer->leanest);
        pen_table_add(table, "%u", answer->chosen);
        pen_table_add(table, "%.1f", 100 * slower(answer));
        pen_table_add(table, "%.1f", 100 * saved(answer));
    }
}

static const struct pen_column measured_columns[] = {
    {"ranks", true, false},          {"predicted, ms", true, false},
    {"measured, ms", true, false},   {"error, %", true, false},
    {"least measured", true, false}, {"most measured", true, false}};

/* Fills in the measured figures; the rounds are sorted by now. */
static void fill_measured(const struct pen__wap *wap, struct pen_table *table)
{
    const struct pen__wap_measured *it = &wap->measured;
    pen_table_init(table, measured_columns,
                   sizeof measured_columns / sizeof *measured_columns);
    for (uint32_t i = 0; i < PEN__WAP_RANKS; i++) {
        pen_table_add(table, "%u", i + 1);
        pen_table_add(table, "%.2f", 1e3 * it->predicted_sec[i]);
        pen_table_add(table, "%.2f", 1e3 * it->measured_sec[i]);
        pen_table_add(table, "%+.1f", 100 * it->error[i]);
        pen_table_add(table, "%.2f", 1e3 * it->measured[i][0]);
        pen_table_add(table, "%.2f", 1e3 * it->measured[i][it->num_rounds - 1]);
    }
}

static json_t *results_json(const struct pen__wap *wap, const char *verdict)
{
    const struct pen__wap_measured *it = &wap->measured;
    json_t *rows = json_array();
    json_t *ranks = json_array();
    for (uint32_t i = 0; i < PEN__WAP_WORKLOADS; i++) {
        const struct pen__wap_workload *work = &pen__wap_workloads[i];
        const struct pen__wap_answer *answer = &wap->answers[i];
        json_t *seconds = json_array();
        json_t *joules = json_array();
        for (uint32_t k = 0; k < PEN__WAP_DEVICES; k++) {
            pen__json_append(&seconds, json_real(answer->points[k].step_sec));
            pen__json_append(&joules, json_real(answer->points[k].joules));
        }
        pen__json_append(
            &rows,
            json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:i, s:i, s:i}",
                      "network", work->name, "devices", work->kind, "dtype",
                      work->dtype, "batch", (int)work->batch, "step_sec",
                      seconds, "joules_per_sample", joules, "fastest",
                      (int)answer->fastest, "least_energy",
                      (int)answer->leanest, "chosen", (int)answer->chosen));
    }
    for (uint32_t i = 0; i < PEN__WAP_RANKS; i++)
        pen__json_append(&ranks,
                         json_pack("{s:i, s:f, s:f, s:f}", "ranks", (int)i + 1,
                                   "predicted_sec", it->predicted_sec[i],
                                   "measured_sec", it->measured_sec[i], "error",
                                   it->error[i]));
    return json_pack("{s:s, s:s, s:b, s:i, s:f, s:o, s:o}", "experiment", "wap",
                     "verdict", verdict, "is_short", wap->args->is_short,
                     "rounds", (int)it->num_rounds, "load", it->load,
                     "measured", ranks, "workloads", rows);
}

/* ---- the page ---- */

enum { CHARTS = 4, PER_CHART = PEN__WAP_WORKLOADS / CHARTS };

/* Time and energy by devices, relative to one device. */
struct curves {
    double x[PEN__WAP_DEVICES];
    double speed[PEN__WAP_WORKLOADS][PEN__WAP_DEVICES];
    double joules[PEN__WAP_WORKLOADS][PEN__WAP_DEVICES];
    char names[PEN__WAP_WORKLOADS][64];
    struct pen_report_curve speeds[PEN__WAP_WORKLOADS];
    struct pen_report_curve energies[PEN__WAP_WORKLOADS];
    struct pen_report_curves charts[2 * CHARTS];
};

static struct pen_report_curve curve_of(const struct curves *curves, uint32_t i,
                                        const double *values)
{
    return (struct pen_report_curve){.name = curves->names[i],
                                     .x = curves->x,
                                     .y = values,
                                     .count = PEN__WAP_DEVICES,
                                     .colour = i % PER_CHART,
                                     .has_marks = true};
}

static void fill_curves(const struct pen__wap *wap, struct curves *out)
{
    for (uint32_t k = 0; k < PEN__WAP_DEVICES; k++)
        out->x[k] = k + 1;
    for (uint32_t i = 0; i < PEN__WAP_WORKLOADS; i++) {
        const struct pen__wap_workload *work = &pen__wap_workloads[i];
        const struct pen__wap_point *points = wap->answers[i].points;
        snprintf(out->names[i], sizeof out->names[i], "%s, %s, batch %u",
                 work->name, work->kind, work->batch);
        for (uint32_t k = 0; k < PEN__WAP_DEVICES; k++) {
            bool is_there = points[k].step_sec > 0;
            out->speed[i][k] =
                is_there ? work->batch / points[k].step_sec : (double)NAN;
            out->joules[i][k] = is_there ? points[k].joules : (double)NAN;
        }
        out->speeds[i] = curve_of(out, i, out->speed[i]);
        out->energies[i] = curve_of(out, i, out->joules[i]);
    }
    for (size_t i = 0; i < CHARTS; i++) {
        out->charts[2 * i] = (struct pen_report_curves){
            "devices", "samples per second", &out->speeds[i * PER_CHART],
            PER_CHART, true};
        out->charts[2 * i + 1] = (struct pen_report_curves){
            "devices", "joules of a sample", &out->energies[i * PER_CHART],
            PER_CHART, true};
    }
}

static const char setup[] =
    "Predictions: for every number k of devices, from 1 to 8, the "
    "fastest layout of k replicas: computing on a share of the batch, plus the "
    "part of the reduction that computing does not hide. The chosen k is the "
    "fewest devices within 5 % of the fastest, which is the rule of `penstock "
    "plan --within 5%`. Energy: watts of the sheet while a device computes, "
    "idle watts for the rest of the step; devices that are left out are off. "
    "Measurement: a network with 32 and 64 channels and colour images of 32 x "
    "32, 128 of them in a step, is profiled, predicted from the profile and "
    "trained with synchronous steps, on 1 and on 2 ranks of this machine in "
    "turns; the medians over the rounds are compared.";

static void list_commands(const struct pen__wap *wap, struct pen_text *out)
{
    for (uint32_t i = 0; i < PEN__WAP_WORKLOADS; i++) {
        const struct pen__wap_workload *it = &pen__wap_workloads[i];
        pen_text_add(out,
                     "penstock plan --model %s --cluster 'preset:%s*%d' "
                     "--global-batch-size %u --target deepspeed --dtype %s "
                     "--within 5%%",
                     it->model, it->kind, PEN__WAP_DEVICES, it->batch,
                     it->dtype);
        if (it->sequence > 0)
            pen_text_add(out, " --seq-length %u", it->sequence);
        pen_text_add_string(out, "\n");
    }
    pen_text_add_string(out, pen_text_string(&wap->jobs.commands));
}

static pen_status write_page(const struct pen__wap *wap,
                             const struct pen_table *workloads,
                             const struct pen_table *measured,
                             const char *verdict, struct pen_text *why)
{
    struct pen_text commands = PEN_TEXT_EMPTY;
    struct curves *curves = calloc(1, sizeof *curves);
    if (curves == NULL)
        return PEN_NOMEM;
    fill_curves(wap, curves);
    list_commands(wap, &commands);
    const struct pen_report_section sections[] = {
        {.title = "The claim", .text = claim},
        {.title = "The experiment", .text = setup},
        {.title = "The verdict", .text = verdict},
        {.title = "Predicted: 1 to 8 devices",
         .curves = curves->charts,
         .num_curves = sizeof curves->charts / sizeof *curves->charts},
        {.title = "Predicted: the chosen number",
         .table = workloads,
         .note = "Milliseconds of a step on 1, 2, 4 and 8 devices. Slower and "
                 "saved: the chosen number against all 8. No V100 was at hand; "
                 "docs/accuracy.md compares the layers of these networks with "
                 "published times."},
        {.title = "Measured on this machine",
         .table = measured,
         .note = "Medians over rounds of the median step of a training; least "
                 "and most of the rounds."},
        {.title = "To repeat a piece", .commands = pen_text_string(&commands)}};
    const struct pen_report page = {
        .title = "WAP: as many devices as the workload can use",
        .sections = sections,
        .num_sections = sizeof sections / sizeof *sections};
    json_t *json = results_json(wap, verdict);
    pen_status status =
        pen__reproduce_write(wap->args->output, &page, json, why);
    json_decref(json);
    free(curves);
    pen_text_release(&commands);
    return status;
}

pen_status pen__wap_report(const struct pen__wap *wap, struct pen_text *why)
{
    struct pen_text verdict = PEN_TEXT_EMPTY, printed = PEN_TEXT_EMPTY;
    struct pen_table workloads, measured;
    fill_workloads(wap, &workloads);
    fill_measured(wap, &measured);
    print_verdict(wap, &verdict);
    pen_table_print(&workloads, pen__page_width(), &printed);
    pen_text_add_string(&printed, "\n");
    pen_table_print(&measured, pen__page_width(), &printed);
    pen_text_add(&printed, "\n%s\n", pen_text_string(&verdict));
    pen__print(&printed);
    pen_status status =
        write_page(wap, &workloads, &measured, pen_text_string(&verdict), why);
    pen_table_release(&workloads);
    pen_table_release(&measured);
    pen_text_release(&verdict);
    pen_text_release(&printed);
    return status;
}
