/*
 * penstock supervise: keeps a training alive. Which faults are worth a restart
 * is in supervise/policy.h, and in docs/supervise.md.
 */
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "supervise/supervisor.h"

struct args {
    const char *events;
    uint32_t max_restarts;
    double window_sec;
    struct pen__rest command;
};

#define AT(member) offsetof(struct args, member)
#define MOST_RESTARTS 1000000
#define LONGEST_SEC 1e9

static const struct pen__field fields[] = {
    TEXT("events", "FILE", events,
         "append one JSON line per event to FILE; supervise.jsonl in the "
         "folder of COMMAND's --save when not given"),
    FIELD("max-restarts", "N", max_restarts, SMALL, 0, MOST_RESTARTS, NULL,
          "give up after N restarts within --window; 20 when not given"),
    REAL("window", window_sec, 1, LONGEST_SEC,
         "seconds in which restarts are counted; 3600 when not given")};

static const struct pen__line command_line = {
    .name = "penstock supervise",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "-- COMMAND...",
    .expected = "a command after --",
    .words_offset = AT(command),
    .least_words = 1,
    .most_words = SIZE_MAX,
    .doc =
        "Runs COMMAND, a launcher with penstock train, and starts it again "
        "when a rank or the launcher dies, is stopped or hangs.\vTERM and "
        "INT are passed on to the ranks, which save and end; USR1 lets them "
        "save and continue. The exit code is 0 when the training is done, and "
        "COMMAND's own when no restart helps."};

static int run(int argc, char **argv)
{
    struct args args = {.max_restarts = 20, .window_sec = 3600};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_NO;
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    const struct pen_supervisor_options options = {
        .command = args.command.words, /* argv ends with NULL */
        .events = args.events,
        .max_restarts = args.max_restarts,
        .window_sec = args.window_sec};
    pen_status status = pen_supervise(&options, &code, &why);
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__supervise = {
    "supervise", "restarts a training that is interrupted", run, NULL};
