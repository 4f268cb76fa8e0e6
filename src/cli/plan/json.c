#include "cli/plan/cells.h"
#include "cli/plan/devices.h"
#include "cli/plan/print.h"

#include "cli/sync/sync.h"
#include "planner/shortage.h"

static json_t *degrees_json(const uint32_t *degrees)
{
    static const char *const keys[PEN_DEGREES] = {
#define DEGREE_KEY(name, key) key,
        PEN_DEGREE_TABLE(DEGREE_KEY)};
    json_t *object = json_object();
    for (int i = 0; i < PEN_DEGREES; i++)
        json_object_set_new(object, keys[i],
                            json_integer((json_int_t)degrees[i]));
    return object;
}

static json_t *memory_json(const struct pen_prediction *prediction)
{
    json_t *classes = json_array();
    for (uint32_t i = 0; i < prediction->num_memory;) {
        const struct pen_plan_memory *memory = &prediction->memory[i];
        uint32_t count = pen__plan_same_ranks(prediction, i);
        json_t *item =
            json_pack("{s:I, s:I, s:I, s:I}", "first_rank", (json_int_t)i,
                      "ranks", (json_int_t)count, "devices",
                      (json_int_t)memory->count * (json_int_t)count, "bytes",
                      (json_int_t)pen_plan_memory_bytes(memory));
        for (int part = 0; part < PEN_MEMORY_PARTS; part++)
            json_object_set_new(item, pen_memory_names[part],
                                json_integer((json_int_t)memory->bytes[part]));
        pen__json_append(&classes, item);
        i += count;
    }
    return classes;
}

/* Whether it fits is decided on one device, the tightest. */
static void add_fit(const struct pen_prediction *it, json_t *object)
{
    struct pen_text sum = PEN_TEXT_EMPTY;
    json_object_set_new(object, "memory_margin", json_real(it->memory_margin));
    json_object_set_new(object, "tight_bytes",
                        json_integer((json_int_t)it->tight_bytes));
    json_object_set_new(object, "offered_bytes",
                        json_integer((json_int_t)it->offered_bytes));
    if (it->fits)
        return;
    pen_shortage_print_sum(it->tight_bytes, it->memory_margin,
                           it->offered_bytes, &sum);
    json_object_set_new(object, "shortage", json_string(pen_text_string(&sum)));
    pen_text_release(&sum);
}

static json_t *stages_json(const struct pen_plan *plan)
{
    json_t *stages = json_array();
    for (uint32_t i = 0; i < plan->num_stages; i++)
        pen__json_append(&stages,
                         json_integer((json_int_t)plan->stages[i].count));
    return stages;
}

static json_t *spent_json(const struct pen_prediction *prediction)
{
    json_t *spent = json_object();
    for (int i = 0; i < PEN_SPENDINGS; i++)
        json_object_set_new(spent, pen_spending_names[i],
                            json_real(prediction->spent[i]));
    return spent;
}

static json_t *run_json(const struct pen_plan *plan,
                        const struct pen_prediction *it, double tokens)
{
    struct pen__plan_run run = pen__plan_run(plan, it, tokens);
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "tokens", tokens, "days",
                     run.days, "device_hours", run.device_hours, "price",
                     run.price, "kwh", run.kwh);
}

/* The peak is that of the numbers that products are computed in. */
static void add_speed(const struct pen_plan *plan,
                      const struct pen_prediction *it, json_t *object)
{
    struct pen__plan_spent spent = pen__plan_spent(plan, it);
    json_object_set_new(object, "tokens_per_sec_per_device",
                        json_real(spent.tokens_per_device));
    json_object_set_new(object, "flops_per_sec_per_device",
                        json_real(spent.flops_per_device));
    json_object_set_new(object, "peak_flops_per_device",
                        json_real(spent.peak_per_device));
    json_object_set_new(object, "peak_of",
                        json_string(pen_number_names[plan->number]));
}

static void add_price(const struct pen_plan *plan,
                      const struct pen_prediction *it, json_t *object)
{
    struct pen__plan_spent spent = pen__plan_spent(plan, it);
    double steps = 1e9 / (it->tokens_per_sec * it->step_sec);
    json_object_set_new(object, "samples_per_sec",
                        json_real(spent.samples_per_sec));
    json_object_set_new(object, "device_sec_per_sample",
                        json_real(spent.device_sec_per_sample));
    json_object_set_new(object, "busy_share", json_real(spent.busy_share));
    if (it->price > 0)
        json_object_set_new(object, "price",
                            json_pack("{s:f, s:f}", "step", it->price,
                                      "billion_tokens", it->price * steps));
    if (it->joules == 0)
        return;
    json_object_set_new(object, "watts", json_real(spent.watts));
    json_object_set_new(object, "joules_per_sample",
                        json_real(spent.joules_per_sample));
    json_object_set_new(object, "energy_kwh",
                        json_pack("{s:f, s:f}", "step", it->joules / 3.6e6,
                                  "billion_tokens",
                                  it->joules * steps / 3.6e6));
}

/* Adds the recipe, where the plan has one. */
static void add_recipe(const struct pen_plan *plan, json_t *object)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    if (plan->expert_tp != 0)
        json_object_set_new(object, "expert_tp",
                            json_integer((json_int_t)plan->expert_tp));
    if (pen_recipe_is_plain(&plan->recipe))
        return;
    pen_recipe_print(&plan->recipe, &text);
    json_object_set_new(object, "recipe",
                        json_loads(pen_text_string(&text), 0, NULL));
    pen_text_release(&text);
}

json_t *pen__plan_json(const struct pen_plan *plan,
                       const struct pen_prediction *prediction)
{
    json_t *object = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:I, s:I, s:I, s:I}",
        "step_sec", prediction->step_sec, "low_sec", prediction->low_sec,
        "high_sec", prediction->high_sec, "step_error", prediction->step_error,
        "memory_error", prediction->memory_error, "tokens_per_sec",
        prediction->tokens_per_sec, "utilisation", prediction->utilisation,
        "bubble", prediction->bubble, "fits", prediction->fits, "peak_bytes",
        (json_int_t)prediction->peak_bytes, "devices",
        (json_int_t)pen_plan_num_ranks(plan), "micro_batch",
        (json_int_t)plan->micro_batch, "num_microbatches",
        (json_int_t)plan->num_microbatches);
    if (object == NULL)
        return NULL;
    const char *schedule =
        plan->schedule.name != NULL ? plan->schedule.name : plan->schedule.file;
    json_object_set_new(object, "schedule", json_string(schedule));
    json_object_set_new(object, "sharding",
                        json_string(pen_sharding_names[plan->sharding]));
    if (plan->sharding_group > 0)
        json_object_set_new(object, "sharding_group",
                            json_integer(plan->sharding_group));
    json_object_set_new(
        object, "recompute",
        json_string(pen_recompute_names[plan->stages[0].recompute]));
    if (pen__plan_recomputed(plan) < plan->num_stages)
        json_object_set_new(
            object, "recomputed_stages",
            json_integer((json_int_t)pen__plan_recomputed(plan)));
    json_object_set_new(object, "degrees", degrees_json(plan->degrees));
    if (plan->degrees[PEN_DEGREE_TP] > 1)
        json_object_set_new(object, "sequence_parallel",
                            json_boolean(plan->has_sequence_parallel));
    json_object_set_new(object, "layers", stages_json(plan));
    add_recipe(plan, object);
    json_object_set_new(object, "spent_sec", spent_json(prediction));
    json_object_set_new(object, "memory", memory_json(prediction));
    add_fit(prediction, object);
    add_speed(plan, prediction, object);
    add_price(plan, prediction, object);
    return object;
}

static json_t *ranking_json(const struct pen_plan_ranking *ranking)
{
    json_t *plans = json_array();
    for (uint32_t i = 0; ranking != NULL && i < ranking->num_found; i++)
        pen__json_append(&plans, pen__plan_json(ranking->found[i].plan,
                                                &ranking->found[i].prediction));
    return plans;
}

static json_t *counts_json(const struct pen_plan_ranking *ranking)
{
    const struct pen_plan_search_counts *counts = &ranking->counts;
    double gain =
        ranking->is_complete ? 0 : 1 - counts->least_left / ranking->best_value;
    return json_pack(
        "{s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "complete",
        ranking->is_complete, "most_gain_left", gain > 0 ? gain : 0.0, "listed",
        (json_int_t)counts->listed, "layouts",
        (json_int_t)counts->bounded + (json_int_t)counts->too_large, "unfit",
        (json_int_t)counts->too_large + (json_int_t)counts->unfit, "timed",
        (json_int_t)counts->timed, "left_out", (json_int_t)counts->left_out,
        "first_sec", counts->first_sec, "seconds", counts->seconds);
}

static json_t *candidate_json(const struct pen_candidate *candidate)
{
    json_t *object =
        json_pack("{s:o, s:I, s:s, s:s, s:s}", "degrees",
                  degrees_json(candidate->degrees), "micro_batch",
                  (json_int_t)candidate->micro_batch, "schedule",
                  candidate->generator->name, "recompute",
                  pen_recompute_names[candidate->recompute], "sharding",
                  pen_sharding_names[candidate->sharding]);
    if (candidate->sharding_group > 0)
        json_object_set_new(object, "sharding_group",
                            json_integer(candidate->sharding_group));
    if (candidate->cuts_rows)
        json_object_set_new(object, "sequence_parallel", json_true());
    if (candidate->recompute == PEN_RECOMPUTE_SELECTIVE &&
        candidate->recipe.modules != 0) {
        json_t *modules = json_array();
        for (int i = 0; i < PEN_MODULES; i++)
            if ((candidate->recipe.modules & 1u << i) != 0)
                pen__json_append(&modules, json_string(pen_module_names[i]));
        json_object_set_new(object, "recompute_modules", modules);
    }
    return object;
}

static void add_layout_text(const struct pen_candidate *candidate,
                            json_t *object)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_candidate_print(candidate, &text);
    json_object_set_new(object, "layout_text",
                        json_string(pen_text_string(&text)));
    pen_text_release(&text);
}

static json_t *neighbour_json(const struct pen_neighbour *neighbour,
                              const struct pen_prediction *best)
{
    json_t *object = json_pack(
        "{s:s, s:o, s:b, s:b, s:s}", "changed", neighbour->choice, "layout",
        candidate_json(&neighbour->candidate), "allowed", neighbour->is_allowed,
        "fits", neighbour->is_predicted && neighbour->fits, "reason",
        pen_text_string(&neighbour->reason));
    if (neighbour->is_predicted) {
        json_object_set_new(object, "step_sec", json_real(neighbour->step_sec));
        json_object_set_new(object, "peak_bytes",
                            json_integer((json_int_t)neighbour->peak_bytes));
        json_object_set_new(object, "slower_sec",
                            json_real(neighbour->step_sec - best->step_sec));
        json_object_set_new(object, "more_bytes",
                            json_integer((json_int_t)neighbour->peak_bytes -
                                         (json_int_t)best->peak_bytes));
    }
    add_layout_text(&neighbour->candidate, object);
    return object;
}

static json_t *help_json(const char *key, const struct pen_help *help,
                         const struct pen_prediction *best)
{
    json_t *object = json_pack("{s:s, s:f, s:f, s:b, s:o}", key, help->what,
                               "tokens_per_sec", help->tokens_per_sec, "gain",
                               help->tokens_per_sec / best->tokens_per_sec - 1,
                               "complete", !help->is_cut_short, "layout",
                               candidate_json(&help->candidate));
    add_layout_text(&help->candidate, object);
    return object;
}

static json_t *explanation_json(const struct pen__plan_report *report)
{
    const struct pen_explanation *explanation = report->explanation;
    const struct pen_prediction *best = &report->ranking->found[0].prediction;
    struct pen_text limit = PEN_TEXT_EMPTY;
    json_t *neighbours = json_array();
    json_t *helps = json_array();
    json_t *options = json_array();
    for (uint32_t i = 0; i < explanation->num_neighbours; i++)
        pen__json_append(&neighbours,
                         neighbour_json(&explanation->neighbours[i], best));
    for (uint32_t i = 0; i < explanation->num_helps; i++)
        pen__json_append(&helps,
                         help_json("twice", &explanation->helps[i], best));
    for (uint32_t i = 0; i < explanation->num_options; i++)
        pen__json_append(&options,
                         help_json("option", &explanation->options[i], best));
    pen__plan_print_limit(explanation, &limit);
    json_t *object =
        json_pack("{s:s, s:s?, s:s, s:f, s:f, s:o, s:o, s:o}", "limit",
                  explanation->limit == PEN_SPENDING_FORWARD
                      ? "computing"
                      : pen_spending_names[explanation->limit],
                  "link", explanation->limit_link, "limit_text",
                  pen_text_string(&limit), "stale_sec", explanation->stale_sec,
                  "local_sec", explanation->local_sec, "neighbours", neighbours,
                  "helps", helps, "options", options);
    pen_text_release(&limit);
    return object;
}

/* Replicas that are not those of the best plan have one of their own. */
static json_t *sync_json(const struct pen__plan_report *report)
{
    const struct pen_plan_ranking *own = report->replicas->own;
    json_t *object = pen__sync_json(report->sync);
    json_object_set_new(object, "link", json_string(report->replicas->link));
    if (own != NULL)
        json_object_set_new(object, "replica",
                            candidate_json(&own->found[0].candidate));
    return object;
}

/* Prints each as a plan, with what it is best for and whether it was chosen. */
static json_t *devices_json(const struct pen__plan_report *report)
{
    struct pen__device_rows rows;
    struct pen_text merits = PEN_TEXT_EMPTY;
    json_t *list = json_array();
    pen__device_rows(report, &rows);
    for (uint32_t i = 0; i < rows.count; i++) {
        const struct pen_plan_found *row = rows.rows[i];
        json_t *item = pen__plan_json(row->plan, &row->prediction);
        pen_text_clear(&merits);
        pen__device_row_merits(&rows, i, &merits);
        json_object_set_new(item, "best_for",
                            json_string(pen_text_string(&merits)));
        pen__json_append(&list, item);
    }
    pen_text_release(&merits);
    return list;
}

/* The finding on the accuracy of each schedule that a plan has. */
static json_t *findings_json(const struct pen_plan_ranking *ranking)
{
    const struct pen_generator *generator;
    json_t *list = json_array();
    for (size_t i = 0; (generator = pen_generator_at(i)) != NULL; i++)
        if (generator->finding != NULL &&
            pen__plan_has_schedule(ranking, generator))
            pen__json_append(&list, json_pack("{s:s, s:s}", "schedule",
                                              generator->name, "text",
                                              generator->finding));
    return list;
}

/* Shares of the step that other ways to train would save at most. */
static json_t *relaxed_json(const struct pen__plan_report *report)
{
    const struct pen_prediction *best = &report->ranking->found[0].prediction;
    return json_pack("{s:f, s:f}", "allow_stale",
                     report->allows_stale
                         ? 0.0
                         : best->spent[PEN_SPENDING_BUBBLE] / best->step_sec,
                     "rare_synchronisation",
                     (best->spent[PEN_SPENDING_REDUCTION] +
                      best->spent[PEN_SPENDING_GATHER]) /
                         best->step_sec);
}

json_t *pen__plan_question_json(const struct pen__planning *planning)
{
    const struct pen_setting *setting = &planning->setting;
    json_t *object = json_pack(
        "{s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "model",
        pen_text_string(&planning->model_name), "parameters",
        (json_int_t)setting->model->num_parameters, "cluster",
        setting->cluster->name, "target", pen_target_names[setting->target],
        "dtype", pen_number_names[setting->number], "devices",
        (json_int_t)pen_cluster_num_devices(setting->cluster), "global_batch",
        (json_int_t)setting->global_batch, "sequence",
        (json_int_t)setting->sequence, "unit",
        pen__plan_unit(setting->sequence));
    json_object_set_new(object, "memory_limit",
                        setting->memory_limit == 0
                            ? json_null()
                            : json_integer((json_int_t)setting->memory_limit));
    return object;
}

json_t *pen__plan_json_with_run(const struct pen__planning *planning,
                                const struct pen_plan *plan,
                                const struct pen_prediction *prediction,
                                double tokens)
{
    json_t *object = pen__plan_json(plan, prediction);
    json_t *question = pen__plan_question_json(planning);
    if (object != NULL && tokens > 0)
        json_object_set_new(object, "run", run_json(plan, prediction, tokens));
    if (json_object_update_missing(object, question) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(question);
    return object;
}

static bool is_cut_short(const struct pen__plan_report *report)
{
    struct pen__device_rows rows;
    bool is = false;
    pen__device_rows(report, &rows);
    for (uint32_t i = 0; i < rows.count; i++)
        is = is || rows.rows[i]->is_cut_short;
    return is;
}

json_t *pen__plan_report_json(const struct pen__plan_report *report)
{
    json_t *object = pen__plan_question_json(report->planning);
    if (object == NULL)
        return NULL;
    json_object_set_new(object, "objective",
                        json_string(pen_objective_names[report->objective]));
    json_object_set_new(object, "within", json_real(report->tolerance));
    if (report->tokens > 0)
        json_object_set_new(object, "run",
                            run_json(report->ranking->found[0].plan,
                                     &report->ranking->found[0].prediction,
                                     report->tokens));
    json_object_set_new(object, "search", counts_json(report->ranking));
    json_object_set_new(object, "plans", ranking_json(report->ranking));
    json_object_set_new(object, "front", ranking_json(report->front));
    json_object_set_new(
        object, "front_complete",
        json_boolean(report->front == NULL || report->front->is_complete));
    json_object_set_new(object, "by_devices", devices_json(report));
    json_object_set_new(object, "by_devices_complete",
                        json_boolean(!is_cut_short(report)));
    json_object_set_new(object, "most_saved", relaxed_json(report));
    json_object_set_new(object, "findings", findings_json(report->ranking));
    if (report->sync != NULL)
        json_object_set_new(object, "sync", sync_json(report));
    if (report->sync_reason != NULL)
        json_object_set_new(object, "sync_reason",
                            json_string(report->sync_reason));
    if (report->explanation != NULL)
        json_object_set_new(object, "explanation", explanation_json(report));
    return object;
}
