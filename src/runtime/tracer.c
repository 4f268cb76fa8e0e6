#include "runtime/tracer.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pen_tracer {
    struct pen_trace_head head; /* counts what is in the file */
    struct pen_trace_event *events;
    size_t count;
    size_t capacity;
    int handle;
    struct pen_text path;
};

static pen_status refuse_write(const char *path, struct pen_text *why)
{
    return pen_file_refuse("write", path, why);
}

static pen_status write_beside(const struct pen_tracer_settings *settings,
                               const char *name, const struct pen_text *bytes,
                               struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", settings->folder, name);
    pen_status status = PEN_NOMEM;
    if (bytes->has_failed || path.has_failed)
        pen_why(why, "out of memory for %s", name);
    else
        status = pen_file_write(pen_text_string(&path), bytes->bytes,
                                bytes->length, why);
    pen_text_release(&path);
    return status;
}

/* Costs of an older run would be taken for predictions of this one. */
static pen_status remove_costs(const struct pen_tracer_settings *settings,
                               struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/costs.json", settings->folder);
    pen_status status = PEN_OK;
    if (unlink(pen_text_string(&path)) != 0 && errno != ENOENT)
        status = refuse_write(pen_text_string(&path), why);
    pen_text_release(&path);
    return status;
}

static pen_status write_plan(const struct pen_tracer_settings *settings,
                             struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_schedule_print(settings->schedule, &text);
    pen_status status = write_beside(settings, "schedule.pen", &text, why);
    pen_text_clear(&text);
    if (status == PEN_OK && settings->costs != NULL) {
        pen_costs_print(settings->costs, &text);
        status = write_beside(settings, "costs.json", &text, why);
    } else if (status == PEN_OK) {
        status = remove_costs(settings, why);
    }
    pen_text_release(&text);
    return status;
}

static pen_status write_at(struct pen_tracer *tracer, uint64_t offset,
                           const void *bytes, size_t length,
                           struct pen_text *why)
{
    const char *from = bytes;
    while (length > 0) {
        ssize_t done = pwrite(tracer->handle, from, length, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return refuse_write(pen_text_string(&tracer->path), why);
        from += done;
        offset += (uint64_t)done;
        length -= (size_t)done;
    }
    return PEN_OK;
}

static pen_status open_file(struct pen_tracer *tracer, const char *folder,
                            struct pen_text *why)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return pen_file_refuse("make", folder, why);
    }
    pen_trace_path(folder, tracer->head.rank, &tracer->path);
    if (tracer->path.has_failed) {
        pen_why(why, "out of memory for a trace");
        return PEN_NOMEM;
    }
    tracer->handle = open(pen_text_string(&tracer->path),
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (tracer->handle < 0)
        return refuse_write(pen_text_string(&tracer->path), why);
    return write_at(tracer, 0, &tracer->head, sizeof tracer->head, why);
}

static pen_status make_room(struct pen_tracer *tracer, size_t capacity,
                            struct pen_text *why)
{
    if (capacity < SIZE_MAX / sizeof *tracer->events)
        tracer->events = malloc((capacity + 1) * sizeof *tracer->events);
    if (tracer->events == NULL) {
        pen_why(why, "out of memory for a trace of %zu events", capacity);
        return PEN_NOMEM;
    }
    tracer->capacity = capacity;
    memset(tracer->events, 0xff, (capacity + 1) * sizeof *tracer->events);
    return PEN_OK;
}

static void fill_head(struct pen_trace_head *head,
                      const struct pen_tracer_settings *settings)
{
    *head = pen_trace_head_make();
    head->rank = settings->rank;
    head->num_ranks = settings->num_ranks;
    head->replica = settings->replica;
    head->row = settings->row;
    head->num_ops = settings->num_ops;
    if (gethostname(head->host, sizeof head->host - 1) != 0)
        strcpy(head->host, "?");
}

pen_status pen_tracer_create(const struct pen_tracer_settings *settings,
                             struct pen_tracer **out, struct pen_text *why)
{
    struct pen_tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL) {
        pen_why(why, "out of memory for a trace");
        return PEN_NOMEM;
    }
    tracer->handle = -1;
    fill_head(&tracer->head, settings);
    pen_status status = pen_trace_head_check(&tracer->head, why);
    if (status == PEN_OK)
        status = make_room(tracer, settings->capacity, why);
    if (status == PEN_OK)
        status = open_file(tracer, settings->folder, why);
    if (status == PEN_OK && settings->schedule != NULL)
        status = write_plan(settings, why);
    if (status == PEN_OK)
        *out = tracer;
    else
        pen_tracer_free(tracer);
    return status;
}

void pen_tracer_set_clock_offset(struct pen_tracer *tracer, int64_t offset_ns)
{
    tracer->head.clock_offset_ns = offset_ns;
}

void pen_tracer_record(struct pen_tracer *tracer,
                       const struct pen_trace_event *event)
{
    if (tracer->count < tracer->capacity)
        tracer->events[tracer->count++] = *event;
    else
        tracer->head.num_lost++;
}

void pen_tracer_forget(struct pen_tracer *tracer)
{
    tracer->count = 0;
}

pen_status pen_tracer_flush(struct pen_tracer *tracer, struct pen_text *why)
{
    struct pen_trace_head *head = &tracer->head;
    uint64_t room = PEN_TRACE_MAX_EVENTS - head->num_events;
    uint64_t count = tracer->count < room ? tracer->count : room;
    head->num_lost += tracer->count - count;
    tracer->count = 0;
    pen_status status = write_at(
        tracer, sizeof *head + head->num_events * sizeof *tracer->events,
        tracer->events, count * sizeof *tracer->events, why);
    if (status == PEN_OK)
        head->num_events += count;
    else
        head->num_lost += count;
    /* After the events: a file never counts events that it does not have. */
    pen_status counted = write_at(tracer, 0, head, sizeof *head, why);
    return status != PEN_OK ? status : counted;
}

void pen_tracer_free(struct pen_tracer *tracer)
{
    if (tracer == NULL)
        return;
    if (tracer->handle >= 0)
        close(tracer->handle);
    pen_text_release(&tracer->path);
    free(tracer->events);
    free(tracer);
}
