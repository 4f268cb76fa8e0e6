/*
 * penstock cluster: lists presets, shows and checks clusters. What measures one
 * needs the engine and MPI: it is cluster_detect.c of penstock-train.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "base/table.h"
#include "core/cluster.h"

#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct verb {
    const char *name;
    const char *words; /* behind it; "" for none */
    const char *summary;
    const char *doc;
    int (*run)(const char *source);
};

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
        {"memory, GiB", true, false},
        {"bandwidth, GB/s", true, false},
        {"watts", true, false},
        {"usual system", false, false}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; pen_device_at(i) != NULL; i++) {
        const struct pen_device *device = pen_device_at(i);
        pen_table_add(&table, "%s", device->kind);
        for (int number = 0; number < PEN_NUMBERS; number++)
            add_speed(&table, device->flops[number]);
        pen_table_add(&table, "%" PRIu64, device->memory_bytes >> 30);
        pen_table_add(&table, "%.5g", 1e-9 * device->memory_bytes_per_sec);
        pen_table_add(&table, "%.0f", device->watts);
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

static int run_list(const char *source)
{
    (void)source;
    struct pen_text text = PEN_TEXT_EMPTY;
    list_devices(&text);
    pen_text_add_string(&text, "\n");
    list_systems(&text);
    pen_text_add_string(&text,
                        "\npreset:h100-sxm*1024 is so many devices in their "
                        "usual system, preset:dgx-h100*128 so many systems;\n"
                        "this host is measured by `penstock cluster detect`\n");
    int code = pen__print(&text);
    pen_text_release(&text);
    return code;
}

/* ---- show, check ---- */

static int run_show(const char *source)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    int code = PEN__EXIT_OK;
    if (pen_cluster_load(source, &cluster, &text) != PEN_OK) {
        code = pen__refuse(&text);
    } else {
        pen_cluster_print(cluster, &text);
        code = pen__print(&text);
    }
    pen_cluster_free(cluster);
    pen_text_release(&text);
    return code;
}

static int run_check(const char *source)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_cluster *cluster = NULL;
    int code = PEN__EXIT_OK;
    if (pen_cluster_load(source, &cluster, &why) != PEN_OK)
        code = pen__refuse(&why);
    else
        printf("%s: %" PRIu64 " device%s of %u kind%s, %u level%s of links\n",
               source, pen_cluster_num_devices(cluster),
               pen_cluster_num_devices(cluster) == 1 ? "" : "s",
               cluster->num_groups, cluster->num_groups == 1 ? "" : "s",
               cluster->num_levels, cluster->num_levels == 1 ? "" : "s");
    pen_cluster_free(cluster);
    pen_text_release(&why);
    return code;
}

/* ---- commands ---- */

static const struct verb verbs[] = {
    {"list", "", "Lists the presets of devices and systems",
     "Figures are those of the vendors' sheets: dense products, bandwidth of "
     "one device in one direction.",
     run_list},
    {"show", "SOURCE", "Prints a cluster as a file",
     "SOURCE is a file or a preset with a count, such as preset:h100-sxm*1024 "
     "or preset:dgx-h100*128. What is printed can be edited and given as a "
     "file.",
     run_show},
    {"check", "SOURCE", "Tells whether a file is right, or where it is wrong",
     "Exits with 1 when it is wrong; the reason has line and column.",
     run_check},
    {"detect", "[-o FILE]", "Measures this machine, or under mpirun a cluster",
     NULL, NULL}}; /* of penstock-train */

enum { NUM_VERBS = sizeof verbs / sizeof *verbs };

struct args {
    const struct verb *verb;
    const char *source;
};

static bool needs_source(const struct verb *verb)
{
    return verb->words[0] != '\0';
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct args *args = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (!needs_source(args->verb) || args->source != NULL)
            argp_error(state, "'%s' is one word too many", text);
        args->source = text;
        return 0;
    case ARGP_KEY_END:
        if (needs_source(args->verb) && args->source == NULL)
            argp_error(state, "expected SOURCE");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void describe(const struct verb *verb, struct argp *parser,
                     struct pen_text *name, struct pen_text *doc)
{
    pen_text_add(name, "penstock cluster %s", verb->name);
    pen_text_add(doc, "%s.\v%s", verb->summary, verb->doc);
    *parser = (struct argp){.parser = parse_option,
                            .args_doc = verb->words,
                            .doc = pen_text_string(doc)};
}

static void print_usage(FILE *out)
{
    fputs("usage: penstock cluster COMMAND ...\n\n", out);
    for (size_t i = 0; i < NUM_VERBS; i++)
        fprintf(out, "  %-6s %-9s  %s\n", verbs[i].name, verbs[i].words,
                verbs[i].summary);
    fputs("\nMore: penstock help cluster [COMMAND], or man penstock-cluster.\n",
          out);
}

static const struct verb *find_verb(const char *name)
{
    struct pen__nearest nearest = pen__nearest_to(name);
    for (size_t i = 0; i < NUM_VERBS; i++) {
        if (verbs[i].run != NULL && strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
        pen__nearest_offer(&nearest, verbs[i].name);
    }
    pen_log(PEN_LOG_ERROR, "there is no command 'cluster %s'%s%s", name,
            nearest.best != NULL ? "; did you mean cluster " : "",
            nearest.best != NULL ? nearest.best : "");
    print_usage(stderr);
    return NULL;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return PEN__EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return PEN__EXIT_OK;
    }
    struct args args = {.verb = find_verb(argv[1])};
    if (args.verb == NULL)
        return PEN__EXIT_USAGE;
    struct argp parser;
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text doc = PEN_TEXT_EMPTY;
    describe(args.verb, &parser, &name, &doc);
    argv[1] = name.bytes;
    argp_err_exit_status = PEN__EXIT_USAGE;
    int code = PEN__EXIT_USAGE;
    if (argp_parse(&parser, argc - 1, argv + 1, 0, NULL, &args) == 0)
        code = args.verb->run(args.source);
    pen_text_release(&name);
    pen_text_release(&doc);
    return code;
}

static void help_on(const struct verb *verb)
{
    struct argp parser;
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text doc = PEN_TEXT_EMPTY;
    describe(verb, &parser, &name, &doc);
    argp_help(&parser, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
              name.bytes);
    pen_text_release(&name);
    pen_text_release(&doc);
}

static int help(int argc, char **argv)
{
    if (argc >= 2) {
        const struct verb *verb = find_verb(argv[1]);
        if (verb == NULL)
            return PEN__EXIT_USAGE;
        help_on(verb);
        return PEN__EXIT_OK;
    }
    print_usage(stdout);
    for (size_t i = 0; i < NUM_VERBS; i++) {
        if (verbs[i].run == NULL)
            continue;
        putchar('\n');
        help_on(&verbs[i]);
    }
    return PEN__EXIT_OK;
}

const struct pen__command pen__cluster = {
    "cluster", "lists, shows, checks and measures clusters", run, help};
