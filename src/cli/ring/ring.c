/*
 * penstock ring: the agreement of islands. draw shows a run of its simulator,
 * show the record of a ring.
 */
#include "cli/ring/ring.h"
#include "base/log.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/verbs.h"
#include "view/ring_draw.h"

#include <errno.h>
#include <stdlib.h>

struct args {
    int verb;
    const char *output;
    double begin_sec;
    double end_sec;
    struct pen__rest words;
};

#define AT(member) offsetof(struct args, member)
#define LONGEST_SEC 1e6

static const struct pen__field fields[] = {
    TEXT("output", "FILE", output, "picture that ends in .svg, .png or .pdf"),
    REAL("begin", begin_sec, 0, LONGEST_SEC,
         "second of the run at which the picture begins"),
    REAL("end", end_sec, 0, LONGEST_SEC,
         "second at which it ends; the end of the run when not given")};

static const struct pen__field show_fields[] = {JSON("print JSON")};

enum { DRAW, SHOW };

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    pen__line_require(state, args->verb == SHOW || args->output != NULL,
                      "output");
}

static const struct pen__verb verbs[] = {
    [DRAW] = {"draw", "SEED", "Draws a simulated run of islands with faults",
              "The seed decides the number of islands and every fault. The "
              "same seed "
              "always gives the same run.",
              fields, sizeof fields / sizeof *fields, 1, 1},
    [SHOW] = {"show", "STORE", "Prints what the islands of a ring agreed on",
              "The store is journal:FILE, or "
              "etcd://HOST:PORT[,HOST:PORT...]/NAME: the "
              "epoch, the members, revoked keys and the last committed round "
              "with its "
              "contributors.",
              show_fields, sizeof show_fields / sizeof *show_fields, 1, 1}};

static const struct pen__verbs commands = {.command = "ring",
                                           .items = verbs,
                                           .count =
                                               sizeof verbs / sizeof *verbs,
                                           .name_width = 4,
                                           .words_width = 5,
                                           .words_offset = AT(words),
                                           .check = check};

static bool read_seed(const char *word, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return errno == 0 && *end == '\0' && *word >= '0' && *word <= '9';
}

static int draw(const struct args *args)
{
    struct pen_ring_picture picture = {.from_sec = args->begin_sec,
                                       .to_sec = args->end_sec};
    struct pen_text why = PEN_TEXT_EMPTY;
    const char *word = args->words.words[0];
    if (!read_seed(word, &picture.seed)) {
        pen_log(PEN_LOG_ERROR,
                "%s is not a seed; a seed is a whole number from 0", word);
        return PEN__EXIT_USAGE;
    }
    int code = PEN__EXIT_OK;
    pen_status status = pen_ring_draw(&picture, args->output, &why);
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    pen_text_release(&why);
    return code;
}

static int run(int argc, char **argv)
{
    int code = PEN__EXIT_USAGE;
    struct args args = {.verb = pen__verbs_find(&commands, argc, argv, &code)};
    if (args.verb >= 0 &&
        pen__verbs_parse(&commands, args.verb, argc, argv, &args))
        code = args.verb == DRAW ? draw(&args)
                                 : pen__ring_show(args.words.words[0]);
    return code;
}

static int help(int argc, char **argv)
{
    return pen__verbs_help(&commands, argc, argv);
}

const struct pen__command pen__ring = {
    "ring", "shows what islands agreed on, draws simulated runs with faults",
    run, help};
