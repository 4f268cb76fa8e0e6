/* The tables of penstock report. */
#include "cli/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

void pen__add_seconds(struct pen_text *out, double sec)
{
    if (sec < 1)
        pen_text_add(out, "%.4g ms", 1e3 * sec);
    else
        pen_text_add(out, "%.4g s", sec);
}

void pen__add_bytes(struct pen_text *out, uint64_t bytes)
{
    if (bytes < 10000000000u)
        pen_text_add(out, "%.1f MB", 1e-6 * (double)bytes);
    else
        pen_text_add(out, "%.2f GB", 1e-9 * (double)bytes);
}

/* ---- side by side ---- */

/* Adds a value with `decimals` decimals; "-" if it is unknown. */
static void add_real(struct pen_table *out, int decimals, double value)
{
    if (isnan(value))
        pen_table_add(out, "-");
    else
        pen_table_add(out, "%.*f", decimals, value);
}

/* Adds it likewise with four digits in all. */
static void add_short(struct pen_table *out, double value)
{
    if (isnan(value))
        pen_table_add(out, "-");
    else
        pen_table_add(out, "%.4g", value);
}

static void add_count(struct pen_table *out, uint64_t count)
{
    if (count == 0)
        pen_table_add(out, "-");
    else
        pen_table_add(out, "%" PRIu64, count);
}

/* Adds a loss; one that is not a number is shown, a missing one is not. */
static void add_loss(struct pen_table *out, const struct pen_summary *summary)
{
    if (summary->num_steps > 0 && isnan(summary->loss))
        pen_table_add(out, "NaN");
    else
        add_real(out, 4, summary->loss);
}

void pen__report_compare_table(const struct pen__report *report,
                               struct pen_table *out)
{
    static const struct pen_column columns[] = {
        {"run", false, false},           {"ranks", true, false},
        {"steps", true, false},          {"loss", true, false},
        {"best val. loss", true, false}, {"tokens/s", true, false},
        {"of peak, %", true, false},     {"peak MB", true, false},
        {"step, ms", true, false},       {"predicted", true, false},
        {"bubble, %", true, false},      {"predicted", true, false}};
    pen_table_init(out, columns, COUNT(columns));
    for (size_t i = 0; i < report->count; i++) {
        const struct pen_summary *it = &report->runs[i].summary;
        pen_table_add(out, "%s", pen_text_string(&report->runs[i].label));
        add_count(out, it->num_ranks);
        add_count(out, it->num_steps);
        add_loss(out, it);
        add_real(out, 4, it->best_val_loss);
        add_real(out, 0, it->tokens_per_sec);
        add_real(out, 1, 100 * it->share_of_peak);
        add_real(out, 1,
                 it->peak_bytes == 0 ? (double)NAN
                                     : 1e-6 * (double)it->peak_bytes);
        add_short(out, 1e3 * it->step_sec);
        add_short(out, 1e3 * it->predicted_step_sec);
        add_real(out, 1, 100 * it->bubble);
        add_real(out, 1, 100 * it->predicted_bubble);
    }
}

void pen__report_advice_table(const struct pen__report *report,
                              struct pen_table *out)
{
    static const struct pen_column columns[] = {
        {"run", false, false},
        {"finding", false, true},
        {"recommendation", false, true}};
    size_t first = report->count > 1 ? 0 : 1;
    pen_table_init(out, columns + first, COUNT(columns) - first);
    for (size_t i = 0; i < report->count; i++) {
        const struct pen_advices *advices = &report->runs[i].advices;
        for (size_t k = 0; k < advices->count; k++) {
            if (first == 0)
                pen_table_add(out, "%s",
                              pen_text_string(&report->runs[i].label));
            pen_table_add(out, "%s", pen_text_string(&advices->items[k].seen));
            pen_table_add(out, "%s", pen_text_string(&advices->items[k].todo));
        }
    }
}

/* ---- faults ---- */

static void add_known(struct pen_table *out, int64_t count)
{
    if (count < 0)
        pen_table_add(out, "-");
    else
        pen_table_add(out, "%" PRId64, count);
}

static void add_fault(const struct pen_run_events *events,
                      const struct pen_run_fault *it, struct pen_table *out)
{
    add_real(out, 1, it->time_sec - events->begin_sec);
    add_known(out, it->epoch);
    if (it->signal > 0)
        pen_table_add(out, "%s, signal %" PRId64, it->cause, it->signal);
    else
        pen_table_add(out, "%s", it->cause);
    add_known(out, it->rank);
    add_known(out, it->failed_step >= 0 ? it->failed_step : it->step);
    add_real(out, 2, it->lost_sec);
    add_known(out, it->redone_steps);
}

void pen__report_fault_table(const struct pen__report *report,
                             struct pen_table *out)
{
    static const struct pen_column columns[] = {
        {"run", false, false},    {"after, s", true, false},
        {"launch", true, false},  {"cause", false, false},
        {"rank", true, false},    {"step", true, false},
        {"lost, s", true, false}, {"steps redone", true, false}};
    size_t first = report->count > 1 ? 0 : 1;
    pen_table_init(out, columns + first, COUNT(columns) - first);
    for (size_t i = 0; i < report->count; i++) {
        const struct pen_run_events *events = report->runs[i].events;
        for (size_t k = 0; events != NULL && k < events->num_faults; k++) {
            if (first == 0)
                pen_table_add(out, "%s",
                              pen_text_string(&report->runs[i].label));
            add_fault(events, &events->faults[k], out);
        }
    }
}

/* ---- rounds ---- */

struct rounds {
    uint64_t count;
    double last;
    double islands; /* in all of them */
    double fewest;
    double first_epoch;
    double last_epoch;
    double waited_sec;
    double longest_sec;
};

static struct rounds count_rounds(const struct pen_run *log)
{
    struct rounds sum = {.fewest = INFINITY};
    for (size_t i = 0; log != NULL && i < log->num_steps; i++) {
        const struct pen_run_step *step = &log->steps[i];
        if (isnan(step->round))
            continue;
        if (sum.count++ == 0)
            sum.first_epoch = step->round_epoch;
        sum.last = step->round;
        sum.last_epoch = step->round_epoch;
        sum.islands += step->round_islands;
        sum.fewest = fmin(sum.fewest, step->round_islands);
        sum.waited_sec += step->round_wait_sec;
        sum.longest_sec = fmax(sum.longest_sec, step->round_wait_sec);
    }
    return sum;
}

void pen__report_round_table(const struct pen__report *report,
                             struct pen_table *out)
{
    static const struct pen_column columns[] = {
        {"run", false, false},       {"rounds here", true, false},
        {"last round", true, false}, {"islands, mean", true, false},
        {"fewest", true, false},     {"epochs", false, false},
        {"waited, s", true, false},  {"longest wait, s", true, false}};
    pen_table_init(out, columns, COUNT(columns));
    for (size_t i = 0; i < report->count; i++) {
        const struct rounds sum = count_rounds(report->runs[i].log);
        if (sum.count == 0)
            continue;
        pen_table_add(out, "%s", pen_text_string(&report->runs[i].label));
        pen_table_add(out, "%" PRIu64, sum.count);
        add_real(out, 0, sum.last);
        add_real(out, 2, sum.islands / (double)sum.count);
        add_real(out, 0, sum.fewest);
        pen_table_add(out, "%.0f to %.0f", sum.first_epoch, sum.last_epoch);
        add_real(out, 2, sum.waited_sec);
        add_real(out, 2, sum.longest_sec);
    }
}

/* ---- what is missing ---- */

static void add_missing(const struct pen__report *report, size_t run,
                        const char *what, const char *option,
                        struct pen_table *out)
{
    if (report->count > 1)
        pen_table_add(out, "%s", pen_text_string(&report->runs[run].label));
    pen_table_add(out, "%s", what);
    pen_table_add(out, "%s", option);
}

static void add_missing_trace(const struct pen__report *report, size_t i,
                              struct pen_table *out)
{
    const struct pen__report_run *run = &report->runs[i];
    if (run->view != NULL && isnan(run->spent.predicted_sec))
        add_missing(report, i, "the predicted step",
                    "penstock train --profile FILE, a file of penstock profile",
                    out);
    if (run->view != NULL)
        return;
    if (run->trace_fault.length > 0)
        add_missing(report, i, "the timeline, the parts of a step, the bubble",
                    pen_text_string(&run->trace_fault), out);
    else
        add_missing(report, i, "the timeline, the parts of a step, the bubble",
                    "penstock train --run DIR or --trace DIR", out);
}

void pen__report_missing_table(const struct pen__report *report,
                               struct pen_table *out)
{
    static const struct pen_column columns[] = {
        {"run", false, false},
        {"missing", false, true},
        {"option that records it", false, true}};
    size_t first = report->count > 1 ? 0 : 1;
    pen_table_init(out, columns + first, COUNT(columns) - first);
    for (size_t i = 0; i < report->count; i++) {
        const struct pen__report_run *run = &report->runs[i];
        if (run->log == NULL)
            add_missing(report, i, "the curves, loss and speed, the settings",
                        "penstock train --run DIR or --log FILE", out);
        else if (run->log->num_steps == 0)
            add_missing(report, i, "the curves: no step is done yet",
                        "wait for the first step", out);
        else if (isnan(run->summary.val_loss))
            add_missing(report, i, "the validation loss",
                        "penstock train --eval-interval N", out);
        add_missing_trace(report, i, out);
        if (run->ranks == NULL)
            add_missing(report, i, "memory of each rank and its prediction",
                        "penstock train --run DIR, at the end of the training",
                        out);
    }
}

/* ---- kinds of operations ---- */

void pen__report_kind_table(const struct pen_spent *spent,
                            struct pen_table *out)
{
    static const struct pen_column columns[] = {
        {"operation", false, false},  {"count", true, false},
        {"working, ms", true, false}, {"predicted", true, false},
        {"of it", true, false},       {"waiting before it, ms", true, false}};
    pen_table_init(out, columns, COUNT(columns));
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        const struct pen_spent_kind *it = &spent->kinds[kind];
        if (it->count == 0)
            continue;
        pen_table_add(out, "%s", pen_op_info(kind)->words);
        pen_table_add(out, "%" PRIu64, it->count);
        add_real(out, 3, 1e3 * it->sec);
        add_real(out, 3, 1e3 * it->predicted_sec);
        add_real(out, 3,
                 it->predicted_sec > 0 ? it->sec / it->predicted_sec
                                       : (double)NAN);
        add_real(out, 3, 1e3 * it->waiting_sec);
    }
}

/* ---- settings ---- */

/* Returns whether a setting is the place of a run, not its behaviour. */
static bool is_place(const char *name)
{
    static const char *const places[] = {"run", "log", "trace",
                                         "tensorboard-dir", "save"};
    for (size_t i = 0; i < COUNT(places); i++) {
        if (strcmp(name, places[i]) == 0)
            return true;
    }
    return false;
}

/* Adds the setting of one run by its name, as it was typed; "" for nothing. */
static void add_setting(const struct pen__report_run *run, const char *name,
                        struct pen_text *out)
{
    const json_t *value =
        run->log == NULL ? NULL : json_object_get(run->log->settings, name);
    if (value == NULL)
        return;
    if (json_is_string(value)) {
        pen_text_add_string(out, json_string_value(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
    if (text == NULL)
        out->has_failed = 1;
    else
        pen_text_add_string(out, text);
    free(text);
}

/* Returns whether runs that have a log differ here. */
static bool is_different(const struct pen__report *report,
                         const struct pen_text *cells)
{
    const char *first = NULL;
    for (size_t i = 0; i < report->count; i++) {
        const char *cell = pen_text_string(&cells[i]);
        if (report->runs[i].log == NULL)
            continue;
        if (first != NULL && strcmp(first, cell) != 0)
            return true;
        first = cell;
    }
    return false;
}

/*
 * Adds a cell for each run, unless only differences are wanted and there is
 * none.
 */
static void add_setting_row(const struct pen__report *report, const char *name,
                            bool only_different, struct pen_table *out)
{
    struct pen_text cells[PEN__REPORT_MAX_RUNS] = {PEN_TEXT_EMPTY};
    for (size_t i = 0; i < report->count; i++) {
        add_setting(&report->runs[i], name, &cells[i]);
        if (cells[i].has_failed)
            out->cells.has_failed = 1;
    }
    if (!only_different || (is_different(report, cells) && !is_place(name))) {
        pen_table_add(out, "%s", name);
        for (size_t i = 0; i < report->count; i++)
            pen_table_add(out, "%s", pen_text_string(&cells[i]));
    }
    for (size_t i = 0; i < report->count; i++)
        pen_text_release(&cells[i]);
}

/* Lists all names that some run has, sorted; drop it. NULL: no memory. */
static json_t *all_names(const struct pen__report *report)
{
    json_t *names = json_object();
    for (size_t i = 0; i < report->count; i++) {
        if (report->runs[i].log != NULL &&
            json_object_update(names, report->runs[i].log->settings) != 0) {
            json_decref(names);
            return NULL;
        }
    }
    return names;
}

bool pen__report_settings_table(
    const struct pen__report *report, bool only_different,
    struct pen_column columns[PEN__REPORT_MAX_RUNS + 1], struct pen_table *out)
{
    json_t *names = all_names(report);
    bool has_names = names != NULL;
    const char *name;
    json_t *unused;
    columns[0] =
        (struct pen_column){report->count > 1 ? "setting" : "", false, false};
    for (size_t i = 0; i < report->count; i++)
        columns[1 + i] = (struct pen_column){
            report->count > 1 ? pen_text_string(&report->runs[i].label) : "",
            false, report->count == 1};
    pen_table_init(out, columns, 1 + report->count);
    json_object_foreach(names, name, unused)
        add_setting_row(report, name, only_different, out);
    json_decref(names);
    return has_names;
}
