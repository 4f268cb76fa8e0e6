/*
 * penstock hold: a holder of steps in memory on a node that is not the
 * supervisor's. The first rank of a node starts it; MPI is not used.
 */
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "holder/holder.h"

struct args {
    double idle_sec;
    struct pen__rest socket;
};

#define AT(member) offsetof(struct args, member)
#define IDLE_SEC 600
#define LONGEST_SEC 1e9

static const struct pen__field fields[] = {
    REAL("idle", idle_sec, 0.1, LONGEST_SEC,
         "end after this many seconds without a rank; 600 when not given")};

static const struct pen__line command_line = {
    .name = "penstock hold",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "SOCKET",
    .words_offset = AT(socket),
    .least_words = 1,
    .most_words = 1,
    .doc =
        "Keeps the steps of a supervised training on this node in memory, for "
        "ranks that connect to SOCKET. Returns when the socket is ready; the "
        "holder continues in the background until the training is done.\vRanks "
        "on other nodes than the supervisor's start it by themselves."};

static int run(int argc, char **argv)
{
    struct args args = {.idle_sec = IDLE_SEC};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    pen_status status =
        pen_holder_start_alone(args.socket.words[0], args.idle_sec, &why);
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__hold = {
    "hold", "keeps steps of a training in memory on this node", run, NULL};
