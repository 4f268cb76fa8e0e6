/*
 * penstock: the commands that need neither MPI nor oneDNN, and the names of
 * those that penstock-train and penstock-simulate carry out.
 */
#include "cli/program/help.h"
#include "cli/program/program.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The wheel has neither program, and nothing to build them again with. */
#ifdef PEN_WHEEL
#define HINT(program, packages)                                                \
    "the Python package does not have it: install the Debian packages "        \
    "penstock and " program ", or build it from the sources: apt "             \
    "install " packages ", then cmake"
#else
#define HINT(program, packages)                                                \
    "install the package " program ", or build it: apt install " packages      \
    ", then cmake again"
#endif

#define TRAIN "penstock-train"
#define TRAIN_HINT                                                             \
    HINT(TRAIN, "libdnnl-dev libopenmpi-dev libhwloc-dev libpcre2-dev "        \
                "zlib1g-dev")

/*
 * Before 2.38, glibc's memalign() leaves scraps that its caches for threads
 * keep for ever. oneDNN packs operands into aligned blocks of many sizes, so
 * the heap would grow around them by megabytes that cannot be predicted. The
 * caches can be disabled only before the start of a program; a user's own
 * setting is kept.
 */
#define ALLOCATOR "GLIBC_TUNABLES"
#define NO_CACHES "glibc.malloc.tcache_count=0"

static int run_in_train(int argc, char **argv)
{
    (void)argc;
    setenv(ALLOCATOR, NO_CACHES, 0);
    return pen__program_become(TRAIN, NULL, argv, TRAIN_HINT);
}

static int help_in_train(int argc, char **argv)
{
    (void)argc;
    return pen__program_become(TRAIN, "help", argv, TRAIN_HINT);
}

#define SIMULATE "penstock-simulate"
#define SIMULATE_HINT HINT(SIMULATE, "libsimgrid-dev g++")

static int run_in_simulate(int argc, char **argv)
{
    (void)argc;
    return pen__program_become(SIMULATE, NULL, argv, SIMULATE_HINT);
}

static int help_in_simulate(int argc, char **argv)
{
    (void)argc;
    return pen__program_become(SIMULATE, "help", argv, SIMULATE_HINT);
}

static bool is_detect(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "detect") == 0;
}

static int run_cluster(int argc, char **argv)
{
    return (is_detect(argc, argv) ? run_in_train : pen__cluster.run)(argc,
                                                                     argv);
}

static int help_cluster(int argc, char **argv)
{
    return (is_detect(argc, argv) ? help_in_train : pen__cluster.help)(argc,
                                                                       argv);
}

/* Summaries as in the commands themselves; tests/cli/program.sh compares. */
static const struct pen__command train = {
    "train", "trains a network on text or images", run_in_train, help_in_train};
static const struct pen__command eval = {
    "eval", "prints loss and perplexity or accuracy of a model", run_in_train,
    help_in_train};
static const struct pen__command generate = {
    "generate", "generates text with a model", run_in_train, help_in_train};
static const struct pen__command profile = {
    "profile", "measures the layers of a model on this machine", run_in_train,
    help_in_train};
static const struct pen__command doctor = {
    "doctor", "checks this machine and recommends changes", run_in_train,
    help_in_train};
static const struct pen__command hold = {
    "hold", "keeps steps of a training in memory on this node", run_in_train,
    help_in_train};
static const struct pen__command simulate = {"simulate",
                                             "runs a plan on simulated ranks",
                                             run_in_simulate, help_in_simulate};

static const struct pen__command cluster = {
    "cluster", "lists, shows, checks and measures clusters", run_cluster,
    help_cluster};

static const struct pen__command *const commands[] = {&pen__plan,
                                                      &pen__predict,
                                                      &simulate,
                                                      &pen__schedule,
                                                      &pen__tokenize,
                                                      &train,
                                                      &pen__supervise,
                                                      &hold,
                                                      &eval,
                                                      &generate,
                                                      &pen__plot,
                                                      &pen__view,
                                                      &pen__report,
                                                      &pen__checkpoint,
                                                      &pen__models,
                                                      &cluster,
                                                      &profile,
                                                      &doctor,
                                                      &pen__partition,
                                                      &pen__export,
                                                      &pen__lint,
                                                      &pen__sync,
                                                      &pen__probe,
                                                      &pen__ring,
                                                      &pen__reproduce,
                                                      &pen__schema,
                                                      NULL};

static const char *program_of(const char *name)
{
    static const struct pen__command *const in_train[] = {
        &train, &eval, &generate, &profile, &doctor, &hold};
    for (size_t i = 0; i < sizeof in_train / sizeof *in_train; i++)
        if (strcmp(in_train[i]->name, name) == 0)
            return TRAIN;
    return strcmp(name, simulate.name) == 0 ? SIMULATE : NULL;
}

int main(int argc, char **argv)
{
    static const struct pen__help_others others = {program_of,
                                                   pen__program_ask};
    pen__help_set_others(&others);
    static const struct pen__program program = {"penstock", commands};
    return pen__program_main(&program, argc, argv);
}
