/*
 * penstock ring: the agreement of islands. draw shows a run of its simulator,
 * show the record of a ring; key, coordinate, status and evict are for a real
 * one.
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
    const char *address;
    const char *patience;
    struct pen_ring_coordinate_options coordinate; /* key and keys: for all */
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

static const struct pen__field key_fields[] = {
    TEXT("address", "HOST:PORT", address,
         "where this node will listen, for the other nodes")};

#define KEYS                                                                   \
    TEXT("key", "FILE", coordinate.key,                                        \
         "private key of this node, made by penstock ring key"),               \
        TEXT("keys", "FOLDER", coordinate.keys,                                \
             "public keys of all nodes: island-N.pub, coordinator-N.pub, "     \
             "operator-NAME.pub")

static const struct pen__field coordinate_fields[] = {
    TEXT("listen", "HOST:PORT", coordinate.listen,
         "address that islands connect to"),
    KEYS,
    {"quorum", "N", "islands that must contribute to a round, at least",
     PEN__FIELD_SMALL, AT(coordinate.quorum), 1, PEN_RING_ISLANDS, NULL},
    TEXT("patience", "TIME", patience,
         "time after which a silent node counts as gone, for example 30s; all "
         "other times derive from it"),
    TEXT("store", "STORE", coordinate.store,
         "where the record is kept: journal:FILE or "
         "etcd://HOST:PORT[,HOST:PORT...]/NAME"),
    TEXT("replay", "FILE", coordinate.replay,
         "journal of another run: its rounds are committed again with the same "
         "contributors, and must give the same states")};

static const struct pen__field status_fields[] = {KEYS, JSON("print JSON")};

static const struct pen__field evict_fields[] = {KEYS};

enum { DRAW, SHOW, KEY, COORDINATE, STATUS, EVICT };

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    const struct pen_ring_coordinate_options *given = &args->coordinate;
    if (args->verb == DRAW)
        pen__line_require(state, args->output != NULL, "output");
    if (args->verb >= COORDINATE) {
        pen__line_require(state, given->key != NULL, "key");
        pen__line_require(state, given->keys != NULL, "keys");
    }
    if (args->verb == COORDINATE) {
        pen__line_require(state, given->listen != NULL, "listen");
        pen__line_require(state, given->quorum > 0, "quorum");
        pen__line_require(state, args->patience != NULL, "patience");
        pen__line_require(state, given->store != NULL, "store");
    }
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
              show_fields, sizeof show_fields / sizeof *show_fields, 1, 1},
    [KEY] = {"key", "FILE", "Makes the key of a node",
             "Writes a new private key to FILE, which must not exist, and "
             "prints its public part: one line for a file in the folder of "
             "keys of all nodes.",
             key_fields, sizeof key_fields / sizeof *key_fields, 1, 1},
    [COORDINATE] = {"coordinate", "", "Coordinates islands over a network",
                    "Waits for islands, keeps the record of members and "
                    "committed rounds in the store, and holds no weights. "
                    "Nodes authenticate each other by their keys, with TLS "
                    "1.3. SIGTERM ends it.",
                    coordinate_fields,
                    sizeof coordinate_fields / sizeof *coordinate_fields, 0, 0},
    [STATUS] = {"status", "HOST:PORT", "Asks a coordinator for its state",
                "Prints which islands are connected, when they were heard, and "
                "the record. The key is that of an operator.",
                status_fields, sizeof status_fields / sizeof *status_fields, 1,
                1},
    [EVICT] = {"evict", "HOST:PORT ISLAND", "Excludes an island for good",
               "The island with this number leaves the members, and its key "
               "never enters again. The key is that of an operator; the "
               "coordinator must be the one that serves.",
               evict_fields, sizeof evict_fields / sizeof *evict_fields, 2, 2}};

static const struct pen__verbs commands = {.command = "ring",
                                           .items = verbs,
                                           .count =
                                               sizeof verbs / sizeof *verbs,
                                           .name_width = 10,
                                           .words_width = 16,
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

static int run_verb(struct args *args)
{
    char **words = args->words.words;
    const char *key = args->coordinate.key;
    const char *keys = args->coordinate.keys;
    switch (args->verb) {
    case DRAW:
        return draw(args);
    case SHOW:
        return pen__ring_show(words[0]);
    case KEY:
        return pen__ring_key(words[0], args->address);
    case COORDINATE:
        return pen__ring_coordinate(&args->coordinate, args->patience);
    case STATUS:
        return pen__ring_status(words[0], key, keys);
    default:
        return pen__ring_evict(words[0], words[1], key, keys);
    }
}

static int run(int argc, char **argv)
{
    int code = PEN__EXIT_USAGE;
    struct args args = {.verb = pen__verbs_find(&commands, argc, argv, &code)};
    if (args.verb >= 0 &&
        pen__verbs_parse(&commands, args.verb, argc, argv, &args))
        code = run_verb(&args);
    return code;
}

static int help(int argc, char **argv)
{
    return pen__verbs_help(&commands, argc, argv);
}

const struct pen__command pen__ring = {
    "ring", "coordinates islands, shows what they agreed on, draws runs", run,
    help};
