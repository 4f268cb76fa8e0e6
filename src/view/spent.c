#include "view/spent.h"

#include "view/cells.h"
#include "view/view_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_CAUSE 0.02 /* of the step; less explains nothing */

const char *const pen_spent_names[PEN_SPENTS] = {
#define SPENT_NAME(name, words) words,
    PEN_SPENT_TABLE(SPENT_NAME)
#undef SPENT_NAME
};

/* Returns the part that the work of an op belongs to. */
static enum pen_spent_part part_of(unsigned kind)
{
    switch (pen_op_info(kind)->op_class) {
    case PEN_OP_CLASS_SEND:
    case PEN_OP_CLASS_RECV:
        return PEN_SPENT_MESSAGE;
    case PEN_OP_CLASS_SYNC:
        return PEN_SPENT_SYNC;
    case PEN_OP_CLASS_STEP:
        return PEN_SPENT_STEP;
    case PEN_OP_CLASS_MOVE:
        return PEN_SPENT_MOVE;
    default:
        break;
    }
    if (kind == PEN_OP_FORWARD)
        return PEN_SPENT_FORWARD;
    return kind == PEN_OP_RECOMPUTE ? PEN_SPENT_RECOMPUTE : PEN_SPENT_BACKWARD;
}

/*
 * Returns whether a rank is busy with this op. Messages continue during others,
 * so a rank that only sends or receives is not busy.
 */
static bool is_busy(unsigned kind)
{
    return part_of(kind) != PEN_SPENT_MESSAGE;
}

/* Adds a rank's work by part, and returns the share of it that is busy. */
static double add_work(const struct pen_view *view, uint32_t line,
                       struct pen_spent *spent, struct pen_spent_rank *rank)
{
    const struct pen_row *row =
        &view->schedule->rows[pen__row_of_line(&view->measured, line)];
    double busy_sec = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &view->measured.spans[line][i];
        unsigned kind = row->ops[i].kind;
        double sec = span->end_sec - span->ready_sec;
        rank->sec[part_of(kind)] += sec;
        spent->kinds[kind].count++;
        spent->kinds[kind].sec += sec;
        spent->kinds[kind].waiting_sec += span->ready_sec - span->begin_sec;
        if (is_busy(kind))
            busy_sec += sec;
    }
    return busy_sec;
}

/* Adds the prediction of one row: it is the same for every replica. */
static double add_prediction(const struct pen_view *view, uint32_t row_index,
                             struct pen_spent *spent)
{
    const struct pen_row *row = &view->schedule->rows[row_index];
    double busy_sec = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &view->predicted.spans[row_index][i];
        unsigned kind = row->ops[i].kind;
        double sec = span->end_sec - span->ready_sec;
        spent->kinds[kind].predicted_sec += sec * spent->num_replicas;
        if (is_busy(kind))
            busy_sec += sec;
    }
    return busy_sec;
}

static double share_of_idle(double busy_sec, double sec, uint32_t count)
{
    return sec > 0 ? fmax(0, 1 - busy_sec / (sec * count)) : 0;
}

static void add_rank(const struct pen_view *view, uint32_t line,
                     struct pen_spent_rank *rank)
{
    const struct pen__line_facts *facts = &view->findings.lines[line];
    double sec = 0;
    rank->host = pen__view_head(view, line)->host;
    rank->computing_sec = facts->computing_sec;
    rank->predicted_computing_sec = facts->predicted_computing_sec;
    rank->sec[PEN_SPENT_WAIT_WORK] = facts->waited_sec[PEN__ROOT_WORK];
    rank->sec[PEN_SPENT_WAIT_BETWEEN] = facts->waited_sec[PEN__ROOT_BETWEEN];
    rank->sec[PEN_SPENT_WAIT_SYNC] = facts->waited_sec[PEN__ROOT_SYNC];
    rank->sec[PEN_SPENT_WAIT_LINK] = facts->waited_sec[PEN__ROOT_LINK];
    for (int part = 0; part < PEN_SPENT_REST; part++)
        sec += rank->sec[part];
    rank->sec[PEN_SPENT_REST] = fmax(0, view->measured.end_sec - sec);
}

/* " on node17", where there is more than one machine. */
static void add_host(const struct pen_view *view, uint32_t line,
                     struct pen_text *out)
{
    const char *host = pen__view_head(view, line)->host;
    for (uint32_t i = 0; i < view->lines.count; i++) {
        if (strcmp(pen__view_head(view, i)->host, host) == 0)
            continue;
        pen_text_add_string(out, " on ");
        pen__add_clean(host, out);
        return;
    }
}

static void find_cause(const struct pen_view *view, struct pen_spent *spent)
{
    static const enum pen_spent_cause causes[] = {
        PEN_CAUSE_WORK, PEN_CAUSE_BETWEEN, PEN_CAUSE_SYNC, PEN_CAUSE_LINK};
    bool by_excess = view->timing != NULL;
    const struct pen__blame *blame =
        by_excess ? &view->findings.chain_blame : &view->findings.wait_blame;
    uint32_t root = pen__largest_root(blame, by_excess);
    if (root == PEN__NOBODY)
        return;
    double sec =
        by_excess ? blame->roots[root].excess_sec : blame->roots[root].sec;
    if (sec < LEAST_CAUSE * view->measured.end_sec)
        return;
    spent->cause = causes[pen__root_kind_of(blame, root)];
    spent->cause_sec = sec;
    pen__view_add_root(view, root, &spent->cause_words);
    if (spent->cause == PEN_CAUSE_WORK || spent->cause == PEN_CAUSE_BETWEEN)
        add_host(view, pen__root_index(blame, root), &spent->cause_words);
}

pen_status pen_spent_init(struct pen_spent *spent, const struct pen_view *view)
{
    uint32_t lines = view->lines.count;
    uint32_t rows = view->schedule->shape.num_ranks;
    bool has_prediction = view->timing != NULL;
    double busy_sec = 0;
    double predicted_busy_sec = 0;
    *spent = (struct pen_spent){.schedule = view->schedule->name,
                                .step = view->step,
                                .num_steps = view->num_steps,
                                .sec = view->measured.end_sec,
                                .predicted_sec = NAN,
                                .predicted_bubble = NAN,
                                .scale = view->findings.scale,
                                .num_replicas = pen__view_replicas(view),
                                .num_ranks = lines};
    spent->ranks = calloc(lines, sizeof *spent->ranks);
    if (spent->ranks == NULL)
        return PEN_NOMEM;
    for (uint32_t line = 0; line < lines; line++) {
        struct pen_spent_rank *rank = &spent->ranks[view->lines.ranks[line]];
        busy_sec += add_work(view, line, spent, rank);
        add_rank(view, line, rank);
        spent->num_lost += pen__view_head(view, line)->num_lost;
    }
    for (uint32_t row = 0; row < rows && has_prediction; row++)
        predicted_busy_sec += add_prediction(view, row, spent);
    spent->bubble = share_of_idle(busy_sec, spent->sec, lines);
    if (has_prediction) {
        spent->predicted_sec = view->predicted.end_sec;
        spent->predicted_bubble =
            share_of_idle(predicted_busy_sec, spent->predicted_sec, rows);
    }
    for (int kind = 0; kind < PEN_OP_KINDS && !has_prediction; kind++)
        spent->kinds[kind].predicted_sec = NAN;
    find_cause(view, spent);
    return PEN_OK;
}

void pen_spent_release(struct pen_spent *spent)
{
    free(spent->ranks);
    pen_text_release(&spent->cause_words);
    *spent = (struct pen_spent){.ranks = NULL};
}
