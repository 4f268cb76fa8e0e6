#include "core/run_events.h"

#include "base/file.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FILE_BYTES ((size_t)256 << 20)
#define LATEST_SEC 1e12

struct reader {
    struct pen_run_events *events;
    size_t room;     /* for faults */
    size_t num_over; /* of them, by a step that was committed */
};

/* Reads a count that may be missing. */
static int64_t count_at(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_integer(value) && json_integer_value(value) >= 0
               ? json_integer_value(value)
               : -1;
}

/* Reads a number of seconds that may be missing. */
static double real_at(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    double number = json_number_value(value);
    return json_is_number(value) && number >= 0 && number <= LATEST_SEC
               ? number
               : (double)NAN;
}

static pen_status add_fault(struct reader *reader, const json_t *line)
{
    struct pen_run_events *events = reader->events;
    const char *cause = json_string_value(json_object_get(line, "cause"));
    if (events->num_faults == reader->room) {
        size_t room = 2 * reader->room + 8;
        void *grown = realloc(events->faults, room * sizeof *events->faults);
        if (grown == NULL)
            return PEN_NOMEM;
        events->faults = grown;
        reader->room = room;
    }
    struct pen_run_fault *fault = &events->faults[events->num_faults++];
    *fault =
        (struct pen_run_fault){.time_sec = real_at(line, "time"),
                               .epoch = count_at(line, "epoch"),
                               .step = count_at(line, "step"),
                               .failed_step = count_at(line, "failed_step"),
                               .rank = count_at(line, "rank"),
                               .signal = count_at(line, "signal"),
                               .lost_sec = (double)NAN,
                               .redone_steps = -1};
    snprintf(fault->cause, sizeof fault->cause, "%s",
             cause == NULL ? "" : cause);
    return PEN_OK;
}

/* The faults since the last such event, or a change of the ranks, are over. */
static void note_resumption(struct reader *reader, const json_t *line)
{
    struct pen_run_events *events = reader->events;
    double lost_sec = real_at(line, "lost_sec");
    for (size_t i = reader->num_over; i < events->num_faults; i++) {
        bool is_first = i == reader->num_over;
        events->faults[i].lost_sec = is_first ? lost_sec : 0;
        events->faults[i].redone_steps =
            is_first ? count_at(line, "redone_steps") : 0;
    }
    if (!isnan(lost_sec))
        events->lost_sec += lost_sec;
    reader->num_over = events->num_faults;
}

static pen_status take_event(struct reader *reader, const json_t *line)
{
    struct pen_run_events *events = reader->events;
    const char *name = json_string_value(json_object_get(line, "event"));
    double time_sec = real_at(line, "time");
    if (name == NULL || isnan(time_sec) || count_at(line, "epoch") < 0)
        return PEN_INVALID;
    if (isnan(events->begin_sec))
        events->begin_sec = time_sec;
    events->end_sec = fmax(events->begin_sec, time_sec);
    events->epoch = count_at(line, "epoch");
    events->is_over =
        strcmp(name, "end") == 0 || strcmp(name, "giving-up") == 0;
    if (strcmp(name, "fault") == 0)
        return add_fault(reader, line);
    if (strcmp(name, "restart") == 0)
        events->num_restarts++;
    else if (strcmp(name, "resumed") == 0)
        note_resumption(reader, line);
    return PEN_OK;
}

static pen_status take_line(struct reader *reader, const char *text,
                            size_t length, size_t number, struct pen_text *why)
{
    json_error_t error;
    json_t *line = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    pen_status status =
        json_is_object(line) ? take_event(reader, line) : PEN_INVALID;
    if (line == NULL)
        pen_why(why, "line %zu, column %d: %s", number, error.column,
                error.text);
    else if (status == PEN_INVALID)
        pen_why(why,
                "line %zu, column 1: not an event, which has time, event "
                "and epoch",
                number);
    else if (status == PEN_NOMEM)
        pen_why(why, "no memory for the events");
    json_decref(line);
    return status;
}

static pen_status take_lines(struct reader *reader, const char *text,
                             size_t length, struct pen_text *why)
{
    const char *end = text + length;
    pen_status status = PEN_OK;
    for (size_t number = 1; text < end && status == PEN_OK; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (newline == NULL)
            break;
        status = take_line(reader, text, (size_t)(newline - text), number, why);
        text = newline + 1;
    }
    return status;
}

pen_status pen_run_events_parse(const char *text, size_t length,
                                struct pen_run_events **out,
                                struct pen_text *why)
{
    struct reader reader = {.events = calloc(1, sizeof *reader.events)};
    if (reader.events == NULL)
        return PEN_NOMEM;
    reader.events->begin_sec = reader.events->end_sec = (double)NAN;
    pen_status status = take_lines(&reader, text, length, why);
    if (status == PEN_OK && isnan(reader.events->begin_sec)) {
        pen_why(why, "there is no event in it");
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        *out = reader.events;
    else
        pen_run_events_free(reader.events);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_run_events_parse(bytes, length, out, why);
}

pen_status pen_run_events_load(const char *path, struct pen_run_events **out,
                               struct pen_text *why)
{
    return pen_file_parse(path, MOST_FILE_BYTES, parse, out, why);
}

void pen_run_events_free(struct pen_run_events *events)
{
    if (events == NULL)
        return;
    free(events->faults);
    free(events);
}
