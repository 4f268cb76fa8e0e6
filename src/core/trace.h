#ifndef PEN_CORE_TRACE_H
#define PEN_CORE_TRACE_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A trace: the ops of a training's ranks and their times, as a folder with one
 * file per rank (docs/formats.md, "Trace"). The folder also has the schedule
 * that they executed and the predicted costs, in formats of their own.
 *
 *   DIR/schedule.pen  DIR/costs.json  DIR/rank-00000.trace  ...
 *
 * One file is a head and a row of events. Both are in memory as they are in
 * the file, little-endian.
 */

#define PEN_TRACE_MAGIC "PENTRACE"
#define PEN_TRACE_VERSION 1u
#define PEN_TRACE_HOST_SIZE 72
#define PEN_TRACE_MAX_RANKS 1048576u
#define PEN_TRACE_MAX_EVENTS 16777216u /* of one rank; 640 MiB */
#define PEN_TRACE_MAX_NS INT64_C(1000000000000000000)

struct pen_trace_head {
    char magic[8];
    uint32_t version;
    uint32_t rank;      /* of all */
    uint32_t num_ranks; /* of all */
    uint32_t replica;   /* of the pipeline */
    uint32_t row;       /* of the schedule */
    uint32_t num_ops;   /* of that row */
    /* Add it to a time of this rank to have rank 0's. */
    int64_t clock_offset_ns;
    uint64_t num_events;
    uint64_t num_lost;              /* events that found no room */
    char host[PEN_TRACE_HOST_SIZE]; /* the rest is NUL */
};

/*
 * One op of one pass over the schedule, on the rank's CLOCK_MONOTONIC. From
 * begin to ready it waited, from ready to end it worked. The times are those of
 * the executor: concurrent work below it has no event of its own.
 */
struct pen_trace_event {
    uint32_t step;
    uint32_t position; /* of the op in the row */
    int64_t begin_ns;
    int64_t ready_ns;
    int64_t end_ns;
    uint64_t bytes; /* sent, received or reduced; 0 when it computes */
};

struct pen_rank_trace {
    struct pen_trace_head head;
    struct pen_trace_event *events; /* head.num_events of them */
};

struct pen_trace {
    struct pen_rank_trace *ranks;
    uint32_t num_ranks;
};

/* Returns a head with magic and version, zero for the rest. */
struct pen_trace_head pen_trace_head_make(void);

/* Check the bounds of a head, and of an event in its row. */
pen_status pen_trace_head_check(const struct pen_trace_head *head,
                                struct pen_text *why);
pen_status pen_trace_event_check(const struct pen_trace_event *event,
                                 const struct pen_trace_head *head,
                                 struct pen_text *why);

/* Adds "DIR/rank-00003.trace". */
void pen_trace_path(const char *folder, uint32_t rank, struct pen_text *out);

/*
 * Reads the bytes of one rank's file. Bytes after the events that the head
 * counts are left out: their writer was killed before it counted them.
 *
 * On success release *out with pen_rank_trace_release().
 */
pen_status pen_rank_trace_parse(const void *bytes, size_t length,
                                struct pen_rank_trace *out,
                                struct pen_text *why);
void pen_rank_trace_release(struct pen_rank_trace *trace);

/*
 * Reads the files of all ranks; the first says how many there must be. On
 * success *out is owned by the caller; free it with pen_trace_free().
 */
pen_status pen_trace_load(const char *folder, struct pen_trace **out,
                          struct pen_text *why);

/* Writes the file of every rank into a folder that is there. */
pen_status pen_trace_save(const struct pen_trace *trace, const char *folder,
                          struct pen_text *why);

/* Bounds of all heads and events, and that the ranks go together. */
pen_status pen_trace_check(const struct pen_trace *trace, struct pen_text *why);

void pen_trace_free(struct pen_trace *trace);

#endif
