/*
 * penstock cluster: lists presets, shows and checks clusters. The command that
 * measures one needs the engine and MPI: it is cluster_detect.c of
 * penstock-train.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "base/table.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/verbs.h"
#include "core/cluster.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- list ---- */

static void add_speed(struct pen_table *table, double flops)
{
    if (flops == 0)
        pen_table_add(table, "-");
    else
        pen_table_add(table, "%.4g", 1e-12 * flops);
}

static void list_devices(struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"device", false, false},
        {"f32, Tflop/s", true, false},
        {"bf16", true, false},
        {"fp16", true, false},
        {"fp8", true, false},
        {"mxfp8", true, false},
        {"nvfp4", true, false},
        {"memory, GiB", true, false},
        {"bandwidth, GB/s", true, false},
        {"watts", true, false},
        {"idle", true, false},
        {"usual system", false, false}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; pen_device_at(i) != NULL; i++) {
        const struct pen_device *device = pen_device_at(i);
        pen_table_add(&table, "%s", device->kind);
        for (int number = 0; number < PEN_NUMBERS; number++)
            add_speed(&table, device->flops[number]);
        pen_table_add(&table, "%.4g", (double)device->memory_bytes / 0x1p30);
        pen_table_add(&table, "%.5g", 1e-9 * device->memory_bytes_per_sec);
        pen_table_add(&table, "%.0f", device->watts);
        pen_table_add(&table, "%.0f", pen_device_idle_watts(device));
        pen_table_add(&table, "%s", pen_system_of_device(device->kind)->name);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static void list_systems(struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"system", false, false},       {"devices", true, false},
        {"kind", false, false},         {"inside, GB/s", true, false},
        {"outside, GB/s", true, false}, {"links", false, true}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; pen_system_at(i) != NULL; i++) {
        const struct pen_system *system = pen_system_at(i);
        const struct pen_link_level *outer =
            &system->levels[system->num_levels - 1];
        pen_table_add(&table, "%s", system->name);
        pen_table_add(&table, "%" PRIu64, system->size);
        pen_table_add(&table, "%s", system->device);
        pen_table_add(&table, "%.4g", 1e-9 * system->levels[0].bytes_per_sec);
        pen_table_add(&table, "%.4g", 1e-9 * outer->bytes_per_sec);
        pen_table_add(&table, "%s", system->links);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static json_t *facts_json(const struct pen_device *device)
{
    json_t *flops = json_object();
    for (int number = 0; number < PEN_NUMBERS; number++)
        if (device->flops[number] > 0)
            json_object_set_new(flops, pen_number_names[number],
                                json_real(device->flops[number]));
    return json_pack("{s:s, s:o, s:I, s:f, s:f, s:f}", "device", device->kind,
                     "flops", flops, "memory_bytes",
                     (json_int_t)device->memory_bytes, "memory_bytes_per_sec",
                     device->memory_bytes_per_sec, "watts", device->watts,
                     "idle_watts", pen_device_idle_watts(device));
}

static json_t *device_json(const struct pen_device *device)
{
    json_t *object = facts_json(device);
    json_object_set_new(object, "system",
                        json_string(pen_system_of_device(device->kind)->name));
    return object;
}

static json_t *levels_json(const struct pen_link_level *levels, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        pen__json_append(
            &list, json_pack("{s:s, s:I, s:f, s:f}", "name", levels[i].name,
                             "size", (json_int_t)levels[i].size,
                             "bytes_per_sec", levels[i].bytes_per_sec,
                             "latency_sec", levels[i].latency_sec));
    return list;
}

static json_t *system_json(const struct pen_system *system)
{
    return json_pack("{s:s, s:s, s:I, s:o, s:s}", "system", system->name,
                     "device", system->device, "devices",
                     (json_int_t)system->size, "levels",
                     levels_json(system->levels, system->num_levels), "links",
                     system->links);
}

static int list_json(void)
{
    json_t *devices = json_array();
    json_t *systems = json_array();
    for (size_t i = 0; pen_device_at(i) != NULL; i++)
        pen__json_append(&devices, device_json(pen_device_at(i)));
    for (size_t i = 0; pen_system_at(i) != NULL; i++)
        pen__json_append(&systems, system_json(pen_system_at(i)));
    return pen__print_json(
        "cluster-list",
        json_pack("{s:o, s:o}", "devices", devices, "systems", systems));
}

static int run_list(const struct pen__rest *words)
{
    (void)words;
    if (pen__answer_is_json())
        return list_json();
    struct pen_text text = PEN_TEXT_EMPTY;
    list_devices(&text);
    pen_text_add_string(&text, "\n");
    list_systems(&text);
    pen_text_add_string(
        &text, "\npreset:h100-sxm*1024 is 1024 devices in their usual system, "
               "preset:dgx-h100*128 is 128 systems;\n"
               "this host: `penstock cluster detect` measures it\n");
    return pen__print(&text);
}

/* ---- show, check ---- */

static json_t *groups_json(const struct pen_cluster *cluster)
{
    json_t *groups = json_array();
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        const struct pen_device_group *group = &cluster->groups[i];
        json_t *item = facts_json(&group->device);
        json_object_set_new(item, "count",
                            json_integer((json_int_t)group->count));
        pen__json_append(&groups, item);
    }
    return groups;
}

static json_t *cluster_json(const struct pen_cluster *cluster)
{
    return json_pack("{s:s, s:I, s:o, s:o}", "name", cluster->name, "devices",
                     (json_int_t)pen_cluster_num_devices(cluster), "groups",
                     groups_json(cluster), "levels",
                     levels_json(cluster->levels, cluster->num_levels));
}

static int run_show(const struct pen__rest *words)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    int code = PEN__EXIT_OK;
    pen_status status = pen_cluster_load(words->words[0], &cluster, &text);
    if (status != PEN_OK) {
        code = pen__refuse_as(status, &text);
    } else if (pen__answer_is_json()) {
        code = pen__print_json("cluster-show", cluster_json(cluster));
    } else {
        pen_cluster_print(cluster, &text);
        code = pen__print(&text);
    }
    pen_cluster_free(cluster);
    pen_text_release(&text);
    return code;
}

static int run_check(const struct pen__rest *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    int code = PEN__EXIT_OK;
    pen_status status = pen_cluster_load(words->words[0], &cluster, &why);
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = pen__print_json("cluster-check", cluster_json(cluster));
    else
        printf("%s: %" PRIu64 " device%s of %u kind%s, %u level%s of links\n",
               words->words[0], pen_cluster_num_devices(cluster),
               pen_cluster_num_devices(cluster) == 1 ? "" : "s",
               cluster->num_groups, cluster->num_groups == 1 ? "" : "s",
               cluster->num_levels, cluster->num_levels == 1 ? "" : "s");
    pen_cluster_free(cluster);
    pen_text_release(&why);
    return code;
}

/* ---- commands ---- */

static const struct pen__field fields[] = {JSON("print JSON")};

#define NUM_FIELDS (sizeof fields / sizeof *fields)

static const struct pen__verb verbs[] = {
    {"list", "", "Lists the presets of devices and systems",
     "Figures are from the vendors' data sheets: dense products, "
     "bandwidth of one device in one direction.",
     fields, NUM_FIELDS, 0, 0},
    {"show", "SOURCE", "Prints a cluster as a cluster file",
     "SOURCE is a file or a preset with a count, such as "
     "preset:h100-sxm*1024 or preset:dgx-h100*128. You can edit the "
     "output and use it as a cluster file.",
     fields, NUM_FIELDS, 1, 1},
    {"check", "SOURCE", "Checks a cluster file and names the place of an error",
     "Exits with 1 if the file is wrong; the message has line and "
     "column.",
     fields, NUM_FIELDS, 1, 1},
    {"detect", "[-o FILE]", "Measures this machine, or under mpirun a cluster",
     NULL, NULL, 0, 0, 0}}; /* the last one is of penstock-train */

/* The functions of the verbs, in the order of their table. */
static int (*const runs[])(const struct pen__rest *words) = {run_list, run_show,
                                                             run_check};

static const struct pen__verbs commands = {.command = "cluster",
                                           .items = verbs,
                                           .count =
                                               sizeof verbs / sizeof *verbs,
                                           .name_width = 6,
                                           .words_width = 9};

static int run(int argc, char **argv)
{
    int code = PEN__EXIT_USAGE;
    int index = pen__verbs_find(&commands, argc, argv, &code);
    if (index < 0)
        return code;
    struct pen__rest words = {NULL, 0};
    if (pen__verbs_parse(&commands, index, argc, argv, &words))
        code = runs[index](&words);
    return code;
}

static int help(int argc, char **argv)
{
    return pen__verbs_help(&commands, argc, argv);
}

const struct pen__command pen__cluster = {
    "cluster", "lists, shows, checks and measures clusters", run, help};
