/*
 * cluster.yaml.
 *
 *   version: 2
 *   name: "sixteen racks"
 *   devices:
 *     - kind: h100-sxm
 *       count: 1024
 *       flops: {f32: 67 TFLOP/s, bf16: 989 TFLOP/s}
 *       memory: 80 GiB
 *       bandwidth: 3.35 TB/s
 *   links:
 *     - {level: node, size: 8, bandwidth: 450 GB/s, latency: 3 us}
 *     - {level: cluster, bandwidth: 50 GB/s, latency: 6 us}
 *   between:
 *     bandwidth: [[50 GB/s]]
 *     latency: [[6 us]]
 *
 * What a device leaves out is that of the preset of its kind. Printing writes
 * all figures, for presets may change, but of the constants only those that are
 * not the kind's own.
 */
#include "core/cluster_internal.h"

#include "base/yaml.h"

#include <inttypes.h>
#include <string.h>

/* ---- devices ---- */

static pen_status read_flops(const struct pen_yaml_node *map,
                             struct pen_device *out, struct pen_text *why)
{
    const struct pen_yaml_node *flops = pen_yaml_find(map, "flops");
    if (flops == NULL)
        return PEN_OK;
    pen_status status =
        pen_yaml_check_map(flops, "flops", pen_number_names, why);
    for (int i = 0; status == PEN_OK && i < PEN_NUMBERS; i++) {
        const char *key = pen_number_names[i];
        const struct pen_yaml_node *node = pen_yaml_find(flops, key);
        if (node != NULL)
            status =
                pen_yaml_read_unit(node, key, PEN_UNIT_FLOPS, 0,
                                   PEN_CLUSTER_MAX_RATE, &out->flops[i], why);
    }
    return status;
}

static pen_status read_memory(const struct pen_yaml_node *map,
                              struct pen_device *out, struct pen_text *why)
{
    const struct pen_yaml_node *memory = pen_yaml_find(map, "memory");
    const struct pen_yaml_node *rate = pen_yaml_find(map, "bandwidth");
    pen_status status = PEN_OK;
    if (memory != NULL) {
        double bytes = 0;
        status = pen_yaml_read_unit(memory, "memory", PEN_UNIT_BYTES, 1,
                                    (double)PEN_CLUSTER_MAX_BYTES, &bytes, why);
        out->memory_bytes = (uint64_t)bytes;
    }
    if (status == PEN_OK && rate != NULL)
        status = pen_yaml_read_unit(rate, "bandwidth", PEN_UNIT_BYTES_PER_SEC,
                                    1, PEN_CLUSTER_MAX_RATE,
                                    &out->memory_bytes_per_sec, why);
    return status;
}

static pen_status read_cost(const struct pen_yaml_node *map, const char *key,
                            double *out, struct pen_text *why)
{
    const struct pen_yaml_node *node = pen_yaml_find(map, key);
    if (node == NULL)
        return PEN_OK;
    return pen_yaml_read_real(node, key, 0, PEN_CLUSTER_MAX_WATTS, out, why);
}

/* Watts in place of the preset's make its idle watts void, too. */
static pen_status read_watts(const struct pen_yaml_node *map,
                             struct pen_device *out, struct pen_text *why)
{
    const struct pen_yaml_node *idle = pen_yaml_find(map, "idle_watts");
    if (pen_yaml_find(map, "watts") != NULL)
        out->idle_watts = 0;
    pen_status status = read_cost(map, "watts", &out->watts, why);
    if (status == PEN_OK)
        status = read_cost(map, "idle_watts", &out->idle_watts, why);
    if (status != PEN_OK || idle == NULL || out->watts == 0 ||
        out->idle_watts <= out->watts)
        return status;
    return pen_yaml_refuse(
        idle, why, "idle_watts must be at most the watts, %g", out->watts);
}

/* Read after everything else, since the defaults may depend on it. */
static pen_status read_constants(const struct pen_yaml_node *map,
                                 struct pen_device *out, struct pen_text *why)
{
    const char *keys[PEN_CONSTANTS + 1] = {NULL};
    const struct pen_yaml_node *constants = pen_yaml_find(map, "constants");
    pen_device_default_constants(out);
    if (constants == NULL)
        return PEN_OK;
    for (int i = 0; i < PEN_CONSTANTS; i++)
        keys[i] = pen__constant_of((enum pen_constant)i).key;
    pen_status status = pen_yaml_check_map(constants, "constants", keys, why);
    for (int i = 0; status == PEN_OK && i < PEN_CONSTANTS; i++) {
        struct pen__constant it = pen__constant_of((enum pen_constant)i);
        const struct pen_yaml_node *node = pen_yaml_find(constants, it.key);
        if (node != NULL)
            status = pen_yaml_read_real(node, it.key, it.least, it.most,
                                        &out->constants[i], why);
    }
    return status;
}

/*
 * Reads the kind, and its preset if there is one: else the figures must be
 * given.
 */
static pen_status read_kind(const struct pen_yaml_node *map,
                            struct pen_device *out, struct pen_text *why)
{
    static const char *const figures[] = {"flops", "memory", "bandwidth"};
    char kind[PEN_CLUSTER_WORD_SIZE];
    const struct pen_yaml_node *node = NULL;
    pen_status status = pen_yaml_require(map, "a device", "kind", &node, why);
    if (status == PEN_OK)
        status = pen_yaml_read_word(node, "kind", kind, sizeof kind, why);
    if (status != PEN_OK)
        return status;
    const struct pen_device *preset = pen_device_find(kind);
    if (preset != NULL) {
        *out = *preset;
        return PEN_OK;
    }
    memcpy(out->kind, kind, sizeof kind);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (pen_yaml_find(map, figures[i]) == NULL)
            return pen_yaml_refuse(node, why,
                                   "'%s' is not a preset, so it needs '%s'",
                                   kind, figures[i]);
    return PEN_OK;
}

static pen_status check_speed(const struct pen_yaml_node *map,
                              const struct pen_device *device,
                              struct pen_text *why)
{
    for (int i = 0; i < PEN_NUMBERS; i++)
        if (device->flops[i] >= 1)
            return PEN_OK;
    return pen_yaml_refuse(map, why, "a device must have its speed in 'flops'");
}

static pen_status read_group(const struct pen_yaml_node *map, uint64_t room,
                             struct pen_device_group *out, struct pen_text *why)
{
    static const char *const keys[] = {
        "kind",  "count",      "flops",          "memory",    "bandwidth",
        "watts", "idle_watts", "price_per_hour", "constants", NULL};
    const struct pen_yaml_node *count = NULL;
    pen_status status = pen_yaml_check_map(map, "a device", keys, why);
    if (status == PEN_OK)
        status = read_kind(map, &out->device, why);
    if (status == PEN_OK)
        status = pen_yaml_require(map, "a device", "count", &count, why);
    if (status == PEN_OK)
        status = pen_yaml_read_count(count, "count", 1, room, &out->count, why);
    if (status == PEN_OK)
        status = read_flops(map, &out->device, why);
    if (status == PEN_OK)
        status = check_speed(map, &out->device, why);
    if (status == PEN_OK)
        status = read_memory(map, &out->device, why);
    if (status == PEN_OK)
        status = read_watts(map, &out->device, why);
    if (status == PEN_OK)
        status =
            read_cost(map, "price_per_hour", &out->device.price_per_hour, why);
    return status == PEN_OK ? read_constants(map, &out->device, why) : status;
}

static pen_status read_groups(const struct pen_yaml_node *list,
                              struct pen_cluster *out, struct pen_text *why)
{
    uint64_t room = PEN_CLUSTER_MAX_DEVICES;
    struct pen_device_group *group = out->groups;
    for (const struct pen_yaml_node *at = list->first; at != NULL;
         at = at->next, group++) {
        pen_status status = read_group(at, room, group, why);
        if (status != PEN_OK)
            return status;
        room -= group->count;
    }
    return PEN_OK;
}

/* ---- links ---- */

/* Blocks are made of whole blocks. The outermost level has no size. */
static pen_status read_size(const struct pen_yaml_node *map, uint64_t inner,
                            uint64_t *out, struct pen_text *why)
{
    const struct pen_yaml_node *size = pen_yaml_find(map, "size");
    if (map->next == NULL) {
        if (size == NULL)
            return PEN_OK;
        return pen_yaml_refuse(
            size, why,
            "the outermost level joins all devices and must not have a size");
    }
    pen_status status = pen_yaml_require(map, "a level", "size", &size, why);
    if (status == PEN_OK)
        status = pen_yaml_read_count(size, "size", inner + 1,
                                     PEN_CLUSTER_MAX_DEVICES, out, why);
    if (status != PEN_OK || *out % inner == 0)
        return status;
    return pen_yaml_refuse(size, why, "size must be a multiple of %" PRIu64,
                           inner);
}

static pen_status read_level(const struct pen_yaml_node *map, uint64_t inner,
                             struct pen_link_level *out, struct pen_text *why)
{
    static const char *const keys[] = {"level", "size", "bandwidth", "latency",
                                       NULL};
    const struct pen_yaml_node *name = NULL;
    const struct pen_yaml_node *rate = NULL;
    const struct pen_yaml_node *latency = NULL;
    pen_status status = pen_yaml_check_map(map, "a level", keys, why);
    if (status == PEN_OK)
        status = pen_yaml_require(map, "a level", "level", &name, why);
    if (status == PEN_OK)
        status = pen_yaml_require(map, "a level", "bandwidth", &rate, why);
    if (status == PEN_OK)
        status = pen_yaml_require(map, "a level", "latency", &latency, why);
    if (status == PEN_OK)
        status =
            pen_yaml_read_word(name, "level", out->name, sizeof out->name, why);
    if (status == PEN_OK)
        status = read_size(map, inner, &out->size, why);
    if (status == PEN_OK)
        status =
            pen_yaml_read_unit(rate, "bandwidth", PEN_UNIT_BYTES_PER_SEC, 1,
                               PEN_CLUSTER_MAX_RATE, &out->bytes_per_sec, why);
    if (status == PEN_OK)
        status =
            pen_yaml_read_unit(latency, "latency", PEN_UNIT_SECONDS, 0,
                               PEN_CLUSTER_MAX_LATENCY, &out->latency_sec, why);
    return status;
}

static pen_status read_levels(const struct pen_yaml_node *list,
                              struct pen_cluster *out, struct pen_text *why)
{
    uint64_t inner = 1;
    struct pen_link_level *level = out->levels;
    for (const struct pen_yaml_node *at = list->first; at != NULL;
         at = at->next, level++) {
        pen_status status = read_level(at, inner, level, why);
        if (status != PEN_OK)
            return status;
        inner = level->size;
    }
    return PEN_OK;
}

/* ---- between groups ---- */

struct matrix {
    const char *key;
    enum pen_unit unit;
    double least;
    double most;
};

static const struct matrix matrix_rates = {"bandwidth", PEN_UNIT_BYTES_PER_SEC,
                                           1, PEN_CLUSTER_MAX_RATE};
static const struct matrix matrix_latencies = {"latency", PEN_UNIT_SECONDS, 0,
                                               PEN_CLUSTER_MAX_LATENCY};

static pen_status read_matrix(const struct pen_yaml_node *map,
                              const struct matrix *matrix, uint32_t size,
                              double *out, struct pen_text *why)
{
    const struct pen_yaml_node *rows = NULL;
    pen_status status =
        pen_yaml_require(map, "between", matrix->key, &rows, why);
    if (status == PEN_OK)
        status = pen_yaml_check_list(rows, matrix->key, size, size, why);
    if (status != PEN_OK)
        return status;
    for (const struct pen_yaml_node *row = rows->first; row != NULL;
         row = row->next) {
        status = pen_yaml_check_list(row, "a row", size, size, why);
        if (status != PEN_OK)
            return status;
        for (const struct pen_yaml_node *at = row->first; at != NULL;
             at = at->next) {
            status =
                pen_yaml_read_unit(at, matrix->key, matrix->unit, matrix->least,
                                   matrix->most, out++, why);
            if (status != PEN_OK)
                return status;
        }
    }
    return PEN_OK;
}

static pen_status read_between(const struct pen_yaml_node *map,
                               struct pen_cluster *out, struct pen_text *why)
{
    static const char *const keys[] = {"bandwidth", "latency", NULL};
    pen_status status = pen_yaml_check_map(map, "between", keys, why);
    if (status == PEN_OK)
        status = read_matrix(map, &matrix_rates, out->num_groups,
                             out->group_bytes_per_sec, why);
    if (status == PEN_OK)
        status = read_matrix(map, &matrix_latencies, out->num_groups,
                             out->group_latency_sec, why);
    return status;
}

/* ---- the whole file ---- */

/* Version 2 has idle_watts; files of version 1 need not say their version. */
#define VERSION 2

static pen_status check_version(const struct pen_yaml_node *root,
                                struct pen_text *why)
{
    const struct pen_yaml_node *version = pen_yaml_find(root, "version");
    uint64_t number = 0;
    if (version == NULL)
        return PEN_OK;
    return pen_yaml_read_count(version, "version", 1, VERSION, &number, why);
}

/* The parts of the file, each of the right kind and length. */
struct parts {
    const struct pen_yaml_node *name;
    const struct pen_yaml_node *devices;
    const struct pen_yaml_node *links;
    const struct pen_yaml_node *between; /* or NULL */
};

static pen_status find_parts(const struct pen_yaml_node *root,
                             struct parts *out, struct pen_text *why)
{
    static const char *const keys[] = {"version", "name",    "devices",
                                       "links",   "between", NULL};
    pen_status status = pen_yaml_check_map(root, "a cluster", keys, why);
    if (status == PEN_OK)
        status = check_version(root, why);
    if (status == PEN_OK)
        status = pen_yaml_require(root, "a cluster", "name", &out->name, why);
    if (status == PEN_OK)
        status =
            pen_yaml_require(root, "a cluster", "devices", &out->devices, why);
    if (status == PEN_OK)
        status = pen_yaml_require(root, "a cluster", "links", &out->links, why);
    if (status != PEN_OK)
        return status;
    out->between = pen_yaml_find(root, "between");
    status = pen_yaml_check_list(out->devices, "devices", 1,
                                 out->between == NULL ? PEN_CLUSTER_MAX_KINDS
                                                      : PEN_CLUSTER_MAX_GROUPS,
                                 why);
    if (status != PEN_OK)
        return status;
    return pen_yaml_check_list(out->links, "links", 1, PEN_CLUSTER_MAX_LEVELS,
                               why);
}

static pen_status read_cluster(const struct parts *parts,
                               struct pen_cluster *out, struct pen_text *why)
{
    pen_status status = pen_yaml_read_word(parts->name, "name", out->name,
                                           sizeof out->name, why);
    if (status == PEN_OK)
        status = read_groups(parts->devices, out, why);
    if (status == PEN_OK)
        status = read_levels(parts->links, out, why);
    if (status == PEN_OK && parts->between != NULL)
        status = read_between(parts->between, out, why);
    return status == PEN_OK ? pen_cluster_check(out, why) : status;
}

pen_status pen_cluster_parse(const char *text, size_t length,
                             struct pen_cluster **out, struct pen_text *why)
{
    struct parts parts = {.name = NULL};
    struct pen_yaml_node *root = NULL;
    struct pen_cluster *cluster = NULL;
    pen_status status = pen_yaml_load(text, length, &root, why);
    if (status == PEN_OK)
        status = find_parts(root, &parts, why);
    if (status == PEN_OK)
        status = pen__cluster_create(parts.devices->num_entries,
                                     parts.links->num_entries,
                                     parts.between != NULL, &cluster, why);
    if (status == PEN_OK)
        status = read_cluster(&parts, cluster, why);
    pen_yaml_free(root);
    if (status != PEN_OK) {
        pen_cluster_free(cluster);
        return status;
    }
    *out = cluster;
    return PEN_OK;
}

/* ---- printing ---- */

/* Names of levels and kinds are mostly plain; any other text has quotes. */
static void add_word(struct pen_text *out, const char *word)
{
    bool is_plain =
        word[0] >= 'a' && word[0] <= 'z' &&
        word[strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
    pen_text_add(out, is_plain ? "%s" : "\"%s\"", word);
}

static void add_flops(struct pen_text *out, const struct pen_device *device,
                      const struct pen_device *preset)
{
    const char *before = "";
    pen_text_add_string(out, "    flops: {");
    for (int i = 0; i < PEN_NUMBERS; i++) {
        if (device->flops[i] == 0 && (preset == NULL || preset->flops[i] == 0))
            continue;
        pen_text_add(out, "%s%s: ", before, pen_number_names[i]);
        pen_unit_print(PEN_UNIT_FLOPS, device->flops[i], out);
        before = ", ";
    }
    pen_text_add_string(out, "}\n");
}

static void add_cost(struct pen_text *out, const char *key, double value,
                     double usual)
{
    if (value == 0 && usual == 0)
        return;
    pen_text_add(out, "    %s: ", key);
    pen_text_add_real(out, value);
    pen_text_add_string(out, "\n");
}

static void add_constants(struct pen_text *out, const struct pen_device *device)
{
    struct pen_device usual = *device;
    const char *before = "    constants: {";
    pen_device_default_constants(&usual);
    for (int i = 0; i < PEN_CONSTANTS; i++) {
        if (device->constants[i] == usual.constants[i])
            continue;
        pen_text_add(out, "%s%s: ", before,
                     pen__constant_of((enum pen_constant)i).key);
        pen_text_add_real(out, device->constants[i]);
        before = ",\n      ";
    }
    if (before[0] == ',')
        pen_text_add_string(out, "}\n");
}

static void add_group(struct pen_text *out,
                      const struct pen_device_group *group)
{
    const struct pen_device *device = &group->device;
    const struct pen_device *preset = pen_device_find(device->kind);
    pen_text_add_string(out, "  - kind: ");
    add_word(out, device->kind);
    pen_text_add(out, "\n    count: %" PRIu64 "\n", group->count);
    add_flops(out, device, preset);
    pen_text_add_string(out, "    memory: ");
    pen_unit_print(PEN_UNIT_BYTES, (double)device->memory_bytes, out);
    pen_text_add_string(out, "\n    bandwidth: ");
    pen_unit_print(PEN_UNIT_BYTES_PER_SEC, device->memory_bytes_per_sec, out);
    pen_text_add_string(out, "\n");
    add_cost(out, "watts", device->watts, preset == NULL ? 0 : preset->watts);
    add_cost(out, "idle_watts", device->idle_watts, 0);
    add_cost(out, "price_per_hour", device->price_per_hour,
             preset == NULL ? 0 : preset->price_per_hour);
    add_constants(out, device);
}

static void add_level(struct pen_text *out, const struct pen_link_level *level)
{
    pen_text_add_string(out, "  - {level: ");
    add_word(out, level->name);
    if (level->size > 0)
        pen_text_add(out, ", size: %" PRIu64, level->size);
    pen_text_add_string(out, ", bandwidth: ");
    pen_unit_print(PEN_UNIT_BYTES_PER_SEC, level->bytes_per_sec, out);
    pen_text_add_string(out, ", latency: ");
    pen_unit_print(PEN_UNIT_SECONDS, level->latency_sec, out);
    pen_text_add_string(out, "}\n");
}

static void add_matrix(struct pen_text *out, const struct matrix *matrix,
                       const double *values, uint32_t size)
{
    pen_text_add(out, "  %s:\n", matrix->key);
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t j = 0; j < size; j++) {
            pen_text_add_string(out, j == 0 ? "    - [" : ", ");
            pen_unit_print(matrix->unit, values[(size_t)i * size + j], out);
        }
        pen_text_add_string(out, "]\n");
    }
}

void pen_cluster_print(const struct pen_cluster *cluster, struct pen_text *out)
{
    pen_text_add(out, "version: %d\nname: \"%s\"\ndevices:\n", VERSION,
                 cluster->name);
    for (uint32_t i = 0; i < cluster->num_groups; i++)
        add_group(out, &cluster->groups[i]);
    pen_text_add_string(out, "links:\n");
    for (uint32_t i = 0; i < cluster->num_levels; i++)
        add_level(out, &cluster->levels[i]);
    if (cluster->group_bytes_per_sec == NULL)
        return;
    pen_text_add_string(out, "between:\n");
    add_matrix(out, &matrix_rates, cluster->group_bytes_per_sec,
               cluster->num_groups);
    add_matrix(out, &matrix_latencies, cluster->group_latency_sec,
               cluster->num_groups);
}
