/*
 * penstock sync: how replicas stay together, and what that costs on a link.
 */
#include "cli/sync/sync.h"

#include "cli/program/field_rows.h"
#include "cli/program/verbs.h"
#include "core/plan.h"

#define AT(member) offsetof(struct pen__sync_args, member)
#define MOST_REPLICAS 1e6

static const char *const optimizers[] = {"adam", "sgd", NULL};

/* The last one is of both commands. */
static const struct pen__field fields[] = {
    TEXT("model", "MODEL", model,
         "config.json, a folder with one, or preset:NAME"),
    TEXT("link", "RATE", link, "bandwidth of a replica's link, as 100Mbit/s"),
    TEXT("latency", "TIME", latency,
         "latency of a message, as 20ms; 0.1 ms when not given"),
    COUNT("replicas", replicas, 2, MOST_REPLICAS, "number of replicas"),
    TEXT("step-time", "TIME", step_time,
         "compute time of a step in one replica, without "
         "synchronisation, as 2.5s"),
    FIELD("microbatches", "M", microbatches, COUNT, 1, PEN_PLAN_MAX_COUNT, NULL,
          "with --step-time: micro-batches per step in each replica; 1 "
          "when not given"),
    TEXT("profile", "FILE", profile,
         "instead of --step-time: times that `penstock profile` measured"),
    TEXT("cluster", "CLUSTER", cluster,
         "instead of --step-time: the devices of one replica, as a file "
         "or preset:KIND*COUNT; the best plan for them gives the time"),
    SIZE("seq-length", sequence, 1, PEN_PLAN_MAX_COUNT,
         "with --cluster: tokens per sequence"),
    SIZE("global-batch-size", global_batch, 1, 1e12,
         "samples per step over all replicas; one micro-batch each when "
         "not given"),
    WORD("optimizer", is_sgd, optimizers,
         "adam or sgd, because some methods also send moments; adam "
         "when not given"),
    COUNT("sync-interval", interval, 1, UINT32_MAX,
          "steps between synchronisations, for methods with an interval; "
          "as in sync list when not given"),
    TEXT("compress", "NAME[:X]", compress,
         "a compressor, all or none, for every method that takes one; "
         "when not given, all compressors with allreduce"),
    TEXT(
        "encode-rate", "RATE", encode_rate,
        "bytes of gradients that a replica encodes per second; when not given, "
        "what the memory of the cluster's devices allows, or 2GB/s of one "
        "core"),
    TEXT("factors", "FILE", factors,
         "file with lines METHOD FACTOR: steps to reach a loss, "
         "relative to allreduce"),
    TEXT("mtbf", "TIME", mtbf,
         "mean time between failures of all replicas together, as 3h: orders "
         "methods by the steps that stay"),
    COUNT("islands", islands, 2, PEN_REPLICA_MOST_ISLANDS,
          "with --mtbf: islands of replicas, which fail one by one, for "
          "methods that run between islands; as many as the replicas divide "
          "into when not given"),
    FIELD("restart-sec", "S", restart_sec, REAL, 0, 1e9, NULL,
          "with --mtbf: seconds to start the processes again; 0.63 when not "
          "given, measured on one node"),
    JSON("print JSON")};

#define NUM_FIELDS (sizeof fields / sizeof *fields)

enum verb { THE_LIST, THE_COMPARISON };

static void check(void *context, const struct argp_state *state)
{
    const struct pen__sync_args *args = context;
    if (!args->is_comparison)
        return;
    pen__line_require(state, args->model != NULL, "model");
    pen__line_require(state, args->link != NULL, "link");
    pen__line_require(state, args->replicas != 0, "replicas");
    if (args->mtbf == NULL && (args->islands != 0 || args->restart_sec >= 0))
        argp_error(state,
                   "--%s belongs to replicas that fail; give --mtbf as well",
                   args->islands != 0 ? "islands" : "restart-sec");
}

static const struct pen__verb verbs[] = {
    [THE_LIST] = {"list", "", "Lists methods and compressors",
                  "Bytes, memory and staleness are for 4 replicas with the "
                  "default interval and options; V is the size of the weights, "
                  "~ marks an estimate.",
                  &fields[NUM_FIELDS - 1], 1, 0, 0},
    [THE_COMPARISON] = {
        "compare", "[METHOD...]",
        "Prints the cost of each method on a link, and advises",
        "Compares all methods when none is named. The compute time of "
        "a step comes from --step-time, --profile or --cluster.",
        fields, NUM_FIELDS, 0, SIZE_MAX}};

static const struct pen__verbs commands = {.command = "sync",
                                           .items = verbs,
                                           .count =
                                               sizeof verbs / sizeof *verbs,
                                           .name_width = 7,
                                           .words_width = 11,
                                           .words_offset = AT(methods),
                                           .check = check};

static int run(int argc, char **argv)
{
    int code = PEN__EXIT_USAGE;
    int verb = pen__verbs_find(&commands, argc, argv, &code);
    if (verb < 0)
        return code;
    struct pen__sync_args args = {.is_comparison = verb == THE_COMPARISON,
                                  .restart_sec = -1};
    if (pen__verbs_parse(&commands, verb, argc, argv, &args))
        code = (args.is_comparison ? pen__sync_compare : pen__sync_list)(&args);
    return code;
}

static int help(int argc, char **argv)
{
    return pen__verbs_help(&commands, argc, argv);
}

const struct pen__command pen__sync = {
    "sync", "lists and compares methods to synchronise replicas", run, help};
