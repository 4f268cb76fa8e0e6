/*
 * The report of a search, section by section: what was asked, what won, what
 * it is made of, why nothing else did, and how to run it.
 */
#include "cli/plan/report.h"

#include "cli/plan/cells.h"
#include "cli/plan/devices.h"
#include "cli/plan/figures.h"
#include "cli/sync/sync.h"

#include <inttypes.h>
#include <math.h>

#define MOST_SECTIONS 12u

enum table {
    TABLE_ASKED,
    TABLE_BEST,
    TABLE_RANKING,
    TABLE_MEMORY,
    TABLE_FEWER,
    TABLE_SYNC,
    TABLE_HELPS,
    TABLE_NEIGHBOURS,
    TABLES
};

enum words {
    WORDS_TITLE,
    WORDS_SUBTITLE,
    WORDS_SPENT,
    WORDS_MEMORY,
    WORDS_COUNTS,
    WORDS_SYNC,
    WORDS_LIMIT,
    WORDS_COMMANDS,
    WORDS
};

#define NUM_FIGURES 6u
#define FIGURE_SIZE 64u

/* The memory that sections point to. */
struct page {
    const struct pen__plan_report *report;
    const struct pen_plan_found *best;
    struct pen_table tables[TABLES]; /* zeroed: not made */
    struct pen_text words[WORDS];
    struct pen__chart_bars spent;
    struct pen__chart_bars memory;
    struct pen__plan_front front;
    struct pen__plan_picture picture;
    char values[NUM_FIGURES][FIGURE_SIZE];
    char notes[NUM_FIGURES][FIGURE_SIZE];
    struct pen_report_figure figures[NUM_FIGURES];
    struct pen_report_section sections[MOST_SECTIONS];
    size_t num_sections;
};

static struct pen_report_section *add_section(struct page *page,
                                              const char *title)
{
    struct pen_report_section *section = &page->sections[page->num_sections++];
    section->title = title;
    return section;
}

/* ---- the head ---- */

static void write_head(struct page *page)
{
    const struct pen_setting *setting = &page->report->planning->setting;
    pen_text_add(&page->words[WORDS_TITLE], "%s on ",
                 pen_text_string(&page->report->planning->model_name));
    pen__add_counted(&page->words[WORDS_TITLE],
                     pen_plan_num_ranks(page->best->plan), "device");
    pen_text_add(&page->words[WORDS_SUBTITLE],
                 "The best plan for %s: ", pen_target_names[setting->target]);
    pen_candidate_print(&page->best->candidate, &page->words[WORDS_SUBTITLE]);
}

static void set_figure(struct page *page, size_t index, const char *name)
{
    page->figures[index] = (struct pen_report_figure){
        name, page->values[index],
        page->notes[index][0] == '\0' ? NULL : page->notes[index]};
}

static void write_figures(struct page *page)
{
    const struct pen_prediction *it = &page->best->prediction;
    const struct pen_plan *plan = page->best->plan;
    bool is_short = it->step_sec < 1;
    double scale = is_short ? 1e3 : 1;
    const char *unit = is_short ? "ms" : "s";
    struct pen__plan_spent spent = pen__plan_spent(plan, it);
    struct pen_text tokens = PEN_TEXT_EMPTY;
    snprintf(page->values[0], FIGURE_SIZE, "%.3g %s", scale * it->step_sec,
             unit);
    snprintf(page->notes[0], FIGURE_SIZE, "%.3g to %.3g %s expected",
             scale * it->low_sec, scale * it->high_sec, unit);
    set_figure(page, 0, "step");
    pen__add_figure(&tokens, it->tokens_per_sec);
    snprintf(page->values[1], FIGURE_SIZE, "%s", pen_text_string(&tokens));
    pen_text_clear(&tokens);
    pen__add_figure(&tokens, spent.tokens_per_device);
    snprintf(page->notes[1], FIGURE_SIZE, "%s on each device",
             pen_text_string(&tokens));
    pen_text_release(&tokens);
    set_figure(page, 1,
               plan->sequence == 1 ? "samples per second"
                                   : "tokens per second");
    snprintf(page->values[2], FIGURE_SIZE, "%.1f %%", 100 * it->utilisation);
    snprintf(page->notes[2], FIGURE_SIZE, "%.0f of %.0f %s Tflop/s a device",
             1e-12 * spent.flops_per_device, 1e-12 * spent.peak_per_device,
             pen_number_names[plan->number]);
    set_figure(page, 2, "model-flops utilisation (MFU)");
    snprintf(page->values[3], FIGURE_SIZE, "%.1f GiB",
             (double)it->peak_bytes / 0x1p30);
    snprintf(page->notes[3], FIGURE_SIZE,
             "typical error %.0f %%, pipeline rank %u", 100 * it->memory_error,
             it->fullest);
    set_figure(page, 3, "peak memory");
    snprintf(page->values[4], FIGURE_SIZE, "%.1f %%", 100 * it->bubble);
    snprintf(page->notes[4], FIGURE_SIZE,
             "of the step: the busiest rank waits");
    set_figure(page, 4, "bubble");
    snprintf(page->values[5], FIGURE_SIZE, "%" PRIu64,
             pen_plan_num_ranks(plan));
    snprintf(page->notes[5], FIGURE_SIZE, "of %" PRIu64,
             pen_cluster_num_devices(page->report->planning->setting.cluster));
    set_figure(page, 5, "devices");
}

/* ---- sections ---- */

static void write_counts(struct page *page)
{
    const struct pen_plan_ranking *ranking = page->report->ranking;
    const struct pen_plan_search_counts *counts = &ranking->counts;
    struct pen_text *out = &page->words[WORDS_COUNTS];
    pen_text_add(out,
                 "Considered %" PRIu64 " choices of degrees and %" PRIu64
                 " layouts, of which %" PRIu64 " do not fit; timed %" PRIu64
                 ". ",
                 counts->listed, counts->bounded + counts->too_large,
                 counts->too_large + counts->unfit, counts->timed);
    if (ranking->is_complete)
        pen_text_add(out, "No other plan can be better.");
    else
        pen_text_add(out,
                     "The search was cut short with %" PRIu64
                     " left out; none of them is more than %.1f %% better.",
                     counts->left_out,
                     100 *
                         fmax(0, 1 - counts->least_left / ranking->best_value));
}

static void add_plans(struct page *page)
{
    struct pen_table *tables = page->tables;
    pen__plan_asked_table(page->report, &tables[TABLE_ASKED]);
    add_section(page, "Request")->table = &tables[TABLE_ASKED];
    pen__plan_best_table(page->report, &tables[TABLE_BEST]);
    add_section(page, "The best plan")->table = &tables[TABLE_BEST];
    pen__plan_ranking_table(page->report->ranking,
                            page->best->prediction.step_sec,
                            &tables[TABLE_RANKING]);
    write_counts(page);
    struct pen_report_section *section = add_section(page, "Plans, best first");
    section->table = &tables[TABLE_RANKING];
    section->marks_first = true;
    section->note = pen_text_string(&page->words[WORDS_COUNTS]);
}

static bool add_charts(struct page *page)
{
    const struct pen_setting *setting = &page->report->planning->setting;
    const struct pen_prediction *it = &page->best->prediction;
    if (!pen__plan_spent_bars(page->report->ranking, &page->spent) ||
        !pen__plan_memory_bars(setting, page->best, &page->memory))
        return false;
    pen_text_add(&page->words[WORDS_SPENT],
                 "Times of the busiest rank; 9 of 10 such steps take %.3g to "
                 "%.3g s. Messages count only where they do not overlap with "
                 "computing.",
                 it->low_sec, it->high_sec);
    struct pen_report_section *section = add_section(page, "Parts of a step");
    section->bars = &page->spent.chart;
    section->note = pen_text_string(&page->words[WORDS_SPENT]);

    pen_text_add(&page->words[WORDS_MEMORY],
                 "Memory at the peak of the step, by ranks of the pipeline; "
                 "typical error %.0f %%. A plan must fit with a margin of %.0f "
                 "%%.",
                 100 * it->memory_error, 100 * it->memory_margin);
    pen__plan_memory_table(it, &page->tables[TABLE_MEMORY]);
    section = add_section(page, "Memory of a device");
    section->bars = &page->memory.chart;
    section->table = &page->tables[TABLE_MEMORY];
    section->is_folded = true;
    section->note = pen_text_string(&page->words[WORDS_MEMORY]);
    return true;
}

static void add_picture(struct page *page)
{
    pen__plan_picture_init(&page->report->planning->setting, page->best,
                           &page->picture);
    if (page->picture.schedule == NULL && page->picture.note.length == 0)
        return;
    struct pen_report_section *section = add_section(page, "One step");
    if (page->picture.schedule != NULL)
        section->picture = &page->picture.item;
    section->note = pen_text_string(&page->picture.note);
}

static bool add_others(struct page *page)
{
    struct pen__device_rows rows;
    if (!pen__plan_front_init(page->report, &page->front))
        return false;
    struct pen_report_section *section =
        add_section(page, "Time against memory");
    section->scatter = &page->front.chart;
    pen__device_rows(page->report, &rows);
    if (rows.count < 2)
        return true;
    pen__device_table(page->report, &rows, &page->tables[TABLE_FEWER]);
    add_section(page, "With fewer devices")->table = &page->tables[TABLE_FEWER];
    return true;
}

static void add_sync(struct page *page)
{
    const struct pen_replica_comparison *sync = page->report->sync;
    if (sync == NULL)
        return;
    pen__sync_table(sync, sync->count, &page->tables[TABLE_SYNC]);
    pen_replica_advise(sync, &page->words[WORDS_SYNC]);
    struct pen_report_section *section =
        add_section(page, "Methods to synchronise replicas");
    section->table = &page->tables[TABLE_SYNC];
    section->note = pen_text_string(&page->words[WORDS_SYNC]);
}

static void write_limit(struct page *page)
{
    const struct pen_explanation *explanation = page->report->explanation;
    struct pen_text *out = &page->words[WORDS_LIMIT];
    pen_text_add(out, "Most of the step goes into %s",
                 explanation->limit == PEN_SPENDING_FORWARD
                     ? "computing"
                     : pen_spending_names[explanation->limit]);
    if (explanation->limit_link != NULL)
        pen_text_add(out, ", over the links \"%s\"", explanation->limit_link);
    pen_text_add(out,
                 ". Asynchronous schedules could save at most %.1f %% of it, "
                 "replicas that rarely synchronise %.1f %%.",
                 100 * explanation->stale_sec / page->best->prediction.step_sec,
                 100 * explanation->local_sec /
                     page->best->prediction.step_sec);
    if (page->tables[TABLE_HELPS].num_cells == 0)
        pen_text_add(
            out,
            " With twice the memory, links, batch or arithmetic the search "
            "found no faster plan in its time.");
}

static void add_explanation(struct page *page)
{
    if (page->report->explanation == NULL)
        return;
    struct pen_table *tables = page->tables;
    pen__plan_help_table(page->report, &tables[TABLE_HELPS]);
    write_limit(page);
    struct pen_report_section *section =
        add_section(page, "Limits and remedies");
    section->text = pen_text_string(&page->words[WORDS_LIMIT]);
    if (tables[TABLE_HELPS].num_cells > 0)
        section->table = &tables[TABLE_HELPS];

    pen__plan_neighbour_table(page->report, &tables[TABLE_NEIGHBOURS]);
    section = add_section(page, "Neighbouring plans");
    section->text =
        "Plans that differ from the best one in one choice, with the "
        "differences of step and memory.";
    section->table = &tables[TABLE_NEIGHBOURS];
}

static void add_commands(struct page *page, const char *plan_path)
{
    const char *target =
        pen_target_names[page->report->planning->setting.target];
    struct pen_text *out = &page->words[WORDS_COMMANDS];
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add_quoted(&path, plan_path == NULL ? "plan.json" : plan_path);
    if (page->report->planning->setting.target == PEN_TARGET_PENSTOCK)
        pen_text_add(out, "mpirun -n %" PRIu64 " penstock train --plan %s ...",
                     pen_plan_num_ranks(page->best->plan),
                     pen_text_string(&path));
    else
        pen_text_add(out,
                     "penstock export %s --to %s -o run\n"
                     "cd run # fill in settings.sh\n"
                     "sbatch job.sbatch",
                     pen_text_string(&path), target);
    pen_text_release(&path);
    struct pen_report_section *section = add_section(page, "How to run it");
    section->commands = pen_text_string(out);
    if (plan_path == NULL)
        section->note =
            "The plan was not written; `penstock plan -o plan.json` writes "
            "it.";
}

/* ---- the whole ---- */

static void release(struct page *page)
{
    for (int i = 0; i < TABLES; i++)
        pen_table_release(&page->tables[i]);
    for (int i = 0; i < WORDS; i++)
        pen_text_release(&page->words[i]);
    pen__chart_bars_release(&page->spent);
    pen__chart_bars_release(&page->memory);
    pen__plan_front_release(&page->front);
    pen__plan_picture_release(&page->picture);
}

static pen_status print(struct page *page, struct pen_text *out,
                        struct pen_text *why)
{
    for (int i = 0; i < WORDS; i++) {
        if (page->words[i].has_failed) {
            pen_why(why, "no memory for a report");
            return PEN_NOMEM;
        }
    }
    const struct pen_report report = {
        .title = pen_text_string(&page->words[WORDS_TITLE]),
        .subtitle = pen_text_string(&page->words[WORDS_SUBTITLE]),
        .figures = page->figures,
        .num_figures = NUM_FIGURES,
        .sections = page->sections,
        .num_sections = page->num_sections,
        .foot = "Predicted by penstock plan, without a run."};
    return pen_report_print(&report, out, why);
}

pen_status pen__plan_report_html(const struct pen__plan_report *report,
                                 const char *plan_path, struct pen_text *out,
                                 struct pen_text *why)
{
    struct page page = {.report = report, .best = &report->ranking->found[0]};
    pen_status status = PEN_NOMEM;
    write_head(&page);
    write_figures(&page);
    add_plans(&page);
    if (!add_charts(&page)) {
        pen_why(why, "no memory for the charts of a report");
        goto done;
    }
    add_picture(&page);
    if (!add_others(&page)) {
        pen_why(why, "no memory for the points of a report");
        goto done;
    }
    add_sync(&page);
    add_explanation(&page);
    add_commands(&page, plan_path);
    status = print(&page, out, why);

done:
    release(&page);
    return status;
}
