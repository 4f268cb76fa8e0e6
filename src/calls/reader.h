#ifndef PEN_CALLS_READER_H
#define PEN_CALLS_READER_H

#include "calls/calls.h"

#include <jansson.h>

/* The common part of the readers of one rank's file. */

#define PEN__NO_RANK UINT32_MAX

/*
 * Finds the group of this name and these ranks, which may be 0; adds a new one.
 */
pen_status pen__rank_group(struct pen_call_rank *rank, const char *name,
                           const uint32_t *ranks, uint32_t count, uint32_t *out,
                           struct pen_text *why);

/*
 * Reads a list of ranks: a JSON list, or a text as "[0, 1]"; *out may be NULL.
 */
pen_status pen__read_ranks(const json_t *value, uint32_t **out, uint32_t *count,
                           struct pen_text *why);

/* Adds a call, which the caller fills; calls must be within the limit. */
pen_status pen__rank_add(struct pen_call_rank *rank, struct pen_call **out,
                         struct pen_text *why);

/* Returns the text's index in the rank's texts; 0 when memory ran out. */
uint32_t pen__rank_text(struct pen_call_rank *rank, const char *text);

/* Copies printable ASCII; what is longer is cut. */
void pen__copy_word(const char *text, char *out, size_t size);

/*
 * Returns a whole number of JSON, also one that is a text; -1 where it is
 * neither.
 */
int64_t pen__whole(const json_t *value);

/* Puts calls into the order of their begin; equal ones keep theirs. */
void pen__rank_sort(struct pen_call_rank *rank);

/* Numbers the calls of each group that have none, in order. */
void pen__rank_number(struct pen_call_rank *rank);

/* Reads one entry of the Flight Recorder; `index` is for messages. */
pen_status pen__flight_entry(struct pen_call_rank *rank, const json_t *entry,
                             size_t index, struct pen_text *why);
/* Reads "pg_config": the ranks of groups. */
pen_status pen__flight_groups(struct pen_call_rank *rank, const json_t *config,
                              struct pen_text *why);
/* Reads the whole record, as a pickle gives it. */
pen_status pen__flight_read(struct pen_call_rank *rank, const json_t *record,
                            struct pen_text *why);

/* Joins the ranks that were read into one job: in order, with shared groups. */
pen_status pen__calls_join(struct pen_calls *calls, struct pen_text *why);

/* Events of a trace, of which only the best kind of calls is kept. */
struct pen__events {
    struct pen_call_rank *rank;
    int64_t base_ns;
    unsigned kind; /* the best so far */
};

/* Adds one event, of any kind. */
pen_status pen__event_add(struct pen__events *events, const json_t *event,
                          struct pen_text *why);
/* Reads "distributedInfo". */
pen_status pen__event_info(struct pen_call_rank *rank, const json_t *info,
                           uint32_t *world, struct pen_text *why);

#endif
