/*
 * penstock sync list: methods and compressors, their authors, the bytes that
 * they send and keep, and their options.
 */
#include "cli/sync/sync.h"

#include "cli/program/answer.h"

#include <math.h>

/* ---- the case for which figures are printed ---- */

static const size_t shapes[1][2] = {{1024, 1024}};

#define NUM_REPLICAS 4
#define NUM_WEIGHTS (1024.0 * 1024.0)
#define WEIGHT_BYTES (NUM_WEIGHTS * sizeof(float)) /* V */

static const struct pen_sync_case reference = {
    .num_replicas = NUM_REPLICAS,
    .shapes = shapes,
    .num_shapes = 1,
    .num_weights = NUM_WEIGHTS,
    .num_moments = PEN_REPLICA_NUM_MOMENTS,
    .core_bytes_per_sec = PEN_REPLICA_CORE_RATE};

static void cost_of_method(const struct pen_sync_method *method,
                           struct pen_sync_cost *out)
{
    struct pen_sync_choice choice = {.method = method,
                                     .interval = method->interval};
    pen_sync_values_init(&choice.options, method->options, method->num_options);
    pen_sync_choice_cost(&choice, &reference, out);
}

static void cost_of_compressor(const struct pen_compressor *compressor,
                               struct pen_mean_cost *out)
{
    struct pen_sync_case of = reference;
    struct pen_sync_values values;
    pen_sync_values_init(&values, compressor->options, compressor->num_options);
    of.options = values.at;
    pen_average_cost(compressor, &of, out);
}

/* ---- flags ---- */

static const struct {
    unsigned flag;
    const char *name;
} flags[] = {
    {PEN_SYNC_COMPRESSES, "compresses"}, {PEN_SYNC_IS_NATIVE, "native"},
    {PEN_SYNC_IS_SHARDED, "sharded"},    {PEN_SYNC_OWN_STEP, "own-step"},
    {PEN_SYNC_IS_FREE, "free"},          {PEN_SYNC_NEEDS_SGD, "needs-sgd"},
    {PEN_SYNC_NEEDS_ADAM, "needs-adam"}};

#define NUM_FLAGS (sizeof flags / sizeof *flags)

/* ---- JSON ---- */

static json_t *options_json(const struct pen_sync_option *options, size_t count)
{
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct pen_sync_option *option = &options[i];
        pen__json_append(
            &all, json_pack("{s:s, s:f, s:f, s:f, s:b, s:s}", "name",
                            option->name, "default", option->standard, "least",
                            option->least, "most", option->most, "whole",
                            option->is_whole, "help", option->help));
    }
    return all;
}

static json_t *flags_json(unsigned is)
{
    json_t *all = json_array();
    for (size_t i = 0; i < NUM_FLAGS; i++)
        if ((is & flags[i].flag) != 0)
            pen__json_append(&all, json_string(flags[i].name));
    return all;
}

static json_t *method_json(const struct pen_sync_method *method)
{
    struct pen_sync_cost cost;
    cost_of_method(method, &cost);
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:o, s:o, s:f, s:b, s:f, s:o, s:b}", "name",
        method->name, "title", method->title, "paper", method->paper,
        "interval", (json_int_t)method->interval, "options",
        options_json(method->options, method->num_options), "flags",
        flags_json(method->is), "bytes_per_step",
        cost.bytes / cost.interval / WEIGHT_BYTES, "bytes_are_estimated",
        cost.is_estimate, "state", cost.extra / WEIGHT_BYTES, "staleness",
        isfinite(cost.staleness) ? json_real(cost.staleness) : json_null(),
        "waits_for_slowest", cost.waits_for_slowest);
}

static json_t *compressor_json(const struct pen_compressor *compressor)
{
    struct pen_mean_cost cost;
    cost_of_compressor(compressor, &cost);
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:f, s:f, s:f}", "name",
                     compressor->name, "title", compressor->title, "paper",
                     compressor->paper, "options",
                     options_json(compressor->options, compressor->num_options),
                     "rounds", (json_int_t)compressor->num_rounds,
                     "bytes_per_step", cost.bytes / WEIGHT_BYTES, "state",
                     cost.extra / WEIGHT_BYTES, "staleness", 0.0);
}

static int print_as_json(void)
{
    json_t *methods = json_array();
    json_t *compressors = json_array();
    for (size_t i = 0; i < pen_sync_num_methods(); i++)
        pen__json_append(&methods, method_json(pen_sync_method_at(i)));
    for (size_t i = 0; i < pen_sync_num_compressors(); i++)
        pen__json_append(&compressors,
                         compressor_json(pen_sync_compressor_at(i)));
    return pen__print_json("sync-list",
                           json_pack("{s:o, s:o}", "methods", methods,
                                     "compressors", compressors));
}

/* ---- tables ---- */

static void print_methods(struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"method", false, false},       {"interval", true, false},
        {"bytes/step, V", true, false}, {"state, V", true, false},
        {"stale, steps", true, false},  {"compress", false, false},
        {"description", false, true}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < pen_sync_num_methods(); i++) {
        const struct pen_sync_method *method = pen_sync_method_at(i);
        struct pen_sync_cost cost;
        cost_of_method(method, &cost);
        pen_table_add(&table, "%s", method->name);
        pen_table_add(&table, "%u", method->interval);
        pen_table_add(&table, "%s%.4g", cost.is_estimate ? "~" : "",
                      cost.bytes / cost.interval / WEIGHT_BYTES);
        pen_table_add(&table, "%.3g", cost.extra / WEIGHT_BYTES);
        if (isfinite(cost.staleness))
            pen_table_add(&table, "%.0f", cost.staleness);
        else
            pen_table_add(&table, "any");
        pen_table_add(&table, "%s",
                      (method->is & PEN_SYNC_COMPRESSES) != 0 ? "yes" : "no");
        pen_table_add(&table, "%s", method->title);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_compressors(struct pen_text *out)
{
    static const struct pen_column columns[] = {{"compressor", false, false},
                                                {"bytes, V", true, false},
                                                {"state, V", true, false},
                                                {"rounds", true, false},
                                                {"description", false, true}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < pen_sync_num_compressors(); i++) {
        const struct pen_compressor *compressor = pen_sync_compressor_at(i);
        struct pen_mean_cost cost;
        cost_of_compressor(compressor, &cost);
        pen_table_add(&table, "%s", compressor->name);
        pen_table_add(&table, "%.4g", cost.bytes / WEIGHT_BYTES);
        pen_table_add(&table, "%.3g", cost.extra / WEIGHT_BYTES);
        pen_table_add(&table, "%u", compressor->num_rounds);
        pen_table_add(&table, "%s", compressor->title);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void add_options(struct pen_table *table, const char *of,
                        const struct pen_sync_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pen_table_add(table, "%s", of);
        pen_table_add(table, "%s", options[i].name);
        pen_table_add(table, "%g", options[i].standard);
        pen_table_add(table, "%g to %g", options[i].least, options[i].most);
        pen_table_add(table, "%s", options[i].help);
    }
}

static void print_options(struct pen_text *out)
{
    static const struct pen_column columns[] = {{"of", false, false},
                                                {"option", false, false},
                                                {"default", true, false},
                                                {"range", false, false},
                                                {"meaning", false, true}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < pen_sync_num_methods(); i++) {
        const struct pen_sync_method *method = pen_sync_method_at(i);
        add_options(&table, method->name, method->options, method->num_options);
    }
    for (size_t i = 0; i < pen_sync_num_compressors(); i++) {
        const struct pen_compressor *it = pen_sync_compressor_at(i);
        add_options(&table, it->name, it->options, it->num_options);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void print_papers(struct pen_text *out)
{
    static const struct pen_column columns[] = {{"name", false, false},
                                                {"paper", false, true}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < pen_sync_num_methods(); i++) {
        pen_table_add(&table, "%s", pen_sync_method_at(i)->name);
        pen_table_add(&table, "%s", pen_sync_method_at(i)->paper);
    }
    for (size_t i = 0; i < pen_sync_num_compressors(); i++) {
        pen_table_add(&table, "%s", pen_sync_compressor_at(i)->name);
        pen_table_add(&table, "%s", pen_sync_compressor_at(i)->paper);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

int pen__sync_list(const struct pen__sync_args *args)
{
    (void)args;
    if (pen__answer_is_json())
        return print_as_json();
    struct pen_text text = PEN_TEXT_EMPTY;
    print_methods(&text);
    pen_text_add_string(&text, "\n");
    print_compressors(&text);
    pen_text_add(&text,
                 "\n"
                 "for %d replicas with the default settings; V: size of the "
                 "weights in float32, here one matrix of 1024 x 1024; ~: an "
                 "estimate\n"
                 "\n",
                 NUM_REPLICAS);
    print_options(&text);
    pen_text_add_string(&text, "\n");
    print_papers(&text);
    return pen__print(&text);
}
