/*
 * Breadth first from the empty set, one node more at each step, so sets are
 * found in the order of their sizes. A set is found along many ways; a hash
 * table finds those already known. The hash of a set is the exclusive or of one
 * random word per node, so that one step costs one operation.
 *
 *   steps of a set  =  steps of the set it was found from, without the node
 *                      that was added, and those nodes that waited for it alone
 */
#include "planner/ideals.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)1 << 30)
#define NONE UINT32_MAX

struct search {
    const struct pen_graph *graph;
    struct pen_ideals *ideals;
    uint32_t most;
    size_t capacity; /* of sets, hashes and origins */
    size_t up_capacity;
    uint64_t *node_hashes;
    uint32_t *marks;  /* per node: the ideal that last looked at it */
    uint64_t *hashes; /* per ideal */
    struct pen_ideal_step *origins; /* node added, ideal it was added to */
    uint32_t *slots;                /* of the hash table: ideal or NONE */
    size_t num_slots;               /* a power of two */
    struct pen_text *why;
};

bool pen_ideal_is_part(const struct pen_ideals *ideals, uint32_t part,
                       uint32_t whole)
{
    const uint64_t *a = pen_ideal_set(ideals, part);
    const uint64_t *b = pen_ideal_set(ideals, whole);
    for (uint32_t i = 0; i < ideals->num_words; i++)
        if ((a[i] & ~b[i]) != 0)
            return false;
    return true;
}

static pen_status refuse_memory(const struct search *search)
{
    pen_why(search->why, "no memory for %u downward-closed sets",
            search->ideals->count);
    return PEN_NOMEM;
}

/*
 * Gives an array room for more; without memory returns the old one and sets a
 * mark.
 */
static void *enlarge(void *array, size_t bytes, bool *has_failed)
{
    void *larger = realloc(array, bytes);
    *has_failed = *has_failed || larger == NULL;
    return larger == NULL ? array : larger;
}

static void insert_slot(struct search *search, uint32_t ideal)
{
    size_t mask = search->num_slots - 1;
    size_t at = (size_t)search->hashes[ideal] & mask;
    while (search->slots[at] != NONE)
        at = (at + 1) & mask;
    search->slots[at] = ideal;
}

static pen_status grow_slots(struct search *search, size_t num_slots)
{
    uint32_t *slots = malloc(num_slots * sizeof *slots);
    if (slots == NULL)
        return refuse_memory(search);
    free(search->slots);
    search->slots = slots;
    search->num_slots = num_slots;
    memset(slots, 0xff, num_slots * sizeof *slots);
    for (uint32_t i = 0; i < search->ideals->count; i++)
        insert_slot(search, i);
    return PEN_OK;
}

static pen_status make_room(struct search *search)
{
    struct pen_ideals *ideals = search->ideals;
    size_t set_bytes = ideals->num_words * sizeof *ideals->sets;
    if (ideals->count < search->capacity)
        return PEN_OK;
    if (ideals->count >= search->most ||
        (size_t)ideals->count * (set_bytes + 32) > MAX_BYTES) {
        pen_why(search->why, "the graph has more than %u downward-closed sets",
                ideals->count);
        return PEN_INFEASIBLE;
    }
    size_t capacity = search->capacity * 2;
    if (capacity > search->most)
        capacity = search->most;
    bool has_failed = false;
    ideals->sets = enlarge(ideals->sets, set_bytes * capacity, &has_failed);
    ideals->up_begin =
        enlarge(ideals->up_begin, sizeof *ideals->up_begin * (capacity + 1),
                &has_failed);
    search->hashes =
        enlarge(search->hashes, sizeof *search->hashes * capacity, &has_failed);
    search->origins = enlarge(search->origins,
                              sizeof *search->origins * capacity, &has_failed);
    if (has_failed)
        return refuse_memory(search);
    search->capacity = capacity;
    return PEN_OK;
}

static bool is_with(const struct search *search, uint32_t ideal, uint32_t base,
                    uint32_t node)
{
    const struct pen_ideals *ideals = search->ideals;
    const uint64_t *set = pen_ideal_set(ideals, ideal);
    const uint64_t *smaller = pen_ideal_set(ideals, base);
    for (uint32_t i = 0; i < ideals->num_words; i++) {
        uint64_t bit = i == node / 64 ? (uint64_t)1 << (node % 64) : 0;
        if (set[i] != (smaller[i] | bit))
            return false;
    }
    return true;
}

static void append(struct search *search, uint32_t base, uint32_t node,
                   uint64_t hash)
{
    struct pen_ideals *ideals = search->ideals;
    uint32_t made = ideals->count++;
    uint64_t *set = &ideals->sets[(size_t)made * ideals->num_words];
    memcpy(set, pen_ideal_set(ideals, base),
           ideals->num_words * sizeof *ideals->sets);
    pen_set_add(set, node);
    search->hashes[made] = hash;
    search->origins[made] = (struct pen_ideal_step){node, base};
    insert_slot(search, made);
}

/* Finds the number of base with the node, which may be new. */
static pen_status find(struct search *search, uint32_t base, uint32_t node,
                       uint32_t *out)
{
    uint64_t hash = search->hashes[base] ^ search->node_hashes[node];
    size_t mask = search->num_slots - 1;
    for (size_t at = (size_t)hash & mask; search->slots[at] != NONE;
         at = (at + 1) & mask) {
        uint32_t ideal = search->slots[at];
        if (search->hashes[ideal] == hash &&
            is_with(search, ideal, base, node)) {
            *out = ideal;
            return PEN_OK;
        }
    }
    pen_status status = make_room(search);
    if (status == PEN_OK &&
        (size_t)search->ideals->count * 2 >= search->num_slots)
        status = grow_slots(search, search->num_slots * 2);
    if (status != PEN_OK)
        return status;
    *out = search->ideals->count;
    append(search, base, node, hash);
    return PEN_OK;
}

static pen_status add_step(struct search *search, uint32_t base, uint32_t node)
{
    struct pen_ideals *ideals = search->ideals;
    uint32_t end = ideals->up_begin[base + 1];
    if (end == search->up_capacity) {
        bool has_failed = false;
        search->up_capacity *= 2;
        ideals->up = enlarge(
            ideals->up, sizeof *ideals->up * search->up_capacity, &has_failed);
        if (has_failed)
            return refuse_memory(search);
    }
    uint32_t ideal;
    pen_status status = find(search, base, node, &ideal);
    if (status != PEN_OK)
        return status;
    ideals->up[end] = (struct pen_ideal_step){node, ideal};
    ideals->up_begin[base + 1]++;
    return PEN_OK;
}

static bool is_ready(const struct search *search, uint32_t ideal, uint32_t node)
{
    const struct pen_graph *graph = search->graph;
    const uint64_t *set = pen_ideal_set(search->ideals, ideal);
    for (uint32_t i = graph->in_begin[node]; i < graph->in_begin[node + 1]; i++)
        if (!pen_set_has(set, graph->in[i]))
            return false;
    return true;
}

static pen_status step_from_empty(struct search *search)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < search->graph->num_nodes && status == PEN_OK; i++)
        if (is_ready(search, 0, i))
            status = add_step(search, 0, i);
    return status;
}

/* False when an edge before this one leads to the same node. */
static bool is_new(struct search *search, uint32_t node, uint32_t ideal)
{
    bool is_first = search->marks[node] != ideal;
    search->marks[node] = ideal;
    return is_first;
}

static pen_status step_from(struct search *search, uint32_t ideal)
{
    const struct pen_ideals *ideals = search->ideals;
    const struct pen_graph *graph = search->graph;
    struct pen_ideal_step origin = search->origins[ideal];
    pen_status status = PEN_OK;
    for (uint32_t i = ideals->up_begin[origin.ideal];
         i < ideals->up_begin[origin.ideal + 1] && status == PEN_OK; i++)
        if (ideals->up[i].node != origin.node)
            status = add_step(search, ideal, ideals->up[i].node);
    for (uint32_t i = graph->out_begin[origin.node];
         i < graph->out_begin[origin.node + 1] && status == PEN_OK; i++)
        if (is_new(search, graph->out[i], ideal) &&
            is_ready(search, ideal, graph->out[i]))
            status = add_step(search, ideal, graph->out[i]);
    return status;
}

static pen_status run(struct search *search)
{
    struct pen_ideals *ideals = search->ideals;
    struct pen_random random = {.state = 1};
    for (uint32_t i = 0; i < ideals->num_nodes; i++)
        search->node_hashes[i] = pen_random_next(&random);
    memset(ideals->sets, 0, ideals->num_words * sizeof *ideals->sets);
    search->hashes[0] = 0;
    ideals->up_begin[0] = 0;
    ideals->count = 1;
    pen_status status = grow_slots(search, 1024);
    for (uint32_t i = 0; i < ideals->count && status == PEN_OK; i++) {
        ideals->up_begin[i + 1] = ideals->up_begin[i];
        status = i == 0 ? step_from_empty(search) : step_from(search, i);
    }
    return status;
}

pen_status pen_ideals_create(const struct pen_graph *graph, uint32_t most,
                             struct pen_ideals **out, struct pen_text *why)
{
    struct pen_ideals *ideals = calloc(1, sizeof *ideals);
    struct search search = {.graph = graph,
                            .ideals = ideals,
                            .most = most < 2 ? 2 : most,
                            .capacity = 2,
                            .up_capacity = 64,
                            .why = why};
    if (ideals == NULL) {
        pen_why(why, "no memory for downward-closed sets");
        return PEN_NOMEM;
    }
    ideals->num_nodes = graph->num_nodes;
    ideals->num_words = graph->num_nodes / 64 + 1;
    ideals->sets = calloc(2 * (size_t)ideals->num_words, sizeof *ideals->sets);
    ideals->up_begin = calloc(3, sizeof *ideals->up_begin);
    ideals->up = calloc(search.up_capacity, sizeof *ideals->up);
    search.node_hashes =
        calloc((size_t)graph->num_nodes + 1, sizeof *search.node_hashes);
    search.marks = calloc((size_t)graph->num_nodes + 1, sizeof *search.marks);
    search.hashes = calloc(2, sizeof *search.hashes);
    search.origins = calloc(2, sizeof *search.origins);
    pen_status status = PEN_NOMEM;
    if (ideals->sets == NULL || ideals->up_begin == NULL ||
        ideals->up == NULL || search.node_hashes == NULL ||
        search.marks == NULL || search.hashes == NULL || search.origins == NULL)
        (void)refuse_memory(&search);
    else
        status = run(&search);
    free(search.node_hashes);
    free(search.marks);
    free(search.hashes);
    free(search.origins);
    free(search.slots);
    if (status == PEN_OK)
        *out = ideals;
    else
        pen_ideals_free(ideals);
    return status;
}

void pen_ideals_free(struct pen_ideals *ideals)
{
    if (ideals == NULL)
        return;
    free(ideals->sets);
    free(ideals->up_begin);
    free(ideals->up);
    free(ideals);
}
