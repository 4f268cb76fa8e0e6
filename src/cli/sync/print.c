/* Rows of a comparison of methods, for people and as JSON. */
#include "cli/sync/sync.h"

#include "cli/plan/figures.h"

#include <math.h>

#define LOSS                                                                   \
    {                                                                          \
        "to reach a loss, ms", true, false                                     \
    } /* where factors are known */

static const struct pen_column columns[] = {{"method", false, false},
                                            {"interval", true, false},
                                            {"sent/step", true, false},
                                            {"stall, ms", true, false},
                                            {"encode, ms", true, false},
                                            {"step, ms", true, false},
                                            {"samples/s", true, false},
                                            {"stale", true, false},
                                            {"memory", true, false},
                                            {"does it pay", false, true},
                                            LOSS};

/* Where replicas fail. */
static const struct pen_column failing_columns[] = {
    {"method", false, false},
    {"interval", true, false},
    {"sent/step", true, false},
    {"step, ms", true, false},
    {"samples/s", true, false},
    {"islands", true, false},
    {"goodput, %", true, false},
    {"samples/s that stay", true, false},
    {"stale", true, false},
    {"does it pay", false, true},
    LOSS};

static void add_bytes(struct pen_table *out, const char *before, double bytes)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add_string(&text, before);
    pen__add_traffic(&text, bytes);
    pen_table_add(out, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

static void add_usual(const struct pen_replica_time *time,
                      struct pen_table *out)
{
    pen__add_figure_cell(out, 1e3 * time->stall_sec);
    pen__add_figure_cell(out, 1e3 * time->encode_sec);
    pen__add_figure_cell(out, 1e3 * time->step_sec);
    pen__add_figure_cell(out, time->samples_per_sec);
}

static void add_failing(const struct pen_replica_time *time,
                        struct pen_table *out)
{
    pen__add_figure_cell(out, 1e3 * time->step_sec);
    pen__add_figure_cell(out, time->samples_per_sec);
    if (time->islands > 0)
        pen_table_add(out, "%u", time->islands);
    else
        pen_table_add(out, "-");
    pen_table_add(out, "%.1f", 100 * time->goodput);
    pen__add_figure_cell(out, time->samples_per_sec * time->goodput);
}

static void add_row(const struct pen_replica_comparison *comparison,
                    const struct pen_replica_row *row, struct pen_table *out)
{
    const struct pen_replica_time *time = &row->time;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_replica_name(time, &name);
    pen_table_add(out, "%s", pen_text_string(&name));
    pen_text_release(&name);
    pen_table_add(out, "%u", time->choice.interval);
    add_bytes(out, time->cost.is_estimate ? "~" : "", time->step_bytes);
    if (comparison->mtbf_sec > 0)
        add_failing(time, out);
    else
        add_usual(time, out);
    if (isfinite(time->cost.staleness))
        pen_table_add(out, "%.0f", time->cost.staleness);
    else
        pen_table_add(out, "any");
    if (comparison->mtbf_sec <= 0)
        add_bytes(out, "", time->cost.extra);
    pen_table_add(out, "%s", pen_replica_verdict_words[row->verdict]);
    if (!comparison->has_factors)
        return;
    if (time->factor > 0)
        pen__add_figure_cell(out,
                             1e3 * pen_replica_kept_sec(time) * time->factor);
    else
        pen_table_add(out, "-");
}

void pen__sync_table(const struct pen_replica_comparison *comparison,
                     size_t most, struct pen_table *out)
{
    bool has_failures = comparison->mtbf_sec > 0;
    size_t count = has_failures
                       ? sizeof failing_columns / sizeof *failing_columns
                       : sizeof columns / sizeof *columns;
    pen_table_init(out, has_failures ? failing_columns : columns,
                   count - !comparison->has_factors);
    for (size_t i = 0; i < comparison->count; i++)
        if (i < most || i == comparison->reference)
            add_row(comparison, &comparison->rows[i], out);
}

/* Returns a number, or null when it is not finite. */
static json_t *real_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_json(const struct pen_replica_row *row, bool has_failures)
{
    const struct pen_replica_time *time = &row->time;
    const struct pen_compressor *compressor = time->choice.compressor;
    json_t *object = json_pack(
        "{s:s, s:s?, s:I, s:f, s:b, s:f, s:f, s:f, s:f, s:f, s:o, s:f, s:b, "
        "s:s, s:s}",
        "method", time->choice.method->name, "compressor",
        compressor == NULL ? NULL : compressor->name, "interval",
        (json_int_t)time->choice.interval, "bytes_per_step", time->step_bytes,
        "bytes_are_estimated", time->cost.is_estimate, "sync_sec",
        time->sync_sec, "stall_sec", time->stall_sec, "encode_sec",
        time->encode_sec, "step_sec", time->step_sec, "samples_per_sec",
        time->samples_per_sec, "staleness", real_json(time->cost.staleness),
        "extra_bytes", time->cost.extra, "waits_for_slowest",
        time->cost.waits_for_slowest, "verdict",
        pen_replica_verdict_keys[row->verdict], "reason",
        pen_replica_verdict_words[row->verdict]);
    if (object != NULL && time->factor > 0)
        json_object_set_new(object, "factor", json_real(time->factor));
    if (object != NULL && has_failures) {
        json_object_set_new(object, "islands", json_integer(time->islands));
        json_object_set_new(object, "goodput", json_real(time->goodput));
        json_object_set_new(object, "kept_samples_per_sec",
                            json_real(time->samples_per_sec * time->goodput));
    }
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_replica_name(time, &name);
    json_object_set_new(object, "name", json_string(pen_text_string(&name)));
    pen_text_release(&name);
    return object;
}

static json_t *advice_json(const struct pen_replica_comparison *comparison)
{
    const struct pen_replica_time *time =
        &comparison->rows[comparison->advice].time;
    const struct pen_compressor *compressor = time->choice.compressor;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_replica_advise(comparison, &text);
    json_t *object = json_pack(
        "{s:s, s:s?, s:I, s:s}", "method", time->choice.method->name,
        "compressor", compressor == NULL ? NULL : compressor->name, "interval",
        (json_int_t)time->choice.interval, "text", pen_text_string(&text));
    pen_text_release(&text);
    return object;
}

json_t *pen__sync_json(const struct pen_replica_comparison *comparison)
{
    const struct pen_replica_setting *setting = &comparison->setting;
    json_t *rows = json_array();
    for (size_t i = 0; i < comparison->count; i++)
        pen__json_append(
            &rows, row_json(&comparison->rows[i], comparison->mtbf_sec > 0));
    json_t *object = json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:I, s:o}",
        "replicas", (json_int_t)setting->num_replicas, "weights",
        setting->num_weights, "link_bytes_per_sec", setting->bytes_per_sec,
        "latency_sec", setting->latency_sec, "compute_sec",
        setting->compute_sec, "overlap_sec", setting->overlap_sec,
        "encode_bytes_per_sec", setting->encode_bytes_per_sec, "samples",
        setting->samples, "methods", rows, "advised_row",
        (json_int_t)comparison->advice, "reference_row",
        (json_int_t)comparison->reference, "advice", advice_json(comparison));
    if (object != NULL && comparison->mtbf_sec > 0)
        json_object_set_new(object, "mtbf_sec",
                            json_real(comparison->mtbf_sec));
    return object;
}
