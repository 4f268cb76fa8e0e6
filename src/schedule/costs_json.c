/*
 * The cost file: what operations take, as JSON. docs/formats.md has the format
 * in words and examples/costs/ has one file of each kind.
 *
 *   {"format": "penstock-costs", "version": 1,
 *    "f": 1.0, "i": 1.1, "w": 0.9,
 *    "comm": {"latency": 1e-5, "bandwidth": 25e9, "bytes": 8388608},
 *    "ranks": [{"count": 7}, {"f": 2.0}]}
 *
 * A misspelt key would silently mean its default, so unknown keys are refused.
 */
#include "schedule/costs.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#define MAX_LINKS 1048576u
#define MAX_BYTES 1e18
#define NOT_GIVEN (-1.0)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static pen_status read_cost(const struct pen_json *object, bool with_memory,
                            struct pen_cost *cost, struct pen_text *why)
{
    const struct pen_json_number fields[] = {
        {"f", &cost->forward_sec, 0, PEN_MAX_SECONDS},
        {"i", &cost->input_sec, 0, PEN_MAX_SECONDS},
        {"w", &cost->weight_sec, 0, PEN_MAX_SECONDS},
        {"r", &cost->recompute_sec, 0, PEN_MAX_SECONDS},
        {"pair", &cost->pair_sec, 0, PEN_MAX_SECONDS},
        {"sync", &cost->sync_sec, 0, PEN_MAX_SECONDS},
        {"step", &cost->step_sec, 0, PEN_MAX_SECONDS},
        {"move", &cost->move_sec, 0, PEN_MAX_SECONDS},
        {"memory", &cost->memory, 0, PEN_MAX_MEMORY}};
    size_t count = COUNT_OF(fields) - (with_memory ? 0 : 1);
    return pen_json_read_numbers(object, fields, count, why);
}

/* Checks that f, i and w are in the entry or, for all entries, at the top. */
static pen_status check_cost(const struct pen_json *object,
                             const struct pen_cost *cost, struct pen_text *why)
{
    const char *missing = cost->forward_sec < 0  ? "f"
                          : cost->input_sec < 0  ? "i"
                          : cost->weight_sec < 0 ? "w"
                                                 : NULL;
    if (missing == NULL)
        return PEN_OK;
    pen_why(why, "%s%s is missing", object->path, missing);
    return PEN_INVALID;
}

/* Entries with "count" stand for that many ranks, stages or layers. */
static pen_status read_count(const struct pen_json *entry, uint32_t *out,
                             struct pen_text *why)
{
    *out = 1;
    if (!pen_json_has(entry, "count"))
        return PEN_OK;
    return pen_json_read_integer(entry, "count", 1, PEN_MAX_STAGES, out, why);
}

static pen_status count_items(const json_t *list, const char *name,
                              uint32_t *out, struct pen_text *why)
{
    uint32_t total = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct pen_json entry;
        uint32_t count = 0;
        pen_status status = pen_json_open_entry(list, name, i, &entry, why);
        if (status == PEN_OK)
            status = read_count(&entry, &count, why);
        if (status != PEN_OK)
            return status;
        if (count > PEN_MAX_STAGES - total) {
            pen_why(why, "%s[%zu] makes more than %u %s", name, i,
                    PEN_MAX_STAGES, name);
            return PEN_INVALID;
        }
        total += count;
    }
    if (total == 0) {
        pen_why(why, "%s must be a list of at least one object", name);
        return PEN_INVALID;
    }
    *out = total;
    return PEN_OK;
}

static pen_status read_item(const struct pen_json *entry,
                            const struct pen_cost *top, struct pen_costs *costs,
                            struct pen_text *why)
{
    struct pen_cost cost = *top;
    uint32_t count = 0;
    pen_status status = pen_json_check_keys(
        entry, "f i w r pair sync step move memory count", why);
    if (status == PEN_OK)
        status = read_cost(entry, true, &cost, why);
    if (status == PEN_OK)
        status = check_cost(entry, &cost, why);
    if (status == PEN_OK)
        status = read_count(entry, &count, why);
    if (status != PEN_OK)
        return status;
    while (count-- > 0)
        costs->items[costs->num_items++] = cost;
    return PEN_OK;
}

static pen_status read_items(const json_t *list, const char *name,
                             const struct pen_cost *top,
                             struct pen_costs *costs, struct pen_text *why)
{
    uint32_t total = 0;
    pen_status status = count_items(list, name, &total, why);
    if (status != PEN_OK)
        return status;
    costs->items = calloc(total, sizeof *costs->items);
    if (costs->items == NULL) {
        pen_why(why, "out of memory for the costs of %u %s", total, name);
        return PEN_NOMEM;
    }
    for (size_t i = 0; status == PEN_OK && i < json_array_size(list); i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, name, i, &entry, why);
        if (status == PEN_OK)
            status = read_item(&entry, top, costs, why);
    }
    return status;
}

/*
 * Checks that a part of several layers has a time for pairs only if every layer
 * has.
 */
static pen_status check_pairs(const struct pen_costs *costs,
                              struct pen_text *why)
{
    for (uint32_t i = 1; i < costs->num_items; i++) {
        if ((costs->items[i].pair_sec < 0) == (costs->items[0].pair_sec < 0))
            continue;
        pen_why(why, "pair must be given for all layers or for none");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status read_scope(const struct pen_json *file,
                             struct pen_costs *costs, struct pen_text *why)
{
    static const struct {
        const char *name;
        enum pen_cost_scope scope;
    } lists[] = {{"ranks", PEN_COST_PER_RANK},
                 {"stages", PEN_COST_PER_STAGE},
                 {"layers", PEN_COST_PER_LAYER}};
    struct pen_cost top = {.forward_sec = NOT_GIVEN,
                           .input_sec = NOT_GIVEN,
                           .weight_sec = NOT_GIVEN,
                           .recompute_sec = NOT_GIVEN,
                           .pair_sec = NOT_GIVEN,
                           .memory = NOT_GIVEN};
    pen_status status = read_cost(file, false, &top, why);
    const char *name = NULL;
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(lists); i++) {
        json_t *list = json_object_get(file->object, lists[i].name);
        if (list == NULL)
            continue;
        if (name != NULL) {
            pen_why(why, "%s and %s are both given; give at most one of them",
                    name, lists[i].name);
            return PEN_INVALID;
        }
        name = lists[i].name;
        costs->scope = lists[i].scope;
        status = read_items(list, name, &top, costs, why);
    }
    if (status == PEN_OK && costs->scope == PEN_COST_PER_LAYER)
        status = check_pairs(costs, why);
    if (status == PEN_OK && name == NULL) {
        status = check_cost(file, &top, why);
        top.memory = 1;
        costs->uniform = top;
    }
    return status;
}

static pen_status read_comm(const struct pen_json *file,
                            struct pen_costs *costs, struct pen_text *why)
{
    const json_t *found = json_object_get(file->object, "comm");
    if (found == NULL)
        return PEN_OK;
    if (json_is_number(found)) {
        const struct pen_json_number seconds = {"comm", &costs->latency_sec, 0,
                                                PEN_MAX_SECONDS};
        return pen_json_read_numbers(file, &seconds, 1, why);
    }
    struct pen_json comm;
    const struct pen_json_number fields[] = {
        {"latency", &costs->latency_sec, 0, PEN_MAX_SECONDS},
        {"bytes", &costs->bytes, 0, MAX_BYTES}};
    const struct pen_json_number rate = {"bandwidth", &costs->bytes_per_sec, 1,
                                         MAX_BYTES};
    bool overlaps = true;
    pen_status status = pen_json_open(file, "comm", &comm, why);
    if (status == PEN_OK)
        status =
            pen_json_check_keys(&comm, "latency bandwidth bytes overlap", why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(&comm, fields, COUNT_OF(fields), why);
    if (status == PEN_OK)
        status = pen_json_read_unit(&comm, PEN_UNIT_BYTES_PER_SEC, &rate, why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(&comm, "overlap", &overlaps, why);
    costs->is_blocking = !overlaps;
    return status;
}

/* Reads a link. Values that it does not give are those of "comm". */
static pen_status read_link(const struct pen_json *entry,
                            struct pen_costs *costs, struct pen_text *why)
{
    struct pen_link link = {.latency_sec = costs->latency_sec,
                            .bytes_per_sec = costs->bytes_per_sec};
    const struct pen_json_number latency = {"latency", &link.latency_sec, 0,
                                            PEN_MAX_SECONDS};
    const struct pen_json_number rate = {"bandwidth", &link.bytes_per_sec, 1,
                                         MAX_BYTES};
    bool is_both = false;
    pen_status status =
        pen_json_check_keys(entry, "from to latency bandwidth both", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(entry, "from", 0, PEN_MAX_STAGES - 1,
                                       &link.from, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(entry, "to", 0, PEN_MAX_STAGES - 1,
                                       &link.to, why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(entry, &latency, 1, why);
    if (status == PEN_OK)
        status = pen_json_read_unit(entry, PEN_UNIT_BYTES_PER_SEC, &rate, why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(entry, "both", &is_both, why);
    if (status == PEN_OK && link.from == link.to) {
        pen_why(why, "%sto must be a different rank than 'from'", entry->path);
        status = PEN_INVALID;
    }
    if (status != PEN_OK)
        return status;
    costs->links[costs->num_links++] = link;
    if (is_both) {
        uint32_t from = link.from;
        link.from = link.to;
        link.to = from;
        costs->links[costs->num_links++] = link;
    }
    return PEN_OK;
}

static pen_status check_links(struct pen_costs *costs, struct pen_text *why)
{
    qsort(costs->links, costs->num_links, sizeof *costs->links,
          pen_link_compare);
    for (uint32_t i = 1; i < costs->num_links; i++) {
        const struct pen_link *link = &costs->links[i];
        if (pen_link_compare(link - 1, link) != 0)
            continue;
        pen_why(why, "links: the link from rank %u to rank %u is given twice",
                link->from, link->to);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status read_links(const struct pen_json *file,
                             struct pen_costs *costs, struct pen_text *why)
{
    json_t *list = json_object_get(file->object, "links");
    size_t count = json_array_size(list);
    if (list == NULL)
        return PEN_OK;
    if (!json_is_array(list) || count > MAX_LINKS) {
        pen_why(why, "links must be a list of at most %u objects", MAX_LINKS);
        return PEN_INVALID;
    }
    /* Each entry may count both ways; calloc(0) may answer NULL. */
    costs->links = calloc(2 * count + 1, sizeof *costs->links);
    if (costs->links == NULL) {
        pen_why(why, "out of memory for %zu links", count);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct pen_json entry;
        pen_status status = pen_json_open_entry(list, "links", i, &entry, why);
        if (status == PEN_OK)
            status = read_link(&entry, costs, why);
        if (status != PEN_OK)
            return status;
    }
    return check_links(costs, why);
}

/*
 * Refuses a bandwidth without a size of the messages, since it would have no
 * effect.
 */
static pen_status check_bytes(const struct pen_json *file,
                              const struct pen_costs *costs,
                              struct pen_text *why)
{
    bool has_bandwidth = costs->bytes_per_sec > 0;
    for (uint32_t i = 0; i < costs->num_links; i++)
        has_bandwidth |= costs->links[i].bytes_per_sec > 0;
    const json_t *comm = json_object_get(file->object, "comm");
    if (!has_bandwidth || json_object_get(comm, "bytes") != NULL)
        return PEN_OK;
    pen_why(why, "comm.bytes is missing: a bandwidth needs the bytes that one "
                 "transfer moves");
    return PEN_INVALID;
}

static pen_status read_memory(const struct pen_json *file,
                              struct pen_costs *costs, struct pen_text *why)
{
    if (!pen_json_has(file, "memory"))
        return PEN_OK;
    struct pen_json object;
    struct pen_memory memory = {.recompute = (double)NAN};
    const struct pen_json_number fields[] = {
        {"f", &memory.forward, 0, PEN_MAX_MEMORY},
        {"i", &memory.input, -PEN_MAX_MEMORY, PEN_MAX_MEMORY},
        {"w", &memory.weight, -PEN_MAX_MEMORY, PEN_MAX_MEMORY},
        {"r", &memory.recompute, -PEN_MAX_MEMORY, PEN_MAX_MEMORY}};
    pen_status status = pen_json_open(file, "memory", &object, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&object, "f i w r", why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(&object, fields, COUNT_OF(fields), why);
    if (status == PEN_OK)
        status = pen_memory_complete(&memory, why);
    if (status == PEN_OK)
        costs->memory = memory;
    return status;
}

static pen_status read_file(const struct pen_json *file,
                            struct pen_costs *costs, struct pen_text *why)
{
    pen_status status = pen_json_check_format(file, "penstock-costs", 1, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(
            file,
            "format version f i w r pair sync step move comm ranks "
            "stages layers links memory",
            why);
    if (status == PEN_OK)
        status = read_scope(file, costs, why);
    if (status == PEN_OK)
        status = read_comm(file, costs, why);
    if (status == PEN_OK)
        status = read_links(file, costs, why);
    if (status == PEN_OK)
        status = check_bytes(file, costs, why);
    if (status == PEN_OK)
        status = read_memory(file, costs, why);
    return status;
}

pen_status pen_costs_parse_json(const char *text, size_t length,
                                struct pen_costs *costs, struct pen_text *why)
{
    struct pen_json file;
    pen_status status = pen_json_load(text, length, &file, why);
    if (status != PEN_OK)
        return status;
    struct pen_costs read;
    pen_costs_init(&read);
    read.memory = costs->memory;
    status = read_file(&file, &read, why);
    json_decref(file.object);
    if (status != PEN_OK) {
        pen_costs_release(&read);
        return status;
    }
    pen_costs_release(costs);
    *costs = read;
    return PEN_OK;
}
