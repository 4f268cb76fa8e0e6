/*
 * Goodput by Monte Carlo: equal to Daly's closed form where that holds, and to
 * a plain loop over small ticks of time where none is known.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/failure_rate.h"
#include "planner/goodput.h"

#include <math.h>
#include <stdio.h>

#define HOUR 3600.0

static struct pen_goodput_job usual_job(void)
{
    return (struct pen_goodput_job){.mtbf_sec = 2000,
                                    .step_sec = 4,
                                    .interval = 40,
                                    .save_sec = 6,
                                    .detect_sec = 5,
                                    .restart_sec = 30,
                                    .disk_sec = 25,
                                    .memory_sec = 3,
                                    .num_nodes = 16,
                                    .spares = PEN_GOODPUT_NO_LIMIT,
                                    .sync_steps = 20,
                                    .sync_sec = 1,
                                    .grace_least_sec = 1.5,
                                    .grace_most_sec = 15};
}

static void expect_near(double expected, double found, double room,
                        const char *what)
{
    if (fabs(expected - found) > room) {
        printf("%s: expected %.6f, found %.6f, room %.6f\n", what, expected,
               found, room);
        fail();
    }
}

/* ---- closed forms ---- */

static void restart_has_dalys_goodput(void **state)
{
    (void)state;
    const struct {
        double mtbf;
        uint64_t interval;
        double save;
        double restart;
    } cases[] = {{11000, 300, 12, 60}, {2000, 40, 6, 30},  {2000, 4, 6, 30},
                 {2000, 500, 6, 30},   {300, 10, 3, 100},  {1e6, 900, 30, 600},
                 {200, 100, 20, 300},  {5000, 1, 0.5, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_goodput_job job = usual_job();
        char what[40];
        job.mtbf_sec = cases[i].mtbf;
        job.interval = cases[i].interval;
        job.save_sec = cases[i].save;
        job.restart_sec = cases[i].restart;
        struct pen_goodput found = pen_goodput_simulate(&job, 1, 1);
        double exact = pen_goodput_exact(&job);
        snprintf(what, sizeof what, "case %zu", i);
        expect_near(exact, found.share, 1.5 * found.error + 1e-5, what);
        assert_true(found.error < 0.01);
    }
}

/* One sample in twenty lies outside of a 95 % interval; 12 of 60 would be
 * nearly impossible. */
static void the_confidence_interval_is_one(void **state)
{
    (void)state;
    struct pen_goodput_job job = usual_job();
    double exact = pen_goodput_exact(&job);
    uint32_t outside = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct pen_goodput found = pen_goodput_simulate(&job, seed, 0.2);
        outside += fabs(found.share - exact) > found.error;
    }
    assert_in_range(outside, 0, 11);
}

static void closed_intervals_agree_where_saves_are_short(void **state)
{
    (void)state;
    double young = pen_interval_young(3 * HOUR, 1);
    expect_near(146.97, young, 0.01, "interval");
    expect_near(1, pen_interval_exact(3 * HOUR, 1) / young, 0.01, "interval");
    expect_near(1, pen_interval_available(3 * HOUR, 1, 0) / young, 0.02,
                "interval");
    /* Daly's: the best interval is where its neighbours are worse. */
    struct pen_goodput_job job = usual_job();
    job.save_sec = 200;
    job.step_sec = 1;
    job.interval =
        (uint64_t)round(pen_interval_exact(job.mtbf_sec, job.save_sec));
    double best = pen_goodput_exact(&job);
    job.interval += 20;
    assert_true(pen_goodput_exact(&job) < best);
    job.interval -= 40;
    assert_true(pen_goodput_exact(&job) < best);
}

static void the_searched_interval_is_as_good_as_the_closed_one(void **state)
{
    (void)state;
    const double saves[] = {0.5, 6, 60, 400};
    for (size_t i = 0; i < sizeof saves / sizeof *saves; i++) {
        struct pen_goodput_job job = usual_job();
        job.save_sec = saves[i];
        job.interval = pen_goodput_search_interval(&job, 1);
        double searched = pen_goodput_exact(&job);
        job.interval = (uint64_t)fmax(
            1, round(pen_interval_exact(job.mtbf_sec, job.save_sec) /
                     job.step_sec));
        expect_near(pen_goodput_exact(&job), searched, 0.003, "search");
    }
}

/* ---- a loop over ticks of time ---- */

#define TICK 0.25

/* One island; what it does now ends after `left` more seconds. */
struct ticked {
    enum { STEP, SAVE, RECOVER, IDLE } doing;
    double left;
    uint64_t disk;
    uint64_t memory;
    uint64_t steps;
    uint64_t end; /* of the round; UINT64_MAX: none */
    bool is_from_disk;
    bool is_present;
};

/* Begins what comes next. */
static void tick_next(struct ticked *it, const struct pen_goodput_job *job)
{
    bool is_due = it->steps % job->interval == 0 && it->steps > it->disk;
    it->doing = is_due ? SAVE : it->steps >= it->end ? IDLE : STEP;
    it->left = is_due ? job->save_sec : job->step_sec;
}

static void tick_fail(struct ticked *it, const struct pen_goodput_job *job,
                      double nodes, struct pen_random *random)
{
    bool is_again = it->doing == RECOVER;
    if (!is_again)
        it->is_from_disk = job->memory_steps == 0;
    if (pen_random_unit(random) < job->pair_share ||
        (is_again && pen_random_unit(random) < 1 / (nodes - 1)))
        it->is_from_disk = true;
    it->doing = RECOVER;
    it->left = job->detect_sec + job->restart_sec +
               (it->is_from_disk ? job->disk_sec : job->memory_sec);
}

static void tick_end(struct ticked *it, const struct pen_goodput_job *job)
{
    if (it->doing == STEP) {
        it->steps++;
        if (job->memory_steps > 0 &&
            (it->steps - it->disk) % job->memory_steps == 0)
            it->memory = it->steps;
    } else if (it->doing == SAVE) {
        it->disk = it->memory = it->steps;
    } else if (it->doing == RECOVER) {
        it->steps = it->is_from_disk ? it->disk : it->memory;
        if (it->memory > it->steps)
            it->memory = it->steps;
    }
    if (it->doing != IDLE)
        tick_next(it, job);
}

static void tick(struct ticked *it, const struct pen_goodput_job *job,
                 double islands, struct pen_random *random)
{
    if (pen_random_unit(random) < TICK / (job->mtbf_sec * islands)) {
        tick_fail(it, job, (double)job->num_nodes / islands, random);
        return;
    }
    it->left -= TICK;
    if (it->doing != IDLE && it->left < TICK / 2)
        tick_end(it, job);
}

/* Runs of a day each; seconds are multiples of the tick. */
static double tick_single(const struct pen_goodput_job *job, uint32_t days)
{
    struct pen_random random = {77};
    struct ticked it = {.end = UINT64_MAX};
    double seconds = days * 24 * HOUR;
    tick_next(&it, job);
    for (double at = 0; at < seconds; at += TICK)
        tick(&it, job, 1, &random);
    return (double)it.steps * job->step_sec / seconds;
}

static void holders_agree_with_a_plain_loop(void **state)
{
    (void)state;
    const struct {
        uint32_t memory_steps;
        double pair_share;
        double mtbf;
        uint64_t nodes;
    } cases[] = {{1, 0, 500, 1000},
                 {1, 0.3, 500, 16},
                 {3, 0.1, 300, 4},
                 {0, 0, 500, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_goodput_job job = usual_job();
        char what[40];
        job.memory_steps = cases[i].memory_steps;
        job.pair_share = cases[i].pair_share;
        job.mtbf_sec = cases[i].mtbf;
        job.num_nodes = cases[i].nodes;
        struct pen_goodput found = pen_goodput_simulate(&job, 5, 1);
        snprintf(what, sizeof what, "holders, case %zu", i);
        expect_near(tick_single(&job, 40), found.share, 0.006, what);
    }
}

static void close_round(const struct pen_goodput_job *job, struct ticked *its,
                        double islands)
{
    for (uint32_t i = 0; i < (uint32_t)islands; i++) {
        bool is_down = its[i].doing == RECOVER;
        its[i].is_present = !is_down;
        its[i].end = is_down ? UINT64_MAX : its[i].steps + job->sync_steps;
        if (its[i].doing == IDLE) {
            tick_next(&its[i], job);
            its[i].left += job->sync_sec;
        }
    }
}

/* Whether the round may close: all are there, or half and the grace is over. */
static bool may_close(const struct ticked *its, uint32_t islands,
                      double waited_sec, double grace_sec)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < islands; i++)
        missing +=
            its[i].is_present ? its[i].doing != IDLE : its[i].doing == RECOVER;
    return missing == 0 ||
           (missing < (islands + 1) / 2 && waited_sec >= grace_sec);
}

static double tick_islands(const struct pen_goodput_job *job, uint32_t days)
{
    struct pen_random random = {78};
    struct ticked its[8] = {{.end = 0}};
    double seconds = days * 24 * HOUR;
    double waited = 0;
    double grace =
        fmin(fmax(job->sync_steps * job->step_sec / 4, job->grace_least_sec),
             job->grace_most_sec);
    double steps = 0;
    for (uint32_t i = 0; i < job->islands; i++) {
        its[i].is_present = true;
        its[i].end = job->sync_steps;
        tick_next(&its[i], job);
    }
    for (double at = 0; at < seconds; at += TICK) {
        uint32_t idle = 0;
        for (uint32_t i = 0; i < job->islands; i++) {
            tick(&its[i], job, job->islands, &random);
            idle += its[i].doing == IDLE;
        }
        waited = idle > job->islands / 2 ? waited + TICK : 0;
        if (may_close(its, job->islands, waited, grace)) {
            close_round(job, its, job->islands);
            waited = 0;
        }
    }
    for (uint32_t i = 0; i < job->islands; i++)
        steps += (double)its[i].steps;
    return steps * job->step_sec / job->islands / seconds;
}

static void islands_agree_with_a_plain_loop(void **state)
{
    (void)state;
    const struct {
        uint32_t islands;
        double mtbf;
        double restart;
    } cases[] = {{4, 1000, 30}, {8, 500, 10}, {4, 2000, 240}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_goodput_job job = usual_job();
        char what[40];
        job.memory_steps = 1;
        job.islands = cases[i].islands;
        job.mtbf_sec = cases[i].mtbf;
        job.restart_sec = cases[i].restart;
        job.num_nodes = 64;
        job.save_sec = 0.25;
        struct pen_goodput found = pen_goodput_simulate(&job, 5, 1);
        snprintf(what, sizeof what, "islands, case %zu", i);
        expect_near(tick_islands(&job, 20), found.share, 0.01, what);
    }
}

/* ---- what must follow ---- */

static void ways_are_ordered(void **state)
{
    (void)state;
    struct pen_goodput_job job = usual_job();
    double restart = pen_goodput_simulate(&job, 1, 1).share;
    job.memory_steps = 1;
    double holders = pen_goodput_simulate(&job, 1, 1).share;
    job.islands = 8;
    job.sync_sec = 0.1;
    double islands = pen_goodput_simulate(&job, 1, 1).share;
    assert_true(restart + 0.02 < holders);
    assert_true(holders < islands);
    assert_true(islands < 1);
}

/* Rounds of 20 s wait for 5 s, until the patience is over: of 600 s some 30. */
static void rounds_do_not_wait_for_an_island_that_is_dropped(void **state)
{
    (void)state;
    struct pen_goodput_job job = usual_job();
    job.memory_steps = 1;
    job.islands = 8;
    job.step_sec = 1;
    job.sync_sec = 0;
    job.interval = 1000;
    job.save_sec = 0;
    job.restart_sec = 600;
    double waited = pen_goodput_simulate(&job, 1, 1).share;
    job.patience_sec = 30;
    double dropped = pen_goodput_simulate(&job, 1, 1).share;
    double stopped = 600 / job.mtbf_sec / job.islands;
    print_message("goodput %.4f, and %.4f where rounds do not wait\n", waited,
                  dropped);
    assert_true(waited + 0.02 < dropped);
    assert_true(dropped < 1 - 0.8 * stopped);
    assert_true(dropped > 1 - 1.6 * stopped);
}

static void the_seed_decides(void **state)
{
    (void)state;
    struct pen_goodput_job job = usual_job();
    struct pen_goodput one = pen_goodput_simulate(&job, 9, 0.1);
    struct pen_goodput same = pen_goodput_simulate(&job, 9, 0.1);
    struct pen_goodput other = pen_goodput_simulate(&job, 10, 0.1);
    assert_true(one.share == same.share && one.error == same.error);
    assert_true(one.share != other.share);
}

/* Without a spare every exchange waits for a repair: the mean time lost by a
 * failure is known. */
static void without_spares_a_job_waits_for_repairs(void **state)
{
    (void)state;
    struct pen_goodput_job job = usual_job();
    job.mtbf_sec = 1e6;
    job.node_share = 0.5;
    job.repair_sec = 4e5;
    job.interval = 1000;
    job.spares = PEN_GOODPUT_NO_LIMIT;
    double always = pen_goodput_simulate(&job, 1, 1).share;
    job.spares = 0;
    double none = 0;
    for (uint64_t seed = 1; seed <= 10; seed++)
        none += pen_goodput_simulate(&job, seed, 1).share / 10;
    job.spares = 20;
    double many = pen_goodput_simulate(&job, 1, 1).share;
    expect_near(always, many, 1e-9, "many spares");
    expect_near(always / (1 + 0.5 * 0.4), none, 0.002, "no spares");
}

/* A job that fails all the time ends, and does nothing. */
static void hopeless_jobs_end(void **state)
{
    (void)state;
    struct pen_goodput_job job = usual_job();
    job.mtbf_sec = 0.1;
    job.node_share = 1;
    job.spares = 3;
    job.repair_sec = 1e5;
    assert_true(pen_goodput_simulate(&job, 1, 1).share < 0.01);
    job.memory_steps = 1;
    job.islands = 8;
    assert_true(pen_goodput_simulate(&job, 1, 1).share < 0.01);
}

static double mtbf_of(const char *text, uint64_t devices)
{
    struct pen_failure_rate rate;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_failure_rate_parse(text, 1000, &rate, &why), PEN_OK);
    pen_text_release(&why);
    return pen_failure_mtbf(&rate, devices);
}

static void rates_are_as_published(void **state)
{
    (void)state;
    struct pen_failure_rate rate;
    struct pen_text why = PEN_TEXT_EMPTY;
    expect_near(54 * 24 * HOUR, mtbf_of("llama3", 16384) * 419, 1,
                "mean time between failures");
    expect_near(8, mtbf_of("llama3", 2048) / mtbf_of("llama3", 16384), 1e-9,
                "mean time between failures");
    expect_near(7.9 * HOUR, mtbf_of("meta", 1024), 1e-6,
                "mean time between failures");
    expect_near(1.8 * HOUR, mtbf_of("meta", 16384), 1e-6,
                "mean time between failures");
    expect_near(14 * 60, mtbf_of("meta", 131072), 1e-6,
                "mean time between failures");
    expect_near(sqrt(7.9 * 1.8) * HOUR, mtbf_of("meta", 4096), 1,
                "mean time between failures");
    expect_near(8 * 7.9 * HOUR, mtbf_of("meta", 128), 1e-6,
                "mean time between failures");
    expect_near(2 * 24 * HOUR, mtbf_of("0.001", 500), 1e-6,
                "mean time between failures");
    expect_near(3 * HOUR, mtbf_of("3h", 1000), 1e-6,
                "mean time between failures");
    expect_near(0.75 * HOUR, mtbf_of("90min", 2000), 1e-6,
                "mean time between failures");
    const char *const wrong[] = {"", "llama", "0", "-1", "3x", "0h", "nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(pen_failure_rate_parse(wrong[i], 8, &rate, &why),
                         PEN_INVALID);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restart_has_dalys_goodput),
        cmocka_unit_test(the_confidence_interval_is_one),
        cmocka_unit_test(closed_intervals_agree_where_saves_are_short),
        cmocka_unit_test(the_searched_interval_is_as_good_as_the_closed_one),
        cmocka_unit_test(holders_agree_with_a_plain_loop),
        cmocka_unit_test(islands_agree_with_a_plain_loop),
        cmocka_unit_test(rounds_do_not_wait_for_an_island_that_is_dropped),
        cmocka_unit_test(ways_are_ordered),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(without_spares_a_job_waits_for_repairs),
        cmocka_unit_test(hopeless_jobs_end),
        cmocka_unit_test(rates_are_as_published)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
