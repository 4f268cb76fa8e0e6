/*
 * penstock plan --compare-targets: the best plan of each program that could
 * run the training, or the reason why there is none.
 */
#include "cli/plan/modes.h"

#include "cli/plan/cells.h"
#include "cli/plan/print.h"
#include "cli/program/answer.h"

#include <inttypes.h>

/* In the order in which they are printed. */
static const enum pen_target order[] = {
    PEN_TARGET_MEGATRON, PEN_TARGET_TORCHTITAN, PEN_TARGET_DEEPSPEED,
    PEN_TARGET_PENSTOCK};

#define NUM_TARGETS (sizeof order / sizeof *order)

struct row {
    struct pen__planning planning;
    struct pen_plan_ranking *ranking; /* NULL: the reason says why */
    struct pen_text reason;
};

struct answer {
    struct row rows[NUM_TARGETS];
    const struct row *fastest; /* NULL: none has */
};

/*
 * Takes the values of --seq-length and the batch that one target found, for all
 * targets.
 */
static void share_batch(const struct pen__planning *planning,
                        struct pen__plan_args *args)
{
    args->global_batch = planning->setting.global_batch;
    if (planning->model->images == NULL)
        args->sequence = planning->setting.sequence;
}

static pen_status find_row(struct pen__plan_args *args, enum pen_target target,
                           struct row *row, struct pen_text *why)
{
    args->target = target;
    pen_status status =
        pen__planning_open(args, NULL, &row->planning, &row->reason);
    if (status == PEN_OK && target == PEN_TARGET_PENSTOCK &&
        !pen__cluster_is_processors(row->planning.cluster)) {
        pen_why(&row->reason, "trains on processors only, not on %s",
                row->planning.cluster->groups[0].device.kind);
        return PEN_OK;
    }
    if (status == PEN_OK) {
        share_batch(&row->planning, args);
        status = pen__plan_find_best(args, &row->planning, NULL, &row->ranking,
                                     &row->reason);
    }
    if (status == PEN_OK || status == PEN_INFEASIBLE || status == PEN_INVALID)
        return PEN_OK;
    pen_why(why, "%s", pen_text_string(&row->reason));
    return status;
}

static double step_of(const struct row *row)
{
    return row->ranking->found[0].prediction.step_sec;
}

static pen_status find(const struct pen__plan_args *args, struct answer *answer,
                       struct pen_text *why)
{
    struct pen__plan_args own = *args;
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < NUM_TARGETS; i++) {
        struct row *row = &answer->rows[i];
        status = find_row(&own, order[i], row, why);
        if (row->ranking != NULL && (answer->fastest == NULL ||
                                     step_of(row) < step_of(answer->fastest)))
            answer->fastest = row;
    }
    if (status == PEN_OK && answer->fastest == NULL) {
        pen_why(why, "%s", pen_text_string(&answer->rows[0].reason));
        status = PEN_INFEASIBLE;
    }
    if (status == PEN_OK)
        status = pen__plan_write(args, &answer->fastest->planning,
                                 &answer->fastest->ranking->found[0], why);
    return status;
}

/* ---- what is printed ---- */

static void add_row(struct pen_table *table, enum pen_target target,
                    const struct pen_plan_found *found)
{
    const struct pen_prediction *it = &found->prediction;
    pen_table_add(table, "%s", pen_target_names[target]);
    pen_table_add(table, "%.4g", it->step_sec);
    pen_table_add(table, "%.1f", 100 * it->utilisation);
    pen_table_add(table, "%.1f", pen__gib(it->peak_bytes));
    pen_table_add(table, "%" PRIu64, pen_plan_num_ranks(found->plan));
    pen__plan_add_layout(found->plan, table);
}

static void print_rows(const struct answer *answer, struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"target", false, false}, {"step, s", true, false},
        {"MFU, %", true, false},  {"GiB", true, false},
        {"devices", true, false}, PEN__PLAN_LAYOUT_COLUMNS};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < NUM_TARGETS; i++)
        if (answer->rows[i].ranking != NULL)
            add_row(&table, order[i], &answer->rows[i].ranking->found[0]);
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_notes(const struct answer *answer, struct pen_text *out)
{
    pen_text_add_string(out, "\n");
    for (size_t i = 0; i < NUM_TARGETS; i++) {
        const struct row *row = &answer->rows[i];
        const char *name = pen_target_names[order[i]];
        if (row->ranking == NULL)
            pen_text_add(out, "%s: %s\n", name, pen_text_string(&row->reason));
        else
            pen_text_add(
                out,
                "%s: in %s, 9 of 10 steps within %.0f %%; typical error "
                "of the memory %.0f %%\n",
                name, pen_number_names[row->planning.setting.number],
                100 * row->ranking->found[0].prediction.step_error,
                100 * row->ranking->found[0].prediction.memory_error);
    }
}

static int print_text(const struct answer *answer)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    print_rows(answer, &text);
    print_notes(answer, &text);
    return pen__print(&text);
}

static json_t *answer_json(const struct answer *answer)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < NUM_TARGETS; i++) {
        const struct row *row = &answer->rows[i];
        const char *name = pen_target_names[order[i]];
        pen__json_append(
            &rows,
            row->ranking == NULL
                ? json_pack("{s:s, s:n, s:s}", "target", name, "plan", "reason",
                            pen_text_string(&row->reason))
                : json_pack(
                      "{s:s, s:s, s:o}", "target", name, "dtype",
                      pen_number_names[row->planning.setting.number], "plan",
                      pen__plan_json(row->ranking->found[0].plan,
                                     &row->ranking->found[0].prediction)));
    }
    json_t *object = pen__plan_question_json(&answer->fastest->planning);
    if (object != NULL)
        json_object_set_new(object, "targets", rows);
    return object;
}

int pen__plan_targets(const struct pen__plan_args *args)
{
    struct answer answer = {.fastest = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = find(args, &answer, &why);
    int code = PEN__EXIT_NO;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = pen__print_json("plan-targets", answer_json(&answer));
    else
        code = print_text(&answer);
    for (size_t i = 0; i < NUM_TARGETS; i++) {
        pen_plan_ranking_free(answer.rows[i].ranking);
        pen_text_release(&answer.rows[i].reason);
        pen__planning_close(&answer.rows[i].planning);
    }
    pen_text_release(&why);
    return code;
}
