/*
 * Reads one file into the calls of one rank. Large JSON is read value by value,
 * so that memory is needed for the text and the calls only.
 */
#include "base/json_walk.h"
#include "calls/pickle.h"
#include "calls/reader.h"
#include "calls/tensors.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct file {
    struct pen_call_rank *rank;
    struct pen__events events;
    uint32_t world;
    bool has_entries;
    bool has_events;
};

/* ---- the rank in a name */

/*
 * Reads the number after the last "rank" of a name: "rank_3", "rank-3",
 * "rank3".
 */
static bool number_behind_rank(const char *name, uint64_t *out)
{
    bool is_found = false;
    for (const char *at = strstr(name, "rank"); at != NULL;
         at = strstr(at + 1, "rank")) {
        const char *digits = at + 4 + strspn(at + 4, "_-.=");
        if (isdigit((unsigned char)*digits)) {
            *out = strtoull(digits, NULL, 10);
            is_found = true;
        }
    }
    return is_found;
}

/* Returns the last number before the first '.'. */
static bool last_number(const char *name, uint64_t *out)
{
    size_t end = strcspn(name, ".");
    while (end > 0 && !isdigit((unsigned char)name[end - 1]))
        end--;
    size_t begin = end;
    while (begin > 0 && isdigit((unsigned char)name[begin - 1]))
        begin--;
    if (begin < end)
        *out = strtoull(name + begin, NULL, 10);
    return begin < end;
}

static pen_status rank_of_name(const char *path, uint32_t *out,
                               struct pen_text *why)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    uint64_t number = UINT64_MAX;
    if ((number_behind_rank(name, &number) || last_number(name, &number)) &&
        number < PEN_CALLS_MOST_RANKS) {
        *out = (uint32_t)number;
        return PEN_OK;
    }
    pen_why(why,
            "neither the file nor its name says which rank it is of; give it "
            "a name as rank_0.json, with a number from 0 to %u",
            PEN_CALLS_MOST_RANKS - 1);
    return PEN_INVALID;
}

/* ---- JSON */

static pen_status read_list(struct file *file,
                            const struct pen_json_walk *parent,
                            const struct pen_json_piece *list, bool is_flight,
                            struct pen_text *why)
{
    struct pen_json_walk walk;
    pen_status status = pen_json_walk_enter(parent, list, &walk, why);
    for (size_t i = 0; status == PEN_OK; i++) {
        struct pen_json_piece piece;
        json_t *value;
        bool has_one;
        status = pen_json_walk_next(&walk, &piece, &has_one, why);
        if (status != PEN_OK || !has_one)
            break;
        status = pen_json_walk_read(&walk, &piece, &value, why);
        if (status != PEN_OK)
            break;
        status = is_flight ? pen__flight_entry(file->rank, value, i, why)
                           : pen__event_add(&file->events, value, why);
        json_decref(value);
    }
    return status;
}

/* Keys with one value that is read as a whole. */
static pen_status read_value(struct file *file,
                             const struct pen_json_piece *piece, json_t *value,
                             struct pen_text *why)
{
    const char *text = json_string_value(value);
    int64_t number = pen__whole(value);
    if (pen_json_piece_is(piece, "pg_config"))
        return pen__flight_groups(file->rank, value, why);
    if (pen_json_piece_is(piece, "distributedInfo"))
        return pen__event_info(file->rank, value, &file->world, why);
    if (pen_json_piece_is(piece, "baseTimeNanoseconds"))
        file->events.base_ns = pen__time_ns(value);
    else if (pen_json_piece_is(piece, "host_name") && text != NULL)
        pen__copy_word(text, file->rank->host, sizeof file->rank->host);
    else if (pen_json_piece_is(piece, "rank") && number >= 0 &&
             number < PEN_CALLS_MOST_RANKS)
        file->rank->rank = (uint32_t)number;
    return PEN_OK;
}

static bool is_read(const struct pen_json_piece *piece)
{
    return pen_json_piece_is(piece, "pg_config") ||
           pen_json_piece_is(piece, "distributedInfo") ||
           pen_json_piece_is(piece, "baseTimeNanoseconds") ||
           pen_json_piece_is(piece, "host_name") ||
           pen_json_piece_is(piece, "rank");
}

static pen_status read_member(struct file *file,
                              const struct pen_json_walk *walk,
                              const struct pen_json_piece *piece,
                              struct pen_text *why)
{
    bool is_entries = pen_json_piece_is(piece, "entries");
    json_t *value;
    if (is_entries || pen_json_piece_is(piece, "traceEvents")) {
        *(is_entries ? &file->has_entries : &file->has_events) = true;
        return read_list(file, walk, piece, is_entries, why);
    }
    if (!is_read(piece))
        return PEN_OK;
    pen_status status = pen_json_walk_read(walk, piece, &value, why);
    if (status == PEN_OK) {
        status = read_value(file, piece, value, why);
        json_decref(value);
    }
    return status;
}

/* Reads JSON; Chrome's format may be the list of events alone. */
static pen_status read_json(struct file *file, const char *bytes, size_t length,
                            struct pen_text *why)
{
    struct pen_json_walk walk;
    pen_status status = pen_json_walk_open(bytes, length, &walk, why);
    if (status == PEN_OK && walk.closing == ']') {
        const struct pen_json_piece all = {.text = bytes, .length = length};
        file->has_events = true;
        return read_list(file, &walk, &all, false, why);
    }
    while (status == PEN_OK) {
        struct pen_json_piece piece;
        bool has_one;
        status = pen_json_walk_next(&walk, &piece, &has_one, why);
        if (status != PEN_OK)
            return status;
        if (!has_one)
            return pen_json_walk_end(&walk, why);
        status = read_member(file, &walk, &piece, why);
    }
    return status;
}

static pen_status read_pickle(struct file *file, const char *bytes,
                              size_t length, struct pen_text *why)
{
    json_t *record;
    pen_status status = pen__pickle_read(bytes, length, &record, why);
    if (status != PEN_OK)
        return status;
    file->has_entries = true;
    status = pen__flight_read(file->rank, record, why);
    json_decref(record);
    return status;
}

/* ---- both */

/* Peers are ranks of their group until here; sends and receives of each link
 * get their numbers. */
static void name_peers(struct pen_call_rank *rank)
{
    for (size_t i = 0; i < rank->count; i++) {
        struct pen_call *call = &rank->calls[i];
        const struct pen_call_group *group = &rank->groups[call->group];
        if (pen_call_op_is_message(call->op) && call->peer < group->count)
            call->peer = group->ranks[call->peer];
    }
}

/* Clamps a number to a range that can be added up. */
static int64_t clamp(int64_t time_ns)
{
    return time_ns < 0 ? 0 : time_ns > PEN__MOST_NS ? PEN__MOST_NS : time_ns;
}

static void finish_events(struct file *file)
{
    for (size_t i = 0; i < file->rank->count; i++) {
        struct pen_call *call = &file->rank->calls[i];
        call->begin_ns = clamp(call->begin_ns + file->events.base_ns);
        call->end_ns = clamp(call->end_ns + file->events.base_ns);
    }
    pen__rank_sort(file->rank);
}

static pen_status check_kind(const struct file *file, struct pen_text *why)
{
    if (file->has_entries != file->has_events)
        return PEN_OK;
    pen_why(why, "it must be a record of PyTorch's Flight Recorder (with "
                 "entries) or a trace of torch.profiler or Chrome (with "
                 "traceEvents)");
    return PEN_INVALID;
}

pen_status pen_call_rank_parse(const char *path, const char *bytes,
                               size_t length, struct pen_call_rank *out,
                               uint32_t *world, struct pen_text *why)
{
    struct pen_call_rank rank = {.rank = PEN__NO_RANK};
    struct file file = {.rank = &rank, .events.rank = &rank};
    pen_status status = PEN_OK;
    if (length >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0) {
        pen_why(why, "it is packed by gzip; unpack it first, by gunzip");
        return PEN_INVALID;
    }
    status = pen__pickle_is(bytes, length)
                 ? read_pickle(&file, bytes, length, why)
                 : read_json(&file, bytes, length, why);
    if (status == PEN_OK)
        status = check_kind(&file, why);
    if (status == PEN_OK && rank.rank == PEN__NO_RANK)
        status = rank_of_name(path, &rank.rank, why);
    if (status == PEN_OK && (rank.path = strdup(path)) == NULL)
        status = PEN_NOMEM;
    if (status != PEN_OK) {
        pen_call_rank_release(&rank);
        return status;
    }
    if (file.has_events)
        finish_events(&file);
    name_peers(&rank);
    pen__rank_number(&rank);
    *out = rank;
    *world = file.world;
    return PEN_OK;
}
