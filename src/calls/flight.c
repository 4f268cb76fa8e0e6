/*
 * PyTorch's Flight Recorder: a ring of the last calls of each rank, which a
 * watchdog writes when a call takes too long. Versions 2.x have one entry per
 * call:
 *
 *   process_group      ["0", "default_pg"]
 *   collective_seq_id  number of the call in its group
 *   profiling_name     "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0"
 *   input_sizes        [[1000]], one list per tensor; input_dtypes ["Float"]
 *   state              "scheduled", "started" or "completed"
 *   time_created_ns    since 1970
 *   frames             [{"name", "filename", "line"}], innermost first
 *
 * gloo leaves "scheduled" on calls that are over, with "retired": true.
 */
#include "calls/reader.h"
#include "calls/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pen_status refuse(size_t index, const char *reason, struct pen_text *why)
{
    pen_why(why, "entries[%zu]%s", index, reason);
    return PEN_INVALID;
}

static enum pen_call_state state_of(const json_t *entry)
{
    const char *state = json_string_value(json_object_get(entry, "state"));
    if (state == NULL)
        return PEN_CALL_UNKNOWN;
    if (strcmp(state, "completed") == 0)
        return PEN_CALL_DONE;
    return json_is_true(json_object_get(entry, "retired")) ? PEN_CALL_UNKNOWN
                                                           : PEN_CALL_PENDING;
}

/* Returns the innermost frame that is not PyTorch's. */
static uint32_t site_of(struct pen_call_rank *rank, const json_t *frames)
{
    for (size_t i = 0; i < json_array_size(frames); i++) {
        const json_t *frame = json_array_get(frames, i);
        const char *path =
            json_string_value(json_object_get(frame, "filename"));
        if (path == NULL || strstr(path, "/torch/") != NULL ||
            strstr(path, "site-packages") != NULL)
            continue;
        const char *base = strrchr(path, '/');
        char text[160];
        snprintf(text, sizeof text, "%s:%lld", base == NULL ? path : base + 1,
                 (long long)pen__whole(json_object_get(frame, "line")));
        return pen__rank_text(rank, text);
    }
    return 0;
}

/* Reads the number after the arrow in "send 0->1" and "recv 1<-0". */
static bool read_peer(const char *name, uint32_t *out)
{
    const char *arrow = strstr(name, "->");
    if (arrow == NULL)
        arrow = strstr(name, "<-");
    if (arrow == NULL)
        return false;
    char *end;
    long long number = strtoll(arrow + 2, &end, 10);
    if (end == arrow + 2 || number < 0 || number >= PEN_CALLS_MOST_RANKS)
        return false;
    *out = (uint32_t)number;
    return true;
}

static pen_status find_group(struct pen_call_rank *rank, const json_t *entry,
                             uint32_t *out, struct pen_text *why)
{
    const json_t *names = json_object_get(entry, "process_group");
    const char *name = json_string_value(json_array_get(names, 0));
    if (name == NULL || *name == '\0')
        name = json_string_value(json_array_get(names, 1));
    return pen__rank_group(rank, name == NULL ? "0" : name, NULL, 0, out, why);
}

pen_status pen__flight_entry(struct pen_call_rank *rank, const json_t *entry,
                             size_t index, struct pen_text *why)
{
    const char *name =
        json_string_value(json_object_get(entry, "profiling_name"));
    struct pen_call *call;
    enum pen_call_op op = PEN_CALL_OTHER;
    uint32_t group;
    uint32_t peer = 0;
    if (!json_is_object(entry) || name == NULL)
        return refuse(index, ".profiling_name must be a text", why);
    pen__call_op_find(name, &op);
    int64_t number = pen__whole(json_object_get(entry, "collective_seq_id"));
    bool is_message = pen_call_op_is_message(op);
    if (is_message && !read_peer(name, &peer))
        return refuse(index, ".profiling_name has no peer as 0->1", why);
    if (json_is_true(json_object_get(entry, "is_p2p")) && !is_message)
        return PEN_OK; /* the frame of several messages */
    if (!is_message && number < 0)
        return refuse(index, ".collective_seq_id must be a whole number", why);
    uint32_t site = site_of(rank, json_object_get(entry, "frames"));
    pen_status status = find_group(rank, entry, &group, why);
    if (status == PEN_OK)
        status = pen__rank_add(rank, &call, why);
    if (status != PEN_OK)
        return status;
    int64_t id = pen__whole(json_object_get(entry, "record_id"));
    if (rank->count == 1 && id > 0)
        rank->num_lost = (uint64_t)id;
    call->op = op;
    call->group = group;
    call->peer = peer;
    call->number = is_message ? 0 : (uint64_t)number;
    call->site = site;
    call->state = state_of(entry);
    call->begin_ns = pen__time_ns(json_object_get(entry, "time_created_ns"));
    call->end_ns =
        pen__time_ns(json_object_get(entry, "time_discovered_completed_ns"));
    pen__read_tensors(json_object_get(entry, "input_sizes"),
                      json_object_get(entry, "input_dtypes"), 1, &call->data);
    return PEN_OK;
}

/* gloo names the group of all ranks "" here and "0" in entries. */
static const char *name_of(const char *key)
{
    return *key == '\0' ? "0" : key;
}

pen_status pen__flight_groups(struct pen_call_rank *rank, const json_t *config,
                              struct pen_text *why)
{
    const char *key;
    json_t *value;
    pen_status status = PEN_OK;
    json_object_foreach((json_t *)config, key, value)
    {
        uint32_t *ranks;
        uint32_t count;
        uint32_t unused;
        if (status == PEN_OK)
            status = pen__read_ranks(json_object_get(value, "ranks"), &ranks,
                                     &count, why);
        if (status != PEN_OK)
            break;
        status =
            pen__rank_group(rank, name_of(key), ranks, count, &unused, why);
        free(ranks);
    }
    return status;
}

pen_status pen__flight_read(struct pen_call_rank *rank, const json_t *record,
                            struct pen_text *why)
{
    const json_t *entries = json_object_get(record, "entries");
    pen_status status = PEN_OK;
    if (!json_is_array(entries)) {
        pen_why(why, "it has no list of entries, which records of PyTorch's "
                     "Flight Recorder have");
        return PEN_INVALID;
    }
    for (size_t i = 0; i < json_array_size(entries) && status == PEN_OK; i++)
        status = pen__flight_entry(rank, json_array_get(entries, i), i, why);
    if (status == PEN_OK)
        status =
            pen__flight_groups(rank, json_object_get(record, "pg_config"), why);
    return status;
}
