#include "supervise/events.h"

#include "base/file.h"
#include "base/log.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_BYTES ((size_t)256 << 20)

static const char *const names[] = {
#define EVENT_NAME(name, text) text,
    PEN_EVENT_TABLE(EVENT_NAME)
#undef EVENT_NAME
};

static void set_known(json_t *object, const char *key, int64_t value)
{
    if (value != PEN_UNKNOWN)
        json_object_set_new(object, key, json_integer(value));
}

static void set_fault(json_t *object, const struct pen_fault *fault)
{
    set_known(object, "rank", fault->rank);
    json_object_set_new(object, "cause",
                        json_string(pen_cause_name(fault->cause)));
    set_known(object, "signal", fault->signal);
    set_known(object, "exit_code", fault->exit_code);
    set_known(object, "failed_step", fault->step);
    if (fault->op[0] != '\0')
        json_object_set_new(object, "op", json_string(fault->op));
}

/* Makes a line; bytes that are not UTF-8 become '?'. */
static json_t *line_of(const char *line)
{
    json_t *value = json_string(line);
    struct pen_text text = PEN_TEXT_EMPTY;
    if (value == NULL) {
        pen_text_add_printable(&text, line, strlen(line));
        value = json_string(pen_text_string(&text));
    }
    pen_text_release(&text);
    return value;
}

static void set_evidence(json_t *object, const struct pen_last_words *words)
{
    json_t *lines = json_array();
    for (size_t i = 0; i < pen_last_words_count(words); i++)
        json_array_append_new(lines, line_of(pen_last_words_line(words, i)));
    json_object_set_new(object, "lines", lines);
}

/* Milliseconds are enough, and are read more easily. */
static json_t *seconds(double sec)
{
    return json_real(round(sec * 1e3) / 1e3);
}

void pen_event_print(const struct pen_event *event, struct pen_text *out)
{
    json_t *object = json_object();
    json_object_set_new(object, "time", seconds(event->time_sec));
    json_object_set_new(object, "event", json_string(names[event->kind]));
    json_object_set_new(object, "epoch",
                        json_integer((json_int_t)event->epoch));
    set_known(object, "step", event->step);
    if (event->fault != NULL)
        set_fault(object, event->fault);
    if (!isnan(event->lost_sec))
        json_object_set_new(object, "lost_sec", seconds(event->lost_sec));
    set_known(object, "redone_steps", event->redone_steps);
    set_known(object, "ranks", event->num_ranks);
    set_known(object, "from_ranks", event->from_ranks);
    if (event->evidence != NULL)
        set_evidence(object, event->evidence);
    /* 16 digits: the time has 13. */
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text != NULL)
        pen_text_add(out, "%s\n", text);
    else
        out->has_failed = 1;
    free(text);
    json_decref(object);
}

uint64_t pen_events_epoch(const char *text, size_t length)
{
    uint64_t epoch = 0;
    const char *end = text + length;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (stop == NULL)
            break;
        json_t *line = json_loadb(text, (size_t)(stop - text), 0, NULL);
        json_int_t value = json_integer_value(json_object_get(line, "epoch"));
        if (value > 0 && (uint64_t)value > epoch)
            epoch = (uint64_t)value;
        json_decref(line);
        text = stop + 1;
    }
    return epoch;
}

/* Reads what earlier supervisors wrote; *kept is where their lines end. */
static pen_status read_old(struct pen_events *events, const char *path,
                           int64_t *kept, struct pen_text *why)
{
    struct stat facts;
    struct pen_text text = PEN_TEXT_EMPTY;
    *kept = 0;
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))
        return PEN_OK;
    pen_status status = pen_file_read(path, MOST_BYTES, &text, why);
    if (status == PEN_OK) {
        while (text.length > 0 && text.bytes[text.length - 1] != '\n')
            text.length--;
        *kept = (int64_t)text.length;
        events->last_epoch = pen_events_epoch(text.bytes, text.length);
    }
    pen_text_release(&text);
    return status;
}

pen_status pen_events_open(struct pen_events *events, const char *path,
                           struct pen_text *why)
{
    int64_t kept;
    *events = (struct pen_events){.is_open = false};
    if (path == NULL)
        return PEN_OK;
    pen_status status = read_old(events, path, &kept, why);
    if (status == PEN_OK)
        status = pen_journal_open(&events->journal, path, kept, why);
    events->is_open = status == PEN_OK;
    return status;
}

void pen_events_add(struct pen_events *events, const struct pen_event *event)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!events->is_open)
        return;
    pen_event_print(event, &line);
    pen_status status = line.has_failed
                            ? PEN_NOMEM
                            : pen_journal_append(&events->journal, line.bytes,
                                                 line.length, &why);
    if (status != PEN_OK)
        pen_log(PEN_LOG_WARN, "an event was not written: %s",
                why.length > 0 ? pen_text_string(&why)
                               : pen_status_text(status));
    pen_text_release(&line);
    pen_text_release(&why);
}

void pen_events_close(struct pen_events *events)
{
    if (events->is_open)
        pen_journal_close(&events->journal);
    events->is_open = false;
}
