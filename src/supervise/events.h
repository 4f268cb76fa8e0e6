#ifndef PEN_SUPERVISE_EVENTS_H
#define PEN_SUPERVISE_EVENTS_H

#include "base/journal.h"
#include "supervise/last_words.h"
#include "supervise/policy.h"

/*
 * The actions of a supervisor, one JSON object per line: docs/formats.md,
 * src/cli/schemas/supervise-event.json.
 */
#define PEN_EVENT_TABLE(X)                                                     \
    X(START, "start")                                                          \
    X(FAULT, "fault")                                                          \
    X(RESTART, "restart")                                                      \
    X(RESUMED, "resumed")                                                      \
    X(REPLAN, "replan")                                                        \
    X(END, "end")                                                              \
    X(GIVING_UP, "giving-up")

enum pen_event_kind {
#define PEN_EVENT_ENUM(name, text) PEN_EVENT_##name,
    PEN_EVENT_TABLE(PEN_EVENT_ENUM)
#undef PEN_EVENT_ENUM
};

struct pen_event {
    enum pen_event_kind kind;
    double time_sec; /* since 1970 */
    uint64_t epoch;
    int64_t step;                  /* the newest that is committed */
    const struct pen_fault *fault; /* NULL: nothing of one */
    double lost_sec;               /* NAN: unknown */
    int64_t redone_steps;
    int64_t num_ranks;
    int64_t from_ranks;                    /* of the launch before */
    const struct pen_last_words *evidence; /* NULL: none */
};

/* Values that are not known are left out. Ends with a newline. */
void pen_event_print(const struct pen_event *event, struct pen_text *out);

/*
 * Returns the largest epoch in the lines of an events file; 0 when there is
 * none. Malformed lines are ignored.
 */
uint64_t pen_events_epoch(const char *text, size_t length);

/* Where events go. Without a path nothing is written. */
struct pen_events {
    struct pen_journal journal;
    bool is_open;
    uint64_t last_epoch; /* of supervisors before this one */
};

/* Makes the file, or appends to it. */
pen_status pen_events_open(struct pen_events *events, const char *path,
                           struct pen_text *why);

/* Adds an event. A line that cannot be written is a warning. */
void pen_events_add(struct pen_events *events, const struct pen_event *event);
void pen_events_close(struct pen_events *events);

#endif
