/*
 * penstock schedule search: a schedule for these costs within this memory.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/progress.h"
#include "schedule/search.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Reads placements; 0 when there is no such choice. */
static unsigned read_placements(const char *text)
{
    static const struct {
        const char *name;
        unsigned placements;
    } choices[] = {{"linear", PEN_SEARCH_LINEAR},
                   {"loop", PEN_SEARCH_LOOP},
                   {"v", PEN_SEARCH_V},
                   {"any", PEN_SEARCH_ANY}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (strcmp(choices[i].name, text) == 0)
            return choices[i].placements;
    }
    return 0;
}

struct watch {
    struct pen__progress progress;
    double seconds; /* given by the user, or 0 */
};

/*
 * Shows the progress of a search that ends with its work or with its time,
 * whichever is first.
 */
static void show_progress(const struct pen_search_progress *progress,
                          void *context)
{
    struct watch *watch = context;
    double done = progress->done;
    if (watch->seconds > 0) {
        double share =
            pen__progress_elapsed_sec(&watch->progress) / watch->seconds;
        done = fmin(1, fmax(done, share));
    }
    struct pen_text best = PEN_TEXT_EMPTY;
    pen_text_add(&best, "best span %.6g s", progress->span_sec);
    pen__progress_update(&watch->progress, (uint64_t)(100 * done), 100,
                         pen_text_string(&best));
    pen_text_release(&best);
}

static void tell_report(const struct pen_search_report *report)
{
    bool is_below = report->span_sec < report->lower_bound_sec;
    pen_log(PEN_LOG_INFO,
            "span %.9g s, makespan %.9g s; lower bound for this placement%s "
            "%.9g s",
            report->span_sec, report->makespan_sec,
            is_below ? ", without moved activations and copies," : "",
            report->lower_bound_sec);
    if (report->start[0] == '\0')
        pen_log(PEN_LOG_INFO, "no published schedule fits the limit");
    else
        pen_log(
            PEN_LOG_INFO, "best published: %s, span %.9g s, makespan %.9g s%s",
            report->start, report->start_span_sec, report->start_makespan_sec,
            report->is_start ? "; the search found no better one" : "");
    pen_log(PEN_LOG_INFO, "tried %llu rules and %llu moves",
            (unsigned long long)report->rules_tried,
            (unsigned long long)report->moves_tried);
}

/* Returns the memory that 1F1B needs, when the user gives no limit. */
static double choose_limit(const struct pen__schedule_args *args)
{
    if (args->memory_limit != 0)
        return args->memory_limit;
    pen_log(PEN_LOG_INFO,
            "--memory-limit not given: %" PRIu32 ", the memory of 1f1b",
            args->stages);
    return args->stages;
}

static json_t *report_json(const struct pen_search_args *wanted,
                           const struct pen_search_report *report,
                           const struct pen_schedule *schedule)
{
    json_t *published =
        report->start[0] == '\0'
            ? json_null()
            : json_pack("{s:s, s:f, s:f}", "name", report->start, "span",
                        report->start_span_sec, "makespan",
                        report->start_makespan_sec);
    return json_pack(
        "{s:s, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:b, s:o, s:I, s:I}", "name",
        schedule->name, "num_ranks", (json_int_t)schedule->shape.num_ranks,
        "microbatches", (json_int_t)schedule->shape.num_microbatches,
        "placement", pen_placement_text(schedule->shape.placement),
        "memory_limit", wanted->memory_limit, "span", report->span_sec,
        "makespan", report->makespan_sec, "lower_bound",
        report->lower_bound_sec, "is_published", report->is_start,
        "best_published", published, "rules_tried",
        (json_int_t)report->rules_tried, "moves_tried",
        (json_int_t)report->moves_tried);
}

/*
 * Prints JSON. The schedule is a part of the answer, unless -o names a file for
 * it.
 */
static int print_as_json(const struct pen__schedule_args *args,
                         const struct pen_search_args *wanted,
                         const struct pen_search_report *report,
                         const struct pen_schedule *schedule)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    json_t *object = report_json(wanted, report, schedule);
    if (args->output == NULL) {
        pen_schedule_print(schedule, &text);
        json_object_set_new(object, "schedule",
                            json_string(pen_text_string(&text)));
    } else {
        json_object_set_new(object, "output", json_string(args->output));
    }
    pen_text_release(&text);
    return pen__print_json("schedule-search", object);
}

int pen__schedule_search(const struct pen__schedule_args *args)
{
    unsigned placements =
        read_placements(args->placement != NULL ? args->placement : "any");
    if (placements == 0) {
        pen_log(PEN_LOG_ERROR,
                "--placement %s: expected linear, loop, v or any",
                args->placement);
        return PEN__EXIT_USAGE;
    }
    struct watch watch = {.seconds = args->seconds};
    pen__progress_init(&watch.progress, "% of the search");
    const struct pen_search_args wanted = {.ranks = args->stages,
                                           .microbatches = args->microbatches,
                                           .placements = placements,
                                           .chunks = args->chunks,
                                           .memory_limit = choose_limit(args),
                                           .has_memory = args->has_memory,
                                           .costs = &args->costs,
                                           .seconds = args->seconds,
                                           .seed =
                                               args->seed != 0 ? args->seed : 1,
                                           .on_progress = show_progress,
                                           .context = &watch};
    const char *path = args->output != NULL ? args->output : "-";
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_search_report report;
    pen_status status = pen_schedule_search(&wanted, &schedule, &report, &why);
    pen__progress_finish(&watch.progress);
    if (status == PEN_OK) {
        tell_report(&report);
        if (!pen__answer_is_json() || args->output != NULL)
            status = pen_schedule_save(schedule, path, &why);
    }
    int code = PEN__EXIT_OK;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = print_as_json(args, &wanted, &report, schedule);
    else
        pen__report_written(schedule, path);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    return code;
}
