/*
 * {"format": "penstock-layers", "version": 1, "devices": 8,
 *  "flops_per_sec": "10 TFLOP/s", "bytes_per_sec": "16 GB/s",
 *  "element_bytes": 4,
 *  "nodes": [{"name": "conv1", "dims": "b h w c n",
 *             "sizes": [128, 55, 55, 3, 96], "whole": "w", "output": "b n h w",
 *             "weight": "n c", "weight_bytes": 139392, "flops": 2.7e10,
 *             "inputs": [{"from": "data", "dims": "b c h w", "copies": 1,
 *                         "windows": [{"dim": "h", "stride": 4, "kernel": 11,
 *                                      "shift": 0}]}]}]}
 *
 * Lists of dimensions are words with one space between them. Nodes read earlier
 * nodes or themselves, so there are no circles.
 */
#include "graph/split_graph.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define FORMAT "penstock-layers"
#define MAX_WORDS 160u /* letters of a list of dimensions */
#define MAX_FIGURE 1e30

struct reader {
    struct pen_split_graph *graph;
    struct pen_text *why;
};

/* Opens the list under this key; an empty one where the key is absent. */
static pen_status open_list(const struct pen_json *json, const char *key,
                            const json_t **out, struct pen_text *why)
{
    *out = json_object_get(json->object, key);
    if (*out == NULL || json_is_array(*out))
        return PEN_OK;
    pen_why(why, "%s%s must be a list", json->path, key);
    return PEN_INVALID;
}

/* ---- lists of dimensions ---- */

static uint32_t find_dim(const struct pen_split_node *node, const char *name)
{
    uint32_t i = 0;
    while (i < node->num_dims && strcmp(node->dims[i].name, name) != 0)
        i++;
    return i;
}

/* Cuts the next word off; false where none, or one too long, is left. */
static bool next_word(char **rest, char *word, size_t size)
{
    size_t length = strcspn(*rest, " ");
    if (length == 0 || length >= size)
        return false;
    memcpy(word, *rest, length);
    word[length] = '\0';
    *rest += length + ((*rest)[length] == ' ' ? 1 : 0);
    return true;
}

/* Reads the dimensions of a list, each of the node and each once. */
static pen_status read_list(const struct pen_json *json, const char *key,
                            const struct pen_split_node *node, uint32_t *out,
                            uint32_t *count, struct pen_text *why)
{
    char words[MAX_WORDS];
    char word[sizeof node->dims[0].name];
    char *rest = words;
    uint32_t seen = 0;
    pen_status status = pen_json_read_word(json, key, words, sizeof words, why);
    if (status != PEN_OK)
        return status;
    *count = 0;
    while (next_word(&rest, word, sizeof word)) {
        uint32_t dim = find_dim(node, word);
        if (dim == node->num_dims || (seen >> dim & 1) != 0)
            break;
        seen |= 1u << dim;
        out[(*count)++] = dim;
        if (*rest == '\0')
            return PEN_OK;
    }
    pen_why(why, "%s%s: each word must be one of dims, and occur once",
            json->path, key);
    return PEN_INVALID;
}

static pen_status read_dims(const struct pen_json *json,
                            struct pen_split_node *node, struct pen_text *why)
{
    char words[MAX_WORDS];
    char *rest = words;
    pen_status status =
        pen_json_read_word(json, "dims", words, sizeof words, why);
    const json_t *sizes = json_object_get(json->object, "sizes");
    if (status != PEN_OK)
        return status;
    while (node->num_dims < PEN_SPLIT_MAX_DIMS && *rest != '\0') {
        struct pen_split_dim *dim = &node->dims[node->num_dims];
        json_int_t size =
            json_integer_value(json_array_get(sizes, node->num_dims));
        if (!next_word(&rest, dim->name, sizeof dim->name) ||
            find_dim(node, dim->name) < node->num_dims || size < 1 ||
            size > PEN_SPLIT_MAX_SIZE)
            break;
        dim->size = (uint32_t)size;
        node->num_dims++;
    }
    if (*rest == '\0' && json_array_size(sizes) == node->num_dims)
        return PEN_OK;
    pen_why(why,
            "%sdims: expected 1 to %u different words with one space between "
            "them, and in sizes a whole number of 1 to %u for each",
            json->path, PEN_SPLIT_MAX_DIMS, PEN_SPLIT_MAX_SIZE);
    return PEN_INVALID;
}

static pen_status read_whole(const struct pen_json *json,
                             struct pen_split_node *node, struct pen_text *why)
{
    uint32_t whole[PEN_SPLIT_MAX_DIMS];
    uint32_t count = 0;
    if (!pen_json_has(json, "whole"))
        return PEN_OK;
    pen_status status = read_list(json, "whole", node, whole, &count, why);
    for (uint32_t i = 0; status == PEN_OK && i < count; i++)
        node->dims[whole[i]].is_whole = true;
    return status;
}

/* ---- inputs ---- */

static pen_status read_window(const struct pen_json *json,
                              const struct pen_split_node *node,
                              struct pen_split_input *input, uint32_t count,
                              struct pen_text *why)
{
    char name[sizeof node->dims[0].name];
    struct pen_split_window window = {1, 1, 0};
    pen_status status =
        pen_json_check_keys(json, "dim stride kernel shift", why);
    if (status == PEN_OK)
        status = pen_json_read_word(json, "dim", name, sizeof name, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "stride", 1, PEN_SPLIT_MAX_SIZE,
                                       &window.stride, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "kernel", 1, PEN_SPLIT_MAX_SIZE,
                                       &window.kernel, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "shift", 0, PEN_SPLIT_MAX_SIZE,
                                       &window.shift, why);
    if (status != PEN_OK)
        return status;
    uint32_t dim = find_dim(node, name);
    for (uint32_t i = 0; i < count; i++)
        if (input->dims[i] == dim) {
            input->windows[i] = window;
            input->has_window[i] = true;
            return PEN_OK;
        }
    pen_why(why, "%sdim: must be one of the dims of the input", json->path);
    return PEN_INVALID;
}

static pen_status read_windows(const struct pen_json *json,
                               const struct pen_split_node *node,
                               struct pen_split_input *input, uint32_t count,
                               struct pen_text *why)
{
    const json_t *list;
    char name[sizeof json->path + 8];
    pen_status status = open_list(json, "windows", &list, why);
    (void)snprintf(name, sizeof name, "%swindows", json->path);
    if (status == PEN_OK && json_array_size(list) > PEN_SPLIT_MAX_DIMS) {
        pen_why(why, "%s: more than %u", name, PEN_SPLIT_MAX_DIMS);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < count; i++)
        input->windows[i] = (struct pen_split_window){1, 1, 0};
    for (size_t i = 0; status == PEN_OK && i < json_array_size(list); i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, name, i, &entry, why);
        if (status == PEN_OK)
            status = read_window(&entry, node, input, count, why);
    }
    return status;
}

/*
 * Checks sizes. Without a window a dimension has the size of the one that it
 * reads.
 */
static pen_status check_sizes(const struct pen_json *json,
                              const struct pen_split_node *node,
                              const struct pen_split_input *input,
                              const struct pen_split_node *from,
                              struct pen_text *why)
{
    for (uint32_t i = 0; i < from->num_output; i++) {
        const struct pen_split_dim *dim = &node->dims[input->dims[i]];
        if (!input->has_window[i] &&
            dim->size != from->dims[from->output[i]].size) {
            pen_why(why,
                    "%sdims: '%s' has size %u and reads %u of '%s'; give the "
                    "same size or a window",
                    json->path, dim->name, dim->size,
                    from->dims[from->output[i]].size, from->name);
            return PEN_INVALID;
        }
    }
    return PEN_OK;
}

static pen_status read_input(const struct reader *reader,
                             const struct pen_json *json,
                             struct pen_split_node *node)
{
    struct pen_split_input *input = &node->inputs[node->num_inputs];
    const struct pen_split_graph *graph = reader->graph;
    const struct pen_json_number copies[] = {
        {"copies", &input->copies, 1, 1024}};
    char name[PEN_SPLIT_NAME_SIZE];
    uint32_t count = 0;
    input->copies = 1;
    pen_status status =
        pen_json_check_keys(json, "from dims windows copies", reader->why);
    if (status == PEN_OK)
        status =
            pen_json_read_word(json, "from", name, sizeof name, reader->why);
    while (status == PEN_OK && input->from < graph->num_nodes &&
           strcmp(graph->nodes[input->from].name, name) != 0)
        input->from++;
    if (status == PEN_OK && input->from == graph->num_nodes) {
        pen_why(reader->why,
                "%sfrom: '%s' is neither an earlier node nor this one",
                json->path, name);
        return PEN_INVALID;
    }
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, copies, 1, reader->why);
    if (status == PEN_OK)
        status =
            read_list(json, "dims", node, input->dims, &count, reader->why);
    const struct pen_split_node *from = &graph->nodes[input->from];
    if (status == PEN_OK && count != from->num_output) {
        pen_why(reader->why, "%sdims: '%s' has an output of %u dimensions",
                json->path, name, from->num_output);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = read_windows(json, node, input, count, reader->why);
    if (status == PEN_OK)
        status = check_sizes(json, node, input, from, reader->why);
    node->num_inputs++;
    return status;
}

static pen_status read_inputs(const struct reader *reader,
                              const struct pen_json *json,
                              struct pen_split_node *node)
{
    const json_t *list;
    char name[sizeof json->path + 8];
    pen_status status = open_list(json, "inputs", &list, reader->why);
    (void)snprintf(name, sizeof name, "%sinputs", json->path);
    if (json_array_size(list) > PEN_SPLIT_MAX_INPUTS) {
        pen_why(reader->why, "%sinputs: more than %u", json->path,
                PEN_SPLIT_MAX_INPUTS);
        return PEN_INVALID;
    }
    for (size_t i = 0; status == PEN_OK && i < json_array_size(list); i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, name, i, &entry, reader->why);
        if (status == PEN_OK)
            status = read_input(reader, &entry, node);
    }
    return status;
}

/* ---- nodes ---- */

static pen_status check_name(const struct reader *reader,
                             const struct pen_json *json,
                             const struct pen_split_node *node)
{
    for (uint32_t i = 0; i + 1 < reader->graph->num_nodes; i++)
        if (strcmp(reader->graph->nodes[i].name, node->name) == 0) {
            pen_why(reader->why, "%sname: '%s' is the name of another node",
                    json->path, node->name);
            return PEN_INVALID;
        }
    return PEN_OK;
}

static pen_status read_node(const struct reader *reader,
                            const struct pen_json *json,
                            struct pen_split_node *node)
{
    const struct pen_json_number numbers[] = {
        {"flops", &node->flops, 0, MAX_FIGURE},
        {"weight_bytes", &node->weight_bytes, 0, MAX_FIGURE}};
    pen_status status = pen_json_check_keys(
        json, "name dims sizes whole output weight weight_bytes flops inputs",
        reader->why);
    if (status == PEN_OK)
        status = pen_json_read_word(json, "name", node->name, sizeof node->name,
                                    reader->why);
    if (status == PEN_OK)
        status = check_name(reader, json, node);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers, COUNT_OF(numbers),
                                       reader->why);
    if (status == PEN_OK)
        status = read_dims(json, node, reader->why);
    if (status == PEN_OK)
        status = read_whole(json, node, reader->why);
    if (status == PEN_OK)
        status = read_list(json, "output", node, node->output,
                           &node->num_output, reader->why);
    if (status == PEN_OK && pen_json_has(json, "weight"))
        status = read_list(json, "weight", node, node->weight,
                           &node->num_weight, reader->why);
    if (status == PEN_OK &&
        (node->num_weight > 0) != (node->weight_bytes > 0)) {
        pen_why(reader->why,
                "%sweight: give weight and weight_bytes, or neither",
                json->path);
        status = PEN_INVALID;
    }
    return status == PEN_OK ? read_inputs(reader, json, node) : status;
}

static pen_status read_nodes(struct reader *reader, const json_t *list)
{
    struct pen_split_graph *graph = reader->graph;
    size_t count = json_array_size(list);
    pen_status status = PEN_OK;
    if (count == 0 || count > PEN_SPLIT_MAX_NODES) {
        pen_why(reader->why, "nodes: expected a list of 1 to %u nodes",
                PEN_SPLIT_MAX_NODES);
        return PEN_INVALID;
    }
    graph->nodes = calloc(count, sizeof *graph->nodes);
    if (graph->nodes == NULL) {
        pen_why(reader->why, "no memory for %zu nodes", count);
        return PEN_NOMEM;
    }
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        struct pen_json json;
        status = pen_json_open_entry(list, "nodes", i, &json, reader->why);
        graph->num_nodes++;
        if (status == PEN_OK)
            status = read_node(reader, &json, &graph->nodes[i]);
    }
    return status;
}

static pen_status read_all(struct reader *reader, const struct pen_json *json)
{
    struct pen_split_graph *graph = reader->graph;
    struct pen_text *why = reader->why;
    const struct pen_json_number flops = {"flops_per_sec",
                                          &graph->flops_per_sec, 1, MAX_FIGURE};
    const struct pen_json_number bytes = {"bytes_per_sec",
                                          &graph->bytes_per_sec, 1, MAX_FIGURE};
    const struct pen_json_number element[] = {
        {"element_bytes", &graph->element_bytes, 0.125, 64}};
    pen_status status = pen_json_check_format(json, FORMAT, 1, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(json,
                                     "format version devices flops_per_sec "
                                     "bytes_per_sec element_bytes nodes",
                                     why);
    if (status == PEN_OK)
        status = pen_json_require_keys(
            json, "devices flops_per_sec bytes_per_sec element_bytes nodes",
            why);
    if (status == PEN_OK)
        status =
            pen_json_read_integer(json, "devices", 1, PEN_SPLIT_MAX_DEVICES,
                                  &graph->num_devices, why);
    if (status == PEN_OK)
        status = pen_json_read_unit(json, PEN_UNIT_FLOPS, &flops, why);
    if (status == PEN_OK)
        status = pen_json_read_unit(json, PEN_UNIT_BYTES_PER_SEC, &bytes, why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, element, 1, why);
    if (status == PEN_OK)
        status = read_nodes(reader, json_object_get(json->object, "nodes"));
    return status;
}

pen_status pen_split_graph_parse(const char *text, size_t length,
                                 struct pen_split_graph **out,
                                 struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    struct pen_split_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) {
        pen_why(why, "no memory for a graph");
        status = PEN_NOMEM;
    } else {
        struct reader reader = {graph, why};
        status = read_all(&reader, &json);
    }
    json_decref(json.object);
    if (status == PEN_OK)
        *out = graph;
    else
        pen_split_graph_free(graph);
    return status;
}

void pen_split_graph_free(struct pen_split_graph *graph)
{
    if (graph == NULL)
        return;
    free(graph->nodes);
    free(graph);
}
