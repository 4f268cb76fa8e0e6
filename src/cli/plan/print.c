#include "cli/plan/print.h"

#include "base/table.h"
#include "cli/plan/cells.h"
#include "cli/plan/devices.h"
#include "cli/plan/figures.h"
#include "cli/sync/sync.h"
#include "planner/shortage.h"

#include <inttypes.h>
#include <string.h>

static void print_table(struct pen_table *table, struct pen_text *out)
{
    pen_table_print(table, pen__page_width(), out);
    pen_table_release(table);
}

uint32_t pen__plan_same_ranks(const struct pen_prediction *prediction,
                              uint32_t first)
{
    uint32_t count = 1;
    while (first + count < prediction->num_memory &&
           memcmp(prediction->memory[first].bytes,
                  prediction->memory[first + count].bytes,
                  sizeof prediction->memory[first].bytes) == 0)
        count++;
    return count;
}

/* ---- the table of plans ---- */

static const struct pen_column plan_columns[] = {
    {"", true, false},         {"step, s", true, false},
    {"tokens/s", true, false}, {"MFU, %", true, false},
    {"GiB", true, false},      {"devices", true, false},
    PEN__PLAN_LAYOUT_COLUMNS};

enum { SPEED = 2, NUM_COLUMNS = sizeof plan_columns / sizeof *plan_columns };

/* Begins the table of plans, which borrows the columns. */
static void start_plans(struct pen_table *table, uint32_t sequence,
                        struct pen_column columns[NUM_COLUMNS])
{
    memcpy(columns, plan_columns, sizeof plan_columns);
    if (sequence == 1)
        columns[SPEED].title = "samples/s";
    pen_table_init(table, columns, NUM_COLUMNS);
}

static void add_plan(struct pen_table *table, uint32_t number,
                     const struct pen_plan *plan,
                     const struct pen_prediction *prediction)
{
    pen_table_add(table, "%u", number);
    pen_table_add(table, "%.4g", prediction->step_sec);
    pen__add_figure_cell(table, prediction->tokens_per_sec);
    pen_table_add(table, "%.1f", 100 * prediction->utilisation);
    pen_table_add(table, "%.1f", pen__gib(prediction->peak_bytes));
    pen_table_add(table, "%" PRIu64, pen_plan_num_ranks(plan));
    pen__plan_add_layout(plan, table);
}

static void print_ranking(const struct pen_plan_ranking *ranking,
                          struct pen_text *out)
{
    struct pen_table table;
    struct pen_column columns[NUM_COLUMNS];
    start_plans(&table, ranking->found[0].plan->sequence, columns);
    for (uint32_t i = 0; i < ranking->num_found; i++)
        add_plan(&table, i + 1, ranking->found[i].plan,
                 &ranking->found[i].prediction);
    print_table(&table, out);
}

/* Explains the columns, for readers who see them for the first time. */
static void print_columns(const struct pen_plan_found *best,
                          struct pen_text *out)
{
    struct pen__plan_spent spent =
        pen__plan_spent(best->plan, &best->prediction);
    pen_text_add(out,
                 "\n"
                 "MFU: model-flops utilisation, the share of the %s peak "
                 "(%.0f Tflop/s a device)\n"
                 "that the model's own arithmetic takes, without "
                 "recomputation. GiB: memory of the\n"
                 "fullest device. tp, cp, ep: devices that share each tensor, "
                 "each sequence, the\n"
                 "experts. pp: ranks of the pipeline; vpp: stages on each. "
                 "dp: replicas. batch:\n"
                 "micro-batches of a replica x %s in each.\n",
                 pen_number_names[best->plan->number],
                 1e-12 * spent.peak_per_device,
                 best->plan->sequence == 1 ? "samples" : "sequences");
    if (best->plan->target == PEN_TARGET_PENSTOCK && best->plan->sequence > 1)
        pen_text_add(out, "sp: tp with sequence parallelism.\n");
}

/* ---- one plan ---- */

/* "5 + 4 x 9 + 3": runs of stages with as many layers. */
static void print_stages(const struct pen_plan *plan, struct pen_text *out)
{
    pen_text_add(out, "layers of %u stages (including embedding and head): ",
                 plan->num_stages);
    for (uint32_t i = 0; i < plan->num_stages;) {
        uint32_t count = 1;
        while (i + count < plan->num_stages &&
               plan->stages[i + count].count == plan->stages[i].count)
            count++;
        pen_text_add(out, "%s%u", i == 0 ? "" : ", ", plan->stages[i].count);
        if (count > 1)
            pen_text_add(out, " x %u", count);
        i += count;
    }
    pen_text_add(out, "\n");
}

/* Prints a choice that other targets make with every tp. */
static void print_rows(const struct pen_plan *plan, struct pen_text *out)
{
    if (plan->has_sequence_parallel && plan->target == PEN_TARGET_PENSTOCK)
        pen_text_add(out,
                     "sequence parallelism: each of %u ranks has its part of "
                     "the rows between products\n",
                     plan->degrees[PEN_DEGREE_TP]);
}

static void print_groups(const struct pen_plan *plan, struct pen_text *out)
{
    if (plan->sharding_group > 0)
        pen_text_add(out,
                     "weights: %u neighbouring replicas have all of them "
                     "together, other groups have copies\n",
                     plan->sharding_group);
}

/* Prints the recipe as plan.json has it; a plan without one has no line. */
static void print_recipe(const struct pen_plan *plan, struct pen_text *out)
{
    if (plan->expert_tp != 0)
        pen_text_add(out, "ranks that share an expert's tensors: %u\n",
                     plan->expert_tp);
    if (pen_recipe_is_plain(&plan->recipe))
        return;
    pen_text_add_string(out, "recipe: ");
    pen_recipe_print(&plan->recipe, out);
    pen_text_add_string(out, "\n");
}

static void print_memory(const struct pen_prediction *prediction,
                         struct pen_text *out)
{
    struct pen_column columns[PEN_MEMORY_PARTS + 3] = {
        {"pipeline ranks", false, false}, {"devices", true, false}};
    struct pen_table table;
    for (int part = 0; part < PEN_MEMORY_PARTS; part++)
        columns[2 + part] =
            (struct pen_column){pen_memory_names[part], true, false};
    columns[PEN_MEMORY_PARTS + 2] = (struct pen_column){"GiB", true, false};
    pen_table_init(&table, columns, PEN_MEMORY_PARTS + 3);
    pen__plan_add_memory(prediction, &table);
    print_table(&table, out);
}

static void print_spent(const struct pen_prediction *prediction,
                        struct pen_text *out)
{
    pen_text_add(out, "a step of %.4g s (9 of 10: %.3g to %.3g s): ",
                 prediction->step_sec, prediction->low_sec,
                 prediction->high_sec);
    const char *before = "";
    for (int i = 0; i < PEN_SPENDINGS; i++) {
        double share = 100 * prediction->spent[i] / prediction->step_sec;
        if (share < 0.05)
            continue;
        pen_text_add(out, "%s%s %.1f %%", before, pen_spending_names[i], share);
        before = ", ";
    }
    pen_text_add(out, "\n");
}

/* "68,180 tokens/s; on each of 64 devices ...", with the peak by its name. */
static void print_speed(const struct pen_plan *plan,
                        const struct pen_prediction *it, struct pen_text *out)
{
    struct pen__plan_spent spent = pen__plan_spent(plan, it);
    const char *unit = pen__plan_unit(plan->sequence);
    pen__add_figure(out, it->tokens_per_sec);
    pen_text_add(out, " %s/s; ", unit);
    pen__add_figure(out, spent.tokens_per_device);
    pen_text_add(out, " %s/s/device, ", unit);
    pen__add_figure(out, 1e-12 * spent.flops_per_device);
    pen_text_add(out,
                 " Tflop/s/device, a model-flops utilisation of %.1f %% of the "
                 "%s peak (",
                 100 * it->utilisation, pen_number_names[plan->number]);
    pen__add_figure(out, 1e-12 * spent.peak_per_device);
    pen_text_add_string(out, " Tflop/s)\n");
}

/* Prints the sum that decides, if it does not fit. */
static void print_fit(const struct pen_prediction *it, struct pen_text *out)
{
    if (it->fits) {
        pen_text_add(out, ", at most %.1f of %.1f on a device",
                     pen__gib(it->tight_bytes), pen__gib(it->offered_bytes));
        return;
    }
    pen_text_add_string(out, ", which does not fit: ");
    pen_shortage_print_sum(it->tight_bytes, it->memory_margin,
                           it->offered_bytes, out);
}

static void print_price(const struct pen_plan *plan,
                        const struct pen_prediction *it, struct pen_text *out)
{
    struct pen__plan_spent spent = pen__plan_spent(plan, it);
    double steps = 1e9 / (it->tokens_per_sec * it->step_sec);
    const char *unit = pen__plan_unit(plan->sequence);
    if (it->price > 0) {
        pen_text_add(out, "price: %.4g a step, ", it->price);
        pen__add_figure(out, it->price * steps);
        pen_text_add(out, " for 1 billion %s\n", unit);
    }
    if (it->joules > 0) {
        pen_text_add_string(out, "energy: ");
        pen__plan_print_energy(&spent, it->joules * steps, unit, out);
        pen_text_add(out, " (devices compute %.0f %% of the step)\n",
                     100 * spent.busy_share);
    }
}

void pen__plan_print_run(const struct pen_plan *plan,
                         const struct pen_prediction *it, double tokens,
                         struct pen_text *out)
{
    if (tokens == 0)
        return;
    pen__plan_add_run(plan, it, tokens, out);
    pen_text_add_string(out, "\n");
}

void pen__plan_print(const struct pen_plan *plan,
                     const struct pen_prediction *prediction,
                     struct pen_text *out)
{
    print_spent(prediction, out);
    print_speed(plan, prediction, out);
    print_stages(plan, out);
    print_rows(plan, out);
    print_groups(plan, out);
    print_recipe(plan, out);
    pen_text_add(out, "memory in GiB (typical error %.0f %%)",
                 100 * prediction->memory_error);
    print_fit(prediction, out);
    pen_text_add_string(out, ":\n\n");
    print_memory(prediction, out);
    pen_text_add(out, "\n");
    print_price(plan, prediction, out);
}

/* ---- the whole report ---- */

void pen__plan_print_head(const struct pen__planning *planning,
                          struct pen_text *out)
{
    const struct pen_setting *setting = &planning->setting;
    pen_text_add(out, "%s, ", pen_text_string(&planning->model_name));
    pen__add_large(out, (double)setting->model->num_parameters);
    pen_text_add(
        out,
        " parameters, on %s (%" PRIu64 " devices) with %s in %s: a batch of ",
        setting->cluster->name, pen_cluster_num_devices(setting->cluster),
        pen_target_names[setting->target], pen_number_names[setting->number]);
    pen__add_figure(out, (double)setting->global_batch);
    if (setting->model->images != NULL) {
        pen_text_add_string(out, " images\n\n");
        return;
    }
    pen_text_add_string(out, " x ");
    pen__add_figure(out, setting->sequence);
    pen_text_add_string(out, " tokens\n\n");
}

static void print_counts(const struct pen_plan_ranking *ranking,
                         struct pen_text *out)
{
    const struct pen_plan_search_counts *counts = &ranking->counts;
    pen_text_add(out,
                 "considered %" PRIu64 " choices of degrees, %" PRIu64
                 " layouts, timed %" PRIu64 "; %" PRIu64 " do not fit\n",
                 counts->listed, counts->bounded + counts->too_large,
                 counts->timed, counts->too_large + counts->unfit);
    if (ranking->is_complete)
        return;
    double gain = 100 * (1 - counts->least_left / ranking->best_value);
    pen_text_add(out, "cut short: left out %" PRIu64 "; ", counts->left_out);
    if (gain > 0)
        pen_text_add(
            out,
            "none of them is more than %.1f %% better (a larger --seconds "
            "searches on)\n",
            gain);
    else
        pen_text_add(out, "none of them is better than the best\n");
}

/* Prints the gain of other methods, whether they are allowed or not. */
static void print_relaxed(const struct pen__plan_report *report,
                          struct pen_text *out)
{
    const struct pen_prediction *best = &report->ranking->found[0].prediction;
    double local =
        best->spent[PEN_SPENDING_REDUCTION] + best->spent[PEN_SPENDING_GATHER];
    if (!report->allows_stale)
        pen_text_add(out,
                     "asynchronous schedules (--allow-stale) would save at "
                     "most %.1f %% of the step: the bubble\n",
                     100 * best->spent[PEN_SPENDING_BUBBLE] / best->step_sec);
    pen_text_add(out,
                 "replicas that rarely synchronise would save at most %.1f %%: "
                 "the transfers of gradients and parameters\n",
                 100 * local / best->step_sec);
}

bool pen__plan_has_schedule(const struct pen_plan_ranking *ranking,
                            const struct pen_generator *generator)
{
    for (uint32_t i = 0; i < ranking->num_found; i++)
        if (ranking->found[i].candidate.generator == generator)
            return true;
    for (uint32_t i = 0; i < ranking->num_fewer; i++)
        if (ranking->fewer[i].candidate.generator == generator)
            return true;
    return false;
}

/* Prints the finding on the accuracy of each schedule in the tables. */
static void print_findings(const struct pen_plan_ranking *ranking,
                           struct pen_text *out)
{
    const struct pen_generator *generator;
    for (size_t i = 0; (generator = pen_generator_at(i)) != NULL; i++)
        if (generator->finding != NULL &&
            pen__plan_has_schedule(ranking, generator))
            pen_text_add(out, "%s: %s\n", generator->name, generator->finding);
}

/* Methods of the table; the all-reduce is there in any case. */
#define MOST_METHODS 6u

static void print_replicas(const struct pen_replica_plan *replicas,
                           struct pen_text *out)
{
    pen_text_add(out,
                 "\n"
                 "methods to synchronise %s%u replicas over %s",
                 replicas->own == NULL ? "its " : "",
                 replicas->setting.num_replicas, replicas->link);
    if (replicas->own != NULL) {
        pen_text_add(out, ", each ");
        pen_candidate_print(&replicas->own->found[0].candidate, out);
    }
    pen_text_add(out, ":\n\n");
}

static void print_sync(const struct pen__plan_report *report,
                       struct pen_text *out)
{
    struct pen_table table;
    if (report->sync_reason != NULL)
        pen_text_add(out, "no other synchronisation to compare: %s\n",
                     report->sync_reason);
    if (report->sync == NULL)
        return;
    print_replicas(report->replicas, out);
    pen__sync_table(report->sync, MOST_METHODS, &table);
    print_table(&table, out);
    pen_text_add(out, "\n");
    pen_replica_advise(report->sync, out);
    if (report->replicas->own != NULL)
        pen_text_add(out,
                     "the best plan with synchronisation at every step: %.4g "
                     "samples/s\n",
                     report->replicas->setting.samples /
                         report->ranking->found[0].prediction.step_sec);
}

static void print_cut_short(struct pen_text *out)
{
    pen_text_add(out, "the search for this table was cut short; a larger "
                      "--seconds may find better plans\n");
}

static void print_front(const struct pen_plan_ranking *front,
                        struct pen_text *out)
{
    if (front == NULL || front->num_found < 2)
        return;
    pen_text_add(out, "\nless memory for more time:\n\n");
    print_ranking(front, out);
    if (!front->is_complete)
        print_cut_short(out);
}

static void print_devices(const struct pen__plan_report *report,
                          struct pen_text *out)
{
    struct pen__device_rows rows;
    struct pen_table table;
    pen__device_rows(report, &rows);
    if (!pen__device_rows_matter(report, &rows))
        return;
    pen_text_add(out, "\nwith fewer devices:\n\n");
    pen__device_table(report, &rows, &table);
    print_table(&table, out);
    bool is_cut_short = false;
    for (uint32_t i = 0; i < rows.count; i++)
        is_cut_short = is_cut_short || rows.rows[i]->is_cut_short;
    if (is_cut_short)
        print_cut_short(out);
}

static void print_choice(const struct pen__plan_report *report,
                         struct pen_text *out)
{
    if (report->tolerance > 0)
        pen_text_add(out,
                     "\nthe plan with the fewest devices within %.4g %% of the "
                     "least %s: ",
                     100 * report->tolerance,
                     pen_objective_names[report->objective]);
    else if (report->objective != PEN_OBJECTIVE_TIME)
        pen_text_add(out, "\nthe plan with the least %s: ",
                     pen_objective_names[report->objective]);
    else
        pen_text_add(out, "\nthe best plan: ");
}

/* ---- the explanation ---- */

static void print_neighbours(const struct pen__plan_report *report,
                             struct pen_text *out)
{
    static const struct pen_column columns[] = {{"changed", false, false},
                                                {"layout", false, false},
                                                {"slower, ms", true, false},
                                                {"more, GiB", true, false},
                                                {"why not", false, true}};
    const struct pen_prediction *best = &report->ranking->found[0].prediction;
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < report->explanation->num_neighbours; i++) {
        const struct pen_neighbour *other = &report->explanation->neighbours[i];
        pen__plan_add_neighbour(other, best, &table);
        pen_table_add(&table, "%s", pen_text_string(&other->reason));
    }
    print_table(&table, out);
}

void pen__plan_print_limit(const struct pen_explanation *explanation,
                           struct pen_text *out)
{
    if (explanation->limit == PEN_SPENDING_FORWARD)
        pen_text_add(out, "the step is limited by computing");
    else
        pen_text_add(out, "the step is limited by %s",
                     pen_spending_names[explanation->limit]);
    if (explanation->limit_link != NULL)
        pen_text_add(out, " over the links %s", explanation->limit_link);
}

static void print_helps(const struct pen__plan_report *report,
                        const struct pen_help *helps, uint32_t count,
                        struct pen_text *out)
{
    double tokens = report->ranking->found[0].prediction.tokens_per_sec;
    struct pen_text layout = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < count; i++) {
        const struct pen_help *help = &helps[i];
        pen_text_clear(&layout);
        pen_candidate_print(&help->candidate, &layout);
        pen_text_add(out, "  %-36s %+6.1f %% %s/s, with %s%s\n", help->what,
                     100 * (help->tokens_per_sec / tokens - 1),
                     pen__plan_unit(report->planning->setting.sequence),
                     pen_text_string(&layout),
                     help->is_cut_short ? " (search cut short)" : "");
    }
    pen_text_release(&layout);
}

void pen__plan_report_print(const struct pen__plan_report *report,
                            struct pen_text *out)
{
    const struct pen_plan_found *best = &report->ranking->found[0];
    pen__plan_print_head(report->planning, out);
    print_ranking(report->ranking, out);
    print_columns(best, out);
    pen_text_add(out, "\n");
    print_counts(report->ranking, out);
    print_choice(report, out);
    pen__plan_print(best->plan, &best->prediction, out);
    pen__plan_print_run(best->plan, &best->prediction, report->tokens, out);
    print_relaxed(report, out);
    print_findings(report->ranking, out);
    print_sync(report, out);
    print_front(report->front, out);
    print_devices(report, out);
    const struct pen_explanation *explanation = report->explanation;
    if (explanation == NULL)
        return;
    pen_text_add(out, "\nneighbouring plans, and why they are worse:\n\n");
    print_neighbours(report, out);
    pen_text_add_string(out, "\n");
    pen__plan_print_limit(explanation, out);
    pen_text_add_string(out, "\n");
    pen_text_add(out, "gain from doubling one resource:\n");
    print_helps(report, explanation->helps, explanation->num_helps, out);
    if (explanation->num_options > 0)
        pen_text_add(out, "gain from one more option:\n");
    print_helps(report, explanation->options, explanation->num_options, out);
}
