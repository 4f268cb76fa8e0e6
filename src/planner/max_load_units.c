/*
 * From nodes to units: a forest over colors says which are one unit.
 *
 * 1. An edge of the forward pass puts its colors in order. Colors that occur in
 *    the backward pass only are put in order by it, the other way round.
 * 2. Colors in a circle become one.
 * 3. A unit that costs nothing and has one neighbour becomes one with it.
 */
#include "planner/max_load_units.h"

#include <stdlib.h>

#define NOTHING 1e-6 /* a cost below it is none */
#define NONE UINT32_MAX
#define MOST_ROUNDS 256 /* of step 3, which only saves time */

struct maker {
    const struct pen_placement_graph *from;
    struct pen__units *units;
    uint32_t *parents;      /* per color: another of its unit, or itself */
    bool *has_forward;      /* per color */
    struct pen_edge *edges; /* between colors */
    uint32_t num_edges;
    uint32_t *numbers;    /* per color: unit; per unit: a mark */
    uint32_t *scratch[4]; /* (colors + 1) each */
    double *costs;        /* per color */
    struct pen_text *why;
};

static uint32_t find(const struct maker *maker, uint32_t color)
{
    while (maker->parents[color] != color) {
        uint32_t above = maker->parents[maker->parents[color]];
        maker->parents[color] = above;
        color = above;
    }
    return color;
}

static bool unite(const struct maker *maker, uint32_t a, uint32_t b)
{
    uint32_t x = find(maker, a);
    uint32_t y = find(maker, b);
    maker->parents[x] = y;
    return x != y;
}

/* ---- the order of colors ---- */

static void add_edge(struct maker *maker, uint32_t from, uint32_t to)
{
    if (from != to)
        maker->edges[maker->num_edges++] = (struct pen_edge){from, to};
}

static void order_colors(struct maker *maker)
{
    const struct pen_placement_node *nodes = maker->from->nodes;
    const struct pen_graph *graph = &maker->from->graph;
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        if (!nodes[i].is_backward)
            maker->has_forward[nodes[i].color] = true;
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        for (uint32_t j = graph->out_begin[i]; j < graph->out_begin[i + 1];
             j++) {
            const struct pen_placement_node *from = &nodes[i];
            const struct pen_placement_node *to = &nodes[graph->out[j]];
            if (!from->is_backward && !to->is_backward)
                add_edge(maker, from->color, to->color);
            else if (from->is_backward && (!maker->has_forward[from->color] ||
                                           !maker->has_forward[to->color]))
                add_edge(maker, to->color, from->color);
        }
    }
}

/*
 * Circles: Tarjan's algorithm with a stack of its own. scratch[0] has the
 * number of a visit, [1] the lowest number that can be reached, [2] the colors
 * whose circle is open, [3] the way to the present color.
 */
struct visits {
    const uint32_t *begin; /* of the edges out of a color */
    uint32_t *next;        /* edge to look at */
    uint32_t count;
    uint32_t open;
    uint32_t depth;
};

static void enter(struct maker *maker, struct visits *visits, uint32_t color)
{
    maker->scratch[0][color] = maker->scratch[1][color] = ++visits->count;
    maker->scratch[2][visits->open++] = color;
    maker->scratch[3][visits->depth++] = color;
    visits->next[color] = visits->begin[color];
}

static void lower(struct maker *maker, uint32_t color, uint32_t value)
{
    if (value < maker->scratch[1][color])
        maker->scratch[1][color] = value;
}

static void leave(struct maker *maker, struct visits *visits, uint32_t color)
{
    visits->depth--;
    if (visits->depth > 0)
        lower(maker, maker->scratch[3][visits->depth - 1],
              maker->scratch[1][color]);
    if (maker->scratch[1][color] != maker->scratch[0][color])
        return;
    uint32_t member;
    do {
        member = maker->scratch[2][--visits->open];
        (void)unite(maker, member, color);
        maker->scratch[0][member] = NONE; /* closed */
    } while (member != color);
}

static void follow(struct maker *maker, struct visits *visits, uint32_t first)
{
    enter(maker, visits, first);
    while (visits->depth > 0) {
        uint32_t color = maker->scratch[3][visits->depth - 1];
        if (visits->next[color] == visits->begin[color + 1]) {
            leave(maker, visits, color);
            continue;
        }
        uint32_t to = maker->edges[visits->next[color]++].to;
        if (maker->scratch[0][to] == 0)
            enter(maker, visits, to);
        else if (maker->scratch[0][to] != NONE)
            lower(maker, color, maker->scratch[0][to]);
    }
}

static int by_from(const void *a, const void *b)
{
    const struct pen_edge *x = a;
    const struct pen_edge *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static pen_status unite_circles(struct maker *maker)
{
    uint32_t colors = maker->from->num_colors;
    uint32_t *begin = calloc((size_t)colors + 1, sizeof *begin);
    uint32_t *next = calloc((size_t)colors + 1, sizeof *next);
    pen_status status = PEN_OK;
    if (begin == NULL || next == NULL) {
        pen_why(maker->why, "no memory for %u colors", colors);
        status = PEN_NOMEM;
    } else {
        qsort(maker->edges, maker->num_edges, sizeof *maker->edges, by_from);
        for (uint32_t i = 0; i < maker->num_edges; i++)
            begin[maker->edges[i].from + 1]++;
        for (uint32_t i = 0; i < colors; i++)
            begin[i + 1] += begin[i];
        struct visits visits = {.begin = begin, .next = next};
        for (uint32_t i = 0; i < colors; i++)
            if (maker->scratch[0][i] == 0)
                follow(maker, &visits, i);
    }
    free(begin);
    free(next);
    return status;
}

/* ---- what costs nothing ---- */

/* Sets scratch[0] of a root: its one neighbour, NONE without, itself: many. */
static void note_neighbour(struct maker *maker, uint32_t root, uint32_t other)
{
    uint32_t *neighbour = &maker->scratch[0][root];
    if (*neighbour == NONE)
        *neighbour = other;
    else if (*neighbour != other)
        *neighbour = root;
}

static void note_neighbours(struct maker *maker)
{
    const struct pen_placement_node *nodes = maker->from->nodes;
    const struct pen_graph *graph = &maker->from->graph;
    for (uint32_t i = 0; i < maker->from->num_colors; i++)
        maker->scratch[0][i] = NONE;
    for (uint32_t i = 0; i < maker->num_edges; i++) {
        uint32_t a = find(maker, maker->edges[i].from);
        uint32_t b = find(maker, maker->edges[i].to);
        if (a == b)
            continue;
        note_neighbour(maker, a, b);
        note_neighbour(maker, b, a);
    }
    /* A color that the backward pass reads is not free to move. */
    for (uint32_t i = 0; i < graph->num_nodes; i++) {
        uint32_t root = find(maker, nodes[i].color);
        for (uint32_t j = graph->out_begin[i];
             j < graph->out_begin[i + 1] && !nodes[i].is_backward; j++)
            if (nodes[graph->out[j]].is_backward)
                maker->scratch[0][root] = root;
    }
}

static void note_costs(struct maker *maker)
{
    const struct pen_placement_node *nodes = maker->from->nodes;
    for (uint32_t i = 0; i < maker->from->num_colors; i++)
        maker->costs[i] = 0;
    for (uint32_t i = 0; i < maker->from->graph.num_nodes; i++)
        maker->costs[find(maker, nodes[i].color)] +=
            nodes[i].device_cost + nodes[i].cpu_cost;
}

/* True when any two became one. */
static bool unite_free(struct maker *maker)
{
    bool has_changed = false;
    note_neighbours(maker);
    note_costs(maker);
    for (uint32_t i = 0; i < maker->from->num_colors; i++) {
        uint32_t neighbour = maker->scratch[0][i];
        if (maker->parents[i] == i && neighbour != NONE && neighbour != i &&
            maker->costs[i] < NOTHING && unite(maker, i, neighbour))
            has_changed = true;
    }
    return has_changed;
}

/* ---- units ---- */

static uint32_t unit_of(const struct maker *maker, uint32_t node)
{
    return maker->units->of_node[node];
}

static void number_units(struct maker *maker)
{
    struct pen__units *units = maker->units;
    for (uint32_t i = 0; i < maker->from->num_colors; i++)
        if (find(maker, i) == i)
            maker->numbers[i] = units->count++;
    for (uint32_t i = 0; i < maker->from->graph.num_nodes; i++)
        units->of_node[i] =
            maker->numbers[find(maker, maker->from->nodes[i].color)];
}

static void fill_units(struct maker *maker)
{
    const struct pen_placement_graph *from = maker->from;
    for (uint32_t i = 0; i < maker->units->count; i++)
        maker->units->units[i].runs_on_devices = true;
    for (uint32_t i = 0; i < from->graph.num_nodes; i++) {
        const struct pen_placement_node *node = &from->nodes[i];
        struct pen__unit *unit = &maker->units->units[unit_of(maker, i)];
        unit->device_cost += node->device_cost;
        unit->cpu_cost += node->cpu_cost;
        unit->bytes += node->bytes;
        unit->runs_on_devices = unit->runs_on_devices && node->runs_on_devices;
    }
}

static pen_status connect_units(struct maker *maker)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < maker->num_edges; i++) {
        struct pen_edge edge = {
            maker->numbers[find(maker, maker->edges[i].from)],
            maker->numbers[find(maker, maker->edges[i].to)]};
        if (edge.from != edge.to)
            maker->edges[count++] = edge;
    }
    qsort(maker->edges, count, sizeof *maker->edges, by_from);
    maker->num_edges = 0;
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || by_from(&maker->edges[i - 1], &maker->edges[i]) != 0)
            maker->edges[maker->num_edges++] = maker->edges[i];
    return pen_graph_init(&maker->units->graph, maker->units->count,
                          maker->edges, maker->num_edges, maker->why);
}

/* Marks a unit as one of this net; true at the first time. */
static bool is_new(uint32_t *marks, uint32_t unit, uint32_t net)
{
    bool is_first = marks[unit] != net;
    marks[unit] = net;
    return is_first;
}

/* Units of the output of a node; fills the lists of units when asked to. */
static uint32_t touch(struct maker *maker, uint32_t node, bool fills)
{
    const struct pen_graph *graph = &maker->from->graph;
    struct pen__units *units = maker->units;
    uint32_t *marks = maker->scratch[fills ? 1 : 0];
    uint32_t size = 0;
    for (uint32_t i = graph->out_begin[node]; i <= graph->out_begin[node + 1];
         i++) {
        bool is_maker = i == graph->out_begin[node + 1];
        uint32_t unit = unit_of(maker, is_maker ? node : graph->out[i]);
        if (!is_new(marks, unit, node))
            continue;
        size++;
        if (fills)
            units->nets[--units->nets_begin[unit + 1]] = units->num_nets;
        else
            maker->scratch[2][unit]++;
    }
    return size;
}

/* A net within one unit costs no transfer. */
static bool is_net(struct maker *maker, uint32_t node)
{
    const struct pen_graph *graph = &maker->from->graph;
    uint32_t unit = unit_of(maker, node);
    if (maker->from->nodes[node].transfer_cost <= 0)
        return false;
    for (uint32_t i = graph->out_begin[node]; i < graph->out_begin[node + 1];
         i++)
        if (unit_of(maker, graph->out[i]) != unit)
            return true;
    return false;
}

static pen_status fill_nets(struct maker *maker)
{
    const struct pen_placement_graph *from = maker->from;
    struct pen__units *units = maker->units;
    for (uint32_t i = 0; i < from->num_colors; i++) {
        maker->scratch[0][i] = maker->scratch[1][i] = NONE;
        maker->scratch[2][i] = 0;
    }
    for (uint32_t i = 0; i < from->graph.num_nodes; i++)
        if (is_net(maker, i))
            units->net_sizes[units->num_nets++] = touch(maker, i, false);
    for (uint32_t i = 0; i < units->count; i++)
        units->nets_begin[i + 1] = units->nets_begin[i] + maker->scratch[2][i];
    units->nets = calloc((size_t)units->nets_begin[units->count] + 1,
                         sizeof *units->nets);
    if (units->nets == NULL) {
        pen_why(maker->why, "no memory for %u outputs", units->num_nets);
        return PEN_NOMEM;
    }
    uint32_t total = units->nets_begin[units->count];
    units->num_nets = 0;
    for (uint32_t i = 0; i < from->graph.num_nodes; i++) {
        if (!is_net(maker, i))
            continue;
        (void)touch(maker, i, true);
        units->net_costs[units->num_nets++] = from->nodes[i].transfer_cost;
    }
    /* Each begin is one place too late now. */
    for (uint32_t i = 0; i < units->count; i++)
        units->nets_begin[i] = units->nets_begin[i + 1];
    units->nets_begin[units->count] = total;
    return PEN_OK;
}

static pen_status make(struct maker *maker)
{
    for (uint32_t i = 0; i < maker->from->num_colors; i++)
        maker->parents[i] = i;
    order_colors(maker);
    pen_status status = unite_circles(maker);
    if (status != PEN_OK)
        return status;
    for (int i = 0; i < MOST_ROUNDS && unite_free(maker); i++)
        continue;
    number_units(maker);
    fill_units(maker);
    status = connect_units(maker);
    if (status == PEN_OK)
        status = fill_nets(maker);
    return status;
}

static pen_status allocate_and_make(struct maker *maker)
{
    size_t nodes = maker->from->graph.num_nodes;
    size_t colors = (size_t)maker->from->num_colors + 1;
    struct pen__units *units = maker->units;
    units->of_node = calloc(nodes, sizeof *units->of_node);
    units->units = calloc(colors, sizeof *units->units);
    units->net_costs = calloc(nodes, sizeof *units->net_costs);
    units->net_sizes = calloc(nodes, sizeof *units->net_sizes);
    units->nets_begin = calloc(colors + 1, sizeof *units->nets_begin);
    maker->parents = calloc(colors, sizeof *maker->parents);
    maker->has_forward = calloc(colors, sizeof *maker->has_forward);
    maker->numbers = calloc(colors, sizeof *maker->numbers);
    maker->costs = calloc(colors, sizeof *maker->costs);
    maker->edges =
        calloc((size_t)maker->from->graph.num_edges + 1, sizeof *maker->edges);
    bool has_all = units->of_node != NULL && units->units != NULL &&
                   units->net_costs != NULL && units->net_sizes != NULL &&
                   units->nets_begin != NULL && maker->parents != NULL &&
                   maker->has_forward != NULL && maker->numbers != NULL &&
                   maker->costs != NULL && maker->edges != NULL;
    for (int i = 0; i < 4; i++) {
        maker->scratch[i] = calloc(colors, sizeof *maker->scratch[i]);
        has_all = has_all && maker->scratch[i] != NULL;
    }
    if (!has_all) {
        pen_why(maker->why, "no memory for %zu nodes", nodes);
        return PEN_NOMEM;
    }
    return make(maker);
}

pen_status pen__units_init(struct pen__units *units,
                           const struct pen_placement_graph *graph,
                           struct pen_text *why)
{
    struct pen__units made = {0};
    struct maker maker = {.from = graph, .units = &made, .why = why};
    pen_status status = allocate_and_make(&maker);
    free(maker.parents);
    free(maker.has_forward);
    free(maker.numbers);
    free(maker.costs);
    free(maker.edges);
    for (int i = 0; i < 4; i++)
        free(maker.scratch[i]);
    if (status == PEN_OK)
        *units = made;
    else
        pen__units_release(&made);
    return status;
}

void pen__units_release(struct pen__units *units)
{
    pen_graph_release(&units->graph);
    free(units->of_node);
    free(units->units);
    free(units->net_costs);
    free(units->net_sizes);
    free(units->nets_begin);
    free(units->nets);
    *units = (struct pen__units){0};
}
