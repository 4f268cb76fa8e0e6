/* penstock report for the terminal and for programs. */
#include "cli/report/report.h"

#include "cli/program/cli.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void print_table(struct pen_table *table, const char *title,
                        size_t width, struct pen_text *out)
{
    if (table->num_cells > 0) {
        pen_text_add(out, "\n%s\n", title);
        pen_table_print(table, width, out);
    }
    pen_table_release(table);
}

static void print_supervised(const struct pen__report *report,
                             struct pen_text *out)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct pen__report_run *run = &report->runs[i];
        if (run->events == NULL)
            continue;
        pen_text_add(out, "\n%s%s", pen_text_string(&run->label),
                     isnan(run->summary.goodput) ? ": " : ": goodput ");
        if (!isnan(run->summary.goodput))
            pen_text_add(out, "%.1f %%, ", 100 * run->summary.goodput);
        pen_text_add(out, "%zu fault%s, %" PRIu64 " restart%s, ",
                     run->events->num_faults,
                     run->events->num_faults == 1 ? "" : "s",
                     run->events->num_restarts,
                     run->events->num_restarts == 1 ? "" : "s");
        pen_text_add(out, "%.4g s lost of %.4g s\n", run->events->lost_sec,
                     run->summary.wall_sec);
    }
}

void pen__report_print(const struct pen__report *report, size_t width,
                       struct pen_text *out)
{
    struct pen_table table;
    pen__report_compare_table(report, &table);
    pen_table_print(&table, width, out);
    pen_table_release(&table);
    pen__report_advice_table(report, &table);
    print_table(&table, "findings", width, out);
    print_supervised(report, out);
    pen__report_fault_table(report, &table);
    print_table(&table, "faults", width, out);
    pen__report_round_table(report, &table);
    print_table(&table, "rounds between islands", width, out);
    pen__report_missing_table(report, &table);
    print_table(&table, "missing parts", width, out);
}

/* ---- JSON ---- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value)
{
    return value == 0 ? json_null() : json_integer((json_int_t)value);
}

/* Adds a word as UTF-8, which JSON needs: names of files are any bytes. */
static json_t *word(const char *bytes)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    json_t *value = json_string(bytes);
    if (value == NULL) {
        pen_text_add_printable(&text, bytes, strlen(bytes));
        value = json_string(pen_text_string(&text));
    }
    pen_text_release(&text);
    return value;
}

static json_t *advice_json(const struct pen_advices *advices)
{
    json_t *list = json_array();
    for (size_t i = 0; i < advices->count; i++)
        pen__json_append(
            &list, json_pack("{s:s, s:s}", "seen",
                             pen_text_string(&advices->items[i].seen), "todo",
                             pen_text_string(&advices->items[i].todo)));
    return list;
}

static json_t *memory_json(const struct pen_run_ranks *ranks)
{
    if (ranks == NULL)
        return json_null();
    json_t *list = json_array();
    for (uint32_t i = 0; i < ranks->count; i++)
        pen__json_append(&list,
                         json_pack("{s:I, s:I}", "predicted_bytes",
                                   (json_int_t)ranks->ranks[i].predicted_bytes,
                                   "peak_bytes",
                                   (json_int_t)ranks->ranks[i].peak_bytes));
    return list;
}

static json_t *known(int64_t value)
{
    return value < 0 ? json_null() : json_integer((json_int_t)value);
}

static json_t *faults_json(const struct pen_run_events *events)
{
    if (events == NULL)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < events->num_faults; i++) {
        const struct pen_run_fault *it = &events->faults[i];
        pen__json_append(
            &list,
            json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "time",
                      real(it->time_sec), "epoch", known(it->epoch), "cause",
                      it->cause, "rank", known(it->rank), "signal",
                      known(it->signal), "step",
                      known(it->failed_step >= 0 ? it->failed_step : it->step),
                      "lost_sec", real(it->lost_sec), "redone_steps",
                      known(it->redone_steps)));
    }
    return list;
}

static json_t *run_json(const struct pen__report_run *run)
{
    const struct pen_summary *it = &run->summary;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "path", word(run->path), "model",
        run->log == NULL ? json_null() : json_string(run->log->model), "ranks",
        count(it->num_ranks), "steps", count(it->num_steps), "last_step",
        count(it->last_step), "tokens", count(it->tokens), "elapsed_sec",
        real(it->elapsed_sec), "loss", real(it->loss), "best_val_loss",
        real(it->best_val_loss), "tokens_per_sec", real(it->tokens_per_sec),
        "share_of_peak", real(it->share_of_peak), "peak_bytes",
        count(it->peak_bytes), "step_sec", real(it->step_sec),
        "predicted_step_sec", real(it->predicted_step_sec), "bubble",
        real(it->bubble), "predicted_bubble", real(it->predicted_bubble),
        "memory", memory_json(run->ranks), "wall_sec", real(it->wall_sec),
        "goodput", real(it->goodput), "restarts",
        known(run->events == NULL ? -1 : (int64_t)run->events->num_restarts),
        "lost_sec",
        real(run->events == NULL ? (double)NAN : run->events->lost_sec),
        "faults", faults_json(run->events), "advice",
        advice_json(&run->advices));
}

json_t *pen__report_json(const struct pen__report *report)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < report->count; i++)
        pen__json_append(&runs, run_json(&report->runs[i]));
    return runs == NULL ? NULL : json_pack("{s:o}", "runs", runs);
}
