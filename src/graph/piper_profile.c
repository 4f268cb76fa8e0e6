/*
 * {"maxDevices": 10, "maxMemoryPerDevice": bytes, "bandwidth": bytes/s,
 *  "mbsInBatch": 1920,
 *  "nodes": [{"id": 3, "name": "...", "TMPCs": {"2": [
 *      {"id": "vanilla", "timePerSample": seconds, "parameterSize": bytes,
 *       "memoryUsageA": bytes, "memoryUsageB": bytes,
 *       "syncTimeFw": {"1": bytes}, "syncTimeBw": {"5": bytes}}]}}],
 *  "edges": [{"sourceId": 0, "destId": 1, "communicationCost": bytes}]}
 *
 * The key of a list of modes is the number of devices; those of syncTimeFw and
 * syncTimeBw are the nodes before and after it, one for each edge.
 */
#include "graph/piper_profile.h"

#include "base/file.h"
#include "graph/graph_json.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct reader {
    struct pen_piper_profile *profile;
    struct pen__graph_json lists;
    double *edge_bytes;
    struct pen_text *why;
};

/* ---- nodes and edges ---- */

static pen_status read_edge(struct reader *reader, uint32_t number)
{
    struct pen_json json;
    const struct pen_json_number numbers[] = {{"communicationCost",
                                               &reader->edge_bytes[number], 0,
                                               PEN_PIPER_MAX_BYTES}};
    pen_status status = pen_json_open_entry(reader->lists.edges, "edges",
                                            number, &json, reader->why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "sourceId destId communicationCost",
                                     reader->why);
    if (status == PEN_OK)
        status = pen_json_require_keys(&json, "communicationCost", reader->why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(&json, numbers, 1, reader->why);
    return status;
}

static pen_status read_edges(struct reader *reader)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < reader->lists.num_edges && status == PEN_OK; i++)
        status = read_edge(reader, i);
    if (status == PEN_OK)
        status = pen_graph_init(&reader->profile->graph,
                                reader->lists.num_nodes, reader->lists.ends,
                                reader->lists.num_edges, reader->why);
    return status;
}

/* ---- modes ---- */

/*
 * Reads the bytes of one end of all edges of a node, from an object by
 * neighbour.
 */
static pen_status read_shares(const struct reader *reader,
                              const struct pen_json *mode, const char *key,
                              const uint32_t *neighbours, uint32_t count,
                              double *out)
{
    struct pen_json json;
    pen_status status = pen_json_open(mode, key, &json, reader->why);
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u",
                 reader->profile->nodes[neighbours[i]].id);
        const struct pen_json_number numbers[] = {
            {name, &out[i], 0, PEN_PIPER_MAX_BYTES}};
        status = pen_json_require_keys(&json, name, reader->why);
        if (status == PEN_OK)
            status = pen_json_read_numbers(&json, numbers, 1, reader->why);
    }
    if (status == PEN_OK && json_object_size(json.object) > count) {
        pen_why(reader->why, "%s%s names a node without an edge", mode->path,
                key);
        status = PEN_INVALID;
    }
    return status;
}

static pen_status read_mode(struct reader *reader, const struct pen_json *json,
                            uint32_t node, struct pen_piper_mode *mode)
{
    const struct pen_graph *graph = &reader->profile->graph;
    const struct pen_json_number numbers[] = {
        {"timePerSample", &mode->compute_sec, 0, PEN_PIPER_MAX_SECONDS},
        {"parameterSize", &mode->parameter_bytes, 0, PEN_PIPER_MAX_BYTES},
        {"memoryUsageA", &mode->wave_bytes, 0, PEN_PIPER_MAX_BYTES},
        {"memoryUsageB", &mode->fixed_bytes, 0, PEN_PIPER_MAX_BYTES}};
    uint32_t num_in = graph->in_begin[node + 1] - graph->in_begin[node];
    uint32_t num_out = graph->out_begin[node + 1] - graph->out_begin[node];
    mode->in_bytes =
        calloc((size_t)num_in + num_out + 1, sizeof *mode->in_bytes);
    if (mode->in_bytes == NULL) {
        pen_why(reader->why, "no memory for the modes of a node");
        return PEN_NOMEM;
    }
    mode->out_bytes = mode->in_bytes + num_in;
    pen_status status = pen_json_check_keys(
        json,
        "id timePerSample parameterSize memoryUsageA memoryUsageB syncTimeFw "
        "syncTimeBw",
        reader->why);
    if (status == PEN_OK)
        status = pen_json_require_keys(
            json, "timePerSample parameterSize memoryUsageA memoryUsageB",
            reader->why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers, COUNT_OF(numbers),
                                       reader->why);
    if (status == PEN_OK)
        status = pen_json_read_word(json, "id", mode->name, sizeof mode->name,
                                    reader->why);
    if (status == PEN_OK)
        status = read_shares(reader, json, "syncTimeFw",
                             &graph->in[graph->in_begin[node]], num_in,
                             mode->in_bytes);
    if (status == PEN_OK)
        status = read_shares(reader, json, "syncTimeBw",
                             &graph->out[graph->out_begin[node]], num_out,
                             mode->out_bytes);
    return status;
}

/* Reads a key of TMPCs: a decimal number without sign or leading zero. */
static uint32_t read_degree(const char *key)
{
    uint32_t degree = 0;
    for (const char *at = key; *at >= '0' && *at <= '9'; at++) {
        degree = degree * 10 + (uint32_t)(*at - '0');
        if (degree == 0 || degree > PEN_PIPER_MAX_DEVICES)
            return 0;
        if (at[1] == '\0')
            return degree;
    }
    return 0;
}

static pen_status read_modes(struct reader *reader, const struct pen_json *all,
                             const char *key, uint32_t number)
{
    struct pen_piper_node *node = &reader->profile->nodes[number];
    const json_t *list = json_object_get(all->object, key);
    uint32_t degree = read_degree(key);
    pen_status status = PEN_OK;
    if (degree == 0 || !json_is_array(list)) {
        pen_why(reader->why,
                "nodes[%u].TMPCs must have numbers of devices from 1 to %u",
                number, PEN_PIPER_MAX_DEVICES);
        return PEN_INVALID;
    }
    for (size_t i = 0; i < json_array_size(list) && status == PEN_OK; i++) {
        char name[40];
        struct pen_json json;
        snprintf(name, sizeof name, "nodes[%u].TMPCs.%u", number, degree);
        status = pen_json_open_entry(list, name, i, &json, reader->why);
        if (status != PEN_OK)
            break;
        struct pen_piper_mode *mode = &node->modes[node->num_modes++];
        mode->degree = degree;
        status = read_mode(reader, &json, number, mode);
    }
    return status;
}

static int by_degree(const void *a, const void *b)
{
    const struct pen_piper_mode *x = a;
    const struct pen_piper_mode *y = b;
    return (x->degree > y->degree) - (x->degree < y->degree);
}

static pen_status read_node(struct reader *reader, uint32_t number)
{
    struct pen_piper_node *node = &reader->profile->nodes[number];
    struct pen_json json;
    struct pen_json modes;
    const char *key;
    json_t *value;
    pen_status status = pen_json_open_entry(reader->lists.nodes, "nodes",
                                            number, &json, reader->why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "id name TMPCs", reader->why);
    if (status == PEN_OK)
        status = pen_json_open(&json, "TMPCs", &modes, reader->why);
    if (status != PEN_OK)
        return status;
    size_t count = 0;
    json_object_foreach(modes.object, key, value)
    {
        count += json_array_size(value);
    }
    if (count == 0 || count > PEN_PIPER_MAX_MODES) {
        pen_why(reader->why, "nodes[%u].TMPCs must have 1 to %u modes", number,
                PEN_PIPER_MAX_MODES);
        return PEN_INVALID;
    }
    node->modes = calloc(count, sizeof *node->modes);
    if (node->modes == NULL) {
        pen_why(reader->why, "no memory for the modes of a node");
        return PEN_NOMEM;
    }
    json_object_foreach(modes.object, key, value)
    {
        status = read_modes(reader, &modes, key, number);
        if (status != PEN_OK)
            return status;
    }
    qsort(node->modes, node->num_modes, sizeof *node->modes, by_degree);
    return PEN_OK;
}

/* Adds what an edge itself carries to the figures of both of its ends. */
static pen_status add_edge_bytes(struct reader *reader)
{
    struct pen_piper_profile *profile = reader->profile;
    uint32_t *seen = calloc(2 * (size_t)reader->lists.num_nodes, sizeof *seen);
    if (seen == NULL) {
        pen_why(reader->why, "no memory for %u nodes", reader->lists.num_nodes);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < reader->lists.num_edges; i++) {
        struct pen_edge edge = reader->lists.ends[i];
        uint32_t out = seen[edge.from]++;
        uint32_t in = seen[reader->lists.num_nodes + edge.to]++;
        for (uint32_t j = 0; j < profile->nodes[edge.from].num_modes; j++)
            profile->nodes[edge.from].modes[j].out_bytes[out] +=
                reader->edge_bytes[i];
        for (uint32_t j = 0; j < profile->nodes[edge.to].num_modes; j++)
            profile->nodes[edge.to].modes[j].in_bytes[in] +=
                reader->edge_bytes[i];
    }
    free(seen);
    return PEN_OK;
}

/*
 * Refuses two edges with the same ends: their modes could not be distinguished.
 */
static pen_status check_edges(const struct reader *reader)
{
    const struct pen_graph *graph = &reader->profile->graph;
    uint32_t *marks = calloc(graph->num_nodes, sizeof *marks);
    pen_status status = PEN_OK;
    if (marks == NULL) {
        pen_why(reader->why, "no memory for %u nodes", graph->num_nodes);
        return PEN_NOMEM;
    }
    for (uint32_t node = 0; node < graph->num_nodes; node++) {
        for (uint32_t i = graph->out_begin[node];
             i < graph->out_begin[node + 1] && status == PEN_OK; i++) {
            uint32_t to = graph->out[i];
            if (marks[to] == node + 1) {
                pen_why(reader->why, "edges has the edge from %u to %u twice",
                        reader->profile->nodes[node].id,
                        reader->profile->nodes[to].id);
                status = PEN_INVALID;
            }
            marks[to] = node + 1;
        }
    }
    free(marks);
    return status;
}

/* ---- all of it ---- */

static pen_status read_lists(struct reader *reader)
{
    struct pen_piper_profile *profile = reader->profile;
    uint32_t num_nodes = reader->lists.num_nodes;
    profile->nodes = calloc(num_nodes, sizeof *profile->nodes);
    reader->edge_bytes =
        calloc((size_t)reader->lists.num_edges + 1, sizeof *reader->edge_bytes);
    if (profile->nodes == NULL || reader->edge_bytes == NULL) {
        pen_why(reader->why, "no memory for %u nodes", num_nodes);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < num_nodes; i++)
        profile->nodes[i].id = reader->lists.ids[i];
    pen_status status = read_edges(reader);
    if (status == PEN_OK)
        status = check_edges(reader);
    for (uint32_t i = 0; i < num_nodes && status == PEN_OK; i++)
        status = read_node(reader, i);
    if (status == PEN_OK)
        status = add_edge_bytes(reader);
    return status;
}

static pen_status read_figures(const struct pen_json *json,
                               struct pen_piper_profile *profile,
                               struct pen_text *why)
{
    const struct pen_json_number numbers[] = {
        {"maxMemoryPerDevice", &profile->memory_bytes, 1, PEN_PIPER_MAX_BYTES},
        {"bandwidth", &profile->bytes_per_sec, 1, PEN_PIPER_MAX_BYTES}};
    pen_status status = pen_json_check_keys(
        json, "maxDevices maxMemoryPerDevice bandwidth mbsInBatch nodes edges",
        why);
    if (status == PEN_OK)
        status =
            pen_json_require_keys(json, "maxMemoryPerDevice bandwidth", why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers, COUNT_OF(numbers), why);
    if (status == PEN_OK)
        status =
            pen_json_read_integer(json, "maxDevices", 1, PEN_PIPER_MAX_DEVICES,
                                  &profile->num_devices, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "mbsInBatch", 1, 1u << 24,
                                       &profile->num_microbatches, why);
    return status;
}

static pen_status read_all(struct reader *reader, const struct pen_json *json)
{
    pen_status status = read_figures(json, reader->profile, reader->why);
    if (status == PEN_OK)
        status = pen__graph_json_init(&reader->lists, json, reader->why);
    if (status != PEN_OK)
        return status;
    status = read_lists(reader);
    pen__graph_json_release(&reader->lists);
    free(reader->edge_bytes);
    return status;
}

pen_status pen_piper_profile_parse(const char *text, size_t length,
                                   struct pen_piper_profile **out,
                                   struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    struct pen_piper_profile *profile = calloc(1, sizeof *profile);
    if (profile == NULL) {
        pen_why(why, "no memory for a profile");
        status = PEN_NOMEM;
    } else {
        struct reader reader = {.profile = profile, .why = why};
        status = read_all(&reader, &json);
    }
    json_decref(json.object);
    if (status == PEN_OK)
        *out = profile;
    else
        pen_piper_profile_free(profile);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_piper_profile_parse(bytes, length, out, why);
}

pen_status pen_piper_profile_load(const char *path,
                                  struct pen_piper_profile **out,
                                  struct pen_text *why)
{
    return pen_file_parse(path, MAX_FILE_BYTES, parse, out, why);
}

void pen_piper_profile_free(struct pen_piper_profile *profile)
{
    if (profile == NULL)
        return;
    /* Modes are read when the graph is there. */
    for (uint32_t i = 0; i < profile->graph.num_nodes; i++) {
        for (uint32_t j = 0; j < profile->nodes[i].num_modes; j++)
            free(profile->nodes[i].modes[j].in_bytes);
        free(profile->nodes[i].modes);
    }
    pen_graph_release(&profile->graph);
    free(profile->nodes);
    free(profile);
}
