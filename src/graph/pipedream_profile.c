/*
 * graph.txt of PipeDream (Narayanan et al., SOSP 2019).
 *
 *   node5 -- ReLU(inplace) -- forward_compute_time=0.107,
 *       backward_compute_time=2.660, activation_size=822083584.000,
 *       parameter_size=0.000 -- stage_id=0        (all on one line)
 *   <tab>node4 -- node5
 *
 * Times are milliseconds. A layer with several outputs has
 * activation_size=[a; b; c]. The stage is there only after a partitioning.
 */
#include "graph/pipedream_profile.h"

#include "base/file.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define SEPARATOR " -- "

struct reader {
    struct pen_pipedream_profile *profile;
    uint32_t *by_name; /* numbers of nodes, sorted by id once edges begin */
    struct pen_edge *edges;
    uint32_t num_nodes;
    uint32_t num_edges;
    unsigned line;
    struct pen_text *why;
};

static pen_status refuse(const struct reader *reader, const char *what)
{
    pen_why(reader->why, "line %u: %s", reader->line, what);
    return PEN_INVALID;
}

/* Ends the word before the separator and returns the text after it. */
static char *split(char *text)
{
    char *found = strstr(text, SEPARATOR);
    if (found == NULL)
        return NULL;
    *found = '\0';
    return found + strlen(SEPARATOR);
}

/* Reads the number after "key=", which must be at *at. */
static bool read_number(char **at, double most, double *out)
{
    char *end = NULL;
    if ((**at < '0' || **at > '9') && **at != '.')
        return false;
    double value = strtod(*at, &end);
    if (end == *at || !isfinite(value) || value < 0 || value > most)
        return false;
    *out = value;
    *at = end;
    return true;
}

static bool skip_word(char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

/* Reads a number, or [a; b; c], whose sum it is. */
static bool read_sizes(char **at, double *out)
{
    double sum = 0;
    if (!skip_word(at, "["))
        return read_number(at, PEN_PIPEDREAM_MAX_BYTES, out);
    do {
        double size;
        if (!read_number(at, PEN_PIPEDREAM_MAX_BYTES, &size))
            return false;
        sum += size;
    } while (skip_word(at, "; "));
    *out = sum;
    return skip_word(at, "]") && sum <= PEN_PIPEDREAM_MAX_BYTES;
}

static pen_status read_figures(struct reader *reader, char *at,
                               struct pen_pipedream_node *node)
{
    double forward_ms;
    double backward_ms;
    if (!skip_word(&at, "forward_compute_time=") ||
        !read_number(&at, PEN_PIPEDREAM_MAX_MS, &forward_ms))
        return refuse(reader, "expected forward_compute_time=MILLISECONDS");
    if (!skip_word(&at, ", backward_compute_time=") ||
        !read_number(&at, PEN_PIPEDREAM_MAX_MS, &backward_ms))
        return refuse(reader, "expected backward_compute_time=MILLISECONDS");
    if (!skip_word(&at, ", activation_size=") ||
        !read_sizes(&at, &node->activation_bytes))
        return refuse(reader, "expected activation_size=BYTES or [A; B]");
    if (!skip_word(&at, ", parameter_size=") ||
        !read_number(&at, PEN_PIPEDREAM_MAX_BYTES, &node->parameter_bytes))
        return refuse(reader, "expected parameter_size=BYTES");
    node->forward_sec = forward_ms / 1000;
    node->backward_sec = backward_ms / 1000;
    node->stage = PEN_PIPEDREAM_NO_STAGE;
    if (skip_word(&at, SEPARATOR "stage_id=")) {
        double stage;
        if (!read_number(&at, PEN_GRAPH_MAX_NODES, &stage) ||
            stage != floor(stage))
            return refuse(reader, "expected stage_id=NUMBER");
        node->stage = (uint32_t)stage;
    }
    if (*at != '\0')
        return refuse(reader, "unexpected text after the last figure");
    return PEN_OK;
}

static pen_status read_node(struct reader *reader, char *line)
{
    struct pen_pipedream_node *node =
        &reader->profile->nodes[reader->num_nodes];
    char *layer = split(line);
    char *figures = layer == NULL ? NULL : split(layer);
    if (reader->num_edges > 0)
        return refuse(
            reader,
            "a node after the first edge; nodes must come before edges");
    if (figures == NULL || *line == '\0')
        return refuse(reader, "expected NODE -- LAYER -- FIGURES");
    node->id = line;
    node->layer = layer;
    reader->by_name[reader->num_nodes] = reader->num_nodes;
    reader->num_nodes++;
    return read_figures(reader, figures, node);
}

/*
 * Sifts, for a heap sort in place: sorting needs a context, which qsort()
 * lacks.
 */
static void sift(const struct reader *reader, uint32_t from, uint32_t count)
{
    const struct pen_pipedream_node *nodes = reader->profile->nodes;
    uint32_t *heap = reader->by_name;
    for (uint32_t child; (child = 2 * from + 1) < count; from = child) {
        if (child + 1 < count &&
            strcmp(nodes[heap[child]].id, nodes[heap[child + 1]].id) < 0)
            child++;
        if (strcmp(nodes[heap[from]].id, nodes[heap[child]].id) >= 0)
            return;
        uint32_t moved = heap[from];
        heap[from] = heap[child];
        heap[child] = moved;
    }
}

static pen_status sort_names(struct reader *reader)
{
    const struct pen_pipedream_node *nodes = reader->profile->nodes;
    uint32_t *heap = reader->by_name;
    uint32_t count = reader->num_nodes;
    for (uint32_t i = count / 2; i-- > 0;)
        sift(reader, i, count);
    for (uint32_t i = count; i-- > 1;) {
        uint32_t largest = heap[0];
        heap[0] = heap[i];
        heap[i] = largest;
        sift(reader, 0, i);
    }
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(nodes[heap[i - 1]].id, nodes[heap[i]].id) == 0)
            return refuse(reader, "a node before this line is defined twice");
    return PEN_OK;
}

static bool find_name(const struct reader *reader, const char *name,
                      uint32_t *out)
{
    uint32_t low = 0;
    uint32_t high = reader->num_nodes;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t node = reader->by_name[middle];
        int order = strcmp(name, reader->profile->nodes[node].id);
        if (order == 0) {
            *out = node;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

static pen_status read_edge(struct reader *reader, char *line)
{
    struct pen_edge *edge = &reader->edges[reader->num_edges];
    char *to = split(line);
    if (reader->num_edges == 0) {
        pen_status status = sort_names(reader);
        if (status != PEN_OK)
            return status;
    }
    if (to == NULL || !find_name(reader, line, &edge->from) ||
        !find_name(reader, to, &edge->to))
        return refuse(reader,
                      "expected an edge between two nodes of the lines above");
    reader->num_edges++;
    return PEN_OK;
}

static pen_status read_lines(struct reader *reader, char *at)
{
    pen_status status = PEN_OK;
    while (status == PEN_OK && *at != '\0') {
        char *end = at + strcspn(at, "\n");
        char *next = *end == '\0' ? end : end + 1;
        *end = '\0';
        if (end > at && end[-1] == '\r')
            end[-1] = '\0';
        reader->line++;
        if (*at == '\t')
            status = read_edge(reader, at + 1);
        else if (*at != '\0' || *next != '\0')
            status = read_node(reader, at);
        at = next;
    }
    if (status == PEN_OK && reader->num_edges == 0)
        status = sort_names(reader);
    if (status == PEN_OK && reader->num_nodes == 0)
        status = refuse(reader, "the profile has no node");
    return status;
}

/* Reads a profile, with room for one node or one edge per line. */
static pen_status read_profile(struct reader *reader, uint32_t num_lines)
{
    struct pen_pipedream_profile *profile = reader->profile;
    pen_status status = PEN_NOMEM;
    profile->nodes = calloc(num_lines, sizeof *profile->nodes);
    reader->by_name = calloc(num_lines, sizeof *reader->by_name);
    reader->edges = calloc(num_lines, sizeof *reader->edges);
    if (profile->nodes != NULL && reader->by_name != NULL &&
        reader->edges != NULL)
        status = read_lines(reader, profile->words);
    else
        pen_why(reader->why, "no memory for %u lines", num_lines);
    if (status == PEN_OK)
        status = pen_graph_init(&profile->graph, reader->num_nodes,
                                reader->edges, reader->num_edges, reader->why);
    free(reader->by_name);
    free(reader->edges);
    return status;
}

static uint32_t count_lines(const char *text)
{
    uint32_t count = 1;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

pen_status pen_pipedream_profile_parse(const char *text, size_t length,
                                       struct pen_pipedream_profile **out,
                                       struct pen_text *why)
{
    if (length > MAX_FILE_BYTES || memchr(text, '\0', length) != NULL) {
        pen_why(why, "the profile must be a text of at most %zu bytes",
                MAX_FILE_BYTES);
        return PEN_INVALID;
    }
    struct pen_pipedream_profile *profile = calloc(1, sizeof *profile);
    if (profile != NULL)
        profile->words = malloc(length + 1);
    if (profile == NULL || profile->words == NULL) {
        pen_why(why, "no memory for a profile of %zu bytes", length);
        free(profile);
        return PEN_NOMEM;
    }
    if (length > 0)
        memcpy(profile->words, text, length);
    profile->words[length] = '\0';
    struct reader reader = {.profile = profile, .why = why};
    pen_status status = read_profile(&reader, count_lines(profile->words));
    if (status == PEN_OK)
        *out = profile;
    else
        pen_pipedream_profile_free(profile);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_pipedream_profile_parse(bytes, length, out, why);
}

pen_status pen_pipedream_profile_load(const char *path,
                                      struct pen_pipedream_profile **out,
                                      struct pen_text *why)
{
    return pen_file_parse(path, MAX_FILE_BYTES, parse, out, why);
}

void pen_pipedream_profile_free(struct pen_pipedream_profile *profile)
{
    if (profile == NULL)
        return;
    pen_graph_release(&profile->graph);
    free(profile->nodes);
    free(profile->words);
    free(profile);
}
