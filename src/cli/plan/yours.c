/*
 * penstock plan --from-megatron: a command line of Megatron-LM as it is, the
 * best plan for the same model, batch and devices, and what each option that
 * differs gives.
 */
#include "cli/plan/yours.h"

#include "cli/plan/cells.h"
#include "cli/plan/import.h"
#include "cli/plan/modes.h"
#include "cli/plan/print.h"
#include "cli/program/answer.h"
#include "planner/shortage.h"

#include <inttypes.h>

/* ---- one change in words ---- */

/* An option, with its values before and after. */
struct words {
    const char *option;
    struct pen_text from;
    struct pen_text to;
};

static void say_count(struct words *words, const char *option, uint64_t from,
                      uint64_t to)
{
    words->option = option;
    pen_text_add(&words->from, "%" PRIu64, from);
    pen_text_add(&words->to, "%" PRIu64, to);
}

static void say_words(struct words *words, const char *option, const char *from,
                      const char *to)
{
    words->option = option;
    pen_text_add_string(&words->from, from);
    pen_text_add_string(&words->to, to);
}

static void say_switch(struct words *words, const char *option, bool from,
                       bool to)
{
    say_words(words, option, from ? "on" : "off", to ? "on" : "off");
}

static void say_sharding(struct words *words, enum pen_sharding from,
                         enum pen_sharding to)
{
    if (from <= PEN_SHARDING_ZERO1 && to <= PEN_SHARDING_ZERO1)
        say_switch(words, "--use-distributed-optimizer",
                   from == PEN_SHARDING_ZERO1, to == PEN_SHARDING_ZERO1);
    else
        say_words(words, "--data-parallel-sharding-strategy",
                  pen_sharding_names[from], pen_sharding_names[to]);
}

/* Modules are another option, which selective recomputation takes. */
static void say_recompute(struct words *words, const struct pen_candidate *from,
                          const struct pen_candidate *to)
{
    bool is_selective = to->recompute == PEN_RECOMPUTE_SELECTIVE;
    if (from->recompute == to->recompute) {
        words->option = "--recompute-modules";
        pen_recompute_print(from->recompute, from->recipe.modules,
                            &words->from);
        pen_recompute_print(to->recompute, to->recipe.modules, &words->to);
        return;
    }
    say_words(words, "--recompute-granularity",
              pen_recompute_names[from->recompute],
              pen_recompute_names[to->recompute]);
    if (is_selective && to->recipe.modules != 0) {
        pen_text_add_string(&words->to, " --recompute-modules ");
        pen_recompute_print(to->recompute, to->recipe.modules, &words->to);
    }
}

#define GRADIENTS "--overlap-grad-reduce"
#define PARAMETERS "--overlap-param-gather"
#define LOSS "--cross-entropy-loss-fusion"

static void say_overlap(struct words *words, const struct pen_overlaps *from,
                        const struct pen_overlaps *to)
{
    static const char *const options[] = {"",
                                          GRADIENTS,
                                          PARAMETERS,
                                          (GRADIENTS " " PARAMETERS),
                                          LOSS,
                                          (GRADIENTS " " LOSS),
                                          (PARAMETERS " " LOSS),
                                          (GRADIENTS " " PARAMETERS " " LOSS)};
    unsigned which = (from->gradients != to->gradients ? 1u : 0u) +
                     (from->parameters != to->parameters ? 2u : 0u) +
                     (from->loss != to->loss ? 4u : 0u);
    say_switch(words, options[which], false, true);
}

static void say_degree(struct words *words, const char *option,
                       enum pen_degree degree, const struct pen_change *from,
                       const struct pen_change *to)
{
    say_count(words, option, from->candidate.degrees[degree],
              to->candidate.degrees[degree]);
}

static void say(enum pen_choice choice, const struct pen_change *from,
                const struct pen_change *to, struct words *words)
{
    const struct pen_candidate *a = &from->candidate;
    const struct pen_candidate *b = &to->candidate;
    switch (choice) {
    case PEN_CHOICE_STAGES:
        say_words(words, "--pipeline-model-parallel-layout", "yours",
                  "planned");
        break;
    case PEN_CHOICE_SEQUENCE:
        say_switch(words, "--sequence-parallel", from->has_sequence_parallel,
                   to->has_sequence_parallel);
        break;
    case PEN_CHOICE_OVERLAP:
        say_overlap(words, &from->overlaps, &to->overlaps);
        break;
    case PEN_CHOICE_TP:
        say_degree(words, "--tensor-model-parallel-size", PEN_DEGREE_TP, from,
                   to);
        break;
    case PEN_CHOICE_CP:
        say_degree(words, "--context-parallel-size", PEN_DEGREE_CP, from, to);
        break;
    case PEN_CHOICE_PP:
        say_degree(words, "--pipeline-model-parallel-size", PEN_DEGREE_PP, from,
                   to);
        break;
    case PEN_CHOICE_VPP:
        say_degree(words, "--num-virtual-stages-per-pipeline-rank",
                   PEN_DEGREE_VPP, from, to);
        break;
    case PEN_CHOICE_EP:
        say_degree(words, "--expert-model-parallel-size", PEN_DEGREE_EP, from,
                   to);
        break;
    case PEN_CHOICE_MICRO_BATCH:
        say_count(words, "--micro-batch-size", a->micro_batch, b->micro_batch);
        break;
    case PEN_CHOICE_RECOMPUTE:
        say_recompute(words, a, b);
        break;
    case PEN_CHOICE_SHARDING:
        say_sharding(words, a->sharding, b->sharding);
        break;
    case PEN_CHOICE_DEVICES:
        say_count(words, "devices", pen_candidate_num_devices(a),
                  pen_candidate_num_devices(b));
        break;
    case PEN_CHOICES:
        break;
    }
}

static struct words words_of(enum pen_choice choice,
                             const struct pen_changes *changes, uint32_t row)
{
    struct words words = {.from = PEN_TEXT_EMPTY, .to = PEN_TEXT_EMPTY};
    say(choice, &changes->list[row - 1], &changes->list[row], &words);
    return words;
}

static void release_words(struct words *words)
{
    pen_text_release(&words->from);
    pen_text_release(&words->to);
}

/* ---- tables ---- */

static void print_table(struct pen_table *table, struct pen_text *out)
{
    pen_table_print(table, pen__page_width(), out);
    pen_table_release(table);
}

static void add_plan(struct pen_table *table, const char *name,
                     const struct pen_plan *plan,
                     const struct pen_prediction *prediction)
{
    pen_table_add(table, "%s", name);
    pen_table_add(table, "%.4g", prediction->step_sec);
    pen_table_add(table, "%.1f", 100 * prediction->utilisation);
    pen_table_add(table, "%.1f", pen__gib(prediction->peak_bytes));
    pen__plan_add_layout(plan, table);
}

static void print_both(const struct pen__yours *answer, struct pen_text *out)
{
    static const struct pen_column columns[] = {{"", false, false},
                                                {"step, s", true, false},
                                                {"MFU, %", true, false},
                                                {"GiB", true, false},
                                                PEN__PLAN_LAYOUT_COLUMNS};
    const struct pen_plan_found *best = &answer->ranking->found[0];
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    add_plan(&table, "yours", answer->plan, &answer->prediction);
    add_plan(&table, "best", best->plan, &best->prediction);
    print_table(&table, out);
}

/* Prints the changes of a row: "--micro-batch-size 1 -> 2, ...". */
static void print_change(const struct pen_changes *changes, uint32_t row,
                         struct pen_text *out)
{
    bool is_first = true;
    for (unsigned i = 0; row > 0 && i < PEN_CHOICES; i++) {
        if ((changes->list[row].choices & 1u << i) == 0)
            continue;
        struct words words = words_of((enum pen_choice)i, changes, row);
        pen_text_add(out, "%s%s %s -> %s", is_first ? "" : ", ", words.option,
                     pen_text_string(&words.from), pen_text_string(&words.to));
        release_words(&words);
        is_first = false;
    }
}

void pen__yours_print_way(const struct pen__yours *yours, struct pen_text *out)
{
    for (uint32_t i = 1; i < yours->changes.count; i++) {
        pen_text_add_string(out, i > 1 ? ", " : "");
        print_change(&yours->changes, i, out);
    }
}

static void add_row(const struct pen_changes *changes, uint32_t row,
                    struct pen_table *table)
{
    const struct pen_change *change = &changes->list[row];
    struct pen_text name = PEN_TEXT_EMPTY;
    print_change(changes, row, &name);
    pen_table_add(table, "%s", row == 0 ? "yours" : pen_text_string(&name));
    pen_text_release(&name);
    pen_table_add(table, "%.4g", change->step_sec);
    if (row == 0)
        pen_table_add(table, "-");
    else
        pen_table_add(
            table, "%+.1f",
            100 * (change->step_sec / changes->list[row - 1].step_sec - 1));
    pen_table_add(table, "%.1f", pen__gib(change->peak_bytes));
    pen_table_add(table, "%s", change->fits ? "" : "does not fit");
}

static void print_changes(const struct pen__yours *answer, struct pen_text *out)
{
    static const struct pen_column columns[] = {{"change", false, true},
                                                {"step, s", true, false},
                                                {"step, %", true, false},
                                                {"GiB", true, false},
                                                {"", false, false}};
    struct pen_table table;
    pen_text_add_string(out, "\none change after the other, each in addition "
                             "to those above it:\n\n");
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < answer->changes.count; i++)
        add_row(&answer->changes, i, &table);
    print_table(&table, out);
}

/* Yours may be what no search tries, and faster. */
static bool is_yours_best(const struct pen__yours *answer)
{
    return answer->prediction.fits &&
           answer->prediction.step_sec <=
               answer->ranking->found[0].prediction.step_sec;
}

static void print_verdict(const struct pen__yours *answer, struct pen_text *out)
{
    const struct pen_prediction *best = &answer->ranking->found[0].prediction;
    const struct pen_prediction *yours = &answer->prediction;
    double faster = yours->step_sec / best->step_sec;
    if (!yours->fits) {
        pen_text_add_string(out, "yours does not fit: ");
        pen_shortage_print_sum(yours->tight_bytes, yours->memory_margin,
                               yours->offered_bytes, out);
        pen_text_add_string(out, "\n");
    }
    if (is_yours_best(answer))
        pen_text_add_string(out, "no faster plan was found\n");
    else
        pen_text_add(out,
                     "the best plan is %.2f times as fast (9 of 10 such steps: "
                     "%.3g to %.3g s)\n",
                     faster, best->low_sec, best->high_sec);
}

static int print_text(const struct pen__yours *answer)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__plan_print_head(&answer->planning, &text);
    print_both(answer, &text);
    if (!is_yours_best(answer) && answer->changes.count > 1)
        print_changes(answer, &text);
    pen_text_add_string(&text, "\n");
    print_verdict(answer, &text);
    return pen__print(&text);
}

/* ---- JSON ---- */

static json_t *row_json(const struct pen_changes *changes, uint32_t row)
{
    const struct pen_change *change = &changes->list[row];
    json_t *options = json_array();
    for (unsigned i = 0; row > 0 && i < PEN_CHOICES; i++) {
        if ((change->choices & 1u << i) == 0)
            continue;
        struct words words = words_of((enum pen_choice)i, changes, row);
        pen__json_append(&options,
                         json_pack("{s:s, s:s, s:s}", "option", words.option,
                                   "from", pen_text_string(&words.from), "to",
                                   pen_text_string(&words.to)));
        release_words(&words);
    }
    return json_pack("{s:o, s:f, s:I, s:b}", "options", options, "step_sec",
                     change->step_sec, "peak_bytes",
                     (json_int_t)change->peak_bytes, "fits", change->fits);
}

static json_t *answer_json(const struct pen__yours *answer)
{
    const struct pen_plan_found *best = &answer->ranking->found[0];
    json_t *rows = json_array();
    for (uint32_t i = 0; i < answer->changes.count; i++)
        pen__json_append(&rows, row_json(&answer->changes, i));
    json_t *object = pen__plan_question_json(&answer->planning);
    if (object == NULL)
        return NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    print_verdict(answer, &text);
    json_object_set_new(object, "yours",
                        pen__plan_json(answer->plan, &answer->prediction));
    json_object_set_new(object, "best",
                        pen__plan_json(best->plan, &best->prediction));
    json_object_set_new(object, "changes", rows);
    json_object_set_new(object, "complete",
                        json_boolean(answer->ranking->is_complete));
    json_object_set_new(object, "yours_is_best",
                        json_boolean(is_yours_best(answer)));
    json_object_set_new(
        object, "faster",
        json_real(answer->prediction.step_sec / best->prediction.step_sec));
    json_object_set_new(object, "text", json_string(pen_text_string(&text)));
    pen_text_release(&text);
    return object;
}

/* ---- the mode ---- */

/*
 * Predicts the plan with the overlaps of the line, which a plan does not have.
 */
pen_status pen__yours_predict(struct pen__plan_args *args,
                              struct pen__yours *yours, struct pen_text *why)
{
    pen_status status = pen__plan_import(args, &yours->planning, &yours->plan,
                                         &yours->overlaps, why);
    if (status != PEN_OK)
        return status;
    struct pen_setting setting =
        pen_setting_with_overlaps(&yours->planning.setting, &yours->overlaps);
    return pen_predict(&setting, yours->plan, &yours->prediction, why);
}

/*
 * Searches with the recipe of the line, except for its modules, which the
 * search chooses.
 */
pen_status pen__yours_search(const struct pen__plan_args *args,
                             struct pen__yours *yours, struct pen_text *why)
{
    struct pen__plan_args open = *args;
    open.recipe.modules = 0;
    pen_status status = pen__plan_find_best(&open, &yours->planning, NULL,
                                            &yours->ranking, why);
    if (status != PEN_OK)
        return status;
    const struct pen_plan_imported mine = {yours->plan, &yours->prediction,
                                           yours->overlaps};
    pen_changes_find(&yours->planning.setting, &mine, &yours->ranking->found[0],
                     &yours->changes);
    return PEN_OK;
}

void pen__yours_release(struct pen__yours *yours)
{
    pen_plan_ranking_free(yours->ranking);
    pen_prediction_release(&yours->prediction);
    pen_plan_free(yours->plan);
    pen__planning_close(&yours->planning);
}

static pen_status find(struct pen__plan_args *args, struct pen__yours *yours,
                       struct pen_text *why)
{
    pen_status status = pen__yours_predict(args, yours, why);
    if (status == PEN_OK)
        status = pen__yours_search(args, yours, why);
    return status == PEN_OK ? pen__plan_write(args, &yours->planning,
                                              &yours->ranking->found[0], why)
                            : status;
}

int pen__plan_yours(struct pen__plan_args *args)
{
    struct pen__yours answer = {.plan = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = find(args, &answer, &why);
    int code = PEN__EXIT_NO;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = pen__print_json("plan-from-megatron", answer_json(&answer));
    else
        code = print_text(&answer);
    pen__yours_release(&answer);
    pen_text_release(&why);
    return code;
}
