/*
 * A training on hosts that fail, under SimGrid: an actor for each rank computes
 * steps and meets the others after each, a failed host takes its rank away, and
 * a supervisor on a host that lasts notices it, ends the other ranks, and
 * starts all of them again. Nothing of planner/goodput.h is in it.
 *
 *   failing_hosts PLATFORM RANKS FAILURES SEED INTERVAL WAY
 *                 MTBF STEP SAVE RECOVERY
 *
 * PLATFORM is a file with hosts rank-0, rank-1 ... and lasting, of 1 flop/s.
 * INTERVAL is in steps between two saves; WAY is restart, from what was saved,
 * or holders, where each step is kept in memory, too; what follows is in
 * seconds. Prints the share of time that went into steps that stay.
 */
#include "base/random.h"

#include <simgrid/actor.h>
#include <simgrid/barrier.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1024 };

static struct job {
    uint32_t num_ranks;
    uint32_t num_failures;
    double mtbf_sec;
    double step_sec;
    double save_sec;
    double recovery_sec;
    uint64_t interval;
    bool has_holders;
    struct pen_random random;
} job;

static struct {
    sg_actor_t ranks[MOST_RANKS];
    sg_bar_t barrier;
    sg_sem_t failed; /* once for each failure */
    uint64_t done;   /* steps */
    uint64_t kept;   /* of them, in memory or on disk */
    bool is_over;
} now;

/* ---- ranks ---- */

static void train(int argc, char **argv)
{
    (void)argc;
    bool is_first = argv[0][0] == '0';
    for (;;) {
        sg_actor_execute(job.step_sec);
        sg_barrier_wait(now.barrier);
        if (is_first)
            now.done++;
        if (is_first && job.has_holders)
            now.kept = now.done;
        sg_barrier_wait(now.barrier);
        if (now.done % job.interval != 0)
            continue;
        sg_actor_sleep_for(job.save_sec);
        sg_barrier_wait(now.barrier);
        if (is_first)
            now.kept = now.done;
    }
}

static sg_host_t host_of(uint32_t rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank-%" PRIu32, rank);
    return sg_host_by_name(name);
}

static void start_ranks(void)
{
    now.barrier = sg_barrier_init(job.num_ranks);
    now.done = now.kept;
    for (uint32_t i = 0; i < job.num_ranks; i++) {
        if (!sg_host_is_on(host_of(i)))
            sg_host_turn_on(host_of(i));
        const char *first[] = {"0"}, *other[] = {"1"};
        now.ranks[i] = sg_actor_create_("rank", host_of(i), train, 1,
                                        i == 0 ? first : other);
        sg_actor_ref(now.ranks[i]);
    }
}

static void end_ranks(void)
{
    for (uint32_t i = 0; i < job.num_ranks; i++) {
        sg_actor_kill(now.ranks[i]);
        sg_actor_unref(now.ranks[i]);
    }
}

/* ---- failures, and the supervisor ---- */

static void fail(int argc, char **argv)
{
    (void)argc, (void)argv;
    for (uint32_t i = 0; i < job.num_failures; i++) {
        sg_actor_sleep_for(-job.mtbf_sec *
                           log1p(-pen_random_unit(&job.random)));
        sg_host_t broken =
            host_of(pen_random_below(&job.random, job.num_ranks));
        if (sg_host_is_on(broken))
            sg_host_turn_off(broken);
        sg_sem_release(now.failed);
    }
    now.is_over = true;
    sg_sem_release(now.failed);
}

static void supervise(int argc, char **argv)
{
    (void)argc, (void)argv;
    start_ranks();
    for (;;) {
        sg_sem_acquire(now.failed);
        end_ranks();
        /* A failure meanwhile begins the recovery again. */
        while (!now.is_over &&
               sg_sem_acquire_timeout(now.failed, job.recovery_sec) == 0)
            ;
        if (now.is_over)
            return;
        start_ranks();
    }
}

int main(int argc, char **argv)
{
    simgrid_init(&argc, argv);
    if (argc != 11)
        return 2;
    simgrid_load_platform(argv[1]);
    job = (struct job){
        .num_ranks = (uint32_t)strtoul(argv[2], NULL, 10),
        .num_failures = (uint32_t)strtoul(argv[3], NULL, 10),
        .random = {strtoull(argv[4], NULL, 10)},
        .interval = strtoull(argv[5], NULL, 10),
        .has_holders = strcmp(argv[6], "holders") == 0,
        .mtbf_sec = strtod(argv[7], NULL),
        .step_sec = strtod(argv[8], NULL),
        .save_sec = strtod(argv[9], NULL),
        .recovery_sec = strtod(argv[10], NULL),
    };
    if (job.num_ranks == 0 || job.num_ranks > MOST_RANKS || job.interval == 0)
        return 2;
    now.failed = sg_sem_init(0);
    sg_host_t lasting = sg_host_by_name("lasting");
    sg_actor_create_("fail", lasting, fail, 0, NULL);
    sg_actor_create_("supervise", lasting, supervise, 0, NULL);
    simgrid_run();
    printf("%.6f\n", (double)now.kept * job.step_sec / simgrid_get_clock());
    return now.is_over ? 0 : 1;
}
