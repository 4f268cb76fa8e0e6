/*
 * penstock profile: seconds and bytes of a model's layers on this machine.
 */
#include "cli/program/cli.h"

#include "base/table.h"
#include "cli/measure/profile_link.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "cli/program/progress.h"
#include "cli/train/engine_word.h"
#include "cli/train/lost.h"
#include "host/memory_limit.h"
#include "host/threads.h"
#include "profiler/profiler.h"
#include "runtime/agree.h"
#include "runtime/trainer.h"
#include "runtime/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALL_MODES = PEN_RECOMPUTES,
    DEFAULT_ROUNDS = 7,
    MOST_ROUNDS = 1000,
    MOST_SIZES = PEN_PROFILE_MORE + 1,
    LARGEST_SIZE = 1 << 20
};

struct args {
    const char *model;
    const char *micro_batch_sizes; /* "1,2,4" */
    uint32_t sizes[MOST_SIZES];    /* of them, ascending */
    uint32_t num_sizes;
    uint64_t seq_length;
    bool is_bf16;
    const char *engine_name; /* NULL: onednn */
    const struct pen_engine_kind *engine;
    const char *device; /* of it; NULL: its choice */
    uint64_t threads;
    unsigned recompute; /* enum pen_recompute, or ALL_MODES */
    uint64_t rounds;
    const char *output; /* NULL: standard output */
};

static const char *const recomputes[] = {"none", "selective", "full", "all",
                                         NULL};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("model", "MODEL", model,
         "config.json, a folder with one, or preset:NAME"),
    TEXT("micro-batch-size", "N[,N...]", micro_batch_sizes,
         "micro-batch sizes to measure, in ascending order; 1 when not "
         "given"),
    SIZE("seq-length", seq_length, 1, 1u << 24,
         "tokens per sequence; the model's positions when not given"),
    FLAG("bf16", is_bf16, "products and activations in bf16"),
    TEXT("engine", "NAME", engine_name,
         "onednn, reference (plain loops), opencl[:DEVICE] or cuda[:DEVICE]; "
         "onednn "
         "when not given"),
    COUNT("threads", threads, 1, 4096,
          "compute threads; OMP_NUM_THREADS, or one per core, when not "
          "given"),
    WORD("recompute-granularity", recompute, recomputes,
         "recomputation to measure: none, selective, full or all; all "
         "when not given"),
    COUNT("rounds", rounds, PEN_PROFILER_LEAST_ROUNDS, MOST_ROUNDS,
          "number of measurements of each layer; 7 when not given"),
    JSON("print JSON: the summary"),
    TEXT("output", "FILE", output,
         "write the profile to FILE and a summary to standard output; when not "
         "given, write the profile to standard output")};

static bool read_sizes(struct args *args)
{
    const char *at = args->micro_batch_sizes;
    unsigned long before = 0;
    for (;;) {
        char *end;
        unsigned long size = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || args->num_sizes == MOST_SIZES ||
            size <= before || size > LARGEST_SIZE)
            return false;
        args->sizes[args->num_sizes++] = (uint32_t)size;
        before = size;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        at = end + 1;
    }
}

static void check(void *context, const struct argp_state *state)
{
    struct args *args = context;
    pen__line_require(state, args->model != NULL, "model");
    args->engine = pen__engine_word(args->engine_name, &args->device, state);
    if (args->is_bf16 && !pen_engine_has(args->engine, PEN_PRECISION_BF16))
        argp_error(state, "--bf16 needs --engine onednn, opencl or cuda");
    if (!read_sizes(args))
        argp_error(state,
                   "--micro-batch-size must be up to %d ascending numbers "
                   "from 1 to %d, such as 1,2,4",
                   MOST_SIZES, LARGEST_SIZE);
}

static const struct pen__line command_line = {
    .name = "penstock profile",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .doc = "Measures the layers of a model on this machine: seconds of "
           "their passes and of the optimizer, and bytes.\vLayers are "
           "measured one after another, as in a training. Under mpirun "
           "all ranks measure at the same time, as they compute in a "
           "training; the link between the first two ranks is measured as "
           "well. The figures are valid only if nothing else runs "
           "meanwhile.",
    .check = check};

/* ---- measuring ---- */

static void show_progress(void *context, uint32_t done, uint32_t total)
{
    pen__progress_update(context, done, total, NULL);
}

static pen_status describe_machine(struct pen_profile *out,
                                   struct pen_text *why)
{
    struct pen_topology topology;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_status status = pen_topology_read(&topology, why);
    if (status != PEN_OK)
        return status;
    const char *cpu = topology.cpu_name;
    for (const char *at = cpu; *at != '\0'; at++)
        pen_text_add_printable(&name, *at == '"' || *at == '\\' ? "?" : at, 1);
    snprintf(out->cpu, sizeof out->cpu, "%s",
             name.length == 0 ? "unknown" : pen_text_string(&name));
    pen_text_release(&name);
    out->num_cores = topology.machine.cores;
    out->memory_bytes = topology.memory_bytes;
    return PEN_OK;
}

/* Returns the settled memory; the next peak counts from here on. */
static size_t settled_memory(void)
{
    size_t bytes = pen_memory_settled();
    (void)pen_memory_forget_peak();
    return bytes;
}

static void set_options(const struct args *args, const struct pen_model *model,
                        struct pen_profiler_options *out)
{
    out->model = model;
    out->engine = args->engine;
    out->device = args->device;
    out->is_bf16 = args->is_bf16;
    out->micro_batch = args->sizes[0];
    out->sequence = args->seq_length == 0 ? model->max_positions
                                          : (uint32_t)args->seq_length;
    out->num_rounds = (uint32_t)args->rounds;
    /* No layer of an image network is computed again. */
    unsigned num_modes = model->images != NULL ? 1 : PEN_RECOMPUTES;
    for (unsigned mode = 0; mode < num_modes; mode++)
        out->modes[mode] =
            args->recompute == ALL_MODES || args->recompute == mode;
    out->resident_bytes = settled_memory;
    out->peak_bytes = pen_memory_forget_peak() ? pen_memory_peak : NULL;
}

static pen_status measure_sizes(const struct args *args,
                                struct pen_profiler_options *options,
                                struct pen_transport *transport,
                                struct pen_profile *out, struct pen_text *why)
{
    pen_status status = pen_profiler_run(options, out, why);
    for (uint32_t i = 1; status == PEN_OK && i < args->num_sizes; i++) {
        status = pen_transport_meet(transport);
        if (status != PEN_OK)
            return status;
        options->micro_batch = args->sizes[i];
        status = pen_profiler_run_more(options, out, why);
    }
    return status;
}

/* Measures on all ranks, which do the same and end together. */
static pen_status measure(const struct args *args,
                          struct pen_profiler_options *options,
                          struct pen_transport *transport,
                          struct pen_profile *out, struct pen_text *why)
{
    pen_status status = describe_machine(out, why);
    if (status != PEN_OK)
        return status;
    out->num_ranks = pen_transport_size(transport);
    status = pen_transport_meet(transport);
    if (status == PEN_OK)
        status = measure_sizes(args, options, transport, out, why);
    if (status == PEN_OK)
        status = pen_transport_meet(transport);
    if (status != PEN_OK || out->num_ranks == 1)
        return status;
    uint32_t rank = pen_transport_rank(transport);
    return pen__profile_link(transport, rank < 2 ? 1 - rank : rank,
                             out->layers[PEN_LAYER_BLOCK].output_bytes,
                             &out->link, why);
}

/* ---- the answer ---- */

static void add_rows(uint32_t size, const struct pen_profile_layer *layers,
                     enum pen_recompute mode, struct pen_table *table)
{
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        const struct pen_profile_layer *layer = &layers[kind];
        const struct pen_profile_mode *it = &layer->modes[mode];
        if (!it->is_there)
            continue;
        pen_table_add(table, "%u", size);
        pen_table_add(table, "%s",
                      pen_layer_kind_name((enum pen_layer_kind)kind));
        pen_table_add(table, "%s", pen_recompute_names[mode]);
        for (int pass = 0; pass < PEN_PASSES; pass++)
            pen_table_add(table, "%.3f", 1e3 * it->passes[pass].median_sec);
        pen_table_add(table, "%.2f", 1e-6 * (double)it->stash_bytes);
        pen_table_add(table, "%.2f", 1e-6 * (double)it->hold_bytes);
        pen_table_add(table, "%.2f", 1e-6 * (double)layer->parameter_bytes);
    }
}

static int print_summary(const struct pen_profile *profile)
{
    static const struct pen_column columns[] = {
        {"batch", true, false},      {"layer", false, false},
        {"recompute", false, false}, {"F, ms", true, false},
        {"I, ms", true, false},      {"W, ms", true, false},
        {"B, ms", true, false},      {"stash, MB", true, false},
        {"hold, MB", true, false},   {"weights, MB", true, false}};
    struct pen_table table;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
        add_rows(profile->micro_batch, profile->layers,
                 (enum pen_recompute)mode, &table);
    for (uint32_t i = 0; i < profile->num_more; i++)
        for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
            add_rows(profile->more[i].micro_batch, profile->more[i].layers,
                     (enum pen_recompute)mode, &table);
    pen_table_print(&table, pen__page_width(), &text);
    pen_table_release(&table);
    pen_text_add(&text,
                 "\nper million parameters: clear %.3f, norm %.3f, adam %.3f, "
                 "sgd %.3f ms\n",
                 1e9 * profile->updates[PEN_UPDATE_CLEAR].median_sec,
                 1e9 * profile->updates[PEN_UPDATE_NORM].median_sec,
                 1e9 * profile->updates[PEN_UPDATE_ADAM].median_sec,
                 1e9 * profile->updates[PEN_UPDATE_SGD].median_sec);
    return pen__print(&text);
}

static json_t *layer_json(uint32_t size, enum pen_layer_kind kind,
                          const struct pen_profile_layer *layer,
                          enum pen_recompute mode)
{
    static const char *const names[PEN_PASSES] = {
        [PEN_PASS_FORWARD] = "forward_sec",
        [PEN_PASS_INPUT] = "input_sec",
        [PEN_PASS_WEIGHT] = "weight_sec",
        [PEN_PASS_BACKWARD] = "backward_sec"};
    const struct pen_profile_mode *it = &layer->modes[mode];
    json_t *object = json_pack(
        "{s:I, s:s, s:s, s:I, s:I, s:I}", "micro_batch", (json_int_t)size,
        "layer", pen_layer_kind_name(kind), "recompute",
        pen_recompute_names[mode], "stash_bytes", (json_int_t)it->stash_bytes,
        "hold_bytes", (json_int_t)it->hold_bytes, "parameter_bytes",
        (json_int_t)layer->parameter_bytes);
    for (int pass = 0; pass < PEN_PASSES; pass++)
        json_object_set_new(object, names[pass],
                            json_real(it->passes[pass].median_sec));
    return object;
}

static void append_layers(uint32_t size, const struct pen_profile_layer *layers,
                          json_t **rows)
{
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
        for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
            if (layers[kind].modes[mode].is_there)
                pen__json_append(
                    rows, layer_json(size, (enum pen_layer_kind)kind,
                                     &layers[kind], (enum pen_recompute)mode));
}

/* Prints a summary as JSON; the file also has every sample, and the machine. */
static int print_json(const char *path, const struct pen_profile *profile)
{
    json_t *rows = json_array();
    append_layers(profile->micro_batch, profile->layers, &rows);
    for (uint32_t i = 0; i < profile->num_more; i++)
        append_layers(profile->more[i].micro_batch, profile->more[i].layers,
                      &rows);
    return pen__print_json(
        "profile",
        json_pack("{s:s, s:o, s:{s:f, s:f, s:f, s:f}}", "output", path,
                  "layers", rows, "update_sec_per_parameter", "clear",
                  profile->updates[PEN_UPDATE_CLEAR].median_sec, "norm",
                  profile->updates[PEN_UPDATE_NORM].median_sec, "adam",
                  profile->updates[PEN_UPDATE_ADAM].median_sec, "sgd",
                  profile->updates[PEN_UPDATE_SGD].median_sec));
}

static int answer(const struct args *args, const struct pen_profile *profile,
                  struct pen_text *why)
{
    const char *path = args->output == NULL ? "-" : args->output;
    pen_status status = pen_profile_save(profile, path, why);
    if (status != PEN_OK)
        return pen__refuse_as(status, why);
    if (strcmp(path, "-") == 0)
        return PEN__EXIT_OK;
    return pen__answer_is_json() ? print_json(path, profile)
                                 : print_summary(profile);
}

/* Only the first rank reports, and shows its progress. */
static int profile_model(const struct args *args, int threads,
                         const struct pen_model *model,
                         struct pen_transport *transport, struct pen_text *why)
{
    struct pen__progress progress;
    struct pen_profile profile = {.num_cores = 0};
    struct pen_profiler_options options = {.threads = threads};
    bool is_first = pen_transport_rank(transport) == 0;
    set_options(args, model, &options);
    pen__progress_init(&progress, "rounds");
    if (is_first) {
        options.progress = show_progress;
        options.context = &progress;
    }
    pen_status status = measure(args, &options, transport, &profile, why);
    pen__progress_finish(&progress);
    status = pen_agree(transport, status, "measuring layers",
                       PEN_AGREE_DEADLINE_SEC, why);
    if (status == PEN_LOST)
        pen__end_lost(transport, NULL, NULL);
    if (status != PEN_OK)
        return pen__refuse_as(status, why); /* the first rank has the reason */
    return is_first ? answer(args, &profile, why) : PEN__EXIT_OK;
}

static pen_status check_images(const struct args *args,
                               const struct pen_model *model,
                               struct pen_text *why)
{
    bool is_again = args->recompute == PEN_RECOMPUTE_SELECTIVE ||
                    args->recompute == PEN_RECOMPUTE_FULL;
    const char *wrong = args->seq_length > 0 ? "--seq-length"
                        : is_again           ? "--recompute-granularity"
                                             : NULL;
    if (model->images == NULL || wrong == NULL)
        return PEN_OK;
    pen_why(why, "%s is for text, but the model is for images", wrong);
    return PEN_INVALID;
}

/* Refuses a model whose blocks differ: one block represents all. */
static pen_status check_blocks(const struct args *args,
                               const struct pen_model *model,
                               struct pen_text *why)
{
    uint32_t sparse = 0;
    for (uint32_t i = 0; i < model->num_blocks; i++)
        sparse += pen_model_block_is_sparse(model, i);
    if (model->images != NULL || sparse == 0 || sparse == model->num_blocks)
        return PEN_OK;
    pen_why(why,
            "%s has %u blocks with experts and %u without, and a profile has "
            "one block for all; profile a model whose blocks are alike",
            args->model, sparse, model->num_blocks - sparse);
    return PEN_INVALID;
}

/*
 * Checks the memory. Ranks of a node measure at the same time, each all layers.
 */
static pen_status check_memory(const struct args *args,
                               const struct pen_model *model,
                               const struct pen_launch *launch,
                               struct pen_text *why)
{
    struct pen_profiler_options options = {.threads = 0};
    struct pen_memory_limit limits[PEN_MEMORY_SCOPES];
    uint32_t ranks =
        launch->local_size == PEN_LAUNCH_UNKNOWN ? 1 : launch->local_size;
    set_options(args, model, &options);
    double bytes = (double)pen_profiler_least_bytes(&options);
    pen_memory_limits_read("", limits);
    for (int i = 0; i < PEN_MEMORY_SCOPES; i++) {
        double needed = i == PEN_MEMORY_PROCESS ? bytes : bytes * ranks;
        if (needed <= (double)limits[i].free_bytes)
            continue;
        pen_why(why,
                "profiling needs more than %.0f MB, for parameters alone, but "
                "%s leaves %.0f MB of %.0f MB. Profile a model with fewer or "
                "narrower layers, or raise the limit",
                1e-6 * needed, limits[i].source,
                1e-6 * (double)limits[i].free_bytes,
                1e-6 * (double)limits[i].limit_bytes);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static int start(const struct args *args, struct pen_text *why)
{
    struct pen_threads_options wanted = {.count = (int)args->threads};
    struct pen_threads threads = {0};
    struct pen_launch launch = pen_launch_read_own();
    struct pen_transport *transport = NULL;
    struct pen_model *model = NULL;
    pen_status status = pen_threads_start(&wanted, &threads, why);
    if (status == PEN_OK)
        status = pen_model_load_any(args->model, &model, why);
    if (status == PEN_OK)
        status = pen_model_check_trainable(model, why);
    if (status == PEN_OK)
        status = check_images(args, model, why);
    if (status == PEN_OK)
        status = check_blocks(args, model, why);
    if (status == PEN_OK)
        status = check_memory(args, model, &launch, why);
    if (status == PEN_OK)
        status = pen_transport_open(&launch, &transport, why);
    int code = status == PEN_OK
                   ? profile_model(args, threads.count, model, transport, why)
                   : pen__refuse_as(status, why);
    pen_transport_close(transport);
    pen_model_free(model);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.micro_batch_sizes = "1",
                        .recompute = ALL_MODES,
                        .rounds = DEFAULT_ROUNDS};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_USAGE;
    if (pen__line_read(&command_line, argc, argv, &args))
        code = start(&args, &why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__profile = {
    "profile", "measures the layers of a model on this machine", run, NULL};
