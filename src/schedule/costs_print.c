/* The cost file that costs_json.c reads, from costs in memory. */
#include "schedule/costs.h"

/* Adds a number; a negative one means an absent key. */
static void add_number(struct pen_text *out, const char *key, double value)
{
    if (value >= 0)
        pen_text_add(out, ", \"%s\": %.17g", key, value);
}

static void add_cost(struct pen_text *out, const struct pen_cost *cost)
{
    pen_text_add(out, "\"f\": %.17g", cost->forward_sec);
    add_number(out, "i", cost->input_sec);
    add_number(out, "w", cost->weight_sec);
    add_number(out, "r", cost->recompute_sec);
    add_number(out, "pair", cost->pair_sec);
    add_number(out, "sync", cost->sync_sec);
    add_number(out, "step", cost->step_sec);
    add_number(out, "move", cost->move_sec);
}

static bool is_same(const struct pen_cost *a, const struct pen_cost *b)
{
    return a->forward_sec == b->forward_sec && a->input_sec == b->input_sec &&
           a->weight_sec == b->weight_sec &&
           a->recompute_sec == b->recompute_sec && a->pair_sec == b->pair_sec &&
           a->sync_sec == b->sync_sec && a->step_sec == b->step_sec &&
           a->move_sec == b->move_sec && a->memory == b->memory;
}

static void add_items(struct pen_text *out, const struct pen_costs *costs)
{
    static const char *const names[] = {[PEN_COST_PER_RANK] = "ranks",
                                        [PEN_COST_PER_STAGE] = "stages",
                                        [PEN_COST_PER_LAYER] = "layers"};
    pen_text_add(out, "  \"%s\": [", names[costs->scope]);
    for (uint32_t i = 0; i < costs->num_items;) {
        uint32_t end = i + 1;
        while (end < costs->num_items &&
               is_same(&costs->items[i], &costs->items[end]))
            end++;
        pen_text_add_string(out, i == 0 ? "\n    {" : ",\n    {");
        add_cost(out, &costs->items[i]);
        add_number(out, "memory", costs->items[i].memory);
        pen_text_add(out, ", \"count\": %u}", end - i);
        i = end;
    }
    pen_text_add_string(out, "],\n");
}

static void add_links(struct pen_text *out, const struct pen_costs *costs)
{
    if (costs->num_links == 0)
        return;
    pen_text_add_string(out, "  \"links\": [");
    for (uint32_t i = 0; i < costs->num_links; i++) {
        const struct pen_link *link = &costs->links[i];
        pen_text_add(out, "%s\n    {\"from\": %u, \"to\": %u",
                     i == 0 ? "" : ",", link->from, link->to);
        add_number(out, "latency", link->latency_sec);
        if (link->bytes_per_sec > 0)
            add_number(out, "bandwidth", link->bytes_per_sec);
        pen_text_add_string(out, "}");
    }
    pen_text_add_string(out, "],\n");
}

void pen_costs_print(const struct pen_costs *costs, struct pen_text *out)
{
    const struct pen_memory *memory = &costs->memory;
    pen_text_add_string(
        out, "{\n  \"format\": \"penstock-costs\",\n  \"version\": 1,\n");
    if (costs->scope == PEN_COST_UNIFORM) {
        pen_text_add_string(out, "  ");
        add_cost(out, &costs->uniform);
        pen_text_add_string(out, ",\n");
    } else {
        add_items(out, costs);
    }
    pen_text_add(out, "  \"comm\": {\"latency\": %.17g", costs->latency_sec);
    if (costs->bytes_per_sec > 0)
        add_number(out, "bandwidth", costs->bytes_per_sec);
    add_number(out, "bytes", costs->bytes);
    pen_text_add(out, ", \"overlap\": %s},\n",
                 costs->is_blocking ? "false" : "true");
    add_links(out, costs);
    pen_text_add(out,
                 "  \"memory\": {\"f\": %.17g, \"i\": %.17g, \"w\": %.17g, "
                 "\"r\": %.17g}\n}\n",
                 memory->forward, memory->input, memory->weight,
                 memory->recompute);
}
