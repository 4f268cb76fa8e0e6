/*
 * Runs seeds of the simulator of rings: no invariant breaks, and every run
 * continues after it has healed.
 *
 *     ring_seeds                 those that failed once, and 400, from one
 *                                that PEN_SEED chooses; PEN_LONG=1: a million,
 *                                which resume where they stopped
 *                                (ring-seeds.txt)
 *     ring_seeds SEED            one, to repeat a failure
 *     ring_seeds FIRST LAST      these
 *
 * The same program with a planted bug (PEN_PLANT) must find it instead.
 */
#include "ring/plant.h"
#include "ring/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MANY 400u
#define FIRST_OF 30000u /* the first of them is one of so many */
#define LONG 1000000u
#define PLANTED 10000u
#define PROGRESS "ring-seeds.txt"

/* What they found is mended, and stays so. */
static const uint64_t failed_once[] = {3371, 10260, 20831, 30034};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct tally {
    double began;
    double simulated;
    uint64_t seeds, events, rounds, epochs, conflicts;
};

static void print_tally(const struct tally *tally)
{
    double sec = seconds() - tally->began;
    printf("%" PRIu64 " seeds in %.1f s: %.0f simulated seconds (%.0f per "
           "second), %" PRIu64 " events, %" PRIu64 " rounds, %" PRIu64
           " epochs, %" PRIu64 " conflicts\n",
           tally->seeds, sec, tally->simulated, tally->simulated / sec,
           tally->events, tally->rounds, tally->epochs, tally->conflicts);
}

/* Whether all is well with it. */
static bool run_seed(struct pen_ring_world *world, uint64_t seed,
                     struct tally *tally)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_ring_outcome out;
    const struct pen_ring_run run = {.seed = seed};
    bool is_well = pen_ring_sim(world, &run, &out, &why) == PEN_OK;
    if (!is_well)
        printf("seed %" PRIu64 ", %u islands, quorum %u, %u faults: %s\n", seed,
               out.num_islands, out.quorum, out.num_faults,
               pen_text_string(&why));
    pen_text_release(&why);
    tally->seeds++;
    tally->simulated += 1e-9 * (double)out.length;
    tally->events += out.num_events;
    tally->rounds += out.num_rounds;
    tally->epochs += out.num_epochs;
    tally->conflicts += out.num_conflicts;
    return is_well;
}

static void keep_progress(uint64_t next)
{
    FILE *file = fopen(PROGRESS, "w");
    if (file != NULL) {
        fprintf(file, "%" PRIu64 "\n", next);
        fclose(file);
    }
}

static uint64_t find_progress(void)
{
    uint64_t next = 1;
    FILE *file = fopen(PROGRESS, "r");
    if (file != NULL) {
        if (fscanf(file, "%" SCNu64, &next) != 1 || next > LONG)
            next = 1;
        fclose(file);
    }
    return next;
}

static void print_progress(const struct tally *tally, uint64_t left)
{
    double rate = (double)tally->seeds / (seconds() - tally->began);
    printf("%" PRIu64 " seeds, %.0f per second, %.0f s left\n", tally->seeds,
           rate, (double)left / rate);
    fflush(stdout);
}

static uint64_t first_of_the_day(void)
{
    const char *value = getenv("PEN_SEED");
    return value == NULL ? 1 : 1 + strtoull(value, NULL, 10) % FIRST_OF;
}

/* 0: all are well, or the planted bug was found. */
static int run_seeds(struct pen_ring_world *world, uint64_t first,
                     uint64_t last, bool is_long)
{
    struct tally tally = {.began = seconds()};
    for (uint64_t seed = first; seed <= last; seed++) {
        if (!run_seed(world, seed, &tally)) {
            if (PEN_PLANT != 0) {
                printf("planted bug %d: found after %" PRIu64 " seeds\n",
                       PEN_PLANT, tally.seeds);
                return 0;
            }
            printf("repeat: build/release/tests/ring_seeds %" PRIu64
                   "; see it: penstock ring draw %" PRIu64 " -o round.svg\n",
                   seed, seed);
            return 1;
        }
        if (is_long && seed % 10000 == 0) {
            keep_progress(seed + 1);
            print_progress(&tally, last - seed);
        }
    }
    print_tally(&tally);
    if (PEN_PLANT == 0)
        return 0;
    printf("planted bug %d was not found\n", PEN_PLANT);
    return 1;
}

static int run_failed_once(struct pen_ring_world *world)
{
    int code = 0;
    for (size_t i = 0; i < sizeof failed_once / sizeof *failed_once; i++)
        code |= run_seeds(world, failed_once[i], failed_once[i], false);
    return code;
}

int main(int argc, char **argv)
{
    const char *value = getenv("PEN_LONG");
    bool is_long =
        PEN_PLANT == 0 && argc == 1 && value != NULL && *value != '\0';
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t last = argc > 2 ? strtoull(argv[2], NULL, 10) : first;
    if (argc == 1 && PEN_PLANT != 0)
        last = PLANTED;
    if (argc == 1 && PEN_PLANT == 0) {
        first = first_of_the_day();
        last = first + MANY - 1;
        printf("seeds from %" PRIu64 "\n", first);
    }
    if (is_long) {
        first = find_progress();
        last = LONG;
    }
    struct pen_ring_world *world = pen_ring_world_create();
    int code = world == NULL ? 1 : 0;
    if (code == 0 && PEN_PLANT == 0 && argc == 1)
        code = run_failed_once(world);
    if (code == 0)
        code = run_seeds(world, first, last, is_long);
    if (is_long && code == 0)
        remove(PROGRESS);
    pen_ring_world_free(world);
    return code;
}
