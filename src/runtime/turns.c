#include "runtime/turns.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

struct pen_turns {
    struct pen_network *network;
    const struct pen_reduction *reduction;
    enum pen_parameter_part part;
    char *block;
    size_t bytes;
};

bool pen_turns_has(const struct pen_turns *turns, size_t parameter)
{
    if (turns->part == PEN_PART_VALUE)
        return !pen_reduction_keeps(turns->reduction, parameter);
    return pen_reduction_leaves(turns->reduction, parameter) &&
           !pen_reduction_owns(turns->reduction, parameter);
}

static size_t bytes_of(const struct pen_turns *turns, size_t parameter)
{
    struct pen_engine *engine = pen_network_engine(turns->network);
    const struct pen_network_parameter *it =
        pen_network_parameter(turns->network, parameter);
    size_t bytes =
        turns->part == PEN_PART_VALUE
            ? engine->ops->value_bytes(engine, it->parameter)
            : pen_network_count(it) *
                  pen_precision_bytes(pen_precision_master(engine->dtype));
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t layer_bytes(const struct pen_turns *turns, uint32_t layer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < pen_network_num_parameters(turns->network); i++)
        if (pen_network_parameter(turns->network, i)->layer == layer &&
            pen_turns_has(turns, i))
            bytes += bytes_of(turns, i);
    return bytes;
}

/* Two layers that follow each other are there at once. */
static size_t most_bytes(const struct pen_turns *turns)
{
    size_t num = pen_network_num_parameters(turns->network);
    size_t most = 0;
    for (size_t i = 0; i < num; i++) {
        uint32_t layer = pen_network_parameter(turns->network, i)->layer;
        size_t both = layer_bytes(turns, layer) + layer_bytes(turns, layer + 1);
        most = both > most ? both : most;
    }
    return most;
}

/* Places even layers from one end of the memory, odd ones from the other. */
static pen_status place(const struct pen_turns *turns, struct pen_text *why)
{
    struct pen_engine *engine = pen_network_engine(turns->network);
    pen_status status = PEN_OK;
    size_t used = 0;
    uint32_t layer = UINT32_MAX;
    for (size_t i = 0;
         i < pen_network_num_parameters(turns->network) && status == PEN_OK;
         i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(turns->network, i);
        char *at = NULL;
        used = it->layer == layer ? used : 0;
        layer = it->layer;
        if (pen_turns_has(turns, i)) {
            size_t first = used;
            used += bytes_of(turns, i);
            at = turns->block + (layer % 2 == 0 ? first : turns->bytes - used);
        }
        bool has_place =
            turns->part == PEN_PART_GRADIENT && it->gradients != NULL;
        if (!it->is_value_only && !has_place)
            status =
                turns->part == PEN_PART_VALUE
                    ? engine->ops->value_place(engine, it->parameter, at, why)
                    : engine->ops->gradient_place(engine, it->parameter, at,
                                                  why);
    }
    return status;
}

pen_status pen_turns_create(struct pen_network *network,
                            const struct pen_reduction *reduction,
                            enum pen_parameter_part part,
                            struct pen_turns **out, struct pen_text *why)
{
    struct pen_turns *turns = calloc(1, sizeof *turns);
    pen_status status = PEN_OK;
    if (turns == NULL)
        return PEN_NOMEM;
    *turns = (struct pen_turns){
        .network = network, .reduction = reduction, .part = part};
    size_t bytes = most_bytes(turns);
    turns->block =
        pen_engine_take(pen_network_engine(network), PEN_PLACE_ENGINE, bytes);
    if (turns->block == NULL && bytes > 0)
        status = PEN_NOMEM;
    else
        turns->bytes = bytes;
    if (status == PEN_OK)
        status = place(turns, why);
    if (status == PEN_OK)
        *out = turns;
    else
        pen_turns_free(turns);
    return status;
}

void pen_turns_free(struct pen_turns *turns)
{
    if (turns == NULL)
        return;
    pen_engine_give(pen_network_engine(turns->network), PEN_PLACE_ENGINE,
                    turns->block, turns->bytes);
    free(turns);
}

size_t pen_turns_bytes(const struct pen_turns *turns)
{
    return turns->bytes;
}

void pen_turns_clear(const struct pen_turns *turns, uint32_t layer)
{
    struct pen_engine *engine = pen_network_engine(turns->network);
    for (size_t i = 0; i < pen_network_num_parameters(turns->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(turns->network, i);
        if (it->layer == layer && pen_turns_has(turns, i))
            engine->ops->gradient_clear(engine, it->parameter);
    }
}
