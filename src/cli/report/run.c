#include "cli/report/run.h"

#include "base/log.h"
#include "cli/program/kind.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define EVENTS "supervise.jsonl"

static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static pen_status load_trace(struct pen__report_run *run, const char *folder,
                             struct pen_text *why)
{
    pen_status status = pen_view_load(folder, NULL, &run->view, why);
    if (status == PEN_OK)
        status = pen_spent_init(&run->spent, run->view);
    return status;
}

/* Loads the parts of a run that exist; there must be at least one. */
static pen_status load_run(struct pen__report_run *run, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    bool has_any = false;
    if (pen__find_in(run->path, "log.jsonl", &path)) {
        has_any = true;
        status = pen_run_load(pen_text_string(&path), &run->log, why);
    }
    if (status == PEN_OK && pen__find_in(run->path, "ranks.json", &path)) {
        has_any = true;
        status = pen_run_ranks_load(pen_text_string(&path), &run->ranks, why);
    }
    if (status == PEN_OK &&
        pen__find_in(run->path, "trace/schedule.pen", &path)) {
        has_any = true;
        (void)pen__find_in(run->path, "trace", &path);
        status = load_trace(run, pen_text_string(&path), &run->trace_fault);
        if (status != PEN_OK && status != PEN_NOMEM && run->log != NULL) {
            pen_log(PEN_LOG_WARN, "skipped %s: %s", pen_text_string(&path),
                    pen_text_string(&run->trace_fault));
            status = PEN_OK;
        } else if (status != PEN_OK) {
            pen_why(why, "%s", pen_text_string(&run->trace_fault));
        }
    }
    if (status == PEN_OK && !has_any) {
        pen_why(why,
                "%s is not a run: it has neither log.jsonl nor ranks.json nor "
                "a trace; `penstock train --run` writes a run folder",
                run->path);
        status = PEN_INVALID;
    }
    pen_text_release(&path);
    return status;
}

/*
 * Extends a run that continues: it has lasted until its log was written last.
 */
static void stretch(struct pen__report_run *run)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct stat facts;
    pen_text_add(&path, "%s%s", run->path,
                 is_folder(run->path) ? "/log.jsonl" : "");
    if (!run->events->is_over && stat(pen_text_string(&path), &facts) == 0)
        run->events->end_sec =
            fmax(run->events->end_sec, (double)facts.st_mtime);
    pen_text_release(&path);
}

static void load_events(struct pen__report_run *run)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    const char *save =
        run->log == NULL
            ? NULL
            : json_string_value(json_object_get(run->log->settings, "save"));
    bool is_there = pen__find_in(run->path, EVENTS, &path) ||
                    (save != NULL && pen__find_in(save, EVENTS, &path));
    if (!is_there)
        ;
    else if (pen_run_events_load(pen_text_string(&path), &run->events, &why) ==
             PEN_OK)
        stretch(run);
    else
        pen_log(PEN_LOG_WARN, "skipped %s", pen_text_string(&why));
    pen_text_release(&why);
    pen_text_release(&path);
}

pen_status pen__report_run_load(struct pen__report_run *run, const char *path,
                                struct pen_text *why)
{
    enum pen__kind kind = pen__kind_of(path);
    *run = (struct pen__report_run){.path = path};
    pen_status status = PEN_INVALID;
    if (kind == PEN__KIND_TRACE)
        status = load_trace(run, path, why);
    else if (kind == PEN__KIND_RUN ||
             (kind == PEN__KIND_UNKNOWN && is_folder(path)))
        status = load_run(run, why);
    else if (kind == PEN__KIND_LOG || kind == PEN__KIND_UNKNOWN)
        status = pen_run_load(path, &run->log, why);
    else
        pen__kind_tell(path, kind, why);
    if (status == PEN_OK)
        load_events(run);
    struct pen_run_parts parts = pen__report_run_parts(run);
    if (status == PEN_OK)
        status = pen_summary_make(&parts, &run->summary);
    if (status == PEN_OK)
        status = pen_advices_init(&run->advices, &parts);
    if (status == PEN_NOMEM)
        pen_why(why, "%s: out of memory", path);
    return status;
}

void pen__report_run_release(struct pen__report_run *run)
{
    pen_advices_release(&run->advices);
    pen_spent_release(&run->spent);
    pen_view_free(run->view);
    pen_run_events_free(run->events);
    pen_run_ranks_free(run->ranks);
    pen_run_free(run->log);
    pen_text_release(&run->trace_fault);
    pen_text_release(&run->label);
}

struct pen_run_parts pen__report_run_parts(const struct pen__report_run *run)
{
    return (struct pen_run_parts){run->log,
                                  run->spent.ranks == NULL ? NULL : &run->spent,
                                  run->ranks, run->events};
}

/*
 * Makes a label of the last names of the path, without trailing slashes; false:
 * that is the whole path.
 */
static bool name_run(struct pen__report_run *run, size_t num_names)
{
    size_t end = strlen(run->path);
    while (end > 1 && run->path[end - 1] == '/')
        end--;
    size_t begin = end;
    for (size_t i = 0; i < num_names && begin > 0; i++) {
        begin -= begin < end;
        while (begin > 0 && run->path[begin - 1] != '/')
            begin--;
    }
    pen_text_clear(&run->label);
    pen_text_add_bytes(&run->label, run->path + begin, end - begin);
    return begin > 0;
}

static bool are_distinct(const struct pen__report_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(pen_text_string(&runs[i].label),
                       pen_text_string(&runs[k].label)) == 0)
                return false;
        }
    }
    return true;
}

void pen__report_name_runs(struct pen__report_run *runs, size_t count)
{
    bool has_more = true;
    for (size_t names = 1; has_more; names++) {
        has_more = false;
        for (size_t i = 0; i < count; i++)
            has_more |= name_run(&runs[i], names);
        if (are_distinct(runs, count))
            return;
    }
}
