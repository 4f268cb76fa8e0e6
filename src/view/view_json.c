/* The contents of a view's tables, as JSON. */
#include "view/view_internal.h"

#include "view/cells.h"

static uint32_t rank_at(const struct pen_view *view, uint32_t line)
{
    return view->lines.ranks[line];
}

/* Returns the seconds, or null without a prediction. */
static json_t *predicted(const struct pen_view *view, double sec)
{
    return view->timing == NULL ? json_null() : json_real(sec);
}

static json_t *rank_json(const struct pen_view *view, uint32_t line)
{
    const struct pen_trace_head *head = pen__view_head(view, line);
    const struct pen__line_facts *facts = &view->findings.lines[line];
    struct pen_text host = PEN_TEXT_EMPTY;
    pen__add_clean(head->host, &host);
    json_t *rank = json_pack(
        "{s:I, s:s, s:I, s:I, s:f, s:o, s:f, s:o, s:f, s:o, s:o, s:I}", "rank",
        (json_int_t)head->rank, "host", pen_text_string(&host), "replica",
        (json_int_t)head->replica, "row", (json_int_t)head->row,
        "computing_sec", facts->computing_sec, "predicted_computing_sec",
        predicted(view, facts->predicted_computing_sec), "waiting_sec",
        facts->waiting_sec, "predicted_waiting_sec",
        predicted(view, facts->predicted_waiting_sec), "total_sec",
        facts->total_sec, "predicted_total_sec",
        predicted(view, facts->predicted_total_sec), "waits_most_for",
        facts->waits_for == PEN__NOBODY
            ? json_null()
            : json_integer(rank_at(view, facts->waits_for)),
        "lost_events", (json_int_t)head->num_lost);
    pen_text_release(&host);
    return rank;
}

static json_t *slow_json(const struct pen_view *view,
                         const struct pen__slow_ops *slow)
{
    return json_pack("{s:I, s:s, s:I, s:f, s:f}", "rank",
                     (json_int_t)rank_at(view, slow->line), "operation",
                     pen_op_info(slow->kind)->words, "stage",
                     (json_int_t)slow->stage, "ratio", slow->ratio,
                     "excess_sec", slow->excess_sec);
}

static json_t *late_json(const struct pen_view *view,
                         const struct pen__late_link *late)
{
    struct pen__link link = pen__link_at(&view->measured, late->link);
    bool is_act = link.direction == PEN_DIRECTION_ACT;
    return json_pack("{s:I, s:I, s:s, s:I, s:f, s:f, s:f, s:f}", "from",
                     (json_int_t)rank_at(view, link.from_line), "to",
                     (json_int_t)rank_at(view, link.to_line), "messages",
                     is_act ? "activations" : "gradients", "count",
                     (json_int_t)late->count, "median_sec", late->transit_sec,
                     "predicted_sec", late->expected_sec, "latest_sec",
                     late->most_late_sec, "together_sec", late->all_late_sec);
}

json_t *pen_view_json(const struct pen_view *view)
{
    const struct pen__findings *findings = &view->findings;
    json_t *ranks = json_array();
    json_t *slow = json_array();
    json_t *late = json_array();
    int failed = 0;
    for (uint32_t line = 0; line < view->lines.count; line++)
        failed |= json_array_append_new(ranks, rank_json(view, line));
    for (size_t i = 0; i < findings->num_slow; i++)
        failed |=
            json_array_append_new(slow, slow_json(view, &findings->slow[i]));
    for (size_t i = 0; i < findings->num_late; i++)
        failed |=
            json_array_append_new(late, late_json(view, &findings->late[i]));
    json_t *all = json_pack(
        "{s:I, s:f, s:o, s:o, s:o, s:o}", "step", (json_int_t)view->step, "sec",
        view->measured.end_sec, "predicted_sec",
        predicted(view, view->predicted.end_sec), "ranks", ranks,
        "slow_operations", slow, "late_messages", late);
    if (failed == 0)
        return all;
    json_decref(all);
    return NULL;
}
