/*
 * Systems: devices as they are bought together, and clusters made of them.
 * Bandwidths are those of one device in one direction while all others talk, so
 * a port that four of them share counts as a quarter. Latencies are what a
 * message of a few bytes takes through the usual software.
 */
#include "core/cluster_internal.h"

#include "base/bug.h"
#include "base/nearest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct pen_system systems[] = {
    {"dgx-1",
     "v100-32",
     8,
     2,
     {{"node", 8, 150e9, 3e-6}, {"cluster", 0, 6.25e9, 6e-6}},
     "NVLink 2, 4 x InfiniBand EDR a node"},
    {"dgx-a100",
     "a100-80",
     8,
     2,
     {{"node", 8, 300e9, 3e-6}, {"cluster", 0, 25e9, 6e-6}},
     "NVLink 3, 8 x InfiniBand HDR a node"},
    {"dgx-h100",
     "h100-sxm",
     8,
     2,
     {{"node", 8, 450e9, 3e-6}, {"cluster", 0, 50e9, 6e-6}},
     "NVLink 4, 8 x InfiniBand NDR a node"},
    {"dgx-h200",
     "h200",
     8,
     2,
     {{"node", 8, 450e9, 3e-6}, {"cluster", 0, 50e9, 6e-6}},
     "NVLink 4, 8 x InfiniBand NDR a node"},
    {"hgx-h800",
     "h800",
     8,
     2,
     {{"node", 8, 200e9, 3e-6}, {"cluster", 0, 50e9, 6e-6}},
     "NVLink 4 at 400 GB/s, 8 x InfiniBand NDR a node"},
    {"hgx-h20",
     "h20",
     8,
     2,
     {{"node", 8, 450e9, 3e-6}, {"cluster", 0, 50e9, 6e-6}},
     "NVLink 4, 8 x InfiniBand NDR a node"},
    {"hgx-b300",
     "b300",
     8,
     2,
     {{"node", 8, 900e9, 3e-6}, {"cluster", 0, 100e9, 6e-6}},
     "NVLink 5, 8 x InfiniBand XDR a node"},
    {"dgx-b200",
     "b200",
     8,
     2,
     {{"node", 8, 900e9, 3e-6}, {"cluster", 0, 50e9, 6e-6}},
     "NVLink 5, 8 x InfiniBand NDR a node"},
    {"gb200-nvl72",
     "gb200",
     72,
     2,
     {{"rack", 72, 900e9, 3e-6}, {"cluster", 0, 50e9, 6e-6}},
     "NVLink 5 in a rack, InfiniBand NDR for each device"},
    {"gb300-nvl72",
     "gb300",
     72,
     2,
     {{"rack", 72, 900e9, 3e-6}, {"cluster", 0, 100e9, 6e-6}},
     "NVLink 5 in a rack, InfiniBand XDR for each device"},
    {"h100-pcie-node",
     "h100-pcie",
     8,
     2,
     {{"node", 8, 63e9, 8e-6}, {"cluster", 0, 25e9, 6e-6}},
     "PCIe 5, 4 x InfiniBand NDR a node"},
    {"mi250x-node",
     "mi250x",
     8,
     3,
     {{"package", 2, 200e9, 3e-6},
      {"node", 8, 50e9, 4e-6},
      {"cluster", 0, 12.5e9, 6e-6}},
     "Infinity Fabric, 4 x Slingshot 200 Gbit/s a node"},
    {"mi300x-node",
     "mi300x",
     8,
     2,
     {{"node", 8, 448e9, 4e-6}, {"cluster", 0, 50e9, 6e-6}},
     "7 links of Infinity Fabric, 400 Gbit/s for each device"},
    {"mi355x-node",
     "mi355x",
     8,
     2,
     {{"node", 8, 537.6e9, 4e-6}, {"cluster", 0, 50e9, 6e-6}},
     "7 links of Infinity Fabric, 400 Gbit/s for each device"},
    {"ethernet-10",
     "rtx4090",
     4,
     2,
     {{"node", 4, 31e9, 10e-6}, {"cluster", 0, 0.3125e9, 40e-6}},
     "PCIe 4, one port of 10 Gbit/s a node"},
    {"ethernet-25",
     "rtx4090",
     4,
     2,
     {{"node", 4, 31e9, 10e-6}, {"cluster", 0, 0.78125e9, 40e-6}},
     "PCIe 4, one port of 25 Gbit/s a node"},
    {"ethernet-100",
     "rtx4090",
     4,
     2,
     {{"node", 4, 31e9, 10e-6}, {"cluster", 0, 3.125e9, 30e-6}},
     "PCIe 4, one port of 100 Gbit/s a node"},
    {"xeon-node",
     "xeon-amx",
     2,
     2,
     {{"node", 2, 32e9, 1e-6}, {"cluster", 0, 6.25e9, 3e-6}},
     "UPI, one port of 100 Gbit/s a node"},
    {"xeon-node-cores",
     "xeon-amx-core",
     112,
     2,
     {{"node", 112, 2.7e9, 1e-6}, {"cluster", 0, 0.11e9, 3e-6}},
     "memory, one port of 100 Gbit/s a node"}};

enum { NUM_SYSTEMS = sizeof systems / sizeof *systems };

/*
 * Racks whose devices are no power of two, as degrees are: plans take `planned`
 * of each, unless the cluster is made of whole ones. The others are spare
 * (docs/decisions/0024-racks-of-72.md). A host has `host` of them.
 */
static const struct rack {
    const char *system;
    uint64_t planned;
    uint64_t host;
} racks[] = {{"gb200-nvl72", 64, 4}, {"gb300-nvl72", 64, 4}};

static const struct rack *find_rack(const struct pen_system *system)
{
    for (size_t i = 0; i < sizeof racks / sizeof *racks; i++)
        if (strcmp(racks[i].system, system->name) == 0)
            return &racks[i];
    return NULL;
}

/* Returns how many devices of one system a cluster of `count` takes. */
static uint64_t taken_of(const struct pen_system *system, uint64_t count)
{
    const struct rack *rack = find_rack(system);
    return rack == NULL || count % system->size == 0 ? system->size
                                                     : rack->planned;
}

const struct pen_system *pen_system_at(size_t index)
{
    return index < NUM_SYSTEMS ? &systems[index] : NULL;
}

const struct pen_system *pen_system_find(const char *name)
{
    for (size_t i = 0; i < NUM_SYSTEMS; i++)
        if (strcmp(systems[i].name, name) == 0)
            return &systems[i];
    return NULL;
}

const struct pen_system *pen_system_of_device(const char *kind)
{
    const char *name = pen__device_system(kind);
    if (name == NULL)
        return NULL;
    const struct pen_system *system = pen_system_find(name);
    PEN_BUG_UNLESS(system != NULL);
    return system;
}

/* ---- a cluster of them ---- */

/* Levels that one block of the level below fills already are left out. */
static uint32_t count_levels(const struct pen_system *system, uint64_t count)
{
    uint32_t levels = 1;
    while (levels < system->num_levels &&
           system->levels[levels - 1].size < count)
        levels++;
    return levels;
}

static void set_levels(const struct pen_system *system, uint64_t count,
                       struct pen_cluster *out)
{
    memcpy(out->levels, system->levels, out->num_levels * sizeof *out->levels);
    if (find_rack(system) != NULL)
        out->levels[0].size = taken_of(system, count);
    out->levels[out->num_levels - 1].size = 0;
}

static pen_status build(const struct pen_system *system, const char *kind,
                        uint64_t count, const char *name,
                        struct pen_cluster **out, struct pen_text *why)
{
    uint32_t levels = count_levels(system, count);
    struct pen_cluster *cluster = NULL;
    pen_status status = pen__cluster_create(1, levels, false, &cluster, why);
    if (status != PEN_OK)
        return status;
    snprintf(cluster->name, sizeof cluster->name, "%s", name);
    cluster->groups[0].device = *pen_device_find(kind);
    cluster->groups[0].count = count;
    pen_device_default_constants(&cluster->groups[0].device);
    set_levels(system, count, cluster);
    *out = cluster;
    return PEN_OK;
}

/* Words that people type for a kind. */
static const struct {
    const char *alias;
    const char *name;
} aliases[] = {{"v100", "v100-32"},     {"a100", "a100-80"},
               {"a100-sxm", "a100-80"}, {"h100", "h100-sxm"},
               {"h200-sxm", "h200"},    {"h800-sxm", "h800"},
               {"4090", "rtx4090"},     {"3080", "rtx3080"}};

static pen_status refuse_name(const char *name, struct pen_text *why)
{
    if (strcmp(name, "host") == 0) {
        pen_why(why,
                "there is no preset for this host; measure it with `penstock "
                "cluster detect -o cluster.yaml` and give the file");
        return PEN_INVALID;
    }
    struct pen_nearest nearest = pen_nearest_to(name);
    pen_why(why, "there is no preset '");
    if (why != NULL)
        pen_text_add_printable(why, name, strlen(name));
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        pen_nearest_offer(&nearest, aliases[i].alias);
    for (size_t i = 0; pen_device_at(i) != NULL; i++)
        pen_nearest_offer(&nearest, pen_device_at(i)->kind);
    for (size_t i = 0; i < NUM_SYSTEMS; i++)
        pen_nearest_offer(&nearest, systems[i].name);
    if (nearest.best != NULL)
        pen_why(why, "'; did you mean %s? Expected one of", nearest.best);
    else
        pen_why(why, "'; expected one of");
    for (size_t i = 0; pen_device_at(i) != NULL; i++)
        pen_why(why, " %s", pen_device_at(i)->kind);
    for (size_t i = 0; i < NUM_SYSTEMS; i++)
        pen_why(why, " %s", systems[i].name);
    return PEN_INVALID;
}

static bool read_count(const char *digits, size_t length, uint64_t *count)
{
    *count = 0;
    if (length == 0 || length > 8 || strspn(digits, "0123456789") < length)
        return false;
    for (size_t i = 0; i < length; i++)
        *count = 10 * *count + (uint64_t)(digits[i] - '0');
    return true;
}

static bool take_name(const char *text, size_t length,
                      char name[PEN_CLUSTER_WORD_SIZE])
{
    if (length == 0 || length >= PEN_CLUSTER_WORD_SIZE)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i].alias) == 0)
            snprintf(name, PEN_CLUSTER_WORD_SIZE, "%s", aliases[i].name);
    return true;
}

/* "h100-sxm*64", "h100x64", "64xh100", "64*h100", or a kind alone. */
static bool split(const char *text, char name[PEN_CLUSTER_WORD_SIZE],
                  uint64_t *number)
{
    size_t length = strlen(text);
    size_t digits = strspn(text, "0123456789");
    if (digits > 0 && (text[digits] == 'x' || text[digits] == '*'))
        return read_count(text, digits, number) &&
               take_name(text + digits + 1, length - digits - 1, name);
    for (size_t at = length; at-- > 0;)
        if (text[at] == 'x' || text[at] == '*')
            if (read_count(text + at + 1, length - at - 1, number))
                return take_name(text, at, name);
    *number = 1;
    return strchr(text, '*') == NULL && take_name(text, length, name);
}

/* A name with neither a folder nor an ending means a preset. */
bool pen__cluster_is_preset(const char *text)
{
    char name[PEN_CLUSTER_WORD_SIZE];
    uint64_t count;
    return strpbrk(text, "/.") == NULL && split(text, name, &count);
}

pen_status pen__cluster_from_preset(const char *text, struct pen_cluster **out,
                                    struct pen_text *why)
{
    char name[PEN_CLUSTER_WORD_SIZE];
    uint64_t count = 0;
    if (!split(text, name, &count)) {
        pen_why(why, "a preset must have the form preset:h100-sxm*1024 or "
                     "preset:dgx-h100*128");
        return PEN_INVALID;
    }
    const struct pen_system *system = pen_system_find(name);
    const char *kind = system != NULL ? system->device : name;
    if (system != NULL)
        count *= system->size;
    else
        system = pen_system_of_device(name);
    if (system == NULL)
        return refuse_name(name, why);
    if (count < 1 || count > PEN_CLUSTER_MAX_DEVICES) {
        pen_why(why,
                "preset:%s: a cluster must have 1 to %u devices, not %" PRIu64,
                text, PEN_CLUSTER_MAX_DEVICES, count);
        return PEN_INVALID;
    }
    return build(system, kind, count, text, out, why);
}

/* ---- another number of devices ---- */

/*
 * Returns the system of a cluster that is a preset; NULL: it comes from a file.
 */
static const struct pen_system *system_of(const struct pen_cluster *cluster)
{
    char name[PEN_CLUSTER_WORD_SIZE];
    uint64_t count;
    if (!split(cluster->name, name, &count))
        return NULL;
    const struct pen_system *system = pen_system_find(name);
    return system != NULL ? system : pen_system_of_device(name);
}

uint64_t pen_cluster_system_size(const struct pen_cluster *cluster)
{
    const struct pen_system *system = system_of(cluster);
    uint64_t size = cluster->levels[0].size;
    if (system != NULL)
        size = taken_of(system, pen_cluster_num_devices(cluster));
    return size == 0 ? 1 : size;
}

uint64_t pen_cluster_host_size(const struct pen_cluster *cluster)
{
    const struct pen_system *system = system_of(cluster);
    const struct rack *rack = system == NULL ? NULL : find_rack(system);
    uint64_t size = rack == NULL ? cluster->levels[0].size : rack->host;
    uint64_t all = pen_cluster_num_devices(cluster);
    return size == 0 || size > all ? all : size;
}

pen_status pen_cluster_resize(const struct pen_cluster *cluster, uint64_t count,
                              struct pen_cluster **out, struct pen_text *why)
{
    const struct pen_system *system = system_of(cluster);
    struct pen_cluster *made = NULL;
    PEN_BUG_UNLESS(cluster->num_groups == 1);
    if (count < 1 || count > PEN_CLUSTER_MAX_DEVICES) {
        pen_why(why, "a cluster must have 1 to %u devices, not %" PRIu64,
                PEN_CLUSTER_MAX_DEVICES, count);
        return PEN_INVALID;
    }
    uint32_t levels =
        system != NULL ? count_levels(system, count) : cluster->num_levels;
    pen_status status = pen__cluster_create(1, levels, false, &made, why);
    if (status != PEN_OK)
        return status;
    memcpy(made->name, cluster->name, sizeof made->name);
    made->groups[0].device = cluster->groups[0].device;
    made->groups[0].count = count;
    if (system != NULL)
        set_levels(system, count, made);
    else
        memcpy(made->levels, cluster->levels, levels * sizeof *made->levels);
    *out = made;
    return PEN_OK;
}
