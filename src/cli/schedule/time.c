/*
 * penstock schedule time: the figures of one schedule, for people or as JSON.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"
#include "base/table.h"
#include "cli/program/answer.h"
#include "schedule/verify.h"

/* More ops than this are timed without recording each, hence without path. */
#define MOST_RECORDED_OPS ((uint64_t)1 << 24)

#define MOST_RANKS_SHOWN 32u
#define PATH_ENDS 16u /* ops shown at either end of a long critical path */

static const struct pen_op *op_of(const struct pen_schedule *schedule,
                                  const struct pen_path_step *step)
{
    return &schedule->rows[step->rank].ops[step->position];
}

static json_t *path_json(const struct pen_schedule *schedule,
                         const struct pen_timing *timing)
{
    json_t *path = json_array();
    struct pen_text name = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        const struct pen_op_time *time =
            &timing->ops[step->rank][step->position];
        pen_text_clear(&name);
        pen_op_print(op_of(schedule, step), &name);
        pen__json_append(&path, json_pack("{s:s, s:I, s:f, s:f, s:b}", "op",
                                          pen_text_string(&name), "rank",
                                          (json_int_t)step->rank, "start",
                                          time->start_sec, "end", time->end_sec,
                                          "after_message", step->is_message));
    }
    pen_text_release(&name);
    return path;
}

static int print_as_json(const struct pen__schedule_args *args,
                         const struct pen_schedule *schedule,
                         const struct pen_timing *timing)
{
    const struct pen_shape *shape = &schedule->shape;
    json_t *all = json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "name",
                            schedule->name, "costs", pen__costs_words(args),
                            "num_ranks", (json_int_t)shape->num_ranks, "stages",
                            (json_int_t)shape->num_stages, "microbatches",
                            (json_int_t)shape->num_microbatches, "placement",
                            pen_placement_text(shape->placement));
    json_t *figures = pen__timing_json(timing);
    json_t *path =
        timing->ops == NULL ? json_null() : path_json(schedule, timing);
    if (json_object_update(all, figures) != 0 ||
        json_object_set_new(all, "critical_path", path) != 0) {
        json_decref(all);
        all = NULL;
    }
    json_decref(figures);
    return pen__print_json("schedule-time", all);
}

static void add_summary(const struct pen__schedule_args *args,
                        const struct pen_schedule *schedule,
                        const struct pen_timing *timing, struct pen_text *out)
{
    const struct pen_shape *shape = &schedule->shape;
    struct pen__summary summary = pen__summarise(timing);
    pen_text_add(out, "schedule     %s: %u ranks, %u stages (%s), ",
                 schedule->name, shape->num_ranks, shape->num_stages,
                 pen_placement_text(shape->placement));
    pen_text_add(out, "%u micro-batches\n", shape->num_microbatches);
    pen_text_add(out, "costs        %s\n", pen__costs_words(args));
    pen_text_add(out, "makespan     %.9g s\n", timing->makespan_sec);
    pen_text_add(out, "span         %.9g s\n", timing->span_sec);
    pen_text_add(out, "bubble       %.2f %%\n", 100 * timing->bubble);
    pen_text_add(out, "activations  at most %.6g A, on rank %u\n", summary.peak,
                 summary.fullest);
    pen_text_add(out, "weights      %u version%s\n", summary.versions,
                 summary.versions == 1 ? "" : "s");
}

/* Ranks that a long pipeline is judged by: its ends and its extremes. */
struct extremes {
    uint32_t busiest;
    uint32_t idlest;
    uint32_t fullest;
    uint32_t emptiest;
    uint32_t last;
};

static struct extremes find_extremes(const struct pen_timing *timing)
{
    struct extremes found = {.last = timing->num_ranks - 1};
    const struct pen_rank_time *ranks = timing->ranks;
    for (uint32_t r = 1; r < timing->num_ranks; r++) {
        if (ranks[r].busy_sec > ranks[found.busiest].busy_sec)
            found.busiest = r;
        if (ranks[r].idle_sec > ranks[found.idlest].idle_sec)
            found.idlest = r;
        if (ranks[r].peak > ranks[found.fullest].peak)
            found.fullest = r;
        if (ranks[r].peak < ranks[found.emptiest].peak)
            found.emptiest = r;
    }
    return found;
}

static bool is_extreme(const struct extremes *extremes, uint32_t rank)
{
    return rank == 0 || rank == extremes->last || rank == extremes->busiest ||
           rank == extremes->idlest || rank == extremes->fullest ||
           rank == extremes->emptiest;
}

static void add_ranks(const struct pen_timing *timing, bool has_all,
                      struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {.title = "rank", .is_number = true},
        {.title = "start s", .is_number = true},
        {.title = "end s", .is_number = true},
        {.title = "busy s", .is_number = true},
        {.title = "idle s", .is_number = true},
        {.title = "idle %", .is_number = true},
        {.title = "peak A", .is_number = true},
        {.title = "versions", .is_number = true},
    };
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    struct extremes extremes = find_extremes(timing);
    for (uint32_t r = 0; r < timing->num_ranks; r++) {
        const struct pen_rank_time *rank = &timing->ranks[r];
        if (!has_all && !is_extreme(&extremes, r))
            continue;
        pen_table_add(&table, "%u", r);
        pen_table_add(&table, "%.6g", rank->start_sec);
        pen_table_add(&table, "%.6g", rank->end_sec);
        pen_table_add(&table, "%.6g", rank->busy_sec);
        pen_table_add(&table, "%.6g", rank->idle_sec);
        pen_table_add(&table, "%.1f",
                      timing->makespan_sec > 0
                          ? 100 * rank->idle_sec / timing->makespan_sec
                          : 0.0);
        pen_table_add(&table, "%.6g", rank->peak);
        pen_table_add(&table, "%u", rank->versions);
    }
    if (!has_all)
        pen_text_add(out,
                     "\n"
                     "ends and extremes of %u ranks (--all-ranks prints all):",
                     timing->num_ranks);
    pen_text_add_string(out, "\n");
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

/* Starts a new line when the next word would leave the page. */
static void add_word(const char *word, size_t *column, struct pen_text *out)
{
    size_t page = pen__page_width() != 0 ? pen__page_width() : 80;
    size_t length = 0;
    while (word[length] != '\0')
        length++;
    if (*column + 1 + length > page) {
        pen_text_add_string(out, "\n ");
        *column = 1;
    }
    pen_text_add(out, " %s", word);
    *column += 1 + length;
}

/* "0F0 > 1F0 > 1B0": '>' is a message, a blank the order on one rank. */
static void add_steps(const struct pen_schedule *schedule,
                      const struct pen_timing *timing, struct pen_text *out)
{
    bool is_long = timing->path_count > 2 * PATH_ENDS + 4;
    size_t column = 1;
    struct pen_text word = PEN_TEXT_EMPTY;
    pen_text_add_string(out, " ");
    for (uint32_t i = 0; i < timing->path_count; i++) {
        pen_text_clear(&word);
        if (is_long && i == PATH_ENDS) {
            uint32_t left = timing->path_count - 2 * PATH_ENDS;
            pen_text_add(&word, "... %u more ...", left);
            add_word(pen_text_string(&word), &column, out);
            i += left - 1;
            continue;
        }
        if (timing->path[i].is_message)
            add_word(">", &column, out);
        pen_op_print(op_of(schedule, &timing->path[i]), &word);
        add_word(pen_text_string(&word), &column, out);
    }
    pen_text_add_string(out, "\n");
    pen_text_release(&word);
}

static void add_path(const struct pen_schedule *schedule,
                     const struct pen_timing *timing, struct pen_text *out)
{
    double seconds[PEN_OP_KINDS] = {0};
    uint32_t counts[PEN_OP_KINDS] = {0};
    uint32_t messages = 0;
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        const struct pen_op_time *time =
            &timing->ops[step->rank][step->position];
        unsigned kind = op_of(schedule, step)->kind;
        seconds[kind] += time->end_sec - time->start_sec;
        counts[kind]++;
        messages += step->is_message;
    }
    pen_text_add(out, "\ncritical path: %u operations, %u message%s",
                 timing->path_count, messages, messages == 1 ? "" : "s");
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        if (counts[kind] > 0)
            pen_text_add(out, ", %u %s %.6g s", counts[kind],
                         pen_op_info(kind)->text, seconds[kind]);
    }
    pen_text_add_string(out, "\n");
    add_steps(schedule, timing, out);
}

static int print_for_people(const struct pen__schedule_args *args,
                            const struct pen_schedule *schedule,
                            const struct pen_timing *timing)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    add_summary(args, schedule, timing, &text);
    bool has_all = args->has_all_ranks || timing->num_ranks <= MOST_RANKS_SHOWN;
    add_ranks(timing, has_all, &text);
    if (timing->ops != NULL)
        add_path(schedule, timing, &text);
    return pen__print(&text);
}

int pen__schedule_time(const struct pen__schedule_args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_timing *timing = NULL;
    const struct pen_verify_options rules = {.send_window = args->send_window};
    pen_status status =
        pen__load_lowered(args->words.words[0], &schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_verify(schedule, &rules, NULL, &why);
    if (status == PEN_OK) {
        struct pen_time_options options = {.send_window = args->send_window};
        options.with_ops = pen_schedule_count(schedule) <= MOST_RECORDED_OPS;
        if (!options.with_ops)
            pen_log(PEN_LOG_INFO, "too many operations for a critical path");
        status =
            pen_schedule_time(schedule, &args->costs, &options, &timing, &why);
    }
    int code = PEN__EXIT_OK;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = print_as_json(args, schedule, timing);
    else
        code = print_for_people(args, schedule, timing);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return code;
}
