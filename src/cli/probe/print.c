/* The answer of penstock probe diff as text and as JSON. */
#include "cli/probe/probe.h"

#include "base/table.h"
#include "cli/program/cli.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS_BEFORE = 4, ROWS_BEHIND = 8 };

void pen__probe_add_place(const struct pen_probe_record *record,
                          struct pen_text *out)
{
    pen_text_add(out, "step %" PRIu64 ", %s", record->step,
                 pen_probe_pass_names[record->pass]);
    if (record->pass != PEN_PROBE_LOSS)
        pen_text_add(out, ", layer %" PRIu32 ", %s", record->layer,
                     record->name);
}

/* ---- text ---- */

static void add_difference(struct pen_table *table, double difference)
{
    if (isfinite(difference))
        pen_table_add(table, "%.2g", difference);
    else
        pen_table_add(table, "all");
}

static void add_row(struct pen_table *table, const struct pen_probe_pair *pair,
                    bool is_first)
{
    const struct pen_probe_record *a = pair->a;
    const struct pen_probe_record *b = pair->b;
    pen_table_add(table, "%s", is_first ? ">" : "");
    pen_table_add(table, "%" PRIu64, a->step);
    pen_table_add(table, "%s", pen_probe_pass_names[a->pass]);
    pen_table_add(table, "%" PRIu32, a->layer);
    pen_table_add(table, "%s", a->name);
    add_difference(table, pair->difference);
    pen_table_add(table, "%.6g", a->is.norm);
    pen_table_add(table, "%.6g", b->is.norm);
    pen_table_add(table, "%.6g", a->is.max);
    pen_table_add(table, "%.6g", b->is.max);
}

static void add_table(const struct pen_probe_diff *diff, struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"", false, false},         {"step", true, false},
        {"pass", false, false},     {"layer", true, false},
        {"name", false, false},     {"difference", true, false},
        {"norm in A", true, false}, {"norm in B", true, false},
        {"max in A", true, false},  {"max in B", true, false}};
    size_t begin = diff->first > ROWS_BEFORE ? diff->first - ROWS_BEFORE : 0;
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = begin;
         i < diff->num_pairs && i <= diff->first + ROWS_BEHIND; i++)
        add_row(&table, &diff->pairs[i], i == diff->first);
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

/* Adds the reason where the numbers themselves cannot be compared. */
static void add_reason(const struct pen_probe_pair *pair, struct pen_text *out)
{
    const struct pen_tally_result *a = &pair->a->is;
    const struct pen_tally_result *b = &pair->b->is;
    if (a->count != b->count)
        pen_text_add(out,
                     "it has %" PRIu64 " numbers in A and %" PRIu64 " in B",
                     a->count, b->count);
    else if (a->nonfinite != b->nonfinite)
        pen_text_add(
            out, "%" PRIu64 " numbers in A and %" PRIu64 " in B are not finite",
            a->nonfinite, b->nonfinite);
    else
        pen_text_add(out, "relative difference %.2g", pair->difference);
}

static size_t largest(const struct pen_probe_diff *diff)
{
    size_t at = 0;
    for (size_t i = 1; i < diff->num_pairs; i++)
        if (diff->pairs[i].difference > diff->pairs[at].difference)
            at = i;
    return at;
}

static void add_verdict(const struct pen__probe_answer *answer,
                        struct pen_text *out)
{
    const struct pen_probe_diff *diff = &answer->diff;
    bool is_equal = diff->first == diff->num_pairs;
    const struct pen_probe_pair *pair =
        &diff->pairs[is_equal ? largest(diff) : diff->first];
    pen_text_add(out, "A: %s\nB: %s\n", answer->paths[0], answer->paths[1]);
    if (is_equal && diff->num_identical == diff->num_pairs) {
        pen_text_add(out, "bit-identical: all %zu records\n", diff->num_pairs);
        return;
    }
    pen_text_add_string(out, is_equal ? "equal; the largest difference is in "
                                      : "first difference: ");
    pen__probe_add_place(pair->a, out);
    pen_text_add_string(out, ": ");
    add_reason(pair, out);
    pen_text_add(out, " (tolerance %g)\n", answer->tolerance);
    if (!is_equal && diff->first > 0) {
        pen_text_add_string(out, "the last equal record before it: ");
        pen__probe_add_place(diff->pairs[diff->first - 1].a, out);
        pen_text_add_string(out, "\n");
    }
}

static void add_counts(const struct pen_probe_diff *diff, struct pen_text *out)
{
    pen_text_add(out, "%zu records compared, %zu of them bit-identical",
                 diff->num_pairs, diff->num_identical);
    if (diff->num_only_a + diff->num_only_b > 0)
        pen_text_add(out, "; only in A: %zu, only in B: %zu", diff->num_only_a,
                     diff->num_only_b);
    pen_text_add_string(out, "\n");
}

int pen__probe_print_text(const struct pen__probe_answer *answer)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    add_verdict(answer, &text);
    if (answer->diff.first < answer->diff.num_pairs) {
        pen_text_add_string(&text, "\n");
        add_table(&answer->diff, &text);
        pen_text_add_string(&text, "\n");
    }
    add_counts(&answer->diff, &text);
    return pen__print(&text);
}

/* ---- JSON ---- */

static json_t *real_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *pair_json(const struct pen_probe_pair *pair)
{
    const struct pen_probe_record *a = pair->a;
    const struct pen_probe_record *b = pair->b;
    return json_pack(
        "{s:I, s:s, s:I, s:s, s:o, s:b, s:[f, f], s:[f, f], s:[f, f]}", "step",
        (json_int_t)a->step, "pass", pen_probe_pass_names[a->pass], "layer",
        (json_int_t)a->layer, "name", a->name, "difference",
        real_json(pair->difference), "identical", a->is.hash == b->is.hash,
        "norm", a->is.norm, b->is.norm, "sum", a->is.sum, b->is.sum, "max",
        a->is.max, b->is.max);
}

int pen__probe_print_json(const struct pen__probe_answer *answer)
{
    const struct pen_probe_diff *diff = &answer->diff;
    bool is_equal = diff->first == diff->num_pairs;
    json_t *records = json_array();
    for (size_t i = 0; i < diff->num_pairs; i++)
        pen__json_append(&records, pair_json(&diff->pairs[i]));
    return pen__print_json(
        "probe-diff",
        json_pack("{s:b, s:f, s:o, s:I, s:I, s:I, s:o}", "equal", is_equal,
                  "tolerance", answer->tolerance, "first",
                  is_equal ? json_null() : pair_json(&diff->pairs[diff->first]),
                  "identical", (json_int_t)diff->num_identical, "only_in_a",
                  (json_int_t)diff->num_only_a, "only_in_b",
                  (json_int_t)diff->num_only_b, "records", records));
}
