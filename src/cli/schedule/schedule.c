/*
 * `penstock schedule`: the table of its commands, and what several of them do.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"
#include "base/nearest.h"
#include "cli/program/verbs.h"
#include "schedule/torch_csv.h"

#include <string.h>
#include <unistd.h>

/* A command: its verb, its function, its usage; args.c has the options. */
struct command {
    enum pen__schedule_verb verb;
    int (*run)(const struct pen__schedule_args *args);
    struct pen__verb words;
};

static const struct command commands[] = {
    {PEN__LIST,
     pen__schedule_list,
     {"list", "", "Lists all published schedules",
      "For a schedule that cannot be made, the column 'included' "
      "gives the reason.",
      NULL, 0, 0, 0}},
    {PEN__MAKE,
     pen__schedule_make,
     {"make", "NAME", "Makes a published schedule by its name",
      "Adds sends, receives and steps, verifies the schedule, and "
      "writes it in the text form, or as PyTorch's CSV if FILE ends "
      "in .csv.",
      NULL, 0, 1, 1}},
    {PEN__SEARCH,
     pen__schedule_search,
     {"search", "", "Searches a schedule for given costs and a memory limit",
      "The result is never worse than the best published schedule "
      "that fits. The search prints its result and a lower bound for "
      "any schedule on standard error. Without --seconds the same "
      "command gives the same schedule.",
      NULL, 0, 0, 0}},
    {PEN__CHECK,
     pen__schedule_check,
     {"check", "FILE", "Verifies order, completeness, deadlocks and memory",
      "FILE may be - for standard input. It may have operations only, a line "
      "per rank, as F0 F1 B0 B1. For a wrong schedule, check lists all "
      "mistakes "
      "with line, column, rule, rank and operation, and exits with 1.",
      NULL, 0, 1, 1}},
    {PEN__TIME,
     pen__schedule_time,
     {"time", "FILE", "Prints time, waiting and memory of a schedule",
      "makespan: from the first start to the last end of any rank. "
      "span: the same for the slowest single rank, which is the time "
      "per step in a run of many steps. bubble: (span - work of the "
      "busiest rank) / span.",
      NULL, 0, 1, 1}},
    {PEN__DRAW,
     pen__schedule_draw,
     {"draw", "NAME|FILE...", "Draws schedules over one time axis",
      "A NAME of `penstock schedule list` needs --stages and --microbatches; "
      "./NAME is always a file. The name of the output selects the format: "
      ".svg, .png, .pdf, "
      "or .json for ui.perfetto.dev. Without -o, draw prints a grid "
      "of letters.",
      NULL, 0, 1, SIZE_MAX}},
    {PEN__COMPARE,
     pen__schedule_compare,
     {"compare", "[NAME...]",
      "Compares all schedules, or the named ones, best first",
      "Synchronous schedules are ordered by span: the steps of a run "
      "follow each other without a barrier, so the span is the cost "
      "of one step. Asynchronous schedules make other updates and "
      "are listed separately, ordered by the seconds of one batch. "
      "--chunks and --slices apply to the schedules that have them.",
      NULL, 0, 0, SIZE_MAX}},
    {PEN__CONVERT,
     pen__schedule_convert,
     {"convert", "IN OUT", "Converts between the text form and PyTorch's CSV",
      "The name of a file selects its format: .csv is PyTorch's, any "
      "other name the text form. - is standard input or output, in "
      "the text form. A schedule that deadlocks or breaks another rule is "
      "refused, as by check.",
      NULL, 0, 2, 2}},
};

#define NUM_COMMANDS (sizeof commands / sizeof *commands)

/* All fields of the command, with their options. */
struct table {
    struct pen__field fields[NUM_COMMANDS][PEN__FIELDS_MAX];
    struct pen__verb items[NUM_COMMANDS];
    struct pen__verbs verbs;
};

static void fill(struct table *table)
{
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        table->items[i] = commands[i].words;
        table->items[i].fields = table->fields[i];
        table->items[i].num_fields =
            pen__schedule_fields(commands[i].verb, table->fields[i]);
    }
    table->verbs = (struct pen__verbs){
        .command = "schedule",
        .items = table->items,
        .count = NUM_COMMANDS,
        .name_width = 8,
        .words_width = 12,
        .words_offset = offsetof(struct pen__schedule_args, words),
        .check = pen__schedule_check_args};
}

static int run(int argc, char **argv)
{
    struct table table;
    int code = PEN__EXIT_USAGE;
    fill(&table);
    int index = pen__verbs_find(&table.verbs, argc, argv, &code);
    if (index < 0)
        return code;
    struct pen__schedule_args args = {.verb = commands[index].verb};
    if (pen__verbs_parse(&table.verbs, index, argc, argv, &args))
        code = commands[index].run(&args);
    pen_costs_release(&args.costs);
    return code;
}

static int help(int argc, char **argv)
{
    struct table table;
    fill(&table);
    return pen__verbs_help(&table.verbs, argc, argv);
}

const struct pen__command pen__schedule = {
    .name = "schedule",
    .summary = "makes, verifies, times, draws and compares pipeline schedules",
    .run = run,
    .help = help,
};

const char *pen__costs_words(const struct pen__schedule_args *args)
{
    return args->costs_text != NULL ? args->costs_text : "f=1,i=1,w=1,comm=0";
}

const struct pen_generator *pen__find_generator(const char *name)
{
    const struct pen_generator *found = pen_generator_find(name);
    if (found != NULL)
        return found;
    struct pen_nearest nearest = pen_nearest_to(name);
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        pen_nearest_offer(&nearest, pen_generator_at(i)->name);
    pen_log(PEN_LOG_ERROR,
            "there is no schedule '%s'%s%s\n"
            "  `penstock schedule list` prints all names",
            name, nearest.best != NULL ? "; did you mean " : "",
            nearest.best != NULL ? nearest.best : "");
    return NULL;
}

/*
 * Makes the arguments of the generator, without options that mean nothing to
 * it.
 */
static struct pen_generator_args
generator_args(const struct pen__schedule_args *args,
               const struct pen_generator *generator)
{
    return (struct pen_generator_args){
        .ranks = args->stages,
        .microbatches = args->microbatches,
        .chunks = generator->has_chunks ? args->chunks : 0,
        .slices = generator->has_slices ? args->slices : 0,
        .batches = generator->is_synchronous ? 0 : args->batches,
        .warmup = args->group_size,
        .replicas = args->num_replicated > 0 && generator->has_replicas
                        ? args->replicas
                        : NULL,
        .num_replicated = args->num_replicated,
        .memory_limit = generator->has_limit ? args->memory_limit : 0,
        .has_memory = args->has_memory,
        .has_vertical_sync = args->has_vertical_sync,
        .recomputes = args->recomputes,
        .costs = &args->costs};
}

static double at_least_one(uint32_t count)
{
    return count == 0 ? 1 : count;
}

/* Returns the memory of this machine, at most half of the address space. */
static double memory_bytes(void)
{
    double pages = (double)sysconf(_SC_PHYS_PAGES);
    double page = (double)sysconf(_SC_PAGESIZE);
    double most = (double)(SIZE_MAX / 2);
    return pages > 0 && pages * page < most ? pages * page : most;
}

/*
 * Refuses a number with too many digits, which would otherwise make the kernel
 * end the program (or another one) when memory is gone.
 */
static pen_status check_size(const struct pen_generator_args *args,
                             struct pen_text *why)
{
    /* Six ops of 16 bytes, before and after lowering; measured as 190. */
    const double bytes_per_cell = 190;
    double bytes = bytes_per_cell * args->ranks * args->microbatches *
                   at_least_one(args->chunks) * at_least_one(args->slices) *
                   at_least_one(args->batches);
    double memory = memory_bytes();
    if (bytes <= memory)
        return PEN_OK;
    pen_why(why,
            "%u stages and %u micro-batches make a schedule of %.3g GB, "
            "but this machine has %.3g GB",
            args->ranks, args->microbatches, bytes / 1e9, memory / 1e9);
    return PEN_INFEASIBLE;
}

pen_status pen__make_verified(const struct pen__schedule_args *args,
                              const struct pen_generator *generator,
                              double limit, struct pen_schedule **out,
                              struct pen_text *why)
{
    struct pen_generator_args wanted = generator_args(args, generator);
    const struct pen_verify_options options = {.memory_limit = limit,
                                               .costs = &args->costs};
    pen_status status = check_size(&wanted, why);
    if (status == PEN_OK)
        status =
            pen_generator_make_verified(generator, &wanted, &options, out, why);
    return status;
}

pen_status pen__load_lowered(const char *path, struct pen_schedule **out,
                             struct pen_text *why)
{
    bool is_lowered = false;
    pen_status status = pen_schedule_load_lowered(path, out, &is_lowered, why);
    if (status == PEN_OK && is_lowered)
        pen__report_lowered(path);
    return status;
}

void pen__report_lowered(const char *path)
{
    pen_log(PEN_LOG_INFO, "%s has no sends and receives; penstock added them",
            path);
}

void pen__report_written(const struct pen_schedule *schedule, const char *path)
{
    if (pen_torch_csv_is_path(path)) {
        /* The file does not say it; the stages would be built elsewhere. */
        pen_log(PEN_LOG_INFO,
                "wrote %s: %s, compute only\n"
                "  torchtitan needs the schedule name %s with it",
                path, schedule->name, pen_torch_csv_class(schedule));
    } else if (strcmp(path, "-") != 0) {
        pen_log(PEN_LOG_INFO, "wrote %s: %s, %llu operations on %u ranks", path,
                schedule->name,
                (unsigned long long)pen_schedule_count(schedule),
                schedule->shape.num_ranks);
    }
}
