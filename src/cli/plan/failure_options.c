#include "cli/plan/options.h"

#include "base/units.h"
#include "cli/program/field_rows.h"
#include "planner/stacks.h"

#define AT(member) offsetof(struct pen__plan_args, failures.member)
#define MOST_SEC 1e9
#define MOST_SEED 1e15
#define SECONDS(name, member, help)                                            \
    FIELD(name, "S", member, REAL, 0, MOST_SEC, NULL, help)

const struct pen__field pen__failure_options[] = {
    TEXT("failures", "RATE", rate,
         "predict the goodput of a run that fails: llama3, meta, failures per "
         "device and day, as 0.0005, or the mean time between failures of "
         "the whole job, as 3h"),
    TEXT("mtbf", "TIME", mtbf,
         "mean time between failures of the whole job, as 3h; the same as "
         "--failures TIME"),
    TEXT("checkpoint-interval", "TIME", interval,
         "time between two checkpoints on disk, as 10min; the best one when "
         "not given"),
    SECONDS("detect-sec", detect_sec,
            "seconds until a failure is noticed; 0.02 when not given, "
            "measured on one node"),
    SECONDS("restart-sec", restart_sec,
            "seconds to start the processes again; 0.63 when not given, "
            "measured on one node"),
    SECONDS("save-sec", save_sec,
            "seconds for which a checkpoint stops the training; when not "
            "given, its bytes over --storage-rate of all nodes"),
    SECONDS("reload-sec", reload_sec,
            "seconds to load a checkpoint from disk; when not given, what a "
            "node loads over --storage-rate"),
    TEXT("storage-rate", "RATE", storage,
         "bytes per second between a node and the storage; 1GB/s when not "
         "given"),
    FIELD("pair-share", "X", pair_share, REAL, 0, 1, NULL,
          "share of failures that take a node together with the one that "
          "holds its copy; 35/419 when not given: switches and cables of "
          "llama3"),
    COUNT("islands", islands, 2, PEN_GOODPUT_MAX_ISLANDS,
          "islands that synchronise rarely; the best number when not given"),
    COUNT("sync-steps", sync_steps, 1, 1000000,
          "steps between two synchronisations of islands; 30 when not given"),
    COUNT("spares", spares, 0, PEN_GOODPUT_MAX_SPARES,
          "spare nodes; when not given, predict assumes that there is "
          "always one, and plan prints the best number"),
    TEXT("repair", "TIME", repair,
         "time after which an exchanged node is a spare again; 24h when not "
         "given"),
    COUNT("stacks", stacks, 2, PEN_STACKS_MAX_HEIGHT,
          "also predict replication, and replica groups that hold up to N "
          "shards of the batch, so that the others compute those of a group "
          "that fails (SPARe); penstock train cannot run them"),
    COUNT("seed", seed, 1, MOST_SEED,
          "seed of the simulated failures; 1 when not given"),
    {.name = NULL}};

void pen__failure_args_init(struct pen__failure_args *args)
{
    *args = (struct pen__failure_args){.detect_sec = -1,
                                       .restart_sec = -1,
                                       .save_sec = -1,
                                       .reload_sec = -1,
                                       .pair_share = -1,
                                       .spares = PEN_GOODPUT_NO_LIMIT};
}

bool pen__failure_args_are_given(const struct pen__failure_args *args)
{
    return args->rate != NULL || args->mtbf != NULL;
}

void pen__failure_args_check(const struct pen__failure_args *args,
                             const struct argp_state *state)
{
    const struct {
        const char *name;
        bool is_given;
    } others[] = {{"devices", args->devices != NULL},
                  {"checkpoint-interval", args->interval != NULL},
                  {"detect-sec", args->detect_sec >= 0},
                  {"restart-sec", args->restart_sec >= 0},
                  {"save-sec", args->save_sec >= 0},
                  {"reload-sec", args->reload_sec >= 0},
                  {"storage-rate", args->storage != NULL},
                  {"pair-share", args->pair_share >= 0},
                  {"recovery", args->recovery != PEN_RECOVERY_RESTART},
                  {"islands", args->islands != 0},
                  {"sync-steps", args->sync_steps != 0},
                  {"spares", args->spares != PEN_GOODPUT_NO_LIMIT},
                  {"repair", args->repair != NULL},
                  {"stacks", args->stacks != 0},
                  {"seed", args->seed != 0}};
    if (args->rate != NULL && args->mtbf != NULL)
        argp_error(state, "--failures and --mtbf both say how often a run "
                          "fails; give only one of them");
    if (args->stacks != 0 && args->spares != PEN_GOODPUT_NO_LIMIT)
        argp_error(state, "--stacks assumes that an exchanged node is always "
                          "at hand; give it without --spares");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].is_given && !pen__failure_args_are_given(args))
            argp_error(state,
                       "--%s belongs to a run that fails; give --failures as "
                       "well",
                       others[i].name);
}

static pen_status read_unit(const char *name, const char *text,
                            enum pen_unit unit, double *out,
                            struct pen_text *why)
{
    if (text == NULL)
        return PEN_OK;
    if (pen_unit_parse(unit, text, out) && *out > 0)
        return PEN_OK;
    pen_why(why, "--%s %s: expected a number with a unit, as %s", name, text,
            unit == PEN_UNIT_SECONDS ? "10min" : "1GB/s");
    return PEN_INVALID;
}

static pen_status read_mtbf(const struct pen__failure_args *args,
                            uint64_t devices, struct pen_failure_rate *rate,
                            struct pen_text *why)
{
    double seconds = 0;
    struct pen_text reason = PEN_TEXT_EMPTY;
    if (args->mtbf != NULL) {
        pen_status status =
            read_unit("mtbf", args->mtbf, PEN_UNIT_SECONDS, &seconds, why);
        *rate = (struct pen_failure_rate){PEN_FAILURE_OF_JOB,
                                          1 / (seconds * (double)devices)};
        return status;
    }
    pen_status status =
        pen_failure_rate_parse(args->rate, devices, rate, &reason);
    if (status != PEN_OK)
        pen_why(why, "--failures %s", pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

pen_status pen__failure_args_read(const struct pen__failure_args *args,
                                  uint64_t devices,
                                  struct pen_failure_rate *rate,
                                  struct pen_recovery_wish *wish,
                                  struct pen_text *why)
{
    pen_recovery_wish_init(wish);
    wish->detect_sec = args->detect_sec;
    wish->restart_sec = args->restart_sec;
    wish->save_sec = args->save_sec;
    wish->reload_sec = args->reload_sec;
    wish->pair_share = args->pair_share;
    wish->islands = (uint32_t)args->islands;
    wish->sync_steps = (uint32_t)args->sync_steps;
    wish->spares = (uint32_t)args->spares;
    wish->stacks = (uint32_t)args->stacks;
    wish->seed = args->seed == 0 ? 1 : args->seed;
    pen_status status = read_mtbf(args, devices, rate, why);
    if (status == PEN_OK)
        status = read_unit("storage-rate", args->storage,
                           PEN_UNIT_BYTES_PER_SEC, &wish->storage_rate, why);
    if (status == PEN_OK)
        status = read_unit("checkpoint-interval", args->interval,
                           PEN_UNIT_SECONDS, &wish->interval_sec, why);
    if (status == PEN_OK)
        status = read_unit("repair", args->repair, PEN_UNIT_SECONDS,
                           &wish->repair_sec, why);
    return status;
}
