/*
 * Stacks of shards (SPARe): after every pattern of failures each shard is
 * computed once, by a group that holds it, and no dealing has a smaller depth;
 * the goodput with stacks agrees with enumeration and with closed forms.
 */
#include "support/support.h"

#include "planner/stacked_goodput.h"
#include "planner/stacks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 6u

static void expect_near(double expected, double found, double room,
                        const char *what)
{
    if (!(fabs(expected - found) <= room)) {
        printf("%s: expected %.6f, found %.6f, room %.6f\n", what, expected,
               found, room);
        fail();
    }
}

/* ---- dealings, by trying all ---- */

/* The smallest load of the busiest group when these shards are given to
 * survivors that hold them; UINT32_MAX if a shard has none. */
static uint32_t least_depth(const struct pen_stacks *stacks,
                            const uint32_t *shards, uint32_t count,
                            uint32_t *loads)
{
    uint32_t least = UINT32_MAX;
    if (count == 0) {
        uint32_t most = 0;
        for (uint32_t i = 0; i < stacks->num_groups; i++)
            most = loads[i] > most ? loads[i] : most;
        return most;
    }
    for (uint32_t i = 0; i < stacks->height; i++) {
        uint32_t group = pen_stacks_holder(stacks, shards[0], i);
        if (stacks->is_lost[group])
            continue;
        loads[group]++;
        uint32_t found = least_depth(stacks, shards + 1, count - 1, loads);
        loads[group]--;
        least = found < least ? found : least;
    }
    return least;
}

static uint32_t least_depth_of_all(const struct pen_stacks *stacks)
{
    uint32_t shards[MOST];
    uint32_t loads[MOST] = {0};
    for (uint32_t i = 0; i < stacks->num_groups; i++)
        shards[i] = i;
    return least_depth(stacks, shards, stacks->num_groups, loads);
}

/* ---- the gradient ---- */

/* What a group computes of a shard depends on the shard alone. */
static float gradient_of(uint32_t shard)
{
    return 1.0f / (3.0f + (float)(shard * shard));
}

/* Each group computes what it owns; the sum is in the order of shards. */
static float step(const struct pen_stacks *stacks)
{
    float parts[MOST] = {0};
    float sum = 0;
    for (uint32_t group = 0; group < stacks->num_groups; group++)
        for (uint32_t i = 0; i < stacks->height; i++) {
            uint32_t shard = pen_stacks_shard(stacks, group, i);
            if (!stacks->is_lost[group] && stacks->owners[shard] == group)
                parts[shard] += gradient_of(shard);
        }
    for (uint32_t shard = 0; shard < stacks->num_groups; shard++)
        sum += parts[shard];
    return sum;
}

/* ---- every order of failures ---- */

struct walk {
    struct pen_stacks stacks;
    uint32_t order[MOST + 1];
    uint32_t num_patterns;
    uint32_t num_losses;
};

static void expect_dealt(struct walk *walk, float undisturbed)
{
    struct pen_stacks *stacks = &walk->stacks;
    uint32_t most = 0;
    float sum = step(stacks);
    assert_memory_equal(&undisturbed, &sum, sizeof sum);
    for (uint32_t shard = 0; shard < stacks->num_groups; shard++) {
        uint32_t group = stacks->owners[shard];
        bool is_held = false;
        assert_true(group < stacks->num_groups && !stacks->is_lost[group]);
        for (uint32_t i = 0; i < stacks->height; i++)
            is_held |= pen_stacks_shard(stacks, group, i) == shard;
        assert_true(is_held);
    }
    for (uint32_t group = 0; group < stacks->num_groups; group++) {
        uint32_t load = 0;
        for (uint32_t shard = 0; shard < stacks->num_groups; shard++)
            load += stacks->owners[shard] == group;
        assert_int_equal(load, stacks->loads[group]);
        most = load > most ? load : most;
    }
    assert_true(most <= stacks->depth);
    assert_int_equal(least_depth_of_all(stacks), stacks->depth);
}

/* Fails all groups of the order again, from a fresh start. */
static bool fail_all(struct walk *walk, uint32_t count)
{
    struct pen_stacks *stacks = &walk->stacks;
    pen_stacks_reset(stacks);
    float undisturbed = step(stacks);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t orphans[MOST];
        uint32_t num_orphans = 0;
        uint32_t loads[MOST] = {0};
        uint32_t late = 0;
        for (uint32_t shard = 0; shard < stacks->num_groups; shard++)
            if (stacks->owners[shard] == walk->order[i])
                orphans[num_orphans++] = shard;
        bool is_whole = pen_stacks_fail(stacks, walk->order[i], &late);
        assert_true(is_whole == (least_depth_of_all(stacks) != UINT32_MAX));
        if (!is_whole) {
            assert_int_equal(count, i + 1);
            walk->num_losses++;
            return false;
        }
        assert_int_equal(least_depth(stacks, orphans, num_orphans, loads),
                         late);
        if (i + 1 == count)
            expect_dealt(walk, undisturbed);
    }
    return true;
}

static void fail_in_all_orders(struct walk *walk, uint32_t count)
{
    walk->num_patterns++;
    if (!fail_all(walk, count) || count == MOST)
        return;
    for (uint32_t group = 0; group < walk->stacks.num_groups; group++) {
        bool is_new = true;
        for (uint32_t i = 0; i < count; i++)
            is_new &= walk->order[i] != group;
        if (is_new) {
            walk->order[count] = group;
            fail_in_all_orders(walk, count + 1);
        }
    }
}

static void every_failure_leaves_the_exact_gradient(void **state)
{
    (void)state;
    uint32_t patterns = 0;
    for (uint32_t groups = 2; groups <= MOST; groups++)
        for (uint32_t height = 1; height <= groups && height <= 4; height++) {
            struct walk walk = {.num_patterns = 0};
            assert_int_equal(PEN_OK,
                             pen_stacks_init(&walk.stacks, groups, height));
            fail_in_all_orders(&walk, 0);
            assert_true(walk.num_losses > 0);
            patterns += walk.num_patterns;
            pen_stacks_release(&walk.stacks);
        }
    printf("%u patterns\n", patterns);
}

static void neighbours_and_pairs_share_little(void **state)
{
    (void)state;
    struct pen_stacks stacks;
    assert_int_equal(PEN_OK, pen_stacks_init(&stacks, 200, 9));
    for (uint32_t other = 1; other < 200; other++) {
        uint32_t shared = 0;
        for (uint32_t i = 0; i < 9; i++)
            for (uint32_t k = 0; k < 9; k++)
                shared += pen_stacks_shard(&stacks, 0, i) ==
                          pen_stacks_shard(&stacks, other, k);
        assert_true(shared <= (other == 1 || other == 199 ? 0u : 1u));
    }
    pen_stacks_release(&stacks);
}

/* ---- goodput ---- */

static uint64_t seed_from_environment(void)
{
    const char *text = getenv("PEN_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static struct pen_stacked_job usual_job(uint32_t groups, uint32_t height)
{
    return (struct pen_stacked_job){.job = {.mtbf_sec = 2000,
                                            .step_sec = 4,
                                            .save_sec = 6,
                                            .detect_sec = 5,
                                            .restart_sec = 30,
                                            .disk_sec = 25},
                                    .num_groups = groups,
                                    .height = height,
                                    .shard_sec = 3};
}

static struct pen_stacked_goodput simulate(const struct pen_stacked_job *job,
                                           uint64_t seed)
{
    struct pen_stacked_goodput found;
    assert_int_equal(PEN_OK, pen_stacked_goodput_simulate(job, seed, &found));
    return found;
}

/* Without a second shard every failure is a restart. */
static void stacks_of_one_shard_have_dalys_goodput(void **state)
{
    (void)state;
    struct pen_stacked_job job = usual_job(32, 1);
    double sum = 0;
    for (uint64_t i = 0; i < 20; i++)
        sum += simulate(&job, seed_from_environment() + i).goodput.share;
    job.job.interval =
        (uint64_t)round(simulate(&job, 1).interval_sec / job.job.step_sec);
    expect_near(pen_goodput_exact(&job.job), sum / 20, 0.002, "goodput");
}

/* Failures that a draw without replacement endures, by counting all sets. */
static double endured_by_enumeration(uint32_t groups, uint32_t height)
{
    struct pen_stacks stacks;
    double endured = 0;
    assert_int_equal(PEN_OK, pen_stacks_init(&stacks, groups, height));
    double whole[17] = {0};
    double all[17] = {0};
    for (uint32_t set = 0; set < 1u << groups; set++) {
        uint32_t count = 0;
        bool is_whole = true;
        for (uint32_t i = 0; i < groups; i++)
            count += set >> i & 1;
        for (uint32_t shard = 0; shard < groups; shard++) {
            bool has_holder = false;
            for (uint32_t i = 0; i < height; i++)
                has_holder |=
                    !(set >> pen_stacks_holder(&stacks, shard, i) & 1);
            is_whole &= has_holder;
        }
        all[count]++;
        whole[count] += is_whole;
    }
    for (uint32_t count = 1; count <= groups; count++)
        endured += whole[count] / all[count];
    pen_stacks_release(&stacks);
    return endured;
}

static void endured_failures_are_those_of_all_sets(void **state)
{
    (void)state;
    const struct {
        uint32_t groups;
        uint32_t height;
    } cases[] = {{8, 2}, {12, 3}, {14, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_stacked_job job =
            usual_job(cases[i].groups, cases[i].height);
        double sum = 0;
        for (uint64_t k = 0; k < 60; k++)
            sum += simulate(&job, seed_from_environment() + k).endured;
        /* 2,400 draws, each with a deviation below 2. */
        expect_near(endured_by_enumeration(cases[i].groups, cases[i].height),
                    sum / 60, 0.2, "failures endured");
    }
}

/* Two replicas: both are lost after mtbf and twice that on average. */
static void replication_computes_everything_twice(void **state)
{
    (void)state;
    struct pen_stacked_job job = usual_job(2, 2);
    job.is_replicated = true;
    struct pen_stacked_goodput found = simulate(&job, seed_from_environment());
    expect_near(1, found.endured, 0, "failures endured");
    expect_near(2, found.depth, 0, "depth");
    assert_true(found.goodput.share < 4.0 / 7);
    assert_true(found.goodput.share > 0.8 * 4 / 7);
}

/* Where restarts dominate and stacks are high, copies cost more. */
static void high_stacks_beat_replication(void **state)
{
    (void)state;
    struct pen_stacked_job job = usual_job(200, 8);
    job.job.mtbf_sec = 60;
    job.job.detect_sec = 0.1;
    job.job.restart_sec = 1800;
    struct pen_stacked_goodput stacks = simulate(&job, seed_from_environment());
    double best = 0;
    job.is_replicated = true;
    for (job.height = 2; job.height <= 8; job.height++)
        best = fmax(best, simulate(&job, 1).goodput.share);
    printf("replication %.4f, stacks %.4f\n", best, stacks.goodput.share);
    assert_true(stacks.goodput.share > 1.2 * best);
    assert_true(stacks.depth < 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_leaves_the_exact_gradient),
        cmocka_unit_test(neighbours_and_pairs_share_little),
        cmocka_unit_test(stacks_of_one_shard_have_dalys_goodput),
        cmocka_unit_test(endured_failures_are_those_of_all_sets),
        cmocka_unit_test(replication_computes_everything_twice),
        cmocka_unit_test(high_stacks_beat_replication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
