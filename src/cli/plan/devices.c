#include "cli/plan/devices.h"

#include "cli/plan/cells.h"
#include "cli/plan/figures.h"

#include <inttypes.h>

static uint64_t devices_of(const struct pen_plan_found *found)
{
    return pen_plan_num_ranks(found->plan);
}

/* Returns the order of rows: more devices first, then the faster ones. */
static bool is_before(const struct pen_plan_found *a,
                      const struct pen_plan_found *b)
{
    if (devices_of(a) != devices_of(b))
        return devices_of(a) > devices_of(b);
    return a->prediction.step_sec < b->prediction.step_sec;
}

static void add_row(const struct pen_plan_found *found,
                    struct pen__device_rows *out)
{
    uint32_t at = 0;
    while (at < out->count && is_before(out->rows[at], found))
        at++;
    if (at < out->count && !is_before(found, out->rows[at]))
        return; /* as many devices, as fast */
    for (uint32_t i = out->count; i > at; i--)
        out->rows[i] = out->rows[i - 1];
    out->rows[at] = found;
    out->count++;
}

void pen__device_rows(const struct pen__plan_report *report,
                      struct pen__device_rows *out)
{
    const struct pen_plan_ranking *table = report->devices;
    const struct pen_plan_found *first = &table->found[0];
    *out = (struct pen__device_rows){.count = 0};
    /* When --within has chosen another plan, the best one comes second. */
    if (first->value > table->best_value && table->num_found > 1)
        first = &table->found[1];
    add_row(first, out);
    for (uint32_t i = 0; i < table->num_fewer && i < PEN__DEVICE_ROWS; i++)
        add_row(&table->fewer[i], out);
    add_row(&report->ranking->found[0], out);
}

/* Returns the seconds, joules or cost of one step; see PEN_OBJECTIVE_TABLE. */
static double value_of(const struct pen_plan_found *found,
                       enum pen_objective objective, bool has_price)
{
    if (objective == PEN_OBJECTIVE_ENERGY)
        return found->prediction.joules;
    if (objective == PEN_OBJECTIVE_TIME)
        return found->prediction.step_sec;
    if (has_price)
        return found->prediction.price;
    return (double)devices_of(found) * found->prediction.step_sec;
}

static bool is_best(const struct pen__device_rows *rows,
                    enum pen_objective objective, uint32_t row)
{
    bool has_price = true;
    for (uint32_t i = 0; i < rows->count; i++)
        has_price = has_price && rows->rows[i]->prediction.price > 0;
    double value = value_of(rows->rows[row], objective, has_price);
    for (uint32_t i = 0; i < rows->count; i++) {
        double other = value_of(rows->rows[i], objective, has_price);
        if (other < value || (other == value && i > row))
            return false;
    }
    return value > 0;
}

void pen__device_row_merits(const struct pen__device_rows *rows, uint32_t row,
                            struct pen_text *out)
{
    for (int i = 0; i < PEN_OBJECTIVES; i++)
        if (is_best(rows, (enum pen_objective)i, row))
            pen_text_add(out, "%s%s", out->length == 0 ? "" : ", ",
                         pen_objective_names[i]);
}

#define NEAR 1.25 /* times the fastest */
#define SAVED 0.9 /* of the energy or the price of the fastest */

bool pen__device_rows_matter(const struct pen__plan_report *report,
                             const struct pen__device_rows *rows)
{
    const struct pen_prediction *first = &rows->rows[0]->prediction;
    if (rows->count < 2)
        return false;
    if (report->objective != PEN_OBJECTIVE_TIME || report->tolerance > 0 ||
        report->explanation != NULL)
        return true;
    for (uint32_t i = 1; i < rows->count; i++) {
        const struct pen_prediction *it = &rows->rows[i]->prediction;
        if (it->step_sec <= NEAR * first->step_sec ||
            it->joules < SAVED * first->joules ||
            it->price < SAVED * first->price)
            return true;
    }
    return false;
}

#define COLUMNS_BEFORE                                                         \
    {"devices", true, false}, {"step, s", true, false},                        \
        {"slower, %", true, false}, {"samples/s", true, false},                \
        {"W", true, false}, {"J/sample", true, false},                         \
    {                                                                          \
        "device-s/sample", true, false                                         \
    }
#define COLUMNS_BEHIND                                                         \
    {"best for", false, false}, {"", false, false},                            \
    {                                                                          \
        "layout", false, true                                                  \
    }

/* Without prices there is no column of them. */
static const struct pen_column columns[] = {COLUMNS_BEFORE, COLUMNS_BEHIND};
static const struct pen_column price_columns[] = {
    COLUMNS_BEFORE, {"price/1e6 samples", true, false}, COLUMNS_BEHIND};

static void add_known(struct pen_table *out, double value)
{
    if (value > 0)
        pen__add_figure_cell(out, value);
    else
        pen_table_add(out, "-");
}

static void add_cells(const struct pen_plan_found *found, double fastest_sec,
                      bool has_price, struct pen_table *out)
{
    const struct pen_prediction *it = &found->prediction;
    struct pen__plan_spent spent = pen__plan_spent(found->plan, it);
    pen_table_add(out, "%" PRIu64, devices_of(found));
    pen_table_add(out, "%.4g", it->step_sec);
    pen_table_add(out, "%.1f", 100 * (it->step_sec / fastest_sec - 1));
    pen__add_figure_cell(out, spent.samples_per_sec);
    add_known(out, spent.watts);
    add_known(out, spent.joules_per_sample);
    pen__add_figure_cell(out, spent.device_sec_per_sample);
    if (has_price)
        add_known(out, 1e6 * spent.price_per_sample);
}

void pen__device_table(const struct pen__plan_report *report,
                       const struct pen__device_rows *rows,
                       struct pen_table *out)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    double fastest = rows->rows[0]->prediction.step_sec;
    const struct pen_plan_found *chosen = &report->ranking->found[0];
    bool has_price = false;
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct pen_prediction *it = &rows->rows[i]->prediction;
        fastest = it->step_sec < fastest ? it->step_sec : fastest;
        has_price = has_price || it->price > 0;
    }
    pen_table_init(out, has_price ? price_columns : columns,
                   sizeof columns / sizeof *columns + has_price);
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct pen_plan_found *row = rows->rows[i];
        bool is_chosen = !is_before(row, chosen) && !is_before(chosen, row);
        add_cells(row, fastest, has_price, out);
        pen_text_clear(&words);
        pen__device_row_merits(rows, i, &words);
        pen_table_add(out, "%s", pen_text_string(&words));
        pen_table_add(out, "%s", is_chosen ? "chosen" : "");
        pen_text_clear(&words);
        pen_candidate_print(&row->candidate, &words);
        pen_table_add(out, "%s", pen_text_string(&words));
    }
    pen_text_release(&words);
}
