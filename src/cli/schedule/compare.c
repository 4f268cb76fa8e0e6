/*
 * penstock schedule compare: all schedules under the same costs, best first.
 */
#include "cli/schedule/schedule.h"

#include "base/bug.h"
#include "base/table.h"
#include "cli/program/answer.h"
#include "cli/program/progress.h"

#include <stdlib.h>
#include <string.h>

/*
 * Asynchronous schedules fill and drain once in a run: they are compared over
 * the same number of batches.
 */
#define USUAL_BATCHES 8u

struct entry {
    const struct pen_generator *generator;
    struct pen_timing *timing; /* NULL: refused */
    struct pen_text reason;    /* of the refusal, one line */
    uint32_t chunks;
    uint32_t copies;
    uint32_t batches; /* asynchronous: in the schedule; otherwise 1 */
    double step_sec;  /* span of one batch: what they are ordered by */
};

struct comparison {
    struct entry *entries;
    size_t count;
};

/*
 * Returns whether it fits; rounding in the sums of memory does not count as too
 * much.
 */
static bool fits(const struct pen__schedule_args *args, double peak)
{
    return args->memory_limit == 0 || peak <= args->memory_limit * (1 + 1e-9);
}

static void take_figures(const struct pen__schedule_args *args,
                         const struct pen_schedule *schedule,
                         struct pen_timing *timing, struct entry *entry)
{
    double peak = pen__summarise(timing).peak;
    if (!fits(args, peak)) {
        pen_text_add(&entry->reason, "holds up to %.6g A, the limit is %.6g A",
                     peak, args->memory_limit);
        pen_timing_free(timing);
        return;
    }
    entry->timing = timing;
    entry->chunks = pen_shape_chunks(&schedule->shape);
    entry->copies = schedule->shape.num_copies;
    entry->batches = 1;
    if (!entry->generator->is_synchronous)
        entry->batches = schedule->shape.num_microbatches / args->microbatches;
    entry->step_sec = timing->span_sec / entry->batches;
}

static void time_entry(const struct pen__schedule_args *args,
                       struct entry *entry)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_timing *timing = NULL;
    pen_status status =
        pen__make_verified(args, entry->generator, 0, &schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_time(schedule, &args->costs, NULL, &timing, &why);
    if (status == PEN_OK)
        take_figures(args, schedule, timing, entry);
    else
        pen_text_add_string(&entry->reason, pen_text_string(&why));
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/*
 * Compares: synchronous, asynchronous, refused; then by span, makespan, memory.
 */
static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    if ((a->timing == NULL) != (b->timing == NULL))
        return a->timing == NULL ? 1 : -1;
    if (a->generator->is_synchronous != b->generator->is_synchronous)
        return a->generator->is_synchronous ? -1 : 1;
    if (a->timing == NULL)
        return strcmp(a->generator->name, b->generator->name);
    int order = compare_numbers(a->step_sec, b->step_sec);
    if (order == 0)
        order =
            compare_numbers(a->timing->makespan_sec, b->timing->makespan_sec);
    if (order == 0)
        order = compare_numbers(pen__summarise(a->timing).peak,
                                pen__summarise(b->timing).peak);
    if (order == 0)
        order = strcmp(a->generator->name, b->generator->name);
    return order;
}

static json_t *entry_json(const struct entry *entry)
{
    const struct pen_generator *generator = entry->generator;
    json_t *all = json_pack(
        "{s:s, s:s, s:b, s:I, s:I, s:I, s:f}", "name", generator->name,
        "placement", pen_placement_text(generator->placement), "synchronous",
        generator->is_synchronous, "chunks", (json_int_t)entry->chunks,
        "copies", (json_int_t)entry->copies, "batches",
        (json_int_t)entry->batches, "span_per_batch", entry->step_sec);
    json_t *figures = pen__timing_json(entry->timing);
    if (json_object_update(all, figures) != 0) {
        json_decref(all);
        all = NULL;
    }
    json_decref(figures);
    return all;
}

static int print_as_json(const struct pen__schedule_args *args,
                         const struct comparison *comparison)
{
    json_t *schedules = json_array();
    json_t *asynchronous = json_array();
    json_t *refused = json_array();
    for (size_t i = 0; i < comparison->count; i++) {
        const struct entry *entry = &comparison->entries[i];
        if (entry->timing == NULL)
            pen__json_append(&refused,
                             json_pack("{s:s, s:s}", "name",
                                       entry->generator->name, "reason",
                                       pen_text_string(&entry->reason)));
        else if (entry->generator->is_synchronous)
            pen__json_append(&schedules, entry_json(entry));
        else
            pen__json_append(&asynchronous, entry_json(entry));
    }
    return pen__print_json(
        "schedule-compare",
        json_pack("{s:I, s:I, s:s, s:o, s:s, s:o, s:o, s:o}", "stages",
                  (json_int_t)args->stages, "microbatches",
                  (json_int_t)args->microbatches, "costs",
                  pen__costs_words(args), "memory_limit",
                  args->memory_limit == 0 ? json_null()
                                          : json_real(args->memory_limit),
                  "ordered_by", "span", "schedules", schedules, "asynchronous",
                  asynchronous, "refused", refused));
}

/* Prints the table of one block; prints nothing when no entry belongs to it. */
static void add_block(const struct comparison *comparison, bool is_synchronous,
                      struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {.title = "schedule"},
        {.title = "span", .is_number = true},
        {.title = "makespan", .is_number = true},
        {.title = "bubble %", .is_number = true},
        {.title = "peak A", .is_number = true},
        {.title = "weights", .is_number = true},
        {.title = "chunks", .is_number = true},
        {.title = "placement"},
        {.title = "batches", .is_number = true}, /* of asynchronous ones */
    };
    size_t num_columns = sizeof columns / sizeof *columns;
    struct pen_table table;
    pen_table_init(&table, columns, num_columns - is_synchronous);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct entry *entry = &comparison->entries[i];
        if (entry->timing == NULL ||
            entry->generator->is_synchronous != is_synchronous)
            continue;
        struct pen__summary summary = pen__summarise(entry->timing);
        pen_table_add(&table, "%s", entry->generator->name);
        pen_table_add(&table, "%.6g", entry->step_sec);
        pen_table_add(&table, "%.6g", entry->timing->makespan_sec);
        pen_table_add(&table, "%.2f", 100 * entry->timing->bubble);
        pen_table_add(&table, "%.6g", summary.peak);
        pen_table_add(&table, "%u", summary.versions * entry->copies);
        pen_table_add(&table, "%u", entry->chunks);
        pen_table_add(&table, "%s",
                      pen_placement_text(entry->generator->placement));
        if (!is_synchronous)
            pen_table_add(&table, "%u", entry->batches);
    }
    if (table.num_cells > 0) {
        pen_text_add_string(
            out,
            is_synchronous
                ? ""
                : "\nasynchronous schedules, with other updates than those "
                  "above; span of one batch, makespan of all\n");
        pen_table_print(&table, pen__page_width(), out);
    }
    pen_table_release(&table);
}

static void add_refused(const struct comparison *comparison,
                        struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {.title = "impossible"}, {.title = "because", .may_wrap = true}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct entry *entry = &comparison->entries[i];
        if (entry->timing != NULL)
            continue;
        pen_table_add(&table, "%s", entry->generator->name);
        pen_table_add(&table, "%s", pen_text_string(&entry->reason));
    }
    if (table.num_cells > 0) {
        pen_text_add_string(out, "\n");
        pen_table_print(&table, pen__page_width(), out);
    }
    pen_table_release(&table);
}

static int print_for_people(const struct pen__schedule_args *args,
                            const struct comparison *comparison)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text, "%u stages, %u micro-batches, costs %s", args->stages,
                 args->microbatches, pen__costs_words(args));
    if (args->memory_limit != 0)
        pen_text_add(&text, ", memory limit %.6g A", args->memory_limit);
    pen_text_add_string(
        &text, "\nspan and makespan in seconds; peak: maximum of activations "
               "on a rank;\n"
               "weights: sets of weights on a rank (versions x copies)\n\n");
    add_block(comparison, true, &text);
    add_block(comparison, false, &text);
    add_refused(comparison, &text);
    return pen__print(&text);
}

/* Collects the schedules named on the line, each once, or all that take the
 * same models. */
static int collect(const struct pen__schedule_args *args,
                   struct comparison *comparison)
{
    for (size_t w = 0; w < args->words.count; w++) {
        if (pen__find_generator(args->words.words[w]) == NULL)
            return PEN__EXIT_USAGE;
    }
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        bool is_wanted =
            args->words.count == 0 && !pen_generator_at(i)->is_local;
        for (size_t w = 0; w < args->words.count; w++)
            is_wanted |=
                strcmp(args->words.words[w], pen_generator_at(i)->name) == 0;
        if (is_wanted)
            comparison->entries[comparison->count++].generator =
                pen_generator_at(i);
    }
    return PEN__EXIT_OK;
}

static void fill(const struct pen__schedule_args *given,
                 struct comparison *comparison)
{
    struct pen__schedule_args args = *given;
    if (args.batches == 0)
        args.batches = USUAL_BATCHES;
    struct pen__progress progress;
    pen__progress_init(&progress, "schedules");
    for (size_t i = 0; i < comparison->count; i++) {
        pen__progress_update(&progress, i, comparison->count,
                             comparison->entries[i].generator->name);
        time_entry(&args, &comparison->entries[i]);
    }
    pen__progress_finish(&progress);
    qsort(comparison->entries, comparison->count, sizeof *comparison->entries,
          compare_entries);
}

static void release(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->count; i++) {
        pen_timing_free(comparison->entries[i].timing);
        pen_text_release(&comparison->entries[i].reason);
    }
    free(comparison->entries);
}

int pen__schedule_compare(const struct pen__schedule_args *args)
{
    size_t most = 0;
    while (pen_generator_at(most) != NULL)
        most++;
    PEN_BUG_UNLESS(most > 0);
    struct comparison comparison = {
        .entries = calloc(most, sizeof *comparison.entries)};
    if (comparison.entries == NULL) {
        struct pen_text why = {.bytes = NULL, .has_failed = 1};
        return pen__print(&why);
    }
    int code = collect(args, &comparison);
    if (code == PEN__EXIT_OK) {
        fill(args, &comparison);
        code = pen__answer_is_json() ? print_as_json(args, &comparison)
                                     : print_for_people(args, &comparison);
        if (code == PEN__EXIT_OK && comparison.entries[0].timing == NULL)
            code = PEN__EXIT_NO;
    }
    release(&comparison);
    return code;
}
