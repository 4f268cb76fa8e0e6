/*
 * Clusters as a noun: memory, checks, questions. The text is cluster_yaml.c,
 * what comes without a file is cluster_presets.c and device_presets.c.
 */
#include "core/cluster.h"

#include "base/bug.h"
#include "base/file.h"
#include "base/json.h"
#include "core/cluster_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((size_t)4 << 20)
#define PRESET "preset:"

/* ---- memory ---- */

pen_status pen__cluster_create(uint32_t num_groups, uint32_t num_levels,
                               bool has_matrix, struct pen_cluster **out,
                               struct pen_text *why)
{
    struct pen_cluster *cluster = calloc(1, sizeof *cluster);
    size_t entries = (size_t)num_groups * num_groups;
    if (cluster == NULL)
        goto fail;
    cluster->num_groups = num_groups;
    cluster->num_levels = num_levels;
    cluster->groups = calloc(num_groups, sizeof *cluster->groups);
    cluster->levels = calloc(num_levels, sizeof *cluster->levels);
    if (cluster->groups == NULL || cluster->levels == NULL)
        goto fail;
    if (has_matrix) {
        cluster->group_bytes_per_sec = calloc(entries, sizeof(double));
        cluster->group_latency_sec = calloc(entries, sizeof(double));
        if (cluster->group_bytes_per_sec == NULL ||
            cluster->group_latency_sec == NULL)
            goto fail;
    }
    *out = cluster;
    return PEN_OK;

fail:
    pen_cluster_free(cluster);
    pen_why(why, "no memory for a cluster of %u kinds of device", num_groups);
    return PEN_NOMEM;
}

void pen_cluster_free(struct pen_cluster *cluster)
{
    if (cluster == NULL)
        return;
    free(cluster->groups);
    free(cluster->levels);
    free(cluster->group_bytes_per_sec);
    free(cluster->group_latency_sec);
    free(cluster);
}

static pen_status parse_file(void *out, const char *bytes, size_t length,
                             struct pen_text *why)
{
    return pen_cluster_parse(bytes, length, out, why);
}

pen_status pen_cluster_load(const char *source, struct pen_cluster **out,
                            struct pen_text *why)
{
    size_t prefix = strlen(PRESET);
    if (strncmp(source, PRESET, prefix) == 0)
        return pen__cluster_from_preset(source + prefix, out, why);
    if (access(source, F_OK) != 0 && pen__cluster_is_preset(source))
        return pen__cluster_from_preset(source, out, why);
    return pen_file_parse(source, MAX_FILE_BYTES, parse_file, out, why);
}

/* ---- questions ---- */

uint64_t pen_cluster_num_devices(const struct pen_cluster *cluster)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < cluster->num_groups; i++)
        count += cluster->groups[i].count;
    return count;
}

const struct pen_link_level *
pen_cluster_level(const struct pen_cluster *cluster, uint64_t num_devices)
{
    const struct pen_link_level *level = cluster->levels;
    const struct pen_link_level *last = level + cluster->num_levels - 1;
    PEN_BUG_UNLESS(cluster->num_levels > 0);
    while (level < last && level->size < num_devices)
        level++;
    return level;
}

/* ---- the check ---- */

/* Shares are of a sheet's figure, which measurements may exceed a little. */
struct pen__constant pen__constant_of(enum pen_constant constant)
{
    static const char *const keys[] = {
#define CONSTANT_KEY(name, key) key,
        PEN_CONSTANT_TABLE(CONSTANT_KEY)};
    switch (constant) {
    case PEN_CONSTANT_PRODUCT_SHARE:
    case PEN_CONSTANT_PRODUCT_SHARE_FP8:
    case PEN_CONSTANT_PRODUCT_SHARE_MXFP8:
    case PEN_CONSTANT_PRODUCT_SHARE_FP4:
    case PEN_CONSTANT_ATTENTION_SHARE:
    case PEN_CONSTANT_BYTES_SHARE:
    case PEN_CONSTANT_LINK_SHARE:
    case PEN_CONSTANT_MESSAGE_SHARE:
    case PEN_CONSTANT_NETWORK_SHARE:
        return (struct pen__constant){keys[constant], 1e-3, 2};
    case PEN_CONSTANT_UNITS:
        return (struct pen__constant){keys[constant], 1, 65536};
    case PEN_CONSTANT_ROUNDING:
        return (struct pen__constant){keys[constant], 0, 1};
    case PEN_CONSTANT_LAUNCH:
    case PEN_CONSTANT_LINK_SEC:
    case PEN_CONSTANT_NETWORK_SEC:
    case PEN_CONSTANT_STEP_SEC:
    case PEN_CONSTANT_MICROBATCH_SEC:
        return (struct pen__constant){keys[constant], 0, 1e3};
    default:
        return (struct pen__constant){keys[constant], 0, 1e18};
    }
}

static bool is_within(double value, double least, double most)
{
    return value >= least && value <= most;
}

static bool has_constants(const struct pen_device *device, const char **key)
{
    for (int i = 0; i < PEN_CONSTANTS; i++) {
        struct pen__constant constant = pen__constant_of((enum pen_constant)i);
        *key = constant.key;
        if (!is_within(device->constants[i], constant.least, constant.most))
            return false;
    }
    return true;
}

static bool has_flops(const struct pen_device *device)
{
    double most = 0;
    for (int i = 0; i < PEN_NUMBERS; i++) {
        if (!is_within(device->flops[i], 0, PEN_CLUSTER_MAX_RATE))
            return false;
        if (device->flops[i] > most)
            most = device->flops[i];
    }
    return most >= 1;
}

static pen_status check_device(const struct pen_device *device,
                               struct pen_text *why)
{
    const char *key = NULL;
    if (!pen_json_is_word(device->kind, sizeof device->kind))
        pen_why(why, "every device must have a kind in plain ASCII");
    else if (!has_flops(device))
        pen_why(why, "%s must have a speed from 1 to %g flop/s", device->kind,
                PEN_CLUSTER_MAX_RATE);
    else if (device->memory_bytes < 1 ||
             device->memory_bytes > PEN_CLUSTER_MAX_BYTES ||
             !is_within(device->memory_bytes_per_sec, 1, PEN_CLUSTER_MAX_RATE))
        pen_why(why, "the memory of %s or its bandwidth is out of range",
                device->kind);
    else if (!has_constants(device, &key))
        pen_why(why, "%s of %s is out of range", key, device->kind);
    else if (device->watts > 0 && device->idle_watts > device->watts)
        pen_why(why, "idle_watts of %s must be at most its watts",
                device->kind);
    else if (!is_within(device->watts, 0, PEN_CLUSTER_MAX_WATTS) ||
             !is_within(device->idle_watts, 0, PEN_CLUSTER_MAX_WATTS) ||
             !is_within(device->price_per_hour, 0, PEN_CLUSTER_MAX_WATTS))
        pen_why(why, "watts or price of %s are out of range", device->kind);
    else
        return PEN_OK;
    return PEN_INVALID;
}

static pen_status check_groups(const struct pen_cluster *cluster,
                               struct pen_text *why)
{
    uint64_t count = 0;
    if (cluster->num_groups < 1 ||
        cluster->num_groups > PEN_CLUSTER_MAX_KINDS) {
        pen_why(why, "a cluster must have 1 to %u kinds of device",
                PEN_CLUSTER_MAX_KINDS);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        const struct pen_device_group *group = &cluster->groups[i];
        pen_status status = check_device(&group->device, why);
        if (status != PEN_OK)
            return status;
        if (group->count < 1 ||
            group->count > PEN_CLUSTER_MAX_DEVICES - count) {
            pen_why(
                why,
                "a cluster must have at most %u devices, and at least one of "
                "each kind",
                PEN_CLUSTER_MAX_DEVICES);
            return PEN_INVALID;
        }
        count += group->count;
    }
    return PEN_OK;
}

static bool is_link(double bytes_per_sec, double latency_sec)
{
    return is_within(bytes_per_sec, 1, PEN_CLUSTER_MAX_RATE) &&
           is_within(latency_sec, 0, PEN_CLUSTER_MAX_LATENCY);
}

/* Blocks are made of whole blocks; the outermost level has all devices. */
static bool has_blocks(const struct pen_cluster *cluster, uint32_t level)
{
    uint64_t size = cluster->levels[level].size;
    uint64_t inner = level == 0 ? 1 : cluster->levels[level - 1].size;
    if (level + 1 == cluster->num_levels)
        return size == 0;
    return size > inner && size <= PEN_CLUSTER_MAX_DEVICES && size % inner == 0;
}

static pen_status check_levels(const struct pen_cluster *cluster,
                               struct pen_text *why)
{
    if (cluster->num_levels < 1 ||
        cluster->num_levels > PEN_CLUSTER_MAX_LEVELS) {
        pen_why(why, "a cluster must have 1 to %u levels of links",
                PEN_CLUSTER_MAX_LEVELS);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < cluster->num_levels; i++) {
        const struct pen_link_level *level = &cluster->levels[i];
        if (!pen_json_is_word(level->name, sizeof level->name))
            pen_why(why, "every level must have a name in plain ASCII");
        else if (!has_blocks(cluster, i))
            pen_why(why,
                    "level %s must have a size that is a multiple of the "
                    "level inside, and the outermost one must have none",
                    level->name);
        else if (!is_link(level->bytes_per_sec, level->latency_sec))
            pen_why(why, "bandwidth or latency of level %s is out of range",
                    level->name);
        else
            continue;
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_matrix(const struct pen_cluster *cluster,
                               struct pen_text *why)
{
    bool has_rates = cluster->group_bytes_per_sec != NULL;
    if (has_rates != (cluster->group_latency_sec != NULL)) {
        pen_why(why, "links between groups must have bandwidth and latency");
        return PEN_INVALID;
    }
    if (!has_rates)
        return PEN_OK;
    if (cluster->num_groups > PEN_CLUSTER_MAX_GROUPS) {
        pen_why(why, "a matrix must have at most %u groups",
                PEN_CLUSTER_MAX_GROUPS);
        return PEN_INVALID;
    }
    size_t entries = (size_t)cluster->num_groups * cluster->num_groups;
    for (size_t i = 0; i < entries; i++) {
        if (is_link(cluster->group_bytes_per_sec[i],
                    cluster->group_latency_sec[i]))
            continue;
        pen_why(why, "the link between groups %zu and %zu is out of range",
                i / cluster->num_groups, i % cluster->num_groups);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_cluster_check(const struct pen_cluster *cluster,
                             struct pen_text *why)
{
    if (!pen_json_is_word(cluster->name, sizeof cluster->name)) {
        pen_why(why, "a cluster must have a name in plain ASCII");
        return PEN_INVALID;
    }
    pen_status status = check_groups(cluster, why);
    if (status == PEN_OK)
        status = check_levels(cluster, why);
    return status == PEN_OK ? check_matrix(cluster, why) : status;
}
