#include "schedule/costs.h"

#include "base/bug.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COST_FILE_BYTES ((size_t)64 << 20)
#define NOT_GIVEN (-1.0)

void pen_costs_init(struct pen_costs *costs)
{
    *costs = (struct pen_costs){
        .scope = PEN_COST_UNIFORM,
        .uniform = {.forward_sec = 1,
                    .input_sec = 1,
                    .weight_sec = 1,
                    .recompute_sec = -1,
                    .pair_sec = -1,
                    .memory = 1},
        .memory = {.forward = 1, .input = 0, .weight = -1, .recompute = 1}};
}

void pen_costs_release(struct pen_costs *costs)
{
    free(costs->items);
    free(costs->links);
    pen_costs_init(costs);
}

struct key {
    const char *name;
    double *value;
    double least;
    double most;
};

/* Reads "name=number,name=number"; every name at most once. */
static pen_status read_keys(const char *text, const struct key *keys,
                            size_t num_keys, struct pen_text *why)
{
    unsigned seen = 0;
    const char *at = text;
    while (*at != '\0') {
        const char *equals = strchr(at, '=');
        size_t found = num_keys;
        for (size_t i = 0; equals != NULL && i < num_keys; i++) {
            if (strlen(keys[i].name) == (size_t)(equals - at) &&
                memcmp(keys[i].name, at, (size_t)(equals - at)) == 0)
                found = i;
        }
        if (found == num_keys) {
            pen_why(why, "'%s': expected one of", at);
            for (size_t i = 0; i < num_keys; i++)
                pen_why(why, " %s=", keys[i].name);
            return PEN_INVALID;
        }
        char *end = NULL;
        double value = strtod(equals + 1, &end);
        const struct key *key = &keys[found];
        if (end == equals + 1 || (*end != ',' && *end != '\0') ||
            !isfinite(value) || value < key->least || value > key->most) {
            pen_why(why, "'%s' needs a number from %g to %g", key->name,
                    key->least, key->most);
            return PEN_INVALID;
        }
        if (seen & (1u << found)) {
            pen_why(why, "'%s' is given twice", key->name);
            return PEN_INVALID;
        }
        seen |= 1u << found;
        *key->value = value;
        at = *end == ',' ? end + 1 : end;
    }
    return PEN_OK;
}

static bool is_key_list(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals != NULL &&
           memchr(text, '/', (size_t)(equals - text)) == NULL &&
           memchr(text, '.', (size_t)(equals - text)) == NULL;
}

/*
 * Splits b, the cost of I and W in a row: in halves, or into one of them and
 * the rest. Without b, each of them is 1 when not given.
 */
static pen_status split_backward(double backward, struct pen_cost *cost,
                                 struct pen_text *why)
{
    double *input = &cost->input_sec;
    double *weight = &cost->weight_sec;
    if (backward < 0) {
        *input = *input < 0 ? 1 : *input;
        *weight = *weight < 0 ? 1 : *weight;
        return PEN_OK;
    }
    if (*input >= 0 && *weight >= 0) {
        pen_why(why, "b is i and w together; give b alone, b with one of them, "
                     "or i and w");
        return PEN_INVALID;
    }
    if (*input > backward || *weight > backward) {
        pen_why(why, "b is i and w together; %s=%g is more than b=%g",
                *input >= 0 ? "i" : "w", fmax(*input, *weight), backward);
        return PEN_INVALID;
    }
    if (*weight >= 0)
        *input = backward - *weight;
    else if (*input < 0)
        *input = backward / 2;
    *weight = backward - *input;
    return PEN_OK;
}

pen_status pen_costs_read(const char *text, struct pen_costs *costs,
                          struct pen_text *why)
{
    if (!is_key_list(text)) {
        struct pen_text bytes = PEN_TEXT_EMPTY;
        struct pen_text reason = PEN_TEXT_EMPTY;
        pen_status status =
            pen_file_read(text, MAX_COST_FILE_BYTES, &bytes, why);
        if (status != PEN_OK)
            return status;
        status =
            pen_costs_parse_json(bytes.bytes, bytes.length, costs, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", text, pen_text_string(&reason));
        pen_text_release(&reason);
        pen_text_release(&bytes);
        return status;
    }
    struct pen_costs read;
    pen_costs_init(&read);
    struct pen_cost *cost = &read.uniform;
    double backward = NOT_GIVEN;
    cost->input_sec = cost->weight_sec = NOT_GIVEN;
    const struct key keys[] = {{"f", &cost->forward_sec, 0, PEN_MAX_SECONDS},
                               {"b", &backward, 0, PEN_MAX_SECONDS},
                               {"i", &cost->input_sec, 0, PEN_MAX_SECONDS},
                               {"w", &cost->weight_sec, 0, PEN_MAX_SECONDS},
                               {"comm", &read.latency_sec, 0, PEN_MAX_SECONDS},
                               {"r", &cost->recompute_sec, 0, PEN_MAX_SECONDS},
                               {"pair", &cost->pair_sec, 0, PEN_MAX_SECONDS},
                               {"sync", &cost->sync_sec, 0, PEN_MAX_SECONDS},
                               {"step", &cost->step_sec, 0, PEN_MAX_SECONDS},
                               {"move", &cost->move_sec, 0, PEN_MAX_SECONDS}};
    pen_status status = read_keys(text, keys, sizeof keys / sizeof *keys, why);
    if (status == PEN_OK)
        status = split_backward(backward, cost, why);
    if (status == PEN_OK) {
        read.memory = costs->memory;
        pen_costs_release(costs);
        *costs = read;
    }
    return status;
}

pen_status pen_memory_complete(struct pen_memory *memory, struct pen_text *why)
{
    double left = memory->forward + memory->input + memory->weight;
    bool has_recompute = !isnan(memory->recompute);
    if (fabs(left) > 1e-9 && has_recompute) {
        left += memory->recompute;
        memory->forward += memory->recompute;
    }
    if (fabs(left) > 1e-9) {
        pen_why(why,
                "the memory of f, i, w and r sums to %g for each micro-batch; "
                "it must sum to 0",
                left);
        return PEN_INVALID;
    }
    if (!has_recompute)
        memory->recompute = memory->forward;
    if (memory->recompute <= memory->forward)
        return PEN_OK;
    pen_why(why, "the memory of r, %g, is more than that of f, %g",
            memory->recompute, memory->forward);
    return PEN_INVALID;
}

pen_status pen_memory_read(const char *text, struct pen_memory *memory,
                           struct pen_text *why)
{
    struct pen_memory read = {.recompute = (double)NAN};
    const struct key keys[] = {
        {"f", &read.forward, 0, PEN_MAX_MEMORY},
        {"i", &read.input, -PEN_MAX_MEMORY, PEN_MAX_MEMORY},
        {"w", &read.weight, -PEN_MAX_MEMORY, PEN_MAX_MEMORY},
        {"r", &read.recompute, -PEN_MAX_MEMORY, PEN_MAX_MEMORY}};
    pen_status status = read_keys(text, keys, sizeof keys / sizeof *keys, why);
    if (status == PEN_OK)
        status = pen_memory_complete(&read, why);
    if (status == PEN_OK)
        *memory = read;
    return status;
}

/* Returns the cost of a token slice, one of n equal parts of a micro-batch. */
static void slice_cost(struct pen_cost *cost, double share)
{
    cost->forward_sec *= share;
    cost->input_sec *= share;
    cost->weight_sec *= share;
    cost->recompute_sec *= share;
    cost->pair_sec *= share;
    cost->move_sec *= share;
    cost->memory *= share;
}

static void scale_cost(struct pen_cost *cost, double share)
{
    slice_cost(cost, share);
    cost->step_sec *= share;
    cost->sync_sec *= share;
}

static void add_cost(struct pen_cost *sum, const struct pen_cost *cost)
{
    sum->forward_sec += cost->forward_sec;
    sum->input_sec += cost->input_sec;
    sum->weight_sec += cost->weight_sec;
    sum->sync_sec += cost->sync_sec;
    sum->step_sec += cost->step_sec;
    sum->move_sec += cost->move_sec;
    sum->memory += cost->memory;
    sum->recompute_sec +=
        cost->recompute_sec < 0 ? cost->forward_sec : cost->recompute_sec;
    if (cost->pair_sec < 0 || sum->pair_sec < 0)
        sum->pair_sec = -1;
    else
        sum->pair_sec += cost->pair_sec;
}

/* Gives a part without memory of its own this share. */
static struct pen_cost with_memory(struct pen_cost cost, double share)
{
    if (cost.memory < 0)
        cost.memory = share;
    return cost;
}

/* Layers are dealt to parts in order, the first parts taking one more. */
static struct pen_cost cost_of_layers(const struct pen_costs *costs,
                                      uint32_t part, uint32_t parts,
                                      double share)
{
    uint32_t each = costs->num_items / parts;
    uint32_t more = costs->num_items % parts;
    uint32_t first = part * each + (part < more ? part : more);
    uint32_t count = each + (part < more ? 1 : 0);
    struct pen_cost sum = {.forward_sec = 0};
    double layer_share = share * parts / costs->num_items;
    for (uint32_t i = 0; i < count; i++) {
        struct pen_cost layer =
            with_memory(costs->items[first + i], layer_share);
        add_cost(&sum, &layer);
    }
    return sum;
}

static pen_status fill_stages(struct pen_cost_table *table,
                              const struct pen_costs *costs,
                              const struct pen_shape *shape,
                              struct pen_text *why)
{
    uint32_t parts = pen_shape_parts(shape);
    /* The model is p ranks' shares, cut into parts. Under cyclic placement a
     * rank runs all parts, so a micro-batch costs it p times its share. */
    double share = (double)shape->num_ranks / (double)parts;
    uint32_t wanted = costs->scope == PEN_COST_PER_RANK    ? shape->num_ranks
                      : costs->scope == PEN_COST_PER_STAGE ? parts
                                                           : 0;
    if (wanted != 0 && costs->num_items != wanted) {
        pen_why(why, "the costs describe %u %s, but the schedule has %u",
                costs->num_items,
                costs->scope == PEN_COST_PER_RANK ? "ranks" : "stages", wanted);
        return PEN_INVALID;
    }
    if (costs->scope == PEN_COST_PER_LAYER && costs->num_items < parts) {
        pen_why(why,
                "the costs describe %u layers, too few for %u stages; use "
                "fewer chunks",
                costs->num_items, parts);
        return PEN_INVALID;
    }
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        struct pen_cost *cost = &table->stages[stage];
        uint32_t part = pen_shape_part_of_stage(shape, stage);
        switch (costs->scope) {
        case PEN_COST_UNIFORM:
            *cost = with_memory(costs->uniform, 1);
            scale_cost(cost, share);
            break;
        case PEN_COST_PER_RANK:
            *cost =
                with_memory(costs->items[pen_shape_rank_of(shape, stage)], 1);
            scale_cost(cost, share);
            break;
        case PEN_COST_PER_STAGE:
            *cost = with_memory(costs->items[part], share);
            break;
        case PEN_COST_PER_LAYER:
            *cost = cost_of_layers(costs, part, parts, share);
            break;
        }
        slice_cost(cost, 1.0 / (double)shape->num_slices);
    }
    return PEN_OK;
}

int pen_link_compare(const void *a, const void *b)
{
    const struct pen_link *x = a;
    const struct pen_link *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

/* Returns the link between two ranks, or the general one. */
static void link_of(const struct pen_costs *costs, uint32_t from, uint32_t to,
                    double *latency, double *transfer)
{
    const struct pen_link general = {.latency_sec = costs->latency_sec,
                                     .bytes_per_sec = costs->bytes_per_sec};
    const struct pen_link wanted = {.from = from, .to = to};
    const struct pen_link *link = NULL;
    if (costs->num_links > 0)
        link = bsearch(&wanted, costs->links, costs->num_links,
                       sizeof *costs->links, pen_link_compare);
    if (link == NULL)
        link = &general;
    *latency = link->latency_sec;
    *transfer =
        link->bytes_per_sec > 0 ? costs->bytes / link->bytes_per_sec : 0;
}

static void fill_links(struct pen_cost_table *table,
                       const struct pen_costs *costs,
                       const struct pen_shape *shape)
{
    double share = 1.0 / (double)shape->num_slices;
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        uint32_t rank = pen_shape_rank_of(shape, stage);
        uint32_t after = pen_shape_next_stage(shape, stage);
        uint32_t before = pen_shape_previous_stage(shape, stage);
        if (after != PEN_NO_STAGE)
            link_of(costs, rank, pen_shape_rank_of(shape, after),
                    &table->latency_sec[stage], &table->transfer_sec[stage]);
        if (before != PEN_NO_STAGE)
            link_of(costs, rank, pen_shape_rank_of(shape, before),
                    &table->latency_back_sec[stage],
                    &table->transfer_back_sec[stage]);
        table->transfer_sec[stage] *= share;
        table->transfer_back_sec[stage] *= share;
    }
}

pen_status pen_cost_table_init(struct pen_cost_table *table,
                               const struct pen_costs *costs,
                               const struct pen_shape *shape,
                               struct pen_text *why)
{
    size_t n = shape->num_stages;
    *table = (struct pen_cost_table){.memory = costs->memory,
                                     .is_blocking = costs->is_blocking,
                                     .num_stages = shape->num_stages};
    table->stages = calloc(n, sizeof *table->stages);
    table->latency_sec = calloc(n, sizeof *table->latency_sec);
    table->transfer_sec = calloc(n, sizeof *table->transfer_sec);
    table->latency_back_sec = calloc(n, sizeof *table->latency_back_sec);
    table->transfer_back_sec = calloc(n, sizeof *table->transfer_back_sec);
    pen_status status = PEN_NOMEM;
    if (table->stages == NULL || table->latency_sec == NULL ||
        table->transfer_sec == NULL || table->latency_back_sec == NULL ||
        table->transfer_back_sec == NULL)
        pen_why(why, "out of memory for the costs of %zu stages", n);
    else
        status = fill_stages(table, costs, shape, why);
    if (status != PEN_OK) {
        pen_cost_table_release(table);
        return status;
    }
    fill_links(table, costs, shape);
    return PEN_OK;
}

void pen_cost_table_release(struct pen_cost_table *table)
{
    free(table->stages);
    free(table->latency_sec);
    free(table->transfer_sec);
    free(table->latency_back_sec);
    free(table->transfer_back_sec);
    *table = (struct pen_cost_table){.stages = NULL};
}

double pen_cost_of(const struct pen_cost_table *table, unsigned kind,
                   uint32_t stage)
{
    const struct pen_cost *cost = &table->stages[stage];
    switch (kind) {
    case PEN_OP_FORWARD:
        return cost->forward_sec;
    case PEN_OP_BACKWARD:
        return cost->input_sec + cost->weight_sec;
    case PEN_OP_BACKWARD_INPUT:
        return cost->input_sec;
    case PEN_OP_BACKWARD_WEIGHT:
        return cost->weight_sec;
    case PEN_OP_RECOMPUTE:
        return pen_cost_recompute_sec(cost);
    default:
        return 0;
    }
}

double pen_memory_of(const struct pen_cost_table *table, unsigned kind,
                     uint32_t stage)
{
    const struct pen_memory *memory = &table->memory;
    double unit = table->stages[stage].memory;
    switch (kind) {
    case PEN_OP_FORWARD:
        return memory->forward * unit;
    case PEN_OP_BACKWARD:
        return (memory->input + memory->weight) * unit;
    case PEN_OP_BACKWARD_INPUT:
        return memory->input * unit;
    case PEN_OP_BACKWARD_WEIGHT:
        return memory->weight * unit;
    case PEN_OP_RECOMPUTE:
        return memory->recompute * unit;
    case PEN_OP_EVICT:
        return -memory->forward * unit;
    case PEN_OP_LOAD:
        return memory->forward * unit;
    default:
        return 0;
    }
}

double pen_memory_kept(const struct pen_cost_table *table, uint32_t stage)
{
    return (table->memory.forward - table->memory.recompute) *
           table->stages[stage].memory;
}

double pen_memory_of_op(const struct pen_cost_table *table,
                        const struct pen_op *op)
{
    return pen_op_is_recomputed(op) ? pen_memory_kept(table, op->stage)
                                    : pen_memory_of(table, op->kind, op->stage);
}
