/*
 * A wait is judged by what its ranks did meanwhile: a rank that is on a core or
 * waits for one is slow, one that sleeps is stuck, one that is stopped
 * certainly is.
 */
#include "support/support.h"

#include "watch/stall.h"
#include "watch/watchdog.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3 };

#define SEC INT64_C(1000000000)
#define LOOK (SEC / 4)

/* Rank 2 waits for rank 1, which waits for rank 0. */
struct scene {
    struct pen__rank_view ranks[RANKS];
    uint32_t chain[RANKS];
    struct pen__process_work samples[RANKS];
    struct pen__node_view view;
    struct pen__stall stall;
};

static void be_entry(struct pen__rank_view *rank, uint32_t number,
                     enum pen_board_state state, uint32_t waits_for)
{
    *rank = (struct pen__rank_view){.entry = {.rank = number,
                                              .pid = 1,
                                              .step = 7,
                                              .position = 3,
                                              .state = state,
                                              .waits_for = waits_for,
                                              .since_ns = SEC},
                                    .process = {.state = 'S'},
                                    .work = {.is_known = true}};
}

static void set_scene(struct scene *scene)
{
    *scene = (struct scene){.stall = {.samples = scene->samples}};
    be_entry(&scene->ranks[0], 0, PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY);
    be_entry(&scene->ranks[1], 1, PEN_BOARD_WAITING, 0);
    be_entry(&scene->ranks[2], 2, PEN_BOARD_WAITING, 1);
    scene->view = (struct pen__node_view){.host = "a1",
                                          .num_ranks = RANKS,
                                          .ranks = scene->ranks,
                                          .is_whole_job = true,
                                          .chain = scene->chain};
}

/* What a rank does between two looks. */
struct life {
    uint32_t rank;
    int64_t cpu_ns;
    int64_t queue_ns;
};

static void look(struct scene *scene, struct life life)
{
    struct pen__process_work *work = &scene->ranks[life.rank].work;
    work->cpu_ns += life.cpu_ns;
    work->queue_ns += life.queue_ns;
    struct pen__root root = pen__wait_root(&scene->view, 2);
    pen__stall_add(&scene->stall, &scene->view, &root, LOOK);
}

/* Seconds until the verdict, at most `limit`. */
static double seconds_until(struct scene *scene, enum pen__verdict verdict,
                            double hang_timeout_sec, struct life life,
                            double limit)
{
    struct pen__patience patience = pen__patience_of(hang_timeout_sec, 0.1, 0);
    double sec = 0;
    look(scene, (struct life){0});
    while (sec < limit &&
           pen__stall_judge(&scene->stall, &patience, 1) < verdict) {
        look(scene, life);
        sec += 0.25;
    }
    return sec;
}

static void the_default_is_to_warn_early_and_end_late(void **state)
{
    (void)state;
    struct pen__patience p =
        pen__patience_of(PEN_HANG_TIMEOUT_DEFAULT, 0.01, 0);
    expect_close(1.6, 1e-9 * (double)p.warn_ns, "warning, short steps");
    expect_close(30, 1e-9 * (double)p.idle_ns, "end, short steps");
    expect_close(1.6, 1e-9 * (double)p.stopped_ns, "stopped");
    p = pen__patience_of(PEN_HANG_TIMEOUT_DEFAULT, 10, 0);
    expect_close(40, 1e-9 * (double)p.warn_ns, "warning, steps of 10 s");
    expect_close(250, 1e-9 * (double)p.idle_ns, "end, steps of 10 s");
    expect_close(1.6, 1e-9 * (double)p.stopped_ns, "stopped");
    p = pen__patience_of(PEN_HANG_TIMEOUT_DEFAULT, 0.01, 600);
    expect_close(60, 1e-9 * (double)p.warn_ns, "warning, rare talk");
    expect_close(600, 1e-9 * (double)p.idle_ns, "end, rare talk");
    p = pen__patience_of(5, 0.01, 600);
    expect_close(5, 1e-9 * (double)p.either_ns, "end, as given");
    expect_close(5, 1e-9 * (double)p.stopped_ns, "stopped, as given");
    p = pen__patience_of(PEN_HANG_TIMEOUT_NEVER, 0.01, 0);
    assert_true(p.idle_ns == PEN__FOREVER && p.stopped_ns == PEN__FOREVER);
}

static void a_root_that_sleeps_is_stuck(void **state)
{
    (void)state;
    struct scene scene;
    const struct life nothing = {.rank = 0};
    set_scene(&scene);
    expect_close(1.75,
                 seconds_until(&scene, PEN__WARN, PEN_HANG_TIMEOUT_DEFAULT,
                               nothing, 1000),
                 "until the warning");
    set_scene(&scene);
    expect_close(30,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               nothing, 1000),
                 "until the end");
    set_scene(&scene);
    expect_close(3, seconds_until(&scene, PEN__HANGS, 3, nothing, 1000),
                 "until a given end");
}

static void a_root_that_computes_is_slow(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    expect_close(600,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){.rank = 0, .cpu_ns = LOOK}, 1000),
                 "an endless loop");
    /* Half of the time asleep, as a rank that reads a file. */
    set_scene(&scene);
    expect_close(60,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){.rank = 0, .cpu_ns = LOOK / 2},
                               1000),
                 "half of the time asleep");
    /* More cores than one. */
    set_scene(&scene);
    expect_close(600,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){.rank = 0, .cpu_ns = 8 * LOOK},
                               1000),
                 "eight threads");
}

static void a_rank_without_a_core_is_never_ended(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct scene scene;
        struct life life = {.rank = rank, .queue_ns = LOOK};
        set_scene(&scene);
        expect_close(5000,
                     seconds_until(&scene, PEN__WARN, PEN_HANG_TIMEOUT_DEFAULT,
                                   life, 5000),
                     "by default");
        set_scene(&scene);
        expect_close(5000, seconds_until(&scene, PEN__HANGS, 3, life, 5000),
                     "with --hang-timeout");
    }
    /* Ready, but the kernel has not added it up yet. */
    struct scene scene;
    set_scene(&scene);
    scene.ranks[1].process.state = 'R';
    expect_close(5000,
                 seconds_until(&scene, PEN__WARN, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){0}, 5000),
                 "ready all the time");
}

/* It polls, or the MPI library does: that is no progress. */
static void a_rank_that_waits_on_a_core_is_no_progress(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.ranks[1].process.state = 'R';
    expect_close(30,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){.rank = 1, .cpu_ns = LOOK}, 1000),
                 "until the end");
}

static void a_stopped_root_is_certain(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.ranks[0].process.state = 'T';
    expect_close(1.75,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){0}, 1000),
                 "until the end");
}

static void a_root_of_another_node_may_be_slow(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    scene.view.is_whole_job = false;
    scene.ranks[0].entry.rank = 9;
    expect_close(1.75,
                 seconds_until(&scene, PEN__WARN, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){0}, 1000),
                 "until the warning");
    set_scene(&scene);
    scene.ranks[0].entry.rank = 9;
    expect_close(600,
                 seconds_until(&scene, PEN__HANGS, PEN_HANG_TIMEOUT_DEFAULT,
                               (struct life){0}, 1000),
                 "until the end");
}

static void a_rank_that_moves_begins_anew(void **state)
{
    (void)state;
    struct scene scene;
    set_scene(&scene);
    for (int i = 0; i < 1000; i++) {
        struct pen__patience patience =
            pen__patience_of(PEN_HANG_TIMEOUT_DEFAULT, 0.1, 0);
        look(&scene, (struct life){0});
        if (i % 5 == 0)
            scene.ranks[0].entry.since_ns += SEC;
        assert_int_equal(pen__stall_judge(&scene.stall, &patience, 1),
                         PEN__MOVES);
    }
}

/* ---- what the kernel tells ---- */

static pid_t start(void (*act)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    act();
    _exit(0);
}

static void compute(void)
{
    for (;;)
        continue;
}

static void sleep_on(void)
{
    for (;;)
        pause();
}

/* Until the figures of the process have grown, or for a long time. */
static bool grows(pid_t pid, int tries)
{
    struct pen__process_work before = pen__process_read_work(pid, 0);
    assert_true(before.is_known);
    for (int i = 0; i < tries; i++) {
        struct pen__process_work now = pen__process_read_work(pid, 0);
        if (now.cpu_ns + now.queue_ns > before.cpu_ns + before.queue_ns)
            return true;
        usleep(10000);
    }
    return false;
}

/* The last of what it computed may be counted late: a while will come. */
static bool rests(pid_t pid)
{
    for (int i = 0; i < 50; i++)
        if (!grows(pid, 20))
            return true;
    return false;
}

/* A thread of the sanitizer, which wakes up now and then. */
#ifdef __SANITIZE_THREAD__
static const bool has_second_thread = true;
#else
static const bool has_second_thread = false;
#endif

static void work_grows_with_computing_only(void **state)
{
    (void)state;
    if (!pen__process_read_main(getpid()).is_known)
        skip(); /* a kernel without CONFIG_SCHED_INFO */
    pid_t busy = start(compute);
    pid_t idle = start(sleep_on);
    while (pen__process_read(idle).state != 'S')
        usleep(1000);
    bool busy_grows = grows(busy, 3000);
    bool idle_rests = has_second_thread || rests(idle);
    bool is_known = pen__process_read_work(idle, (int)idle).is_known;
    kill(busy, SIGKILL);
    kill(idle, SIGKILL);
    waitpid(busy, NULL, 0);
    waitpid(idle, NULL, 0);
    assert_true(busy_grows);
    assert_true(idle_rests);
    assert_true(is_known == has_second_thread);
    assert_false(pen__process_read_work(busy, 0).is_known);
}

static void work_is_read_from_two_numbers(void **state)
{
    (void)state;
    struct pen__process_work work = pen__process_work_parse("700 323 467\n");
    assert_true(work.is_known && work.cpu_ns == 700 && work.queue_ns == 323);
    assert_false(pen__process_work_parse("").is_known);
    assert_false(pen__process_work_parse("12").is_known);
    assert_false(pen__process_work_parse("none of it").is_known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_to_warn_early_and_end_late),
        cmocka_unit_test(a_root_that_sleeps_is_stuck),
        cmocka_unit_test(a_root_that_computes_is_slow),
        cmocka_unit_test(a_rank_without_a_core_is_never_ended),
        cmocka_unit_test(a_rank_that_waits_on_a_core_is_no_progress),
        cmocka_unit_test(a_stopped_root_is_certain),
        cmocka_unit_test(a_root_of_another_node_may_be_slow),
        cmocka_unit_test(a_rank_that_moves_begins_anew),
        cmocka_unit_test(work_grows_with_computing_only),
        cmocka_unit_test(work_is_read_from_two_numbers),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
