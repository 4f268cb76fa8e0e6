/*
 * penstock partition: networks in the files of other planners, cut by the
 * recurrences of their papers.
 */
#include "cli/program/cli.h"

#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/plan/partition_result.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "planner/max_load.h"
#include "planner/pipedream.h"
#include "planner/piper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)64 << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct args {
    struct pen__rest files; /* one */
    const char *devices_text;
    const char *rates_text;
    const char *memory_text;
    double devices[PEN_PIPEDREAM_MAX_LEVELS];
    size_t num_devices; /* levels of them; 0: not given */
    double rates[PEN_PIPEDREAM_MAX_LEVELS];
    size_t num_rates;
    const char *flops_text;
    double memory_bytes; /* 0: not given */
    double flops_per_sec;
    bool is_straight;
    bool has_no_transfers;
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("devices", "N[,N...]", devices_text,
         "number of devices, in place of the file's; for a PipeDream "
         "profile, which has none: devices of each network level, "
         "innermost first"),
    TEXT("bandwidth", "B[,B...]", rates_text,
         "bytes per second of each network level, or rates with a unit, as "
         "10Gbit/s; for a PipeDream profile, and one number in place of the "
         "file's for a file of layers"),
    TEXT("flops", "RATE", flops_text,
         "operations per second of a device, as 10TFLOP/s, in place of the "
         "file's; for a file of layers"),
    TEXT("memory-limit", "BYTES", memory_text,
         "memory of a device, in bytes or with a unit, as 16GiB"),
    FLAG("straight", is_straight,
         "replicate no stage; for a PipeDream profile"),
    FLAG("no-transfers", has_no_transfers,
         "count no time for activations between stages, as PipeDream's "
         "program does without a compression ratio"),
    JSON("print JSON")};

/* A number with or without a unit; without where `unit` is PEN_UNITS. */
static bool read_item(const char *text, enum pen_unit unit, double *out)
{
    bool is_plain = strspn(text, "0123456789.eE+-") == strlen(text);
    if (unit == PEN_UNITS)
        return is_plain && pen_unit_parse(PEN_UNIT_SECONDS, text, out);
    return pen_unit_parse(unit, text, out);
}

/* Numbers of at least 1, separated by commas. */
static size_t read_list(const char *text, const char *name, enum pen_unit unit,
                        double *out, const struct argp_state *state)
{
    for (size_t count = 0; count < PEN_PIPEDREAM_MAX_LEVELS; count++) {
        char item[64];
        size_t length = strcspn(text, ",");
        if (length >= sizeof item)
            break;
        memcpy(item, text, length);
        item[length] = '\0';
        if (!read_item(item, unit, &out[count]) || out[count] < 1)
            break;
        if (text[length] == '\0')
            return count + 1;
        text += length + 1;
    }
    argp_error(state,
               "%s must be 1 to %u numbers of at least 1, separated by commas",
               name, PEN_PIPEDREAM_MAX_LEVELS);
    return 0;
}

static void read_devices(struct args *args, const struct argp_state *state)
{
    if (args->devices_text == NULL)
        return;
    args->num_devices = read_list(args->devices_text, "--devices", PEN_UNITS,
                                  args->devices, state);
    for (size_t i = 0; i < args->num_devices; i++)
        if (args->devices[i] != floor(args->devices[i]) ||
            args->devices[i] > PEN_PIPEDREAM_MAX_DEVICES)
            argp_error(state, "--devices must be whole numbers up to %u",
                       PEN_PIPEDREAM_MAX_DEVICES);
}

static void check(void *context, const struct argp_state *state)
{
    struct args *args = context;
    double memory[PEN_PIPEDREAM_MAX_LEVELS] = {0};
    read_devices(args, state);
    if (args->rates_text != NULL)
        args->num_rates = read_list(args->rates_text, "--bandwidth",
                                    PEN_UNIT_BYTES_PER_SEC, args->rates, state);
    if (args->memory_text != NULL &&
        read_list(args->memory_text, "--memory-limit", PEN_UNIT_BYTES, memory,
                  state) != 1)
        argp_error(state, "--memory-limit must be one number");
    args->memory_bytes = memory[0];
    if (args->flops_text != NULL &&
        (!pen_unit_parse(PEN_UNIT_FLOPS, args->flops_text,
                         &args->flops_per_sec) ||
         args->flops_per_sec < 1))
        argp_error(state, "--flops must be operations per second, as %s",
                   pen_unit_example(PEN_UNIT_FLOPS));
}

static const struct pen__line command_line = {
    .name = "penstock partition",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "FILE",
    .words_offset = AT(files),
    .least_words = 1,
    .most_words = 1,
    .doc = "Cuts a network from a PipeDream, dnn-partitioning or Piper "
           "file into stages so that the slowest stage is as fast as "
           "possible; or cuts each layer among all devices so that a step is "
           "as fast as possible (PaSE).",
    .check = check};

/* ---- PipeDream ---- */

static int print_pipedream(const struct pen_pipedream_profile *profile,
                           const struct pen_pipedream_plan *plan)
{
    static const struct pen_column columns[] = {{"level", true, false},
                                                {"stage", true, false},
                                                {"replicas", true, false},
                                                {"compute ms", true, false}};
    struct pen__partition result;
    uint32_t number = 0;
    pen__partition_init(&result, "pipedream", columns, COUNT_OF(columns));
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen_pipedream_stage *stage = &plan->stages[i];
        bool is_new = i == 0 || plan->stages[i - 1].level != stage->level;
        number = is_new ? 0 : number + 1;
        pen_table_add(&result.table, "%u", stage->level);
        pen_table_add(&result.table, "%u", number);
        pen_table_add(&result.table, "%u", stage->num_replicas);
        pen_table_add(&result.table, "%.3f", stage->compute_sec * 1e3);
        pen__json_append(&result.stages,
                         json_pack("{s:i,s:i,s:f}", "level", (int)stage->level,
                                   "replicas", (int)stage->num_replicas,
                                   "compute_sec", stage->compute_sec));
    }
    pen_text_add(&result.summary,
                 "slowest stage %.6g ms per micro-batch; one device %.6g ms, "
                 "all as replicas %.6g ms",
                 plan->stage_sec * 1e3, plan->one_device_sec * 1e3,
                 plan->data_parallel_sec * 1e3);
    pen__partition_set(&result, "stage_sec", plan->stage_sec);
    pen__partition_set(&result, "one_device_sec", plan->one_device_sec);
    pen__partition_set(&result, "data_parallel_sec", plan->data_parallel_sec);
    pen__partition_set_nodes(&result, plan->node_stages,
                             profile->graph.num_nodes);
    return pen__partition_print(&result);
}

static int cut_pipedream(const struct args *args, const struct pen_text *file,
                         struct pen_text *why)
{
    struct pen_pipedream_level levels[PEN_PIPEDREAM_MAX_LEVELS];
    struct pen_pipedream_profile *profile = NULL;
    struct pen_pipedream_plan *plan = NULL;
    if (args->num_devices == 0 || args->num_devices != args->num_rates) {
        pen_why(why,
                "a PipeDream profile needs --devices and --bandwidth with the "
                "same number of levels");
        return pen__refuse_as(PEN_INVALID, why);
    }
    for (size_t i = 0; i < args->num_devices; i++)
        levels[i] = (struct pen_pipedream_level){(uint32_t)args->devices[i],
                                                 args->rates[i]};
    pen_status status =
        pen_pipedream_profile_parse(file->bytes, file->length, &profile, why);
    const struct pen_pipedream_problem problem = {
        .profile = profile,
        .levels = levels,
        .num_levels = (uint32_t)args->num_devices,
        .memory_bytes = args->memory_bytes,
        .has_transfers = !args->has_no_transfers,
        .is_straight = args->is_straight};
    if (status == PEN_OK)
        status = pen_pipedream_solve(&problem, &plan, why);
    int code = status == PEN_OK ? print_pipedream(profile, plan)
                                : pen__refuse_as(status, why);
    pen_pipedream_plan_free(plan);
    pen_pipedream_profile_free(profile);
    return code;
}

/* ---- dnn-partitioning ---- */

static int print_placement(const struct pen_placement_graph *graph,
                           const struct pen_max_load_plan *plan)
{
    static const struct pen_column columns[] = {{"stage", true, false},
                                                {"on", false, false},
                                                {"load", true, false},
                                                {"GB", true, false}};
    struct pen__partition result;
    pen__partition_init(&result, "dnn-partitioning", columns,
                        COUNT_OF(columns));
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen_max_load_stage *stage = &plan->stages[i];
        const char *on = stage->is_cpu ? "cpu" : "device";
        pen_table_add(&result.table, "%u", i);
        pen_table_add(&result.table, "%s", on);
        pen_table_add(&result.table, "%.4f", stage->load);
        pen_table_add(&result.table, "%.3f", stage->bytes * 1e-9);
        pen__json_append(&result.stages,
                         json_pack("{s:s,s:f,s:f}", "on", on, "load",
                                   stage->load, "bytes", stage->bytes));
    }
    pen_text_add(&result.summary, "largest load %.9g; no placement has %s",
                 plan->load, plan->left_out == NULL ? "less" : "less than ");
    if (plan->left_out != NULL)
        pen_text_add(&result.summary, "%.9g", plan->bound);
    pen__partition_set(&result, "load", plan->load);
    pen__partition_set(&result, "bound", plan->bound);
    pen__partition_leave_out(&result, plan->left_out);
    pen__partition_set_nodes(&result, plan->node_stages,
                             graph->graph.num_nodes);
    return pen__partition_print(&result);
}

static int cut_placement(const struct args *args, const struct pen_text *file,
                         struct pen_text *why)
{
    struct pen_placement_graph *graph = NULL;
    struct pen_max_load_plan *plan = NULL;
    pen_status status =
        pen_placement_graph_parse(file->bytes, file->length, &graph, why);
    if (status == PEN_OK && args->num_devices > 0 &&
        args->devices[0] > PEN_PLACEMENT_MAX_DEVICES) {
        pen_why(why, "%g devices are more than %u", args->devices[0],
                PEN_PLACEMENT_MAX_DEVICES);
        status = PEN_INVALID;
    }
    if (status == PEN_OK && args->num_devices > 0)
        graph->num_devices = (uint32_t)args->devices[0];
    if (status == PEN_OK && args->memory_bytes > 0)
        graph->memory_bytes = args->memory_bytes;
    const struct pen_max_load_problem problem = {.graph = graph};
    if (status == PEN_OK)
        status = pen_max_load_solve(&problem, &plan, why);
    int code = status == PEN_OK ? print_placement(graph, plan)
                                : pen__refuse_as(status, why);
    pen_max_load_plan_free(plan);
    pen_placement_graph_free(graph);
    return code;
}

/* ---- Piper ---- */

static int print_piper(const struct pen_piper_profile *profile,
                       const struct pen_piper_plan *plan)
{
    static const struct pen_column columns[] = {
        {"stage", true, false}, {"tensor", true, false},
        {"data", true, false},  {"in flight", true, false},
        {"ms", true, false},    {"GB", true, false}};
    struct pen__partition result;
    pen__partition_init(&result, "piper", columns, COUNT_OF(columns));
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen_piper_stage *stage = &plan->stages[i];
        pen_table_add(&result.table, "%u", i);
        pen_table_add(&result.table, "%u", stage->tensor_degree);
        pen_table_add(&result.table, "%u", stage->data_degree);
        pen_table_add(&result.table, "%u", stage->num_in_flight);
        pen_table_add(&result.table, "%.4f", stage->stage_sec * 1e3);
        pen_table_add(&result.table, "%.3f", stage->bytes * 1e-9);
        pen__json_append(&result.stages,
                         json_pack("{s:i,s:i,s:i,s:f,s:f}", "tensor",
                                   (int)stage->tensor_degree, "data",
                                   (int)stage->data_degree, "in_flight",
                                   (int)stage->num_in_flight, "stage_sec",
                                   stage->stage_sec, "bytes", stage->bytes));
    }
    pen_text_add(&result.summary, "slowest stage %.6g ms per micro-batch",
                 plan->stage_sec * 1e3);
    pen__partition_set(&result, "stage_sec", plan->stage_sec);
    pen__partition_leave_out(&result, plan->left_out);
    pen__partition_set_nodes(&result, plan->node_stages,
                             profile->graph.num_nodes);
    return pen__partition_print(&result);
}

static int cut_piper(const struct args *args, const struct pen_text *file,
                     struct pen_text *why)
{
    struct pen_piper_profile *profile = NULL;
    struct pen_piper_plan *plan = NULL;
    pen_status status =
        pen_piper_profile_parse(file->bytes, file->length, &profile, why);
    if (status == PEN_OK && args->num_devices > 0)
        profile->num_devices = (uint32_t)args->devices[0];
    if (status == PEN_OK && args->memory_bytes > 0)
        profile->memory_bytes = args->memory_bytes;
    const struct pen_piper_problem problem = {.profile = profile};
    if (status == PEN_OK)
        status = pen_piper_solve(&problem, &plan, why);
    int code = status == PEN_OK ? print_piper(profile, plan)
                                : pen__refuse_as(status, why);
    pen_piper_plan_free(plan);
    pen_piper_profile_free(profile);
    return code;
}

/* ---- which of them ---- */

static int cut_layers(const struct args *args, const struct pen_text *file,
                      struct pen_text *why)
{
    const struct pen__split_wish wish = {args->devices[0], args->rates[0],
                                         args->flops_per_sec};
    if (args->num_devices > 1 || args->num_rates > 1 || args->is_straight ||
        args->has_no_transfers || args->memory_bytes > 0) {
        pen_why(why, "a file of layers takes one number of --devices and of "
                     "--bandwidth, and neither --memory-limit, --straight nor "
                     "--no-transfers; drop them");
        return pen__refuse_as(PEN_INVALID, why);
    }
    return pen__partition_layers(file, &wish, why);
}

static int cut_json(const struct args *args, const struct pen_text *file,
                    struct pen_text *why)
{
    struct pen_json json;
    if (pen_json_load(file->bytes, file->length, &json, why) != PEN_OK)
        return pen__refuse_as(PEN_INVALID, why);
    bool has_layers = pen_json_has(&json, "format");
    bool is_piper = pen_json_has(&json, "maxDevices");
    json_decref(json.object);
    if (has_layers)
        return cut_layers(args, file, why);
    if (args->num_devices > 1 || args->num_rates > 0 || args->is_straight ||
        args->has_no_transfers) {
        pen_why(why, "several levels of --devices, --bandwidth, --straight and "
                     "--no-transfers are for PipeDream profiles only");
        return pen__refuse_as(PEN_INVALID, why);
    }
    if (args->flops_text != NULL) {
        pen_why(why, "--flops is for a file of layers; drop it");
        return pen__refuse_as(PEN_INVALID, why);
    }
    return is_piper ? cut_piper(args, file, why)
                    : cut_placement(args, file, why);
}

static int cut(const struct args *args, const struct pen_text *file,
               struct pen_text *why)
{
    if (file->bytes[strspn(file->bytes, " \t\r\n")] == '{')
        return cut_json(args, file, why);
    if (args->flops_text != NULL) {
        pen_why(why, "--flops is for a file of layers; drop it");
        return pen__refuse_as(PEN_INVALID, why);
    }
    return cut_pipedream(args, file, why);
}

static int run(int argc, char **argv)
{
    struct args args = {0};
    struct pen_text file = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    int code;
    pen_status status =
        pen_file_read(args.files.words[0], MAX_FILE_BYTES, &file, &why);
    if (status != PEN_OK) {
        code = pen__refuse_as(status, &why);
    } else {
        pen_text_add(&why, "%s: ", args.files.words[0]);
        code = cut(&args, &file, &why);
    }
    pen_text_release(&file);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__partition = {
    "partition", "cuts networks of other planners into stages", run, NULL};
