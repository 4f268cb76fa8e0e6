/*
 * Writing a run log: which lines of an older one are kept, the head, and then
 * a line per step.
 */
#include "core/run_log_internal.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Returns the name as UTF-8, which JSON needs: it may be a path, and a path any
 * bytes.
 */
static json_t *name_of(const char *model)
{
    json_t *name = json_string(model);
    if (name != NULL)
        return name;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add_printable(&text, model, strlen(model));
    name = json_string(pen_text_string(&text));
    pen_text_release(&text);
    return name;
}

static pen_status write_head(struct pen_run_log *log,
                             const struct pen_run_head *head,
                             struct pen_text *why)
{
    json_t *settings =
        head->settings == NULL ? json_object() : json_deep_copy(head->settings);
    json_t *object = json_pack(
        "{s:s, s:i, s:o, s:o}", "format", PEN__RUN_FORMAT, "version",
        PEN__RUN_VERSION, "model", name_of(head->model), "settings", settings);
    char *json = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    struct pen_text line = PEN_TEXT_EMPTY;
    if (json != NULL)
        pen_text_add(&line, "%s\n", json);
    free(json);
    pen_status status = PEN_NOMEM;
    if (line.length > 0)
        status =
            pen_journal_append(&log->journal, line.bytes, line.length, why);
    else
        pen_why(why, "no memory for the first line of a log");
    pen_text_release(&line);
    return status;
}

/* Measures how much of the file at path stays. */
static pen_status measure_kept(const char *path, uint64_t last_step,
                               struct pen__run_kept *out, struct pen_text *why)
{
    struct stat about;
    *out = (struct pen__run_kept){0};
    if (last_step == 0 || stat(path, &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size == 0)
        return PEN_OK;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, PEN__RUN_MOST_BYTES, &text, why);
    if (status != PEN_OK)
        return status;
    status = pen__run_measure(text.bytes, text.length, last_step, out, &reason);
    if (status != PEN_OK)
        pen_why(why, "cannot continue %s: %s", path, pen_text_string(&reason));
    pen_text_release(&text);
    pen_text_release(&reason);
    return status;
}

pen_status pen_run_log_open(struct pen_run_log *log, const char *path,
                            const struct pen_run_head *head, uint64_t last_step,
                            struct pen_text *why)
{
    struct pen__run_kept kept;
    pen_status status = measure_kept(path, last_step, &kept, why);
    if (status != PEN_OK)
        return status;
    status = pen_journal_open(&log->journal, path, kept.bytes, why);
    log->elapsed_sec = kept.elapsed_sec;
    log->version = kept.bytes > 0 ? kept.version : PEN__RUN_VERSION;
    if (status != PEN_OK || kept.bytes > 0)
        return status;
    status = write_head(log, head, why);
    if (status != PEN_OK)
        pen_run_log_close(log);
    return status;
}

pen_status pen_run_log_append(struct pen_run_log *log,
                              const struct pen_run_step *step,
                              struct pen_text *why)
{
    struct pen_run_step line = *step;
    if (log->version < 2)
        line.loss_usual = line.grad_norm_usual = line.move_sec =
            line.move_bytes = line.repeated = line.skipped = line.round =
                line.round_islands = line.round_epoch = line.round_wait_sec =
                    line.expert_imbalance = line.dropped_tokens = (double)NAN;
    size_t length = pen_run_step_print(&line, log->line);
    return pen_journal_append(&log->journal, log->line, length, why);
}

void pen_run_log_close(struct pen_run_log *log)
{
    pen_journal_close(&log->journal);
}
