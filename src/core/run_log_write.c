/*
 * Writing a run log. The file is opened for append, and each line is one write:
 * whoever reads meanwhile sees whole lines, and a killed run loses none.
 */
#include "core/run_log_internal.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pen_status refuse(const struct pen_run_log *log, struct pen_text *why)
{
    pen_why(why, "cannot write %s: %s", pen_text_string(&log->path),
            strerror(errno));
    return PEN_IO;
}

/* Only regular files can be cut, and only they need it. */
static bool cut(int handle, int64_t size_bytes)
{
    return ftruncate(handle, size_bytes) == 0 || errno == EINVAL;
}

static pen_status write_line(struct pen_run_log *log, const char *line,
                             size_t length, struct pen_text *why)
{
    size_t done = 0;
    while (done < length) {
        ssize_t written = write(log->handle, line + done, length - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            pen_status status = refuse(log, why);
            cut(log->handle, log->size_bytes);
            return status;
        }
        done += (size_t)written;
    }
    log->size_bytes += (int64_t)length;
    return PEN_OK;
}

/* The name may be a path, and a path any bytes; JSON wants UTF-8. */
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
        status = write_line(log, line.bytes, line.length, why);
    else
        pen_why(why, "no memory for the first line of %s",
                pen_text_string(&log->path));
    pen_text_release(&line);
    return status;
}

/* How much of the file at path stays. */
static pen_status measure_kept(const char *path, uint64_t last_step,
                               int64_t *out, struct pen_text *why)
{
    struct stat about;
    *out = 0;
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
    int64_t kept_bytes;
    pen_status status = measure_kept(path, last_step, &kept_bytes, why);
    if (status != PEN_OK)
        return status;
    *log = (struct pen_run_log){.size_bytes = kept_bytes};
    pen_text_add_string(&log->path, path);
    log->handle = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log->handle < 0 || !cut(log->handle, kept_bytes))
        status = refuse(log, why);
    else if (kept_bytes == 0)
        status = write_head(log, head, why);
    if (status != PEN_OK)
        pen_run_log_close(log);
    return status;
}

pen_status pen_run_log_append(struct pen_run_log *log,
                              const struct pen_run_step *step,
                              struct pen_text *why)
{
    size_t length = pen_run_step_print(step, log->line);
    return write_line(log, log->line, length, why);
}

void pen_run_log_close(struct pen_run_log *log)
{
    if (log->handle >= 0)
        close(log->handle);
    pen_text_release(&log->path);
    log->handle = -1;
}
