/*
 * Events of traces in Chrome's format, as torch.profiler and others write them.
 * A call may occur there several times: as a kernel on the device, as PyTorch's
 * note of the parameters, and as an annotation. Only the best kind that a file
 * has is kept.
 */
#include "calls/reader.h"
#include "calls/tensors.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of events, from worst to best. */
enum kind {
    KIND_NONE,
    KIND_NAME,       /* an event that is named as an operation */
    KIND_ANNOTATION, /* "gloo:all_reduce" */
    KIND_PARAMETERS, /* record_param_comms, with "Collective name" */
    KIND_KERNEL      /* on the device: its begin is when the data was ready */
};

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_annotation(const char *name)
{
    static const char *const backends[] = {
        "gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:"};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        if (begins_with(name, backends[i]))
            return true;
    }
    return false;
}

/*
 * Returns whether the whole name is an operation, but for its part before ':'
 * or '.'.
 */
static bool is_name(const char *name)
{
    static const char *const names[] = {
        "allreduce", "all_reduce", "allgather",      "all_gather",
        "broadcast", "barrier",    "reduce_scatter", "reducescatter",
        "alltoall",  "all_to_all", "send",           "recv"};
    const char *last = name;
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == ':' || *at == '.')
            last = at + 1;
    }
    if (begins_with(name, "aten::"))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(last, names[i], length) == 0 &&
            (last[length] == '\0' || last[length] == '_'))
            return true;
    }
    return false;
}

static enum kind kind_of(const json_t *event, const json_t *args,
                         const char *name, enum pen_call_op *op)
{
    const char *called = text_at(args, "Collective name");
    const char *category = text_at(event, "cat");
    bool is_kernel = category != NULL && strcmp(category, "kernel") == 0;
    if (called != NULL && !pen__call_op_find(called, op))
        return KIND_NONE;
    if (called != NULL)
        return is_kernel ? KIND_KERNEL : KIND_PARAMETERS;
    if (!pen__call_op_find(name, op))
        return KIND_NONE;
    if (is_kernel)
        return begins_with(name, "nccl") || begins_with(name, "rccl")
                   ? KIND_KERNEL
                   : KIND_NONE;
    return is_annotation(name) ? KIND_ANNOTATION
           : is_name(name)     ? KIND_NAME
                               : KIND_NONE;
}

/* Returns the first of these keys that exists. */
static const json_t *first_of(const json_t *args, const char *a, const char *b)
{
    const json_t *value = json_object_get(args, a);
    return value == NULL ? json_object_get(args, b) : value;
}

static void read_data(const json_t *args, struct pen_call_data *out)
{
    const char *type = json_string_value(first_of(args, "dtype", "type"));
    int64_t elements = pen__whole(first_of(args, "In msg nelems", "elements"));
    pen__read_tensors(json_object_get(args, "Input Dims"),
                      json_object_get(args, "Input type"), 0, out);
    if (elements >= 0)
        out->elements = (uint64_t)elements;
    if (type != NULL)
        pen__copy_word(type, out->dtype, sizeof out->dtype);
}

/* Returns false where a message has no peer. */
static bool read_peer(const json_t *args, struct pen_call *call)
{
    const char *key = call->op == PEN_CALL_SEND ? "Dst Rank" : "Src Rank";
    int64_t peer = pen__whole(first_of(args, key, "peer"));
    if (!pen_call_op_is_message(call->op))
        return true;
    call->peer = (uint32_t)peer;
    return peer >= 0 && peer < PEN_CALLS_MOST_RANKS;
}

static pen_status find_group(struct pen_call_rank *rank, const json_t *args,
                             uint32_t *out, struct pen_text *why)
{
    const char *name =
        json_string_value(first_of(args, "Process Group Name", "group"));
    uint32_t *ranks;
    uint32_t count;
    pen_status status = pen__read_ranks(
        json_object_get(args, "Process Group Ranks"), &ranks, &count, why);
    if (status != PEN_OK)
        return status;
    status = pen__rank_group(rank, name == NULL || *name == '\0' ? "0" : name,
                             ranks, count, out, why);
    free(ranks);
    return status;
}

pen_status pen__event_add(struct pen__events *events, const json_t *event,
                          struct pen_text *why)
{
    const json_t *args = json_object_get(event, "args");
    const char *name = text_at(event, "name");
    const char *phase = text_at(event, "ph");
    struct pen_call found = {.data.elements = PEN_CALL_NO_DATA};
    if (name == NULL || phase == NULL || strcmp(phase, "X") != 0)
        return PEN_OK;
    enum kind kind = kind_of(event, args, name, &found.op);
    if (kind == KIND_NONE || kind < events->kind || !read_peer(args, &found))
        return PEN_OK;
    if (kind > events->kind)
        events->rank->count = 0;
    events->kind = kind;
    int64_t number = pen__whole(first_of(args, "Seq", "seq"));
    struct pen_call *call;
    pen_status status = find_group(events->rank, args, &found.group, why);
    if (status == PEN_OK)
        status = pen__rank_add(events->rank, &call, why);
    if (status != PEN_OK)
        return status;
    read_data(args, &found.data);
    found.number = number > 0 ? (uint64_t)number : 0;
    found.state = PEN_CALL_DONE;
    found.begin_ns = pen__micros_ns(json_object_get(event, "ts"));
    int64_t lasts_ns = pen__micros_ns(json_object_get(event, "dur"));
    found.end_ns = found.begin_ns + (lasts_ns > 0 ? lasts_ns : 0);
    *call = found;
    return PEN_OK;
}

pen_status pen__event_info(struct pen_call_rank *rank, const json_t *info,
                           uint32_t *world, struct pen_text *why)
{
    const json_t *config = json_object_get(info, "pg_config");
    int64_t number = pen__whole(json_object_get(info, "rank"));
    int64_t size = pen__whole(json_object_get(info, "world_size"));
    pen_status status = PEN_OK;
    if (number >= 0 && number < PEN_CALLS_MOST_RANKS)
        rank->rank = (uint32_t)number;
    if (size > 0 && size <= PEN_CALLS_MOST_RANKS)
        *world = (uint32_t)size;
    for (size_t i = 0; i < json_array_size(config) && status == PEN_OK; i++) {
        const json_t *group = json_array_get(config, i);
        const char *name = text_at(group, "pg_name");
        uint32_t *ranks;
        uint32_t count;
        uint32_t unused;
        status = pen__read_ranks(json_object_get(group, "ranks"), &ranks,
                                 &count, why);
        if (status != PEN_OK)
            break;
        status = pen__rank_group(rank, name == NULL ? "0" : name, ranks, count,
                                 &unused, why);
        free(ranks);
    }
    return status;
}
