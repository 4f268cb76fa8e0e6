/*
 * `penstock schedule`: the table of its commands, and what several of them do.
 */
#include "cli/schedule/schedule.h"

#include "base/bug.h"
#include "base/log.h"
#include "base/nearest.h"
#include "cli/program/help.h"
#include "schedule/torch_csv.h"
#include "schedule/verify.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

static const struct pen__schedule_command commands[] = {
    {PEN__LIST, "list", "", 0, 0, "Lists all published schedules",
     "For a schedule that cannot be made, the column 'included' "
     "gives the reason.",
     pen__schedule_list},
    {PEN__MAKE, "make", "NAME", 1, 1, "Makes a published schedule by its name",
     "Adds sends, receives and steps, verifies the schedule, and "
     "writes it in the text form, or as PyTorch's CSV if FILE ends "
     "in .csv.",
     pen__schedule_make},
    {PEN__SEARCH, "search", "", 0, 0,
     "Searches a schedule for given costs and a memory limit",
     "The result is never worse than the best published schedule "
     "that fits. The search prints its result and a lower bound for "
     "any schedule on standard error. Without --seconds the same "
     "command gives the same schedule.",
     pen__schedule_search},
    {PEN__CHECK, "check", "FILE", 1, 1,
     "Verifies order, completeness, deadlocks and memory",
     "FILE may be - for standard input. It may have operations only, a line "
     "per rank, as F0 F1 B0 B1. For a wrong schedule, check lists all mistakes "
     "with line, column, rule, rank and operation, and exits with 1.",
     pen__schedule_check},
    {PEN__TIME, "time", "FILE", 1, 1,
     "Prints time, waiting and memory of a schedule",
     "makespan: from the first start to the last end of any rank. "
     "span: the same for the slowest single rank, which is the time "
     "per step in a run of many steps. bubble: (span - work of the "
     "busiest rank) / span.",
     pen__schedule_time},
    {PEN__DRAW, "draw", "NAME|FILE...", 1, INT_MAX,
     "Draws schedules over one time axis",
     "A NAME of `penstock schedule list` needs --stages and --microbatches; "
     "./NAME is always a file. The name of the output selects the format: "
     ".svg, .png, .pdf, "
     "or .json for ui.perfetto.dev. Without -o, draw prints a grid "
     "of letters.",
     pen__schedule_draw},
    {PEN__COMPARE, "compare", "[NAME...]", 0, INT_MAX,
     "Compares all schedules, or the named ones, best first",
     "Synchronous schedules are ordered by span: the steps of a run "
     "follow each other without a barrier, so the span is the cost "
     "of one step. Asynchronous schedules make other updates and "
     "are listed separately, ordered by the seconds of one batch. "
     "--chunks and --slices apply to the schedules that have them.",
     pen__schedule_compare},
    {PEN__CONVERT, "convert", "IN OUT", 2, 2,
     "Converts between the text form and PyTorch's CSV",
     "The name of a file selects its format: .csv is PyTorch's, any "
     "other name the text form. - is standard input or output, in "
     "the text form. A schedule that deadlocks or breaks another rule is "
     "refused, as by check.",
     pen__schedule_convert},
};

#define NUM_COMMANDS (sizeof commands / sizeof *commands)

static void print_usage(FILE *out)
{
    fputs("Usage: penstock schedule COMMAND ...\n\n", out);
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        fprintf(out, "  %-8s %-12s  %s\n", commands[i].name, commands[i].words,
                commands[i].summary);
    fputs("\nMore: penstock help schedule [COMMAND], or man "
          "penstock-schedule.\n",
          out);
}

static const struct pen__schedule_command *find_command(const char *name)
{
    struct pen_nearest nearest = pen_nearest_to(name);
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
        pen_nearest_offer(&nearest, commands[i].name);
    }
    pen_log(PEN_LOG_ERROR, "there is no command 'schedule %s'%s%s", name,
            nearest.best != NULL ? "; did you mean schedule " : "",
            nearest.best != NULL ? nearest.best : "");
    print_usage(stderr);
    return NULL;
}

/* "penstock schedule make", the name that messages begin with. */
static void name_command(const struct pen__schedule_command *command,
                         struct pen_text *out)
{
    pen_text_add(out, "penstock schedule %s", command->name);
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
    const struct pen__schedule_command *command = find_command(argv[1]);
    if (command == NULL)
        return PEN__EXIT_USAGE;
    struct pen_text name = PEN_TEXT_EMPTY;
    name_command(command, &name);
    argv[1] = name.bytes;
    struct pen__schedule_args args;
    pen__schedule_args_parse(command, argc - 1, argv + 1, &args);
    int code = command->run(&args);
    pen__schedule_args_release(&args);
    pen_text_release(&name);
    return code;
}

static void help_on(const struct pen__schedule_command *command)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    name_command(command, &name);
    pen__schedule_args_help(command, name.bytes);
    pen_text_release(&name);
}

static int help(int argc, char **argv)
{
    if (argc >= 2) {
        const struct pen__schedule_command *command = find_command(argv[1]);
        if (command == NULL)
            return PEN__EXIT_USAGE;
        help_on(command);
        return PEN__EXIT_OK;
    }
    bool is_collected = pen__help_is_collected();
    if (!is_collected)
        print_usage(stdout);
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (!is_collected)
            putchar('\n');
        help_on(&commands[i]);
    }
    return PEN__EXIT_OK;
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

/* An option that means nothing to the generator is kept from it. */
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
        .memory_limit = generator->has_limit ? args->memory_limit : 0,
        .has_memory = args->has_memory,
        .has_vertical_sync = args->has_vertical_sync,
        .costs = &args->costs};
}

static double at_least_one(uint32_t count)
{
    return count == 0 ? 1 : count;
}

/* Of this machine, and not more than half of what addresses can say. */
static double memory_bytes(void)
{
    double pages = (double)sysconf(_SC_PHYS_PAGES);
    double page = (double)sysconf(_SC_PAGESIZE);
    double most = (double)(SIZE_MAX / 2);
    return pages > 0 && pages * page < most ? pages * page : most;
}

/*
 * A number with too many digits would be answered by the kernel, which ends
 * the program (or another one) when memory is gone.
 */
static pen_status check_size(const struct pen_generator_args *args,
                             struct pen_text *why)
{
    /* Six ops of 16 bytes, before and behind lowering; measured as 190. */
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
    struct pen_schedule *schedule = NULL;
    pen_status status = check_size(&wanted, why);
    if (status == PEN_OK)
        status = pen_generator_make(generator, &wanted, &schedule, why);
    if (status != PEN_OK)
        return status;
    const struct pen_verify_options options = {.memory_limit = limit,
                                               .costs = &args->costs};
    struct pen_finding finding = {.rule = 0};
    status = pen_schedule_verify(schedule, &options, &finding, why);
    if (status != PEN_OK) {
        pen_schedule_free(schedule);
        bool is_bug = status == PEN_INVALID && finding.rule != 5;
        if (is_bug)
            pen__refuse_as(status, why);
        PEN_BUG_UNLESS(!is_bug);
        return status;
    }
    *out = schedule;
    return PEN_OK;
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
