/*
 * The file of one rank, and the folder of all:
 *
 *      0   head, 128 bytes
 *    128   events, 40 bytes each
 */
#include "core/trace.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct pen_trace_head) == 128 &&
                   sizeof(struct pen_trace_event) == 40,
               "heads and events are in memory as they are in the file");

#define MOST_BYTES                                                             \
    (sizeof(struct pen_trace_head) +                                           \
     (PEN_TRACE_MAX_EVENTS + 1u) * sizeof(struct pen_trace_event))

struct pen_trace_head pen_trace_head_make(void)
{
    struct pen_trace_head head = {.version = PEN_TRACE_VERSION};
    memcpy(head.magic, PEN_TRACE_MAGIC, sizeof head.magic);
    return head;
}

static const char *fault_of_head(const struct pen_trace_head *head)
{
    if (memcmp(head->magic, PEN_TRACE_MAGIC, sizeof head->magic) != 0)
        return "it does not begin with " PEN_TRACE_MAGIC;
    if (head->version != PEN_TRACE_VERSION)
        return "its version is not 1";
    if (head->num_ranks == 0 || head->num_ranks > PEN_TRACE_MAX_RANKS)
        return "the number of ranks must be from 1 to 1048576";
    if (head->rank >= head->num_ranks || head->replica >= head->num_ranks ||
        head->row >= head->num_ranks)
        return "rank, replica and row must be below the number of ranks";
    if (head->clock_offset_ns > PEN_TRACE_MAX_NS ||
        head->clock_offset_ns < -PEN_TRACE_MAX_NS)
        return "the clock offset must be within 1e18 ns";
    if (head->num_events > PEN_TRACE_MAX_EVENTS)
        return "there are more than 16777216 events";
    if (memchr(head->host, '\0', sizeof head->host) == NULL)
        return "the host name is not terminated";
    return NULL;
}

pen_status pen_trace_head_check(const struct pen_trace_head *head,
                                struct pen_text *why)
{
    const char *fault = fault_of_head(head);
    if (fault == NULL)
        return PEN_OK;
    pen_why(why, "not a trace: %s", fault);
    return PEN_INVALID;
}

pen_status pen_trace_event_check(const struct pen_trace_event *event,
                                 const struct pen_trace_head *head,
                                 struct pen_text *why)
{
    if (event->position >= head->num_ops) {
        pen_why(why, "op %u of a row of %u", event->position, head->num_ops);
        return PEN_INVALID;
    }
    if (event->begin_ns < 0 || event->ready_ns < event->begin_ns ||
        event->end_ns < event->ready_ns || event->end_ns > PEN_TRACE_MAX_NS) {
        pen_why(why, "begin, ready and end must follow each other from 0 to "
                     "1e18 ns");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_events(const struct pen_rank_trace *trace,
                               struct pen_text *why)
{
    for (uint64_t i = 0; i < trace->head.num_events; i++) {
        struct pen_text reason = PEN_TEXT_EMPTY;
        pen_status status =
            pen_trace_event_check(&trace->events[i], &trace->head, &reason);
        if (status != PEN_OK)
            pen_why(why, "event %llu: %s", (unsigned long long)i,
                    pen_text_string(&reason));
        pen_text_release(&reason);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

pen_status pen_rank_trace_parse(const void *bytes, size_t length,
                                struct pen_rank_trace *out,
                                struct pen_text *why)
{
    struct pen_rank_trace trace = {.events = NULL};
    if (length < sizeof trace.head) {
        pen_why(why,
                "not a trace: it has %zu bytes, fewer than its header of %zu",
                length, sizeof trace.head);
        return PEN_INVALID;
    }
    memcpy(&trace.head, bytes, sizeof trace.head);
    pen_status status = pen_trace_head_check(&trace.head, why);
    if (status != PEN_OK)
        return status;
    size_t count = (size_t)trace.head.num_events;
    size_t room = (length - sizeof trace.head) / sizeof *trace.events;
    if (count > room) {
        pen_why(why, "it must have %zu events but ends after %zu", count, room);
        return PEN_INVALID;
    }
    trace.events = malloc((count + 1) * sizeof *trace.events);
    if (trace.events == NULL) {
        pen_why(why, "out of memory for %zu events", count);
        return PEN_NOMEM;
    }
    memcpy(trace.events, (const char *)bytes + sizeof trace.head,
           count * sizeof *trace.events);
    status = check_events(&trace, why);
    if (status == PEN_OK)
        *out = trace;
    else
        pen_rank_trace_release(&trace);
    return status;
}

void pen_rank_trace_release(struct pen_rank_trace *trace)
{
    free(trace->events);
    *trace = (struct pen_rank_trace){.events = NULL};
}

void pen_trace_path(const char *folder, uint32_t rank, struct pen_text *out)
{
    pen_text_add(out, "%s/rank-%05u.trace", folder, rank);
}

static pen_status load_rank(const char *folder, uint32_t rank,
                            struct pen_rank_trace *out, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_trace_path(folder, rank, &path);
    pen_status status =
        pen_file_read(pen_text_string(&path), MOST_BYTES, &bytes, why);
    if (status == PEN_OK) {
        status = pen_rank_trace_parse(bytes.bytes, bytes.length, out, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", pen_text_string(&path),
                    pen_text_string(&reason));
    }
    pen_text_release(&path);
    pen_text_release(&bytes);
    pen_text_release(&reason);
    return status;
}

static pen_status load_others(const char *folder, struct pen_trace *trace,
                              uint32_t num_ranks, struct pen_text *why)
{
    struct pen_rank_trace *ranks =
        realloc(trace->ranks, num_ranks * sizeof *ranks);
    if (ranks == NULL) {
        pen_why(why, "out of memory for the traces of %u ranks", num_ranks);
        return PEN_NOMEM;
    }
    trace->ranks = ranks;
    pen_status status = PEN_OK;
    for (uint32_t rank = 1; rank < num_ranks && status == PEN_OK; rank++) {
        status = load_rank(folder, rank, &ranks[rank], why);
        trace->num_ranks += status == PEN_OK;
    }
    return status;
}

pen_status pen_trace_load(const char *folder, struct pen_trace **out,
                          struct pen_text *why)
{
    struct pen_trace *trace = calloc(1, sizeof *trace);
    if (trace != NULL)
        trace->ranks = calloc(1, sizeof *trace->ranks);
    if (trace == NULL || trace->ranks == NULL) {
        pen_trace_free(trace);
        pen_why(why, "out of memory for a trace");
        return PEN_NOMEM;
    }
    pen_status status = load_rank(folder, 0, &trace->ranks[0], why);
    if (status == PEN_OK) {
        trace->num_ranks = 1;
        status =
            load_others(folder, trace, trace->ranks[0].head.num_ranks, why);
    }
    if (status == PEN_OK)
        status = pen_trace_check(trace, why);
    if (status == PEN_OK)
        *out = trace;
    else
        pen_trace_free(trace);
    return status;
}

static pen_status save_rank(const struct pen_rank_trace *trace,
                            const char *folder, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_trace_path(folder, trace->head.rank, &path);
    pen_text_add_bytes(&bytes, (const char *)&trace->head, sizeof trace->head);
    pen_text_add_bytes(&bytes, (const char *)trace->events,
                       (size_t)trace->head.num_events * sizeof *trace->events);
    pen_status status = PEN_NOMEM;
    if (path.has_failed || bytes.has_failed)
        pen_why(why, "out of memory for a trace");
    else
        status = pen_file_write(pen_text_string(&path), bytes.bytes,
                                bytes.length, why);
    pen_text_release(&path);
    pen_text_release(&bytes);
    return status;
}

pen_status pen_trace_save(const struct pen_trace *trace, const char *folder,
                          struct pen_text *why)
{
    pen_status status = pen_trace_check(trace, why);
    for (uint32_t i = 0; i < trace->num_ranks && status == PEN_OK; i++)
        status = save_rank(&trace->ranks[i], folder, why);
    return status;
}

static pen_status check_rank(const struct pen_trace *trace, uint32_t rank,
                             struct pen_text *why)
{
    const struct pen_rank_trace *found = &trace->ranks[rank];
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_trace_head_check(&found->head, &reason);
    if (status == PEN_OK && found->head.rank != rank) {
        pen_why(&reason, "it belongs to rank %u", found->head.rank);
        status = PEN_INVALID;
    }
    if (status == PEN_OK && found->head.num_ranks != trace->num_ranks) {
        pen_why(&reason,
                "it belongs to a run of %u ranks, but rank 0's to a run of %u",
                found->head.num_ranks, trace->num_ranks);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = check_events(found, &reason);
    if (status != PEN_OK)
        pen_why(why, "the trace of rank %u: %s", rank,
                pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

pen_status pen_trace_check(const struct pen_trace *trace, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t rank = 0; rank < trace->num_ranks && status == PEN_OK; rank++)
        status = check_rank(trace, rank, why);
    return status;
}

void pen_trace_free(struct pen_trace *trace)
{
    if (trace == NULL)
        return;
    for (uint32_t i = 0; i < trace->num_ranks; i++)
        pen_rank_trace_release(&trace->ranks[i]);
    free(trace->ranks);
    free(trace);
}
