/*
 * penstock schedule list: schedules that can be made, their authors, and
 * the options that they need.
 */
#include "cli/schedule/schedule.h"

#include "base/table.h"
#include "cli/program/answer.h"

/*
 * Options of `penstock schedule make` in addition to --stages and
 * --microbatches.
 */
static json_t *options_json(const struct pen_generator *generator)
{
    const struct {
        const char *name;
        bool is_taken;
    } options[] = {{"chunks", generator->has_chunks},
                   {"slices", generator->has_slices},
                   {"memory-limit", generator->has_limit},
                   {"group-size", generator->has_group_size},
                   {"stage-replicas", generator->has_replicas},
                   {"vertical-sync", generator->has_vertical_sync},
                   {"batches", !generator->is_synchronous},
                   {"costs", generator->uses_costs}};
    json_t *names = json_array();
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].is_taken)
            pen__json_append(&names, json_string(options[i].name));
    return names;
}

static json_t *describe(const struct pen_generator *generator)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, "
        "s:s?, s:s?, s:b, s:I, s:b, s:o}",
        "name", generator->name, "title", generator->title, "paper",
        generator->paper, "placement", pen_placement_text(generator->placement),
        "constraints", generator->constraints, "versions", generator->versions,
        "bubble", generator->bubble, "peak", generator->peak, "synchronous",
        generator->is_synchronous, "has_chunks", generator->has_chunks,
        "has_slices", generator->has_slices, "has_limit", generator->has_limit,
        "uses_costs", generator->uses_costs, "note", generator->note, "finding",
        generator->finding, "divides", generator->divides, "least_rounds",
        (json_int_t)generator->least_rounds, "splits_backward",
        generator->splits_backward, "options", options_json(generator));
}

static int print_as_json(void)
{
    json_t *all = json_array();
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        pen__json_append(&all, describe(pen_generator_at(i)));
    return pen__print_json("schedule-list",
                           json_pack("{s:o}", "schedules", all));
}

static void print_uses(struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {.title = "schedule"},
        {.title = "placement"},
        {.title = "updates"},
        {.title = "weight versions", .may_wrap = true},
        {.title = "needs", .may_wrap = true},
    };
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        pen_table_add(&table, "%s", generator->name);
        pen_table_add(&table, "%s", pen_placement_text(generator->placement));
        pen_table_add(&table, "%s",
                      generator->is_synchronous ? "sync" : "async");
        pen_table_add(&table, "%s", generator->versions);
        pen_table_add(&table, "%s", generator->constraints);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}

/* Prints the source of each, our own part in it, and our findings. */
static void print_origins(struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {.title = "schedule"},
        {.title = "paper", .may_wrap = true},
        {.title = "note", .may_wrap = true},
    };
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        pen_table_add(&table, "%s", generator->name);
        pen_table_add(&table, "%s", generator->paper);
        pen_table_add(
            &table, "%s%s%s", text_of(generator->note),
            generator->note != NULL && generator->finding != NULL ? "; " : "",
            text_of(generator->finding));
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

int pen__schedule_list(const struct pen__schedule_args *args)
{
    (void)args;
    if (pen__answer_is_json())
        return print_as_json();
    struct pen_text text = PEN_TEXT_EMPTY;
    print_uses(&text);
    pen_text_add_string(&text, "\n");
    print_origins(&text);
    return pen__print(&text);
}
