/* The tables of a report. */
#include "cli/plan/report.h"

#include "cli/plan/cells.h"
#include "cli/plan/figures.h"

#include <inttypes.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

void pen__add_counted(struct pen_text *out, uint64_t count, const char *noun)
{
    pen_text_add(out, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

/* ---- names and values ---- */

/* Adds the next cell of a table, and clears the text for the one after it. */
static void add_text(struct pen_table *out, struct pen_text *text)
{
    pen_table_add(out, "%s", pen_text_string(text));
    pen_text_clear(text);
}

static const struct pen_column fact_columns[] = {{"", false, false},
                                                 {"", false, true}};

static void add_devices(const struct pen_cluster *cluster,
                        struct pen_table *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        const struct pen_device_group *group = &cluster->groups[i];
        pen_text_add(&text, "%s%" PRIu64 " x %s, %.4g GiB usable each",
                     i == 0 ? "" : "; ", group->count, group->device.kind,
                     pen__gib(group->device.memory_bytes));
    }
    pen_table_add(out, "devices");
    pen_table_add(out, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

static void add_links(const struct pen_cluster *cluster, struct pen_table *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < cluster->num_levels; i++) {
        const struct pen_link_level *level = &cluster->levels[i];
        pen_text_add(&text, "%s%s", i == 0 ? "" : "; ", level->name);
        if (level->size > 0)
            pen_text_add(&text, " of %" PRIu64, level->size);
        pen_text_add(&text, ": %.4g GB/s, %.3g us", level->bytes_per_sec / 1e9,
                     level->latency_sec * 1e6);
    }
    pen_table_add(out, "links, of each device");
    pen_table_add(out, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

static void add_workload(const struct pen_setting *setting,
                         struct pen_table *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    bool is_images = setting->model->images != NULL;
    pen__add_counted(&text, setting->global_batch,
                     is_images ? "image" : "sequence");
    if (!is_images) {
        pen_text_add(&text, " of %u tokens, ", setting->sequence);
        pen__add_large(&text,
                       (double)setting->global_batch * setting->sequence);
        pen_text_add_string(&text, " tokens a step");
    }
    pen_table_add(out, "batch");
    add_text(out, &text);
    pen_text_release(&text);
    pen_table_add(out, "runtime");
    pen_table_add(out, "%s, products in %s", pen_target_names[setting->target],
                  pen_number_names[setting->number]);
    pen_table_add(out, "times of layers");
    pen_table_add(out, "%s",
                  setting->profile == NULL ? "from formulas of the device"
                                           : "from a profile");
    if (setting->memory_limit == 0)
        return;
    pen_table_add(out, "memory limit");
    pen_table_add(out, "%.4g GiB", pen__gib(setting->memory_limit));
}

void pen__plan_asked_table(const struct pen__plan_report *report,
                           struct pen_table *out)
{
    const struct pen_setting *setting = &report->planning->setting;
    const struct pen_model *model = setting->model;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_table_init(out, fact_columns, COUNT(fact_columns));
    pen_text_add(&text, "%s: ", pen_text_string(&report->planning->model_name));
    pen__add_large(&text, (double)model->num_parameters);
    pen_text_add(&text, " parameters, ");
    pen__add_counted(&text, model->num_layers - 2, "block");
    pen_text_add(&text, ", hidden %u", model->hidden);
    pen_table_add(out, "model");
    add_text(out, &text);
    pen_text_release(&text);
    pen_table_add(out, "cluster");
    pen_table_add(out, "%s", setting->cluster->name);
    add_devices(setting->cluster, out);
    add_links(setting->cluster, out);
    add_workload(setting, out);
}

/* "3, 2 x 13, 3": runs of stages with as many layers. */
static void add_stages(const struct pen_plan *plan, struct pen_table *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < plan->num_stages;) {
        uint32_t count = 1;
        while (i + count < plan->num_stages &&
               plan->stages[i + count].count == plan->stages[i].count)
            count++;
        pen_text_add(&text, "%s%u", i == 0 ? "" : ", ", plan->stages[i].count);
        if (count > 1)
            pen_text_add(&text, " (%u times)", count);
        i += count;
    }
    pen_table_add(out, "layers of its stages");
    pen_table_add(out, "%s; embedding and head count as one layer each",
                  pen_text_string(&text));
    pen_text_release(&text);
}

static void add_degrees(const struct pen_plan *plan, struct pen_table *out)
{
    static const struct {
        enum pen_degree degree;
        const char *name;
    } rows[] = {{PEN_DEGREE_TP, "tensor parallel"},
                {PEN_DEGREE_CP, "context parallel"},
                {PEN_DEGREE_PP, "pipeline parallel"},
                {PEN_DEGREE_VPP, "stages on each rank"},
                {PEN_DEGREE_EP, "expert parallel"},
                {PEN_DEGREE_DP, "data parallel"}};
    struct pen_text text = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t value = plan->degrees[rows[i].degree];
        if (value > 1)
            pen_text_add(&text, "%s%s %u", text.length == 0 ? "" : ", ",
                         rows[i].name, value);
    }
    pen_table_add(out, "layout");
    pen_table_add(out, "%s",
                  text.length == 0 ? "one device" : pen_text_string(&text));
    pen_text_release(&text);
}

static void add_price(const struct pen_plan_found *best, struct pen_table *out)
{
    const struct pen_prediction *it = &best->prediction;
    struct pen__plan_spent spent = pen__plan_spent(best->plan, it);
    double steps = 1e9 / (it->tokens_per_sec * it->step_sec);
    const char *unit = pen__plan_unit(best->plan->sequence);
    struct pen_text text = PEN_TEXT_EMPTY;
    if (it->price > 0) {
        pen__add_figure(&text, it->price * steps);
        pen_text_add(&text, " for 1 billion %s", unit);
        pen_table_add(out, "price");
        add_text(out, &text);
    }
    if (it->joules > 0) {
        pen__plan_print_energy(&spent, it->joules * steps, unit, &text);
        pen_table_add(out, "energy");
        add_text(out, &text);
    }
    pen_text_release(&text);
}

void pen__plan_best_table(const struct pen__plan_report *report,
                          struct pen_table *out)
{
    const struct pen_plan *plan = report->ranking->found[0].plan;
    const struct pen_generator *generator =
        report->ranking->found[0].candidate.generator;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_table_init(out, fact_columns, COUNT(fact_columns));
    add_degrees(plan, out);
    pen_table_add(out, "batch of a pipeline");
    pen__add_counted(&text,
                     (uint64_t)plan->num_microbatches * plan->micro_batch,
                     plan->sequence == 1 ? "sample" : "sequence");
    pen_text_add(&text, ", %u at a time", plan->micro_batch);
    add_text(out, &text);
    pen_text_release(&text);
    pen_table_add(out, "schedule");
    if (plan->degrees[PEN_DEGREE_PP] == 1)
        pen_table_add(out, "none needed");
    else
        pen_table_add(out, "%s: %s (%s)", generator->name, generator->title,
                      generator->paper);
    add_stages(plan, out);
    pen_table_add(out, "recomputation");
    pen__plan_add_recompute(plan, out);
    pen_table_add(out, "sharding");
    pen__plan_add_sharding(plan, out);
    add_price(&report->ranking->found[0], out);
    if (report->tokens == 0)
        return;
    pen_text_init(&text);
    pen__plan_add_run(plan, &report->ranking->found[0].prediction,
                      report->tokens, &text);
    pen_table_add(out, "whole training");
    add_text(out, &text);
    pen_text_release(&text);
}

/* ---- plans ---- */

static const struct pen_column ranking_columns[] = {
    {"", true, false},          {"step, s", true, false},
    {"slower, %", true, false}, {"speed, 1/s", true, false},
    {"MFU, %", true, false},    {"GiB", true, false},
    PEN__PLAN_LAYOUT_COLUMNS};

void pen__plan_ranking_table(const struct pen_plan_ranking *ranking,
                             double best_sec, struct pen_table *out)
{
    pen_table_init(out, ranking_columns, COUNT(ranking_columns));
    for (uint32_t i = 0; i < ranking->num_found; i++) {
        const struct pen_plan *plan = ranking->found[i].plan;
        const struct pen_prediction *it = &ranking->found[i].prediction;
        pen_table_add(out, "%u", i + 1);
        pen_table_add(out, "%.4g", it->step_sec);
        pen_table_add(out, "%.1f", 100 * (it->step_sec / best_sec - 1));
        pen__add_figure_cell(out, it->tokens_per_sec);
        pen_table_add(out, "%.1f", 100 * it->utilisation);
        pen_table_add(out, "%.1f", pen__gib(it->peak_bytes));
        pen__plan_add_layout(plan, out);
    }
}

/* ---- memory ---- */

void pen__plan_memory_table(const struct pen_prediction *prediction,
                            struct pen_table *out)
{
#define MEMORY_COLUMN(name, key) {key, true, false},
    static const struct pen_column columns[] = {
        {"pipeline ranks", false, false},
        {"devices", true, false},
        PEN_MEMORY_TABLE(MEMORY_COLUMN){"GiB in all", true, false}};
#undef MEMORY_COLUMN
    pen_table_init(out, columns, COUNT(columns));
    pen__plan_add_memory(prediction, out);
}

/* ---- the explanation ---- */

/* Adds the price of a neighbour that breaks no rule and fits. */
static void add_reason(const struct pen_neighbour *other,
                       const struct pen_prediction *best, struct pen_table *out)
{
    if (other->reason.length > 0)
        pen_table_add(out, "%s", pen_text_string(&other->reason));
    else if (other->step_sec > best->step_sec)
        pen_table_add(out, "slower by %.1f %%",
                      100 * (other->step_sec / best->step_sec - 1));
    else
        pen_table_add(out, "as fast");
}

void pen__plan_neighbour_table(const struct pen__plan_report *report,
                               struct pen_table *out)
{
    static const struct pen_column columns[] = {{"changed", false, false},
                                                {"layout", false, true},
                                                {"step, ms", true, false},
                                                {"GiB", true, false},
                                                {"why not", false, true}};
    const struct pen_prediction *best = &report->ranking->found[0].prediction;
    pen_table_init(out, columns, COUNT(columns));
    for (uint32_t i = 0; i < report->explanation->num_neighbours; i++) {
        const struct pen_neighbour *other = &report->explanation->neighbours[i];
        pen__plan_add_neighbour(other, best, out);
        add_reason(other, best, out);
    }
}

static void add_helps(const struct pen__plan_report *report, const char *before,
                      const struct pen_help *helps, uint32_t count,
                      struct pen_table *out)
{
    double tokens = report->ranking->found[0].prediction.tokens_per_sec;
    struct pen_text layout = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < count; i++) {
        const struct pen_help *help = &helps[i];
        if (help->tokens_per_sec <= tokens)
            continue;
        pen_text_clear(&layout);
        pen_candidate_print(&help->candidate, &layout);
        pen_table_add(out, "%s%s", before, help->what);
        pen_table_add(out, "%+.1f", 100 * (help->tokens_per_sec / tokens - 1));
        pen_table_add(out, "%s%s", pen_text_string(&layout),
                      help->is_cut_short ? " (search cut short)" : "");
    }
    pen_text_release(&layout);
}

void pen__plan_help_table(const struct pen__plan_report *report,
                          struct pen_table *out)
{
    static const struct pen_column columns[] = {{"change", false, false},
                                                {"speed, %", true, false},
                                                {"with", false, true}};
    const struct pen_explanation *explanation = report->explanation;
    pen_table_init(out, columns, COUNT(columns));
    add_helps(report, "twice: ", explanation->helps, explanation->num_helps,
              out);
    add_helps(report, "option: ", explanation->options,
              explanation->num_options, out);
}
