/*
 * The options of `penstock schedule`, one row each. Parser, --help and the
 * list of required options are made from the rows; tests/cli/manual.sh compares
 * them with the man page and with the completion.
 */
#include "cli/schedule/schedule.h"

#include "cli/program/parser.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum value_kind {
    FLAG,   /* bool */
    COUNT,  /* uint32_t, a whole number */
    NUMBER, /* double */
    TEXT    /* const char *, borrowed from argv */
};

struct option_row {
    const char *name;
    const char *value; /* its name in the help; NULL: a flag */
    const char *help;
    unsigned commands; /* enum pen__schedule_verb, those that take it */
    unsigned required; /* those that cannot do without */
    enum value_kind kind;
    int letter;    /* short form, or 0 */
    size_t offset; /* in struct pen__schedule_args */
    double least;
    double most;
};

#define AT(field) offsetof(struct pen__schedule_args, field)
#define BUILDERS (PEN__MAKE | PEN__SEARCH | PEN__COMPARE)
#define NAMERS (PEN__MAKE | PEN__COMPARE | PEN__DRAW)
#define TIMERS (PEN__TIME | PEN__DRAW)
#define MOST_COUNT 4294967294.0

static const struct option_row rows[] = {
    {"stages", "P", "ranks of the pipeline", BUILDERS | PEN__DRAW, BUILDERS,
     COUNT, 0, AT(stages), 1, PEN_MAX_STAGES},
    {"microbatches", "M", "micro-batches per step (asynchronous: per batch)",
     BUILDERS | PEN__DRAW, BUILDERS, COUNT, 0, AT(microbatches), 1, MOST_COUNT},
    {"chunks", "V", "stages on each rank", BUILDERS | PEN__DRAW, 0, COUNT, 0,
     AT(chunks), 1, PEN_MAX_STAGES},
    {"slices", "N", "token slices per micro-batch", NAMERS, 0, COUNT, 0,
     AT(slices), 1, 65536},
    {"batches", "N",
     "batches of a run, for asynchronous schedules only; 8 in "
     "compare when not given",
     NAMERS, 0, COUNT, 0, AT(batches), 1, MOST_COUNT},
    {"group-size", "K", "micro-batches that run together; for kfkb only",
     PEN__MAKE, 0, COUNT, 0, AT(group_size), 1, MOST_COUNT},
    {"vertical-sync", NULL,
     "the same weight version in all stages of a micro-batch; for "
     "pipedream only",
     PEN__MAKE, 0, FLAG, 0, AT(has_vertical_sync), 0, 0},
    {"placement", "NAME",
     "placement of stages on ranks: linear, loop, v or any, the best of all; "
     "any when not given",
     PEN__SEARCH, 0, TEXT, 0, AT(placement), 0, 0},
    {"costs", "COSTS",
     "seconds of one micro-batch on one rank, or a JSON file; b=2 is a whole "
     "backward, i and w half of it each; f=1,i=1,w=1,comm=0 when not given",
     BUILDERS | TIMERS, 0, TEXT, 0, AT(costs_text), 0, 0},
    {"memory", "MEM",
     "activations that operations add and free, in A, the "
     "activations of one micro-batch on one rank; f=1,i=0,w=-1 when "
     "not given",
     BUILDERS | TIMERS | PEN__CHECK, 0, TEXT, 0, AT(memory_text), 0, 0},
    {"memory-limit", "A",
     "maximum of activations on a rank, in A; search: that of 1f1b, one for "
     "each stage, when not given",
     BUILDERS | PEN__CHECK | PEN__DRAW, 0, NUMBER, 0, AT(memory_limit), 1e-9,
     1e12},
    {"seconds", "S",
     "stop the search after S seconds; when its work is done when "
     "not given",
     PEN__SEARCH, 0, NUMBER, 0, AT(seconds), 0.01, 1e6},
    {"seed", "N", "seed of the random numbers; 1 when not given", PEN__SEARCH,
     0, COUNT, 0, AT(seed), 1, MOST_COUNT},
    {"send-window", "K",
     "sends of a channel that may be in flight; the schedule's own "
     "window (at least 2) when not given",
     TIMERS | PEN__CHECK, 0, COUNT, 0, AT(send_window), 1, MOST_COUNT},
    {"all-ranks", NULL, "print a line for every rank, also of a long pipeline",
     PEN__TIME, 0, FLAG, 0, AT(has_all_ranks), 0, 0},
    {"json", NULL, "print JSON",
     PEN__LIST | PEN__CHECK | PEN__TIME | PEN__COMPARE | PEN__SEARCH, 0, FLAG,
     0, AT(is_json), 0, 0},
    {"force", NULL, "write a schedule that `penstock schedule check` refuses",
     PEN__CONVERT, 0, FLAG, 0, AT(is_forced), 0, 0},
    {"output", "FILE", "write to FILE; to the terminal when not given",
     PEN__MAKE | PEN__SEARCH | PEN__DRAW, 0, TEXT, 'o', AT(output), 0, 0},
};

#define NUM_ROWS (sizeof rows / sizeof *rows)

/* Keys above the letters; argp sorts by group, so each row is its own. */
static int key_of(size_t row)
{
    return rows[row].letter != 0 ? rows[row].letter : 256 + (int)row;
}

/* Fills `out` and returns it; NULL when the command has no options. */
static const struct argp_option *
collect_options(const struct pen__schedule_command *command,
                struct argp_option *out)
{
    const struct argp_option *first = out;
    for (size_t i = 0; i < NUM_ROWS; i++) {
        if ((rows[i].commands & command->verb) == 0)
            continue;
        *out++ = (struct argp_option){.name = rows[i].name,
                                      .key = key_of(i),
                                      .arg = rows[i].value,
                                      .doc = rows[i].help,
                                      .group = (int)i + 1};
    }
    *out = (struct argp_option){.name = NULL};
    return out == first ? NULL : first;
}

struct parse {
    const struct pen__schedule_command *command;
    struct pen__schedule_args *args;
};

static double read_number(const struct option_row *row, const char *text,
                          const struct argp_state *state)
{
    char *end = NULL;
    double number = strtod(text, &end);
    bool is_whole = row->kind == NUMBER || number == floor(number);
    if (end == text || *end != '\0' || !isfinite(number) || !is_whole ||
        number < row->least || number > row->most)
        argp_error(state, "--%s %s: expected a %s from %.12g to %.12g",
                   row->name, text,
                   row->kind == COUNT ? "whole number" : "number", row->least,
                   row->most);
    return number;
}

static void take_option(const struct option_row *row, const char *text,
                        const struct argp_state *state)
{
    const struct parse *parse = state->input;
    char *field = (char *)parse->args + row->offset;
    switch (row->kind) {
    case FLAG:
        *(bool *)field = true;
        break;
    case COUNT:
        *(uint32_t *)(void *)field = (uint32_t)read_number(row, text, state);
        break;
    case NUMBER:
        *(double *)(void *)field = read_number(row, text, state);
        break;
    case TEXT:
        *(const char **)(void *)field = text;
        break;
    }
}

static bool is_given(const struct option_row *row,
                     const struct pen__schedule_args *args)
{
    const char *field = (const char *)args + row->offset;
    switch (row->kind) {
    case FLAG:
        return *(const bool *)field;
    case COUNT:
        return *(const uint32_t *)(const void *)field != 0;
    case NUMBER:
        return *(const double *)(const void *)field != 0;
    case TEXT:
        break;
    }
    return *(const char *const *)(const void *)field != NULL;
}

/* A bad list of keys is a wrong command line, a bad file is a bad file. */
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
static void read_costs(const struct argp_state *state)
{
    struct pen__schedule_args *args = ((struct parse *)state->input)->args;
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
static void require_options(const struct argp_state *state)
{
    const struct parse *parse = state->input;
    struct pen_text missing = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < NUM_ROWS; i++) {
        if ((rows[i].required & parse->command->verb) != 0 &&
            !is_given(&rows[i], parse->args))
            pen_text_add(&missing, "%s--%s %s is missing: %s",
                         missing.length == 0 ? "" : "; ", rows[i].name,
                         rows[i].value, rows[i].help);
    }
    if (missing.length != 0)
        argp_error(state, "%s", pen_text_string(&missing));
    pen_text_release(&missing);
}

static void finish(const struct argp_state *state)
{
    const struct parse *parse = state->input;
    const struct pen__schedule_command *command = parse->command;
    require_options(state);
    int words = parse->args->num_words;
    if (words < command->least_words)
        argp_error(state, "expected %s", command->words);
    if (words > command->most_words)
        argp_error(state, "unexpected argument '%s'",
                   parse->args->words[command->most_words]);
    read_costs(state);
}

static error_t parse_key(int key, char *text, struct argp_state *state)
{
    struct parse *parse = state->input;
    if (key == ARGP_KEY_ARGS) {
        parse->args->words = state->argv + state->next;
        parse->args->num_words = state->argc - state->next;
        return 0;
    }
    if (key == ARGP_KEY_END) {
        finish(state);
        return 0;
    }
    for (size_t i = 0; i < NUM_ROWS; i++) {
        if (key == key_of(i)) {
            take_option(&rows[i], text, state);
            return 0;
        }
    }
    return ARGP_ERR_UNKNOWN;
}

/* "summary.\v detail": what argp prints before and behind the options. */
static void join_doc(const struct pen__schedule_command *command,
                     struct pen_text *doc)
{
    pen_text_add(doc, "%s.", command->summary);
    if (command->detail != NULL)
        pen_text_add(doc, "\v%s", command->detail);
}

void pen__schedule_args_parse(const struct pen__schedule_command *command,
                              int argc, char **argv,
                              struct pen__schedule_args *args)
{
    struct argp_option options[NUM_ROWS + 1];
    struct pen_text doc = PEN_TEXT_EMPTY;
    join_doc(command, &doc);
    struct argp argp = {.options = collect_options(command, options),
                        .parser = parse_key,
                        .args_doc = command->words,
                        .doc = pen_text_string(&doc)};
    struct parse parse = {.command = command, .args = args};
    *args = (struct pen__schedule_args){.words = NULL};
    if (!pen__parse(&argp, argv[0], 0, argc, argv, &parse))
        argp_failure(NULL, PEN__EXIT_NO, ENOMEM,
                     "cannot read the command line");
    pen_text_release(&doc);
}

void pen__schedule_args_release(struct pen__schedule_args *args)
{
    pen_costs_release(&args->costs);
}

void pen__schedule_args_help(const struct pen__schedule_command *command,
                             char *name)
{
    struct argp_option options[NUM_ROWS + 1];
    struct pen_text doc = PEN_TEXT_EMPTY;
    join_doc(command, &doc);
    struct argp argp = {.options = collect_options(command, options),
                        .args_doc = command->words,
                        .doc = pen_text_string(&doc)};
    pen__parser_help(&argp, name);
    pen_text_release(&doc);
}
