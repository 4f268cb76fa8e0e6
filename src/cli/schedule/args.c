/*
 * The options of `penstock schedule`, one row each. Parser, --help and the
 * list of required options are made from the rows; tests/cli/manual.sh compares
 * them with the man page and with the completion.
 */
#include "cli/schedule/schedule.h"

#include "cli/program/field_rows.h"

#include <string.h>

struct row {
    unsigned commands; /* enum pen__schedule_verb, those that take it */
    unsigned required; /* those that cannot do without */
    struct pen__field field;
};

#define AT(member) offsetof(struct pen__schedule_args, member)
#define BUILDERS (PEN__MAKE | PEN__SEARCH | PEN__COMPARE)
#define NAMERS (PEN__MAKE | PEN__COMPARE | PEN__DRAW)
#define TIMERS (PEN__TIME | PEN__DRAW)
#define MOST_COUNT 4294967294.0

static const struct row rows[] = {
    {BUILDERS | PEN__DRAW, BUILDERS,
     FIELD("stages", "P", stages, SMALL, 1, PEN_MAX_STAGES, NULL,
           "ranks of the pipeline")},
    {BUILDERS | PEN__DRAW, BUILDERS,
     FIELD("microbatches", "M", microbatches, SMALL, 1, MOST_COUNT, NULL,
           "micro-batches per step (asynchronous: per batch)")},
    {BUILDERS | PEN__DRAW, 0,
     FIELD("chunks", "V", chunks, SMALL, 1, PEN_MAX_STAGES, NULL,
           "stages on each rank")},
    {NAMERS, 0,
     FIELD("slices", "N", slices, SMALL, 1, 65536, NULL,
           "token slices per micro-batch")},
    {NAMERS, 0,
     FIELD("batches", "N", batches, SMALL, 1, MOST_COUNT, NULL,
           "batches of a run, for asynchronous schedules only; 8 in "
           "compare when not given")},
    {PEN__MAKE, 0,
     FIELD("group-size", "K", group_size, SMALL, 1, MOST_COUNT, NULL,
           "micro-batches that run together; for kfkb only")},
    {PEN__MAKE | PEN__DRAW, 0,
     TEXT("stage-replicas", "N,N", replicas_text,
          "ranks of each stage, which take micro-batches in turn; their sum is "
          "--stages, which may be left out; for 1f1b only")},
    {PEN__MAKE, 0,
     FLAG("vertical-sync", has_vertical_sync,
          "the same weight version in all stages of a micro-batch; for "
          "pipedream only")},
    {NAMERS, 0,
     FLAG("recompute", recomputes,
          "recompute each stage (R) ahead of its backward; its forward keeps "
          "only its input")},
    {PEN__SEARCH, 0,
     TEXT("placement", "NAME", placement,
          "placement of stages on ranks: linear, loop, v or any, the best of "
          "all; "
          "any when not given")},
    {BUILDERS | TIMERS, 0,
     TEXT("costs", "COSTS", costs_text,
          "seconds of one micro-batch on one rank, or a JSON file; b=2 is a "
          "whole "
          "backward, i and w half of it each; f=1,i=1,w=1,comm=0 when not "
          "given")},
    {BUILDERS | TIMERS | PEN__CHECK, 0,
     TEXT("memory", "MEM", memory_text,
          "activations that operations add and free, in A, the "
          "activations of one micro-batch on one rank; f=1,i=0,w=-1 when "
          "not given")},
    {BUILDERS | PEN__CHECK | PEN__DRAW, 0,
     FIELD("memory-limit", "A", memory_limit, REAL, 1e-9, 1e12, NULL,
           "maximum of activations on a rank, in A; in search, when not given, "
           "that of 1f1b: as many as there are stages")},
    {PEN__SEARCH, 0,
     FIELD("seconds", "S", seconds, REAL, 0.01, 1e6, NULL,
           "stop the search after S seconds; when its work is done when "
           "not given")},
    {PEN__SEARCH, 0,
     FIELD("seed", "N", seed, SMALL, 1, MOST_COUNT, NULL,
           "seed of the random numbers; 1 when not given")},
    {TIMERS | PEN__CHECK, 0,
     FIELD("send-window", "K", send_window, SMALL, 1, MOST_COUNT, NULL,
           "sends of a channel that may be in flight; the schedule's own "
           "window (at least 2) when not given")},
    {PEN__TIME, 0,
     FLAG("all-ranks", has_all_ranks,
          "print a line for every rank, also of a long pipeline")},
    {PEN__LIST | PEN__CHECK | PEN__TIME | PEN__COMPARE | PEN__SEARCH, 0,
     JSON("print JSON")},
    {PEN__CONVERT, 0,
     FLAG("force", is_forced,
          "write a schedule that `penstock schedule check` refuses")},
    {PEN__MAKE | PEN__SEARCH | PEN__DRAW, 0,
     TEXT("output", "FILE", output,
          "write to FILE; to the terminal when not given")},
};

#define NUM_ROWS (sizeof rows / sizeof *rows)

size_t pen__schedule_fields(enum pen__schedule_verb verb,
                            struct pen__field out[PEN__FIELDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_ROWS; i++)
        if ((rows[i].commands & verb) != 0)
            out[count++] = rows[i].field;
    return count;
}

/* Options that a command requires are small counts or texts. */
static bool is_given(const struct pen__field *field,
                     const struct pen__schedule_args *args)
{
    const void *place = (const char *)args + field->offset;
    return field->kind == PEN__FIELD_SMALL
               ? *(const uint32_t *)place != 0
               : *(const char *const *)place != NULL;
}

/*
 * Refuses a value: a bad list of keys as a wrong command line, a bad file as a
 * bad file.
 */
static void refuse_value(const char *option, const char *text,
                         const struct pen_text *why,
                         const struct argp_state *state)
{
    if (strchr(text, '=') != NULL)
        argp_error(state, "--%s %s: %s", option, text, pen_text_string(why));
    argp_failure(state, PEN__EXIT_NO, 0, "--%s: %s", option,
                 pen_text_string(why));
}

static bool is_same_memory(const struct pen_memory *a,
                           const struct pen_memory *b)
{
    return a->forward == b->forward && a->input == b->input &&
           a->weight == b->weight && a->recompute == b->recompute;
}

/* Costs first: a file of costs may speak of memory, and --memory overrides. */
static void read_costs(struct pen__schedule_args *args,
                       const struct argp_state *state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_costs_init(&args->costs);
    if (args->costs_text != NULL &&
        pen_costs_read(args->costs_text, &args->costs, &why) != PEN_OK)
        refuse_value("costs", args->costs_text, &why, state);
    struct pen_costs usual;
    pen_costs_init(&usual);
    args->has_memory = args->memory_text != NULL ||
                       !is_same_memory(&usual.memory, &args->costs.memory);
    if (args->memory_text != NULL &&
        pen_memory_read(args->memory_text, &args->costs.memory, &why) != PEN_OK)
        argp_error(state, "--memory %s: %s", args->memory_text,
                   pen_text_string(&why));
}

/* Names all that are missing at once, each with its meaning. */
static void require_options(const struct pen__schedule_args *args,
                            const struct argp_state *state)
{
    struct pen_text missing = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < NUM_ROWS; i++) {
        const struct pen__field *field = &rows[i].field;
        if ((rows[i].required & args->verb) != 0 && !is_given(field, args))
            pen_text_add(&missing, "%s--%s %s is missing: %s",
                         missing.length == 0 ? "" : "; ", field->name,
                         field->value, field->help);
    }
    if (missing.length != 0)
        argp_error(state, "%s", pen_text_string(&missing));
    pen_text_release(&missing);
}

/* Reads the replicas, whose sum is the number of ranks. */
static void read_replicas(struct pen__schedule_args *args,
                          const struct argp_state *state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    const char *text = args->replicas_text;
    if (text == NULL)
        return;
    if (pen_replicas_parse(text, strlen(text), args->replicas,
                           &args->num_replicated, &why) != PEN_OK)
        argp_error(state, "--stage-replicas %s: %s", text,
                   pen_text_string(&why));
    bool has_stages = args->stages != 0;
    for (uint32_t i = 0; i < args->num_replicated && !has_stages; i++)
        args->stages += args->replicas[i];
}

void pen__schedule_check_args(void *context, const struct argp_state *state)
{
    struct pen__schedule_args *args = context;
    read_replicas(args, state);
    require_options(args, state);
    read_costs(args, state);
}
