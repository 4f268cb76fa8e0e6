/*
 * The page of penstock report: the runs next to each other, notable findings,
 * their curves; then, for each run, its step, the use of its time and its
 * memory; finally settings and missing parts.
 */
#include "cli/report/report.h"

#include "base/bug.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define MOST_OPS 5000u /* of a drawing: some two megabytes */
#define SECTIONS_OF_ALL 8u
#define SECTIONS_OF_RUN 3u
#define MOST_SECTIONS (SECTIONS_OF_ALL + SECTIONS_OF_RUN * PEN__REPORT_MAX_RUNS)
#define TEXTS_OF_RUN 7u /* titles, words and notes */
#define MOST_TEXTS (TEXTS_OF_RUN * PEN__REPORT_MAX_RUNS)
#define MOST_FIGURES 9u
#define FIGURE_SIZE 64u

/* The memory that sections of one run point to. */
struct part {
    struct pen__chart_bars spent;
    struct pen__chart_bars memory;
    struct pen_table kinds;
    struct pen_text drawing;
};

struct page {
    const struct pen__report *report;
    struct pen_text title;
    struct pen_text subtitle;
    char values[MOST_FIGURES][FIGURE_SIZE];
    char notes[MOST_FIGURES][FIGURE_SIZE];
    struct pen_report_figure figures[MOST_FIGURES];
    size_t num_figures;
    struct pen_report_remark remarks[PEN_ADVICE_MAX * PEN__REPORT_MAX_RUNS];
    size_t num_remarks;
    struct pen_table compare;
    struct pen_table different;
    struct pen_table settings;
    struct pen_table faults;
    struct pen_table rounds;
    struct pen_table missing;
    struct pen_column columns[PEN__REPORT_MAX_RUNS + 1];
    struct pen__report_curves curves;
    struct part parts[PEN__REPORT_MAX_RUNS];
    struct pen_text texts[MOST_TEXTS];
    size_t num_texts;
    struct pen_report_section sections[MOST_SECTIONS];
    size_t num_sections;
};

static struct pen_report_section *add_section(struct page *page,
                                              const char *title)
{
    PEN_BUG_UNLESS(page->num_sections < MOST_SECTIONS);
    struct pen_report_section *section = &page->sections[page->num_sections++];
    section->title = title;
    return section;
}

/* Adds an empty text that lives as long as the page. */
static struct pen_text *add_text(struct page *page)
{
    PEN_BUG_UNLESS(page->num_texts < MOST_TEXTS);
    return &page->texts[page->num_texts++];
}

/* "One step", or "wide: one step" where there are several runs. */
static struct pen_report_section *
add_run_section(struct page *page, size_t index, const char *title)
{
    struct pen_text *text = add_text(page);
    if (page->report->count == 1)
        pen_text_add_string(text, title);
    else
        pen_text_add(text, "%s: %c%s",
                     pen_text_string(&page->report->runs[index].label),
                     tolower((unsigned char)title[0]), title + 1);
    return add_section(page, pen_text_string(text));
}

/* ---- the head ---- */

static const char *model_of(const struct pen__report_run *run)
{
    if (run->log != NULL)
        return run->log->model;
    return run->view != NULL ? run->spent.schedule
                             : pen_text_string(&run->label);
}

static void write_head(struct page *page)
{
    const struct pen__report *report = page->report;
    if (report->count == 1) {
        const struct pen_summary *summary = &report->runs[0].summary;
        pen_text_add_string(&page->title, model_of(&report->runs[0]));
        if (summary->num_ranks > 0)
            pen_text_add(&page->title, " on %" PRIu32 " rank%s",
                         summary->num_ranks,
                         summary->num_ranks == 1 ? "" : "s");
        pen_text_add(&page->subtitle, "Run %s", report->runs[0].path);
        return;
    }
    pen_text_add(&page->title, "Comparison of %zu runs", report->count);
    for (size_t i = 0; i < report->count; i++)
        pen_text_add(&page->subtitle, "%s%s: %s", i == 0 ? "" : "; ",
                     pen_text_string(&report->runs[i].label),
                     model_of(&report->runs[i]));
}

/* Return the value and the note of the next figure. */
static char *next_value(struct page *page)
{
    return page->values[page->num_figures];
}

static char *next_note(struct page *page)
{
    return page->notes[page->num_figures];
}

static void add_figure(struct page *page, const char *name)
{
    size_t i = page->num_figures++;
    page->figures[i] = (struct pen_report_figure){
        name, page->values[i],
        page->notes[i][0] == '\0' ? NULL : page->notes[i]};
}

static void write_progress(struct page *page, const struct pen__report_run *run)
{
    const struct pen_summary *it = &run->summary;
    const json_t *iters = json_object_get(run->log->settings, "train-iters");
    snprintf(next_value(page), FIGURE_SIZE, "%" PRIu64, it->last_step);
    if (json_is_integer(iters))
        snprintf(next_note(page), FIGURE_SIZE, "of %lld",
                 (long long)json_integer_value(iters));
    add_figure(page, "step");
    snprintf(next_value(page), FIGURE_SIZE, "%.4f", it->loss);
    add_figure(page, "loss");
    if (!isnan(it->best_val_loss)) {
        snprintf(next_value(page), FIGURE_SIZE, "%.4f", it->best_val_loss);
        snprintf(next_note(page), FIGURE_SIZE, "in step %" PRIu64,
                 it->best_val_step);
        add_figure(page, "best validation loss");
    }
    snprintf(next_value(page), FIGURE_SIZE, "%.0f", it->tokens_per_sec);
    snprintf(next_note(page), FIGURE_SIZE, "median of %" PRIu64 " steps",
             it->num_steps);
    add_figure(page, "tokens per second");
    if (isnan(it->share_of_peak))
        return;
    snprintf(next_value(page), FIGURE_SIZE, "%.1f %%", 100 * it->share_of_peak);
    snprintf(next_note(page), FIGURE_SIZE, "of the processors' peak");
    add_figure(page, "use");
}

static void write_memory(struct page *page, const struct pen_summary *it)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__add_bytes(&text, it->peak_bytes);
    snprintf(next_value(page), FIGURE_SIZE, "%s", pen_text_string(&text));
    if (it->predicted_bytes > 0)
        snprintf(next_note(page), FIGURE_SIZE,
                 "%+.1f %% from predicted, rank %" PRIu32,
                 100 *
                     ((double)it->peak_bytes / (double)it->predicted_bytes - 1),
                 it->fullest);
    add_figure(page, "peak memory");
    pen_text_release(&text);
}

static void write_step(struct page *page, const struct pen_summary *it)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__add_seconds(&text, it->step_sec);
    snprintf(next_value(page), FIGURE_SIZE, "%s", pen_text_string(&text));
    pen_text_clear(&text);
    pen__add_seconds(&text, it->predicted_step_sec);
    if (!isnan(it->predicted_step_sec))
        snprintf(next_note(page), FIGURE_SIZE, "predicted %s",
                 pen_text_string(&text));
    add_figure(page, "traced step");
    pen_text_release(&text);
    snprintf(next_value(page), FIGURE_SIZE, "%.1f %%", 100 * it->bubble);
    if (!isnan(it->predicted_bubble))
        snprintf(next_note(page), FIGURE_SIZE, "predicted %.1f %%",
                 100 * it->predicted_bubble);
    add_figure(page, "bubble");
}

static void write_goodput(struct page *page, const struct pen__report_run *run)
{
    if (isnan(run->summary.goodput))
        return;
    snprintf(next_value(page), FIGURE_SIZE, "%.1f %%",
             100 * run->summary.goodput);
    snprintf(next_note(page), FIGURE_SIZE, "%zu fault%s, %.3g s lost",
             run->events->num_faults, run->events->num_faults == 1 ? "" : "s",
             run->events->lost_sec);
    add_figure(page, "goodput");
}

static void write_figures(struct page *page)
{
    const struct pen__report_run *run = &page->report->runs[0];
    if (page->report->count > 1)
        return;
    if (run->summary.num_steps > 0)
        write_progress(page, run);
    write_goodput(page, run);
    if (run->summary.peak_bytes > 0)
        write_memory(page, &run->summary);
    if (run->view != NULL)
        write_step(page, &run->summary);
}

/* ---- sections of all runs ---- */

static void add_remarks(struct page *page, size_t index)
{
    const struct pen__report_run *run = &page->report->runs[index];
    for (size_t i = 0; i < run->advices.count; i++) {
        const struct pen_advice *advice = &run->advices.items[i];
        page->remarks[page->num_remarks++] = (struct pen_report_remark){
            page->report->count > 1 ? pen_text_string(&run->label) : NULL,
            pen_text_string(&advice->seen), pen_text_string(&advice->todo)};
    }
}

static void add_advice(struct page *page)
{
    for (size_t i = 0; i < page->report->count; i++)
        add_remarks(page, i);
    struct pen_report_section *section = add_section(page, "Findings");
    section->remarks = page->remarks;
    section->num_remarks = page->num_remarks;
    if (page->num_remarks == 0)
        section->text =
            "No findings: loss, speed, waiting and memory are normal, as "
            "far as they are known.";
}

static void add_comparison(struct page *page)
{
    if (page->report->count == 1)
        return;
    pen__report_compare_table(page->report, &page->compare);
    struct pen_report_section *section = add_section(page, "Comparison");
    section->table = &page->compare;
    section->note = "Loss of the last step; tokens/s and share of the peak are "
                    "medians of all steps; peak of the fullest rank; step and "
                    "bubble of the trace's median step.";
    if (!pen__report_settings_table(page->report, true, page->columns,
                                    &page->different))
        page->title.has_failed = 1;
    section = add_section(page, "Settings that differ");
    if (page->different.num_cells > 0)
        section->table = &page->different;
    else
        section->text = "None.";
}

static bool add_curves(struct page *page)
{
    if (!pen__report_curves_init(&page->curves, page->report))
        return false;
    if (page->curves.num_charts == 0)
        return true;
    struct pen_report_section *section = add_section(page, "Curves");
    section->curves = page->curves.charts;
    section->num_curves = page->curves.num_charts;
    return true;
}

static void add_faults(struct page *page)
{
    pen__report_fault_table(page->report, &page->faults);
    if (page->faults.num_cells == 0)
        return;
    struct pen_report_section *section = add_section(page, "Faults");
    section->table = &page->faults;
    section->note =
        "From the events of penstock supervise. Lost is the time from the "
        "fault, or the first of several in a row, to the next step that was "
        "committed. Goodput is the share of the time since the first launch "
        "that went into steps which are committed, each counted once.";
}

static void add_rounds(struct page *page)
{
    pen__report_round_table(page->report, &page->rounds);
    if (page->rounds.num_cells == 0)
        return;
    struct pen_report_section *section = add_section(page, "Islands");
    section->table = &page->rounds;
    section->note =
        "Rounds between islands (train --ring), as this island saw them. An "
        "epoch is a membership: it changes when an island joins, leaves or is "
        "dropped. Waited is the time between the last step of a round and its "
        "commit.";
}

static void add_settings(struct page *page)
{
    if (!pen__report_settings_table(page->report, false, page->columns,
                                    &page->settings))
        page->title.has_failed = 1;
    if (page->settings.num_cells == 0)
        return;
    struct pen_report_section *section = add_section(page, "Settings");
    section->table = &page->settings;
    section->is_folded = true;
    section->fold = "all options of the training";
}

static void add_missing(struct page *page)
{
    pen__report_missing_table(page->report, &page->missing);
    if (page->missing.num_cells > 0)
        add_section(page, "Missing parts")->table = &page->missing;
}

/* ---- sections of one run ---- */

static void write_step_words(const struct pen_spent *spent,
                             struct pen_text *out)
{
    pen_text_add(out, "Step %" PRIu32, spent->step);
    if (spent->num_steps > 1)
        pen_text_add(out, ", the median of %zu", spent->num_steps);
    pen_text_add(out, ", of schedule %s: ", spent->schedule);
    pen__add_seconds(out, spent->sec);
    if (!isnan(spent->predicted_sec)) {
        pen_text_add_string(out, ", predicted ");
        pen__add_seconds(out, spent->predicted_sec);
    }
    pen_text_add_string(out, ".");
}

static pen_status add_timeline(struct page *page, size_t index,
                               struct pen_text *why)
{
    const struct pen__report_run *run = &page->report->runs[index];
    struct pen_text *drawing = &page->parts[index].drawing;
    struct pen_text *words = add_text(page);
    struct pen_text *note = add_text(page);
    bool has_prediction = !isnan(run->spent.predicted_sec);
    write_step_words(&run->spent, words);
    struct pen_report_section *section = add_run_section(
        page, index,
        has_prediction ? "One step, measured and predicted" : "One step");
    section->text = pen_text_string(words);
    uint32_t num_drawn = 0;
    pen_status status =
        pen_view_print_svg(run->view, MOST_OPS, drawing, &num_drawn, note);
    if (status == PEN_NOMEM) {
        pen_why(why, "%s", pen_text_string(note));
        return status;
    }
    if (status == PEN_OK) {
        section->drawing = pen_text_string(drawing);
        pen_text_add_string(
            note,
            "The bubble of this step is that of the busiest rank; "
            "elsewhere on this page it is the share of all ranks' time in "
            "which they do not work, as penstock train reports it.");
        if (num_drawn < run->spent.num_replicas)
            pen_text_add(note,
                         " %" PRIu32 " of %" PRIu32
                         " replicas are drawn, those with the critical path.",
                         num_drawn, run->spent.num_replicas);
    } else {
        pen_text_add_string(note, ": penstock view draws a part of it.");
    }
    section->note = pen_text_string(note);
    return PEN_OK;
}

static void write_bars_note(uint32_t num_ranks, size_t num_bars,
                            const char *which, struct pen_text *out)
{
    if (num_ranks > num_bars)
        pen_text_add(out, " %zu of %" PRIu32 " ranks are drawn, those that %s.",
                     num_bars, num_ranks, which);
}

static bool add_spent(struct page *page, size_t index)
{
    const struct pen_spent *spent = &page->report->runs[index].spent;
    struct part *part = &page->parts[index];
    if (!pen__report_spent_bars(spent, &part->spent))
        return false;
    pen__report_kind_table(spent, &part->kinds);
    struct pen_text *note = add_text(page);
    pen_text_add_string(
        note, "The table sums over all ranks. Waiting is attributed to its "
              "original cause.");
    write_bars_note(spent->num_ranks, part->spent.chart.num_bars,
                    "compute longest", note);
    struct pen_report_section *section =
        add_run_section(page, index, "Parts of that step");
    section->bars = &part->spent.chart;
    section->table = &part->kinds;
    section->is_folded = true;
    section->fold = "by kind of operation";
    section->note = pen_text_string(note);
    return true;
}

static bool add_memory(struct page *page, size_t index)
{
    const struct pen_run_ranks *ranks = page->report->runs[index].ranks;
    struct part *part = &page->parts[index];
    if (!pen__report_memory_bars(ranks, &part->memory))
        return false;
    struct pen_text *note = add_text(page);
    pen_text_add_string(
        note, "The peak of each rank; the mark is its prediction before the "
              "first step.");
    write_bars_note(ranks->count, part->memory.chart.num_bars,
                    "exceed their prediction most", note);
    struct pen_report_section *section =
        add_run_section(page, index, "Memory of the ranks");
    section->bars = &part->memory.chart;
    section->note = pen_text_string(note);
    return true;
}

static pen_status add_run(struct page *page, size_t index, struct pen_text *why)
{
    const struct pen__report_run *run = &page->report->runs[index];
    pen_status status = PEN_OK;
    if (run->view != NULL)
        status = add_timeline(page, index, why);
    if (status != PEN_OK)
        return status;
    if ((run->view == NULL || add_spent(page, index)) &&
        (run->ranks == NULL || add_memory(page, index)))
        return PEN_OK;
    pen_why(why, "no memory for the charts of a report");
    return PEN_NOMEM;
}

/* ---- the whole ---- */

static void release(struct page *page)
{
    pen_table_release(&page->compare);
    pen_table_release(&page->different);
    pen_table_release(&page->settings);
    pen_table_release(&page->faults);
    pen_table_release(&page->rounds);
    pen_table_release(&page->missing);
    pen__report_curves_release(&page->curves);
    for (size_t i = 0; i < page->report->count; i++) {
        struct part *part = &page->parts[i];
        pen__chart_bars_release(&part->spent);
        pen__chart_bars_release(&part->memory);
        pen_table_release(&part->kinds);
        pen_text_release(&part->drawing);
    }
    for (size_t i = 0; i < page->num_texts; i++)
        pen_text_release(&page->texts[i]);
    pen_text_release(&page->title);
    pen_text_release(&page->subtitle);
}

static pen_status fill(struct page *page, struct pen_text *why)
{
    write_head(page);
    write_figures(page);
    add_comparison(page);
    add_advice(page);
    if (!add_curves(page)) {
        pen_why(why, "no memory for the curves of a report");
        return PEN_NOMEM;
    }
    add_faults(page);
    add_rounds(page);
    pen_status status = PEN_OK;
    for (size_t i = 0; i < page->report->count && status == PEN_OK; i++)
        status = add_run(page, i, why);
    add_settings(page);
    add_missing(page);
    bool has_failed = page->title.has_failed || page->subtitle.has_failed;
    for (size_t i = 0; i < page->num_texts; i++)
        has_failed |= page->texts[i].has_failed;
    if (status == PEN_OK && has_failed) {
        pen_why(why, "no memory for a report");
        status = PEN_NOMEM;
    }
    return status;
}

pen_status pen__report_html(const struct pen__report *report,
                            struct pen_text *out, struct pen_text *why)
{
    struct page page = {.report = report};
    pen_status status = fill(&page, why);
    const struct pen_report html = {
        .title = pen_text_string(&page.title),
        .subtitle = pen_text_string(&page.subtitle),
        .figures = page.figures,
        .num_figures = page.num_figures,
        .sections = page.sections,
        .num_sections = page.num_sections,
        .foot = "Made by penstock report from the files of the training."};
    if (status == PEN_OK)
        status = pen_report_print(&html, out, why);
    release(&page);
    return status;
}
