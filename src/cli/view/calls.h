#ifndef PEN_CLI_VIEW_CALLS_H
#define PEN_CLI_VIEW_CALLS_H

#include "calls/faults.h"
#include "calls/waits.h"

#include <jansson.h>
#include <stdbool.h>

/* The calls of a job, and the facts derived from them. */
struct pen__calls_view {
    struct pen_calls calls;
    struct pen_meetings meetings;
    struct pen_call_faults faults;
    struct pen_call_waits waits;
};

/*
 * Shows one file per rank, of another program's recorder; output may be NULL.
 */
int pen__view_calls(char *const *paths, size_t count, const char *output,
                    bool with_all_ranks, bool is_json);

/* Print as text, and for --json. */
void pen__calls_print(const struct pen__calls_view *view, bool with_all_ranks,
                      struct pen_text *out);
json_t *pen__calls_json(const struct pen__calls_view *view);

#endif
