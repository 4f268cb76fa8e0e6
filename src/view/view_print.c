/*
 * The tables of a view: which rank waited for which, and which ops took longer.
 */
#include "view/view_internal.h"

#include "base/table.h"
#include "view/cells.h"
#include "view/ranked.h"

#include <math.h>
#include <stdlib.h>

#define MOST_ROWS 12u    /* of the lists of what differs */
#define MOST_RANKS 32u   /* unless all are asked for */
#define LEAST_CAUSE 0.02 /* of the step; less explains nothing */

struct printer {
    const struct pen_view *view;
    struct pen__unit unit;
    size_t width;
    struct pen_text *out;
};

static uint32_t rank_at(const struct printer *printer, uint32_t line)
{
    return printer->view->lines.ranks[line];
}

static const char *words_of(enum pen_direction direction)
{
    return direction == PEN_DIRECTION_ACT ? "activations" : "gradients";
}

void pen__view_add_root(const struct pen_view *view, uint32_t root,
                        struct pen_text *out)
{
    const struct pen__blame *blame = &view->findings.wait_blame;
    const uint32_t *ranks = view->lines.ranks;
    uint32_t index = pen__root_index(blame, root);
    switch (pen__root_kind_of(blame, root)) {
    case PEN__ROOT_WORK:
        pen_text_add(out, "rank %u computing", ranks[index]);
        return;
    case PEN__ROOT_BETWEEN:
        pen_text_add(out, "rank %u between its operations", ranks[index]);
        return;
    case PEN__ROOT_SYNC:
        pen_text_add(out, "gradient synchronisation with rank %u",
                     ranks[index]);
        return;
    case PEN__ROOT_LINK: {
        struct pen__link link = pen__link_at(&view->measured, index);
        pen_text_add(out, "%s from rank %u to %u", words_of(link.direction),
                     ranks[link.from_line], ranks[link.to_line]);
        return;
    }
    }
}

static void print_head(const struct printer *printer)
{
    const struct pen_view *view = printer->view;
    double sec = view->measured.end_sec;
    pen_text_add(printer->out, "step %u", view->step);
    if (view->is_median && view->num_steps > 1)
        pen_text_add(printer->out, ", the median of %zu", view->num_steps);
    pen_text_add(printer->out, ": %.5g %s", sec * printer->unit.per_sec,
                 printer->unit.name);
    if (view->timing == NULL) {
        pen_text_add_string(printer->out, "; no prediction\n");
        return;
    }
    double predicted_sec = view->predicted.end_sec;
    pen_text_add(printer->out, ", predicted %.5g %s",
                 predicted_sec * printer->unit.per_sec, printer->unit.name);
    if (predicted_sec > 0)
        pen_text_add(printer->out, ": %.3f of the prediction",
                     sec / predicted_sec);
    pen_text_add_string(printer->out, "\n");
}

static void print_lost(const struct printer *printer)
{
    for (uint32_t line = 0; line < printer->view->lines.count; line++) {
        const struct pen_trace_head *head = pen__view_head(printer->view, line);
        if (head->num_lost > 0)
            pen_text_add(printer->out,
                         "rank %u lost %llu events: its buffer was full\n",
                         head->rank, (unsigned long long)head->num_lost);
    }
}

/*
 * Returns the seconds that all ranks alike lose on the chain that decided the
 * step.
 */
static double common_excess_sec(const struct pen_view *view)
{
    const struct pen__findings *findings = &view->findings;
    double sec = 0;
    for (uint64_t i = 0; i < findings->chain.count; i++) {
        const struct pen__chain_op *op = &findings->chain.ops[i];
        uint32_t row = pen__row_of_line(&view->measured, op->line);
        if (pen__is_work(view->schedule->rows[row].ops[op->position].kind))
            sec += pen__expected_sec(&view->matter, op->line, op->position) *
                   (1 - 1 / findings->scale);
    }
    return sec;
}

static void add_cause(const struct printer *printer, double sec)
{
    pen_text_add(printer->out, "  %+.4g %s: ", sec * printer->unit.per_sec,
                 printer->unit.name);
}

/* ", forward of stage 2 1.50, backward of stage 2 1.52 of the predicted" */
static void add_ratios(const struct printer *printer, uint32_t line)
{
    const struct pen__findings *findings = &printer->view->findings;
    bool has_any = false;
    for (size_t i = 0; i < findings->num_slow; i++) {
        const struct pen__slow_ops *slow = &findings->slow[i];
        if (slow->line != line || slow->ratio <= findings->scale)
            continue;
        pen_text_add(printer->out, ", %s of stage %u %.2f",
                     pen_op_info(slow->kind)->words, slow->stage, slow->ratio);
        has_any = true;
    }
    if (has_any)
        pen_text_add_string(printer->out, " of the prediction");
}

static void print_cause(const struct printer *printer, uint32_t root)
{
    const struct pen__blame *blame = &printer->view->findings.chain_blame;
    uint32_t index = pen__root_index(blame, root);
    add_cause(printer, blame->roots[root].excess_sec);
    switch (pen__root_kind_of(blame, root)) {
    case PEN__ROOT_WORK:
        pen_text_add(printer->out, "rank %u computes slower",
                     rank_at(printer, index));
        add_ratios(printer, index);
        break;
    case PEN__ROOT_BETWEEN:
        pen_text_add(printer->out, "rank %u spends time between its operations",
                     rank_at(printer, index));
        break;
    case PEN__ROOT_SYNC:
        pen_text_add(printer->out,
                     "the gradient synchronisation with rank %u takes longer",
                     rank_at(printer, index));
        break;
    case PEN__ROOT_LINK: {
        struct pen__link link = pen__link_at(&printer->view->measured, index);
        pen_text_add(printer->out, "%s from rank %u to rank %u come late",
                     words_of(link.direction), rank_at(printer, link.from_line),
                     rank_at(printer, link.to_line));
        break;
    }
    }
    pen_text_add_string(printer->out, "\n");
}

/*
 * Returns the cause next in size to the one before; PEN__NOBODY: none is left.
 */
static uint32_t next_cause(const struct pen__blame *blame, uint32_t before,
                           double least_sec)
{
    uint32_t best = PEN__NOBODY;
    for (uint32_t i = 0; i < blame->num_roots; i++) {
        double sec = blame->roots[i].excess_sec;
        double limit_sec =
            before == PEN__NOBODY ? INFINITY : blame->roots[before].excess_sec;
        bool is_behind = sec < limit_sec || (sec == limit_sec && i > before);
        if (sec < least_sec || !is_behind || i == before)
            continue;
        if (best == PEN__NOBODY || sec > blame->roots[best].excess_sec)
            best = i;
    }
    return best;
}

static void print_causes(const struct printer *printer)
{
    const struct pen_view *view = printer->view;
    const struct pen__findings *findings = &view->findings;
    double least_sec = LEAST_CAUSE * view->predicted.end_sec;
    double common_sec = common_excess_sec(view);
    uint32_t count = 0;
    pen_text_add_string(printer->out, "causes on the critical path:\n");
    if (fabs(common_sec) >= least_sec) {
        add_cause(printer, common_sec);
        pen_text_add(
            printer->out, "all ranks compute %s: %.2f of the prediction\n",
            findings->scale > 1 ? "slower" : "faster", findings->scale);
        count++;
    }
    uint32_t root = PEN__NOBODY;
    while (count < MOST_ROWS && (root = next_cause(&findings->chain_blame, root,
                                                   least_sec)) != PEN__NOBODY) {
        print_cause(printer, root);
        count++;
    }
    if (count == 0)
        pen_text_add_string(printer->out,
                            "  no operation is later than predicted\n");
}

/* Prints which ranks and links hold up all the others. */
static void print_waiting(const struct printer *printer)
{
    const struct pen_view *view = printer->view;
    const struct pen__blame *blame = &view->findings.wait_blame;
    bool by_excess = view->timing != NULL;
    double waiting_sec = 0;
    double predicted_sec = 0;
    double all_sec = 0;
    for (uint32_t line = 0; line < view->lines.count; line++) {
        waiting_sec += view->findings.lines[line].waiting_sec;
        predicted_sec += view->findings.lines[line].predicted_waiting_sec;
    }
    for (uint32_t i = 0; i < blame->num_roots; i++)
        all_sec += by_excess ? blame->roots[i].excess_sec : blame->roots[i].sec;
    pen_text_add(printer->out, "all ranks together wait %.5g %s",
                 waiting_sec * printer->unit.per_sec, printer->unit.name);
    if (by_excess)
        pen_text_add(printer->out, ", predicted %.5g %s",
                     predicted_sec * printer->unit.per_sec, printer->unit.name);
    uint32_t root = pen__largest_root(blame, by_excess);
    if (root != PEN__NOBODY && all_sec >= LEAST_CAUSE * waiting_sec) {
        double sec =
            by_excess ? blame->roots[root].excess_sec : blame->roots[root].sec;
        pen_text_add(printer->out, "; %.0f %% of %s because of ",
                     100 * sec / all_sec, by_excess ? "the rest" : "it");
        pen__view_add_root(view, root, printer->out);
    }
    pen_text_add_string(printer->out, "\n");
}

static void add_sec(struct pen_table *table, const struct printer *printer,
                    double sec)
{
    pen_table_add(table, "%.3f", sec * printer->unit.per_sec);
}

static void add_waits(struct pen_table *table, const struct printer *printer,
                      const struct pen__line_facts *facts)
{
    struct pen_text root = PEN_TEXT_EMPTY;
    if (facts->waits_for == PEN__NOBODY)
        pen_table_add(table, "-");
    else
        pen_table_add(table, "rank %u, %.0f %%",
                      rank_at(printer, facts->waits_for),
                      100 * facts->waits_for_sec / facts->waiting_sec);
    if (facts->root == PEN__NOBODY) {
        pen_table_add(table, "-");
        return;
    }
    pen__view_add_root(printer->view, facts->root, &root);
    pen_table_add(table, "%s, %.0f %%", pen_text_string(&root),
                  100 * facts->root_share);
    pen_text_release(&root);
}

static const struct pen__line_facts *facts_of(const struct pen_view *view,
                                              uint32_t rank)
{
    const struct pen_trace_head *head = &view->trace->ranks[rank].head;
    struct pen_mesh mesh = pen__view_mesh(view);
    return &view->findings
                .lines[pen_mesh_rank_at(&mesh, head->row, head->replica)];
}

static void add_rank_row(struct pen_table *table, const struct printer *printer,
                         uint32_t rank)
{
    const struct pen_view *view = printer->view;
    const struct pen_trace_head *head = &view->trace->ranks[rank].head;
    const struct pen__line_facts *facts = facts_of(view, rank);
    struct pen_text host = PEN_TEXT_EMPTY;
    pen__add_clean(head->host, &host);
    pen_table_add(table, "%u", rank);
    pen_table_add(table, "%s", pen_text_string(&host));
    pen_table_add(table, "%u", head->replica);
    pen_table_add(table, "%u", head->row);
    pen_text_release(&host);
    add_sec(table, printer, facts->computing_sec);
    if (view->timing != NULL)
        add_sec(table, printer, facts->predicted_computing_sec);
    add_sec(table, printer, facts->waiting_sec);
    if (view->timing != NULL)
        add_sec(table, printer, facts->predicted_waiting_sec);
    add_sec(table, printer, facts->total_sec);
    if (view->timing != NULL)
        add_sec(table, printer, facts->predicted_total_sec);
    add_waits(table, printer, facts);
}

#define RANK_COLUMNS                                                           \
    {"rank", true, false}, {"host", false, false}, {"replica", true, false},   \
    {                                                                          \
        "row", true, false                                                     \
    }

/* Sorts ranks by importance when only some are listed. */
static void order_ranks(const struct pen_view *view, bool has_all,
                        struct pen_ranked *ranks)
{
    for (uint32_t rank = 0; rank < view->lines.count; rank++) {
        const struct pen__line_facts *facts = facts_of(view, rank);
        double key = view->timing == NULL
                         ? facts->waiting_sec
                         : facts->total_sec - facts->predicted_total_sec;
        ranks[rank] = (struct pen_ranked){has_all ? 0 : key, rank};
    }
    pen_ranked_sort(ranks, view->lines.count);
}

static pen_status print_ranks(const struct printer *printer,
                              bool with_all_ranks)
{
    static const struct pen_column measured[] = {
        RANK_COLUMNS,
        {"computing", true, false},
        {"waiting", true, false},
        {"total", true, false},
        {"waits most for", false, false},
        {"because of", false, true}};
    static const struct pen_column both[] = {RANK_COLUMNS,
                                             {"computing", true, false},
                                             {"predicted", true, false},
                                             {"waiting", true, false},
                                             {"predicted", true, false},
                                             {"total", true, false},
                                             {"predicted", true, false},
                                             {"waits most for", false, false},
                                             {"later because of", false, true}};
    uint32_t count = printer->view->lines.count;
    bool has_all = with_all_ranks || count <= MOST_RANKS;
    bool is_both = printer->view->timing != NULL;
    struct pen_table table;
    struct pen_ranked *ranks = malloc(count * sizeof *ranks);
    if (ranks == NULL)
        return PEN_NOMEM;
    order_ranks(printer->view, has_all, ranks);
    pen_table_init(&table, is_both ? both : measured,
                   is_both ? sizeof both / sizeof *both
                           : sizeof measured / sizeof *measured);
    for (uint32_t i = 0; i < count && (has_all || i < MOST_RANKS); i++)
        add_rank_row(&table, printer, ranks[i].rank);
    pen_text_add(printer->out, "\nseconds of the ranks, in %s\n",
                 printer->unit.name);
    pen_table_print(&table, printer->width, printer->out);
    pen_table_release(&table);
    if (!has_all)
        pen_text_add(printer->out, "and %u more that %s less\n",
                     count - MOST_RANKS, is_both ? "are late" : "wait");
    free(ranks);
    return PEN_OK;
}

static void print_more(const struct printer *printer, size_t count)
{
    if (count > MOST_ROWS)
        pen_text_add(printer->out, "and %zu more\n", count - MOST_ROWS);
}

static void print_slow(const struct printer *printer)
{
    static const struct pen_column columns[] = {{"rank", true, false},
                                                {"operation", false, false},
                                                {"stage", true, false},
                                                {"of predicted", true, false},
                                                {"together", true, false}};
    const struct pen__findings *findings = &printer->view->findings;
    struct pen_table table;
    if (findings->num_slow == 0)
        return;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < findings->num_slow && i < MOST_ROWS; i++) {
        const struct pen__slow_ops *slow = &findings->slow[i];
        pen_table_add(&table, "%u", rank_at(printer, slow->line));
        pen_table_add(&table, "%s", pen_op_info(slow->kind)->words);
        pen_table_add(&table, "%u", slow->stage);
        pen_table_add(&table, "%.3f", slow->ratio);
        pen_table_add(&table, "%+.3f",
                      slow->excess_sec * printer->unit.per_sec);
    }
    pen_text_add(
        printer->out,
        "\noperations that differ: median ratio, and their total extra "
        "time, in %s\n",
        printer->unit.name);
    pen_table_print(&table, printer->width, printer->out);
    print_more(printer, findings->num_slow);
    pen_table_release(&table);
}

static void print_late(const struct printer *printer)
{
    static const struct pen_column columns[] = {
        {"from", true, false},      {"to", true, false},
        {"messages", false, false}, {"waited for", true, false},
        {"median", true, false},    {"predicted", true, false},
        {"latest by", true, false}, {"together", true, false}};
    const struct pen__findings *findings = &printer->view->findings;
    struct pen_table table;
    if (findings->num_late == 0)
        return;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < findings->num_late && i < MOST_ROWS; i++) {
        const struct pen__late_link *late = &findings->late[i];
        struct pen__link link =
            pen__link_at(&printer->view->measured, late->link);
        pen_table_add(&table, "%u", rank_at(printer, link.from_line));
        pen_table_add(&table, "%u", rank_at(printer, link.to_line));
        pen_table_add(&table, "%s", words_of(link.direction));
        pen_table_add(&table, "%u", late->count);
        add_sec(&table, printer, late->transit_sec);
        add_sec(&table, printer, late->expected_sec);
        add_sec(&table, printer, late->most_late_sec);
        add_sec(&table, printer, late->all_late_sec);
    }
    pen_text_add(printer->out,
                 "\nmessages that came late, from send to arrival, in %s\n",
                 printer->unit.name);
    pen_table_print(&table, printer->width, printer->out);
    print_more(printer, findings->num_late);
    pen_table_release(&table);
}

pen_status pen_view_print(const struct pen_view *view, size_t width,
                          bool with_all_ranks, struct pen_text *out)
{
    struct printer printer = {view, pen__unit_of(view->measured.end_sec), width,
                              out};
    print_head(&printer);
    print_lost(&printer);
    if (view->timing != NULL)
        print_causes(&printer);
    print_waiting(&printer);
    pen_status status = print_ranks(&printer, with_all_ranks);
    print_slow(&printer);
    print_late(&printer);
    return out->has_failed ? PEN_NOMEM : status;
}
