/*
 * Networks as a user types them: the name of a kind, a colon and numbers with
 * the separators of their kind between them.
 */
#include "sim/platform.h"

#include <string.h>

#define MAX_NUMBER 1000000u
#define DRAGONFLY_NUMBERS 7u

static const char *const names[PEN_TOPOLOGIES] = {
#define PEN_SIM_TOPOLOGY_NAME(name, words) words,
    PEN_SIM_TOPOLOGY_TABLE(PEN_SIM_TOPOLOGY_NAME)
#undef PEN_SIM_TOPOLOGY_NAME
};

static const char *const examples[PEN_TOPOLOGIES] = {
    [PEN_SIM_TOPOLOGY_LEVELS] = "levels",
    [PEN_SIM_TOPOLOGY_FAT_TREE] = "fat-tree:2;8,16;1,8;1,1",
    [PEN_SIM_TOPOLOGY_DRAGONFLY] = "dragonfly:4,2;6,2;8,1;2",
    [PEN_SIM_TOPOLOGY_TORUS] = "torus:8x8x8",
};

/* Reads a number from 1 on without leading zeros; 0 when there is none. */
static uint32_t read_number(const char **at)
{
    uint32_t number = 0;
    if (**at == '0')
        return 0;
    while (**at >= '0' && **at <= '9') {
        number = number * 10 + (uint32_t)(**at - '0');
        if (number > MAX_NUMBER)
            return 0;
        ++*at;
    }
    return number;
}

/* Returns the separator after the number that was read last; NUL at the end. */
static char separator(const struct pen_sim_topology *topology, char next)
{
    uint32_t count = topology->num_numbers;
    uint32_t levels = topology->numbers[0];
    switch (topology->kind) {
    case PEN_SIM_TOPOLOGY_FAT_TREE:
        if (count > 3 * levels)
            return '\0';
        return (count - 1) % levels == 0 ? ';' : ',';
    case PEN_SIM_TOPOLOGY_DRAGONFLY:
        if (count == DRAGONFLY_NUMBERS)
            return '\0';
        return count % 2 == 1 ? ',' : ';';
    default:
        return next == '\0' ? '\0' : 'x';
    }
}

static bool read_numbers(const char *at, struct pen_sim_topology *out)
{
    for (;;) {
        uint32_t number = read_number(&at);
        if (number == 0 || out->num_numbers == PEN_SIM_TOPOLOGY_MAX_NUMBERS)
            return false;
        out->numbers[out->num_numbers++] = number;
        if (*at != separator(out, *at))
            return false;
        if (*at == '\0')
            return true;
        at++;
    }
}

uint64_t pen_sim_topology_num_leaves(const struct pen_sim_topology *topology)
{
    const uint32_t *numbers = topology->numbers;
    uint64_t leaves = 1;
    uint32_t first = 0;
    uint32_t last = topology->num_numbers;
    uint32_t step = 1;
    if (topology->kind == PEN_SIM_TOPOLOGY_FAT_TREE) {
        first = 1;
        last = 1 + numbers[0];
    } else if (topology->kind == PEN_SIM_TOPOLOGY_DRAGONFLY) {
        step = 2;
    }
    for (uint32_t i = first; i < last; i += step) {
        leaves *= numbers[i];
        if (leaves > PEN_SIM_TOPOLOGY_MAX_LEAVES)
            return PEN_SIM_TOPOLOGY_MAX_LEAVES + 1;
    }
    return leaves;
}

/* Links between groups begin at routers of their own. */
static bool has_enough_routers(const struct pen_sim_topology *topology)
{
    const uint32_t *numbers = topology->numbers;
    return topology->kind != PEN_SIM_TOPOLOGY_DRAGONFLY ||
           numbers[0] <= (uint64_t)numbers[2] * numbers[4];
}

static pen_status read_kind(const char *text, const char *behind,
                            struct pen_sim_topology *topology,
                            struct pen_text *why)
{
    const char *example = examples[topology->kind];
    bool is_read = topology->kind == PEN_SIM_TOPOLOGY_LEVELS
                       ? *behind == '\0'
                       : *behind == ':' && read_numbers(behind + 1, topology);
    if (!is_read)
        pen_why(why, "'%s' is not a network; write it as in %s", text, example);
    else if (pen_sim_topology_num_leaves(topology) >
             PEN_SIM_TOPOLOGY_MAX_LEAVES)
        pen_why(why, "'%s' has more than %u leaves", text,
                PEN_SIM_TOPOLOGY_MAX_LEAVES);
    else if (!has_enough_routers(topology))
        pen_why(why,
                "'%s' has more groups than a group has routers to reach them; "
                "write it as in %s",
                text, example);
    else
        return PEN_OK;
    return PEN_INVALID;
}

pen_status pen_sim_topology_read(const char *text, struct pen_sim_topology *out,
                                 struct pen_text *why)
{
    for (uint32_t kind = 0; kind < PEN_TOPOLOGIES; kind++) {
        size_t length = strlen(names[kind]);
        if (strncmp(text, names[kind], length) != 0)
            continue;
        struct pen_sim_topology topology = {
            .kind = (enum pen_sim_topology_kind)kind};
        pen_status status = read_kind(text, text + length, &topology, why);
        if (status == PEN_OK)
            *out = topology;
        return status;
    }
    pen_why(why, "'%s' is not a network; expected one of", text);
    for (uint32_t kind = 0; kind < PEN_TOPOLOGIES; kind++)
        pen_why(why, " %s%s", examples[kind],
                kind + 1 < PEN_TOPOLOGIES ? "," : "");
    return PEN_INVALID;
}
