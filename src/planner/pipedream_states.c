#include "planner/pipedream_states.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STATES 16384u
#define MAX_IDEALS 262144u
#define NONE UINT32_MAX

/* The states that are made, and memory that is needed only meanwhile. */
struct maker {
    const struct pen_pipedream_profile *profile;
    struct pen__pipedream_states *states;
    struct pen_graph graph; /* of the layers */
    uint32_t *numbers;      /* per node: its number as a layer, or NONE */
    uint32_t *stack;        /* (nodes) */
    uint32_t num_layers;
    uint32_t num_words;
    uint64_t *before; /* (layers, words): all that runs before a layer */
    uint64_t *open;   /* (layers, words), see mark_open() */
    uint64_t *marks;  /* (words) */
    struct pen_text *why;
};

bool pen__pipedream_state_has(const struct pen__pipedream_states *states,
                              uint32_t state, uint32_t layer)
{
    return pen_set_has(pen_ideal_set(states->ideals, states->members[state]),
                       layer);
}

static bool is_left_out(const struct pen_pipedream_profile *profile,
                        uint32_t node)
{
    const struct pen_graph *graph = &profile->graph;
    const char *layer = profile->nodes[node].layer;
    bool is_source = graph->in_begin[node] == graph->in_begin[node + 1];
    bool is_sink = graph->out_begin[node] == graph->out_begin[node + 1];
    return (is_source && strncmp(layer, "Input", 5) == 0) ||
           (is_sink && strncmp(layer, "__getitem__", 11) == 0);
}

/* The first node of the file with nothing before it. */
static uint32_t find_first(const struct pen_pipedream_profile *profile)
{
    const struct pen_graph *graph = &profile->graph;
    for (uint32_t node = 0; node < graph->num_nodes; node++) {
        bool is_first = !is_left_out(profile, node);
        for (uint32_t i = graph->in_begin[node];
             i < graph->in_begin[node + 1] && is_first; i++)
            is_first = is_left_out(profile, graph->in[i]);
        if (is_first)
            return node;
    }
    return NONE;
}

static void visit(struct maker *maker, uint32_t node, uint32_t *height)
{
    if (maker->numbers[node] != NONE || is_left_out(maker->profile, node))
        return;
    maker->numbers[node] = 0;
    maker->stack[(*height)++] = node;
}

/* Layers are all nodes that hang together with the first one. */
static pen_status number_layers(struct maker *maker)
{
    const struct pen_graph *graph = &maker->profile->graph;
    uint32_t height = 0;
    uint32_t first = find_first(maker->profile);
    if (first == NONE) {
        pen_why(maker->why, "the profile has no layers other than inputs");
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        maker->numbers[i] = NONE;
    visit(maker, first, &height);
    while (height > 0) {
        uint32_t node = maker->stack[--height];
        for (uint32_t i = graph->in_begin[node]; i < graph->in_begin[node + 1];
             i++)
            visit(maker, graph->in[i], &height);
        for (uint32_t i = graph->out_begin[node];
             i < graph->out_begin[node + 1]; i++)
            visit(maker, graph->out[i], &height);
    }
    /* The first one is number 0, the others follow in their order. */
    maker->states->layers[maker->num_layers++] = first;
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        uint32_t node = graph->order[i];
        if (maker->numbers[node] == NONE || node == first)
            continue;
        maker->numbers[node] = maker->num_layers;
        maker->states->layers[maker->num_layers++] = node;
    }
    return PEN_OK;
}

static pen_status connect_layers(struct maker *maker)
{
    const struct pen_graph *graph = &maker->profile->graph;
    struct pen_edge *edges =
        calloc((size_t)graph->num_edges + 1, sizeof *edges);
    uint32_t count = 0;
    if (edges == NULL) {
        pen_why(maker->why, "no memory for %u edges", graph->num_edges);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < maker->num_layers; i++) {
        uint32_t node = maker->states->layers[i];
        for (uint32_t j = graph->out_begin[node];
             j < graph->out_begin[node + 1]; j++)
            if (maker->numbers[graph->out[j]] != NONE)
                edges[count++] =
                    (struct pen_edge){i, maker->numbers[graph->out[j]]};
    }
    maker->num_words = maker->num_layers / 64 + 1;
    pen_status status = pen_graph_init(&maker->graph, maker->num_layers, edges,
                                       count, maker->why);
    free(edges);
    return status;
}

static void mark_before(struct maker *maker)
{
    const struct pen_graph *graph = &maker->graph;
    size_t words = maker->num_words;
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        uint32_t layer = graph->order[i];
        uint64_t *before = &maker->before[layer * words];
        for (uint32_t j = graph->in_begin[layer];
             j < graph->in_begin[layer + 1]; j++) {
            pen_set_add(before, graph->in[j]);
            for (size_t k = 0; k < words; k++)
                before[k] |= maker->before[graph->in[j] * words + k];
        }
    }
}

/*
 * The open layers of a layer: those that run before it and that a later layer
 * reads. The released program sends all of them, even those that no layer after
 * a cut reads, where the cut has several last layers.
 */
static void mark_open(struct maker *maker)
{
    const struct pen_graph *graph = &maker->graph;
    size_t words = maker->num_words;
    for (uint32_t layer = 0; layer < graph->num_nodes; layer++) {
        const uint64_t *before = &maker->before[layer * words];
        for (uint32_t i = 0; i < graph->num_nodes; i++) {
            if (!pen_set_has(before, i))
                continue;
            for (uint32_t j = graph->out_begin[i]; j < graph->out_begin[i + 1];
                 j++)
                if (graph->out[j] != layer &&
                    !pen_set_has(before, graph->out[j]))
                    pen_set_add(&maker->open[layer * words], i);
        }
    }
}

static uint32_t count_set(const uint64_t *set, size_t words)
{
    uint32_t count = 0;
    for (size_t i = 0; i < words; i++)
        for (uint64_t rest = set[i]; rest != 0; rest &= rest - 1)
            count++;
    return count;
}

static uint32_t reach(struct maker *maker, const uint64_t *set, uint32_t layer,
                      uint32_t height)
{
    if (pen_set_has(set, layer) && !pen_set_has(maker->marks, layer)) {
        pen_set_add(maker->marks, layer);
        maker->stack[height++] = layer;
    }
    return height;
}

/* Whether the set has the first layer and a way from it to all others. */
static bool hangs_together(struct maker *maker, const uint64_t *set)
{
    const struct pen_graph *graph = &maker->graph;
    memset(maker->marks, 0, maker->num_words * sizeof *maker->marks);
    uint32_t height = reach(maker, set, 0, 0);
    while (height > 0) {
        uint32_t layer = maker->stack[--height];
        for (uint32_t i = graph->in_begin[layer];
             i < graph->in_begin[layer + 1]; i++)
            height = reach(maker, set, graph->in[i], height);
        for (uint32_t i = graph->out_begin[layer];
             i < graph->out_begin[layer + 1]; i++)
            height = reach(maker, set, graph->out[i], height);
    }
    return count_set(maker->marks, maker->num_words) ==
           count_set(set, maker->num_words);
}

static pen_status pick_members(struct maker *maker)
{
    struct pen__pipedream_states *states = maker->states;
    const struct pen_ideals *ideals = states->ideals;
    states->members = calloc(ideals->count, sizeof *states->members);
    if (states->members == NULL) {
        pen_why(maker->why, "no memory for %u states", ideals->count);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < ideals->count; i++)
        if (i == 0 || hangs_together(maker, pen_ideal_set(ideals, i)))
            states->members[states->count++] = i;
    if (states->count > MAX_STATES) {
        pen_why(maker->why, "%u states are more than %u", states->count,
                MAX_STATES);
        return PEN_INFEASIBLE;
    }
    return PEN_OK;
}

/* Last layers of the set, and what is open before each of them. */
static void mark_output(struct maker *maker, const uint64_t *set)
{
    const struct pen_graph *graph = &maker->graph;
    size_t words = maker->num_words;
    memset(maker->marks, 0, words * sizeof *maker->marks);
    for (uint32_t layer = 0; layer < graph->num_nodes; layer++) {
        bool is_last = pen_set_has(set, layer);
        for (uint32_t i = graph->out_begin[layer];
             i < graph->out_begin[layer + 1] && is_last; i++)
            is_last = !pen_set_has(set, graph->out[i]);
        if (!is_last)
            continue;
        pen_set_add(maker->marks, layer);
        for (size_t i = 0; i < words; i++)
            maker->marks[i] |= maker->open[layer * words + i];
    }
}

static void sum_state(struct maker *maker, uint32_t state)
{
    struct pen__pipedream_states *states = maker->states;
    const uint64_t *set = pen_ideal_set(states->ideals, states->members[state]);
    mark_output(maker, set);
    for (uint32_t i = 0; i < maker->num_layers; i++) {
        const struct pen_pipedream_node *node =
            &maker->profile->nodes[states->layers[i]];
        if (pen_set_has(maker->marks, i))
            states->output_bytes[state] += node->activation_bytes;
        if (!pen_set_has(set, i))
            continue;
        states->compute_sec[state] += node->forward_sec + node->backward_sec;
        states->activation_bytes[state] += node->activation_bytes;
        states->parameter_bytes[state] += node->parameter_bytes;
    }
}

static pen_status fill_states(struct maker *maker)
{
    struct pen__pipedream_states *states = maker->states;
    size_t count = states->count;
    states->compute_sec = calloc(count, sizeof *states->compute_sec);
    states->activation_bytes = calloc(count, sizeof *states->activation_bytes);
    states->parameter_bytes = calloc(count, sizeof *states->parameter_bytes);
    states->output_bytes = calloc(count, sizeof *states->output_bytes);
    states->is_part = calloc(count * count, sizeof *states->is_part);
    if (states->compute_sec == NULL || states->activation_bytes == NULL ||
        states->parameter_bytes == NULL || states->output_bytes == NULL ||
        states->is_part == NULL) {
        pen_why(maker->why, "no memory for %zu states", count);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        sum_state(maker, i);
        for (uint32_t j = i + 1; j < count; j++)
            states->is_part[i * count + j] = pen_ideal_is_part(
                states->ideals, states->members[i], states->members[j]);
    }
    return PEN_OK;
}

static pen_status make_states(struct maker *maker)
{
    size_t cells = (size_t)maker->num_layers * maker->num_words;
    maker->before = calloc(cells, sizeof *maker->before);
    maker->open = calloc(cells, sizeof *maker->open);
    maker->marks = calloc(maker->num_words, sizeof *maker->marks);
    if (maker->before == NULL || maker->open == NULL || maker->marks == NULL) {
        pen_why(maker->why, "no memory for %u layers", maker->num_layers);
        return PEN_NOMEM;
    }
    mark_before(maker);
    mark_open(maker);
    pen_status status = pen_ideals_create(&maker->graph, MAX_IDEALS,
                                          &maker->states->ideals, maker->why);
    if (status == PEN_OK)
        status = pick_members(maker);
    if (status == PEN_OK)
        status = fill_states(maker);
    return status;
}

static pen_status make(struct maker *maker)
{
    const struct pen_graph *graph = &maker->profile->graph;
    size_t nodes = graph->num_nodes;
    maker->states->layers = calloc(nodes, sizeof *maker->states->layers);
    maker->numbers = calloc(nodes, sizeof *maker->numbers);
    maker->stack = calloc(nodes, sizeof *maker->stack);
    if (maker->states->layers == NULL || maker->numbers == NULL ||
        maker->stack == NULL) {
        pen_why(maker->why, "no memory for a profile of %zu nodes", nodes);
        return PEN_NOMEM;
    }
    pen_status status = number_layers(maker);
    if (status == PEN_OK)
        status = connect_layers(maker);
    if (status == PEN_OK)
        status = make_states(maker);
    return status;
}

pen_status pen__pipedream_states_init(struct pen__pipedream_states *states,
                                      const struct pen_pipedream_profile *from,
                                      struct pen_text *why)
{
    struct pen__pipedream_states made = {0};
    struct maker maker = {.profile = from, .states = &made, .why = why};
    pen_status status = make(&maker);
    pen_graph_release(&maker.graph);
    free(maker.numbers);
    free(maker.stack);
    free(maker.before);
    free(maker.open);
    free(maker.marks);
    if (status == PEN_OK)
        *states = made;
    else
        pen__pipedream_states_release(&made);
    return status;
}

void pen__pipedream_states_release(struct pen__pipedream_states *states)
{
    pen_ideals_free(states->ideals);
    free(states->layers);
    free(states->members);
    free(states->compute_sec);
    free(states->activation_bytes);
    free(states->parameter_bytes);
    free(states->output_bytes);
    free(states->is_part);
    *states = (struct pen__pipedream_states){0};
}
