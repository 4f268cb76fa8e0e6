/*
 * penstock sync: how replicas stay together, and what that costs on a link.
 */
#include "cli/sync/sync.h"

#include "cli/program/verbs.h"
#include "core/plan.h"

#define AT(member) offsetof(struct pen__sync_args, member)
#define MOST_REPLICAS 1e6

static const char *const optimizers[] = {"adam", "sgd", NULL};

/* The last one is of both commands. */
static const struct pen__field fields[] = {
    {"model", "MODEL", "config.json, a folder with one, or preset:NAME",
     PEN__FIELD_TEXT, AT(model), 0, 0, NULL},
    {"link", "RATE", "bandwidth of a replica's link, as 100Mbit/s",
     PEN__FIELD_TEXT, AT(link), 0, 0, NULL},
    {"latency", "TIME", "latency of a message, as 20ms; 0.1 ms when not given",
     PEN__FIELD_TEXT, AT(latency), 0, 0, NULL},
    {"replicas", "N", "number of replicas", PEN__FIELD_COUNT, AT(replicas), 2,
     MOST_REPLICAS, NULL},
    {"step-time", "TIME",
     "compute time of a step in one replica, without "
     "synchronisation, as 2.5s",
     PEN__FIELD_TEXT, AT(step_time), 0, 0, NULL},
    {"microbatches", "M",
     "with --step-time: micro-batches per step in each replica; 1 "
     "when not given",
     PEN__FIELD_COUNT, AT(microbatches), 1, PEN_PLAN_MAX_COUNT, NULL},
    {"profile", "FILE",
     "instead of --step-time: times that `penstock profile` measured",
     PEN__FIELD_TEXT, AT(profile), 0, 0, NULL},
    {"cluster", "CLUSTER",
     "instead of --step-time: the devices of one replica, as a file "
     "or preset:KIND*COUNT; the best plan for them gives the time",
     PEN__FIELD_TEXT, AT(cluster), 0, 0, NULL},
    {"seq-length", "N", "with --cluster: tokens per sequence", PEN__FIELD_SIZE,
     AT(sequence), 1, PEN_PLAN_MAX_COUNT, NULL},
    {"global-batch-size", "N",
     "samples per step over all replicas; one micro-batch each when "
     "not given",
     PEN__FIELD_SIZE, AT(global_batch), 1, 1e12, NULL},
    {"optimizer", "NAME",
     "adam or sgd, because some methods also send moments; adam "
     "when not given",
     PEN__FIELD_WORD, AT(is_sgd), 0, 0, optimizers},
    {"sync-interval", "N",
     "steps between synchronisations, for methods with an interval; "
     "as in sync list when not given",
     PEN__FIELD_COUNT, AT(interval), 1, UINT32_MAX, NULL},
    {"compress", "NAME[:X]",
     "a compressor, all or none, for every method that takes one; "
     "when not given, all compressors with allreduce",
     PEN__FIELD_TEXT, AT(compress), 0, 0, NULL},
    {"encode-rate", "RATE",
     "bytes of gradients that a replica encodes per second; when not given, "
     "what the memory of the cluster's devices allows, or 2GB/s of one core",
     PEN__FIELD_TEXT, AT(encode_rate), 0, 0, NULL},
    {"factors", "FILE",
     "file with lines METHOD FACTOR: steps to reach a loss, "
     "relative to allreduce",
     PEN__FIELD_TEXT, AT(factors), 0, 0, NULL},
    {"json", NULL, "print JSON", PEN__FIELD_FLAG, AT(is_json), 0, 0, NULL}};

#define NUM_FIELDS (sizeof fields / sizeof *fields)

enum verb { LIST, COMPARE, NUM_VERBS };

static size_t fields_of(int verb)
{
    return verb == LIST ? 1 : NUM_FIELDS;
}

static void require(const struct argp_state *state, bool is_there,
                    const char *name)
{
    if (!is_there)
        argp_error(state, "--%s is required", name);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct pen__sync_args *args = state->input;
    bool is_list = args->num_fields == fields_of(LIST);
    if (key == ARGP_KEY_ARG && !is_list) {
        if (args->num_methods++ == 0)
            args->methods = state->argv + state->next - 1;
        return 0;
    }
    if (key == ARGP_KEY_END && !is_list) {
        require(state, args->model != NULL, "model");
        require(state, args->link != NULL, "link");
        require(state, args->replicas != 0, "replicas");
    }
    return pen__fields_parse(args->fields, args->num_fields, key, text, state);
}

/* The commands with their options. */
struct commands {
    struct argp_option options[NUM_VERBS][PEN__FIELDS_MAX + 1];
    struct pen__verb items[NUM_VERBS];
    struct pen__verbs verbs;
};

static void fill(struct commands *out)
{
    for (int verb = 0; verb < NUM_VERBS; verb++)
        pen__fields_list(fields + NUM_FIELDS - fields_of(verb), fields_of(verb),
                         out->options[verb]);
    out->items[LIST] = (struct pen__verb){
        "list", "", "Lists methods and compressors",
        "Bytes, memory and staleness are for 4 replicas with the default "
        "interval and options; V is the size of the weights, ~ marks an "
        "estimate.",
        out->options[LIST]};
    out->items[COMPARE] = (struct pen__verb){
        "compare", "[METHOD...]",
        "Prints the cost of each method on a link, and advises",
        "Compares all methods when none is named. The compute time of "
        "a step comes from --step-time, --profile or --cluster.",
        out->options[COMPARE]};
    out->verbs =
        (struct pen__verbs){"sync", out->items, NUM_VERBS, 7, 11, parse_option};
}

static int run(int argc, char **argv)
{
    struct commands commands;
    int code = PEN__EXIT_USAGE;
    fill(&commands);
    int verb = pen__verbs_find(&commands.verbs, argc, argv, &code);
    if (verb < 0)
        return code;
    struct pen__sync_args args = {.fields =
                                      fields + NUM_FIELDS - fields_of(verb),
                                  .num_fields = fields_of(verb)};
    if (pen__verbs_parse(&commands.verbs, verb, argc, argv, &args))
        code = (verb == LIST ? pen__sync_list : pen__sync_compare)(&args);
    return code;
}

static int help(int argc, char **argv)
{
    struct commands commands;
    fill(&commands);
    return pen__verbs_help(&commands.verbs, argc, argv);
}

const struct pen__command pen__sync = {
    "sync", "lists and compares methods to synchronise replicas", run, help};
