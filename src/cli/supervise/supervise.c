/*
 * penstock supervise: keeps a training alive. Which faults are worth a restart
 * is in supervise/policy.h, and in docs/supervise.md.
 */
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "core/plan.h"
#include "supervise/steps.h"
#include "supervise/supervisor.h"

#include <stdlib.h>
#include <string.h>

struct args {
    const char *events;
    uint32_t max_restarts;
    double window_sec;
    const char *nodes_from;
    double nodes_interval_sec; /* 0: not given */
    const char *plans;
    struct pen__rest command;
};

#define AT(member) offsetof(struct args, member)
#define MOST_RESTARTS 1000000
#define LONGEST_SEC 1e9
#define NODES_INTERVAL_SEC 5

static const struct pen__field fields[] = {
    TEXT("events", "FILE", events,
         "append one JSON line per event to FILE; supervise.jsonl in the "
         "folder of COMMAND's --save when not given"),
    FIELD("max-restarts", "N", max_restarts, SMALL, 0, MOST_RESTARTS, NULL,
          "give up after N restarts within --window; 20 when not given"),
    REAL("window", window_sec, 1, LONGEST_SEC,
         "seconds in which restarts are counted; 3600 when not given"),
    TEXT("nodes-from", "PROGRAM", nodes_from,
         "run PROGRAM with sh -c before each launch and every "
         "--nodes-interval; it prints lines HOST SLOTS, and launches follow "
         "them: in COMMAND, {ranks} and {hosts} (a:2,b:2) are filled in"),
    REAL("nodes-interval", nodes_interval_sec, 0.1, LONGEST_SEC,
         "seconds between two runs of PROGRAM; 5 when not given"),
    TEXT("plans", "FILE,...", plans,
         "plans for several numbers of ranks: {plan} in COMMAND is the one "
         "with the most ranks that has enough slots, and {ranks} its number")};

/* ---- what goes together ---- */

static void refuse_placeholders(const struct args *args,
                                const struct argp_state *state)
{
    for (size_t i = 0; i < PEN_NUM_PLACEHOLDERS; i++)
        if (pen_words_have(args->command.words, pen_placeholders[i]))
            argp_error(state, "%s in COMMAND needs --nodes-from PROGRAM",
                       pen_placeholders[i]);
    if (args->plans != NULL || args->nodes_interval_sec > 0)
        argp_error(state, "%s needs --nodes-from PROGRAM",
                   args->plans != NULL ? "--plans" : "--nodes-interval");
}

static void check(void *input, const struct argp_state *state)
{
    struct args *args = input;
    bool has_any = false, has_plan = false;
    if (args->nodes_from == NULL) {
        refuse_placeholders(args, state);
        return;
    }
    const char *folder = pen_steps_find_folder(args->command.words);
    for (size_t i = 0; i < PEN_NUM_PLACEHOLDERS; i++) {
        has_plan = pen_words_have(args->command.words, pen_placeholders[i]);
        has_any |= has_plan;
        if (folder != NULL && strstr(folder, pen_placeholders[i]) != NULL)
            argp_error(state,
                       "--save of COMMAND has %s; all launches save in "
                       "one folder",
                       pen_placeholders[i]);
    }
    if (!has_any)
        argp_error(state, "--nodes-from needs {ranks}, {hosts} or {plan} in "
                          "COMMAND");
    if (has_plan != (args->plans != NULL))
        argp_error(state, has_plan ? "{plan} in COMMAND needs --plans FILE,..."
                                   : "--plans needs {plan} in COMMAND");
}

static const struct pen__line command_line = {
    .name = "penstock supervise",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "-- COMMAND...",
    .expected = "a command after --",
    .words_offset = AT(command),
    .least_words = 1,
    .most_words = SIZE_MAX,
    .check = check,
    .doc =
        "Runs COMMAND, a launcher with penstock train, and starts it again "
        "when a rank or the launcher dies, is stopped or hangs.\vTERM and "
        "INT are passed on to the ranks, which save and end; USR1 lets them "
        "save and continue. The exit code is 0 when the training is done, and "
        "COMMAND's own when no restart helps."};

/* ---- plans ---- */

struct plans {
    char *names; /* owned; the commas are NUL */
    struct pen_sized_plan *items;
    size_t count;
};

static void release_plans(struct plans *plans)
{
    free(plans->names);
    free(plans->items);
}

static pen_status load_plan(const char *path, struct pen_sized_plan *out,
                            struct pen_text *why)
{
    struct pen_plan *plan;
    pen_status status = pen_plan_load(path, &plan, why);
    if (status != PEN_OK)
        return status;
    uint64_t num_ranks = pen_plan_num_ranks(plan);
    pen_plan_free(plan);
    if (num_ranks > PEN_SLOTS_MOST) {
        pen_why(why, "%s: it has more than 1048576 ranks", path);
        return PEN_INVALID;
    }
    *out = (struct pen_sized_plan){path, (uint32_t)num_ranks};
    return PEN_OK;
}

static pen_status load_plans(const char *names, struct plans *out,
                             struct pen_text *why)
{
    if (names == NULL)
        return PEN_OK;
    out->names = strdup(names);
    out->items = calloc(strlen(names) + 1, sizeof *out->items);
    if (out->names == NULL || out->items == NULL)
        return PEN_NOMEM;
    pen_status status = PEN_OK;
    for (char *at = out->names; status == PEN_OK && at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL)
            *comma = '\0';
        status = load_plan(at, &out->items[out->count++], why);
        at = comma == NULL ? NULL : comma + 1;
    }
    return status;
}

static int run(int argc, char **argv)
{
    struct plans plans = {.count = 0};
    struct args args = {.max_restarts = 20, .window_sec = 3600};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_NO;
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    pen_status status = load_plans(args.plans, &plans, &why);
    const struct pen_supervisor_options options = {
        .command = args.command.words, /* argv ends with NULL */
        .events = args.events,
        .max_restarts = args.max_restarts,
        .window_sec = args.window_sec,
        .fleet = {.command = args.nodes_from,
                  .interval_sec = args.nodes_interval_sec > 0
                                      ? args.nodes_interval_sec
                                      : NODES_INTERVAL_SEC,
                  .plans = plans.items,
                  .num_plans = plans.count}};
    if (status == PEN_OK)
        status = pen_supervise(&options, &code, &why);
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    pen_text_release(&why);
    release_plans(&plans);
    return code;
}

const struct pen__command pen__supervise = {
    "supervise", "restarts a training that is interrupted", run, NULL};
