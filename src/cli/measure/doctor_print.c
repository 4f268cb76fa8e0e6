/* The findings of the doctor, for people on one screen or as JSON. */
#include "cli/measure/doctor.h"

#include "base/table.h"
#include "cli/program/cli.h"

/* Adds a line with a title at its left; "" continues the line above. */
static void add_row(struct pen_text *out, const char *title, const char *format,
                    ...) __attribute__((format(printf, 3, 4)));

static void add_row(struct pen_text *out, const char *title, const char *format,
                    ...)
{
    va_list args;
    va_start(args, format);
    pen_text_add(out, "%-11s", title);
    pen_text_add_list(out, format, args);
    pen_text_add(out, "\n");
    va_end(args);
}

static void add_bytes(struct pen_text *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        number /= 1024;
        unit++;
    }
    pen_text_add(out, number < 10 && unit > 1 ? "%.1f %s" : "%.0f %s", number,
                 units[unit]);
}

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void add_processors(struct pen_text *out, const char *title,
                           const struct pen_processors *processors)
{
    add_row(out, title, "%u core%s, %u hardware thread%s, %u NUMA node%s",
            processors->cores, plural(processors->cores),
            processors->hardware_threads, plural(processors->hardware_threads),
            processors->numa_nodes, plural(processors->numa_nodes));
}

static void add_caches(struct pen_text *out,
                       const struct pen_topology *topology)
{
    struct pen_text list = PEN_TEXT_EMPTY;
    for (int i = 0; i < PEN_CACHE_LEVELS; i++) {
        const struct pen_cache *cache = &topology->caches[i];
        if (cache->count == 0)
            continue;
        pen_text_add(&list, "%sL%d %u x ", list.length == 0 ? "" : ", ", i + 1,
                     cache->count);
        add_bytes(&list, cache->bytes);
    }
    if (list.length > 0)
        add_row(out, "caches", "%s", pen_text_string(&list));
    pen_text_release(&list);
}

static void add_memory(struct pen_text *out,
                       const struct pen_topology *topology)
{
    pen_text_add(out, "%-11s", "memory");
    add_bytes(out, topology->memory_bytes);
    pen_text_add(out, ", ");
    add_bytes(out, topology->memory_free_bytes);
    pen_text_add(out, " free");
    if (topology->memory_limit_bytes > 0 &&
        topology->memory_limit_bytes < topology->memory_bytes) {
        pen_text_add(out, ", limit ");
        add_bytes(out, topology->memory_limit_bytes);
    }
    if (topology->huge_pages[0] != '\0')
        pen_text_add(out, ", huge pages: %s", topology->huge_pages);
    pen_text_add(out, "\n");
}

static void add_machine(struct pen_text *out,
                        const struct pen_topology *topology)
{
    add_row(out, "machine", "%s", topology->cpu_name);
    add_processors(out, "", &topology->machine);
    add_row(out, "", "%s%s%s%s%s%s", topology->has_avx2 ? "AVX2" : "no AVX2",
            topology->has_avx512 ? ", AVX-512" : ", no AVX-512",
            topology->has_avx512_bf16 ? ", AVX-512 BF16" : "",
            topology->has_amx_bf16 ? ", AMX BF16" : ", no AMX",
            topology->governor[0] == '\0' ? "" : ", governor ",
            topology->governor);
    add_caches(out, topology);
    add_memory(out, topology);
}

static void add_process(struct pen_text *out,
                        const struct pen__findings *findings)
{
    const struct pen_topology *topology = &findings->topology;
    add_processors(out, "may use", &topology->usable);
    if (topology->cpu_quota > 0)
        add_row(out, "", "at most the time of %.2f processors",
                topology->cpu_quota);
    add_row(out, "threads", "%d, %s", findings->threads.count,
            pen_binding_sentence(findings->threads.binding));
}

static void add_software(struct pen_text *out,
                         const struct pen__findings *findings)
{
    add_row(out, "installed", "oneDNN %s", pen_text_string(&findings->onednn));
    for (size_t i = 0; i < PEN__NUM_SOFTWARE; i++)
        add_row(out, "", "%s: %s", pen__software[i].name,
                findings->software[i].length > 0 ? findings->software[i].bytes
                                                 : "not on PATH");
}

static void add_speed(struct pen_table *table, const char *what, double one,
                      double all, int threads)
{
    pen_table_add(table, "%s", what);
    if (one > 0)
        pen_table_add(table, "%.1f", one);
    else
        pen_table_add(table, "-");
    if (threads == 1)
        return;
    if (all > 0)
        pen_table_add(table, "%.1f", all);
    else
        pen_table_add(table, "-");
}

static void add_speeds(struct pen_text *out,
                       const struct pen__findings *findings)
{
    int threads = findings->threads.count;
    char title[32];
    snprintf(title, sizeof title, "%d threads", threads);
    const struct pen_column columns[] = {{"measured", false, false},
                                         {"1 thread", true, false},
                                         {title, true, false}};
    const struct pen__speed *one = &findings->one;
    const struct pen__speed *all = &findings->all;
    struct pen_table table;
    pen_table_init(&table, columns, threads == 1 ? 2 : 3);
    add_speed(&table, "f32, Gflop/s", 1e-9 * one->f32_flops,
              1e-9 * all->f32_flops, threads);
    add_speed(&table, "bf16, Gflop/s", 1e-9 * one->bf16_flops,
              1e-9 * all->bf16_flops, threads);
    add_speed(&table, "memory, GB/s", 1e-9 * one->memory_bytes,
              1e-9 * all->memory_bytes, threads);
    pen_text_add(out, "\n");
    pen_table_print(&table, 0, out);
    pen_table_release(&table);
}

void pen__doctor_print(const struct pen__findings *findings,
                       const struct pen__advices *advices, struct pen_text *out)
{
    add_machine(out, &findings->topology);
    add_process(out, findings);
    add_software(out, findings);
    add_speeds(out, findings);
    pen_text_add(out, "\n");
    for (size_t i = 0; i < advices->count; i++)
        pen_text_add(out, "%s\n    %s\n",
                     pen_text_string(&advices->list[i].text),
                     pen_text_string(&advices->list[i].command));
}

static json_t *processors_json(const struct pen_processors *processors)
{
    return json_pack("{s:I, s:I, s:I}", "cores", (json_int_t)processors->cores,
                     "hardware_threads",
                     (json_int_t)processors->hardware_threads, "numa_nodes",
                     (json_int_t)processors->numa_nodes);
}

static json_t *caches_json(const struct pen_topology *topology)
{
    json_t *list = json_array();
    for (int i = 0; i < PEN_CACHE_LEVELS; i++) {
        const struct pen_cache *cache = &topology->caches[i];
        if (cache->count > 0)
            pen__json_append(&list,
                             json_pack("{s:i, s:I, s:I}", "level", i + 1,
                                       "bytes", (json_int_t)cache->bytes,
                                       "count", (json_int_t)cache->count));
    }
    return list;
}

static json_t *machine_json(const struct pen_topology *topology)
{
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:f, s:o, s:I, s:I, s:I, s:b, s:b, s:b, s:b, "
        "s:s, s:s}",
        "cpu", topology->cpu_name, "all", processors_json(&topology->machine),
        "allowed", processors_json(&topology->allowed), "usable",
        processors_json(&topology->usable), "cpu_quota", topology->cpu_quota,
        "caches", caches_json(topology), "memory_bytes",
        (json_int_t)topology->memory_bytes, "memory_free_bytes",
        (json_int_t)topology->memory_free_bytes, "memory_limit_bytes",
        (json_int_t)topology->memory_limit_bytes, "avx2", topology->has_avx2,
        "avx512", topology->has_avx512, "avx512_bf16",
        topology->has_avx512_bf16, "amx_bf16", topology->has_amx_bf16,
        "huge_pages", topology->huge_pages, "governor", topology->governor);
}

static json_t *software_json(const struct pen__findings *findings)
{
    json_t *list =
        json_pack("{s:s}", "oneDNN", pen_text_string(&findings->onednn));
    for (size_t i = 0; i < PEN__NUM_SOFTWARE; i++)
        if (json_object_set_new(list, pen__software[i].name,
                                findings->software[i].length > 0
                                    ? json_string(findings->software[i].bytes)
                                    : json_null()) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *speed_json(int threads, const struct pen__speed *speed)
{
    return json_pack("{s:i, s:f, s:f, s:f}", "threads", threads,
                     "f32_flops_per_sec", speed->f32_flops,
                     "bf16_flops_per_sec", speed->bf16_flops,
                     "memory_bytes_per_sec", speed->memory_bytes);
}

static json_t *advices_json(const struct pen__advices *advices)
{
    json_t *list = json_array();
    for (size_t i = 0; i < advices->count; i++)
        pen__json_append(
            &list, json_pack("{s:s, s:s}", "text",
                             pen_text_string(&advices->list[i].text), "command",
                             pen_text_string(&advices->list[i].command)));
    return list;
}

json_t *pen__doctor_json(const struct pen__findings *findings,
                         const struct pen__advices *advices)
{
    int threads = findings->threads.count;
    return json_pack(
        "{s:o, s:{s:i, s:s}, s:f, s:o, s:[o, o], s:o, s:b}", "machine",
        machine_json(&findings->topology), "threads", "count", threads,
        "binding", pen_binding_word(findings->threads.binding), "load",
        findings->load, "installed", software_json(findings), "measured",
        speed_json(1, &findings->one), speed_json(threads, &findings->all),
        "advice", advices_json(advices), "usable",
        findings->missing.length == 0);
}
