/*
 * Merges of weighted contributions: equal weights give the bits of the plain
 * mean, the order of arrival changes nothing, leaving out a contributor gives
 * the bits of the mean over the others, and members that merge together have
 * the bits of one that merges a record of what they gave.
 */
#include "support/support.h"

#include "base/random.h"
#include "group/tree.h"
#include "support/seed.h"
#include "support/thread_group.h"
#include "sync/merge.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 9, COUNT = 1003, TRIALS = 60 };

static float values[MOST][COUNT];

static void draw_values(struct pen_random *random)
{
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < COUNT; k++)
            values[i][k] = (float)((2 * pen_random_unit(random) - 1) *
                                   pow(10, 6 * pen_random_unit(random) - 3));
}

static void list(struct pen_contribution *out, uint32_t count,
                 const double *weights)
{
    for (uint32_t i = 0; i < count; i++)
        out[i] = (struct pen_contribution){i, weights[i], values[i]};
}

/* As sync/average.h has it: the sum in the order of the tree, times 1/n. */
static void plain_mean(const uint32_t *of, uint32_t count, float *out)
{
    static float sums[MOST][COUNT];
    for (uint32_t i = 0; i < count; i++)
        memcpy(sums[i], values[of[i]], sizeof sums[i]);
    for (struct pen_tree at = {.size = count}; pen_tree_next(&at);)
        for (int k = 0; k < COUNT; k++)
            sums[at.to][k] += sums[at.from][k];
    for (int k = 0; k < COUNT; k++)
        out[k] = sums[0][k] * (1.0f / (float)count);
}

static void equal_weights_are_the_plain_mean(void **state)
{
    (void)state;
    struct pen_random random = {1};
    for (uint32_t count = 1; count <= MOST; count++) {
        struct pen_contribution given[MOST];
        uint32_t all[MOST];
        double weights[MOST], weight = 1 + 1e6 * pen_random_unit(&random);
        float expected[COUNT], found[COUNT];
        draw_values(&random);
        for (uint32_t i = 0; i < count; i++) {
            all[i] = i;
            weights[i] = weight;
        }
        list(given, count, weights);
        pen_merge(given, count, COUNT, found);
        plain_mean(all, count, expected);
        assert_memory_equal(expected, found, sizeof found);
    }
}

/* Whole numbers of tokens. */
static void draw_weights(struct pen_random *random, double *out)
{
    for (int i = 0; i < MOST; i++)
        out[i] = 1 + (double)pen_random_below(random, 1 << 20);
}

static void weights_are_those_of_the_definition(void **state)
{
    (void)state;
    struct pen_random random = {2};
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pen_contribution given[MOST];
        double weights[MOST], total = 0;
        float found[COUNT];
        draw_values(&random);
        draw_weights(&random, weights);
        list(given, MOST, weights);
        pen_merge(given, MOST, COUNT, found);
        for (int i = 0; i < MOST; i++)
            total += weights[i];
        for (int k = 0; k < COUNT; k++) {
            double sum = 0, size = 0;
            for (int i = 0; i < MOST; i++) {
                sum += weights[i] / total * (double)values[i][k];
                size += weights[i] / total * fabs((double)values[i][k]);
            }
            if (!(fabs(sum - (double)found[k]) <= 1e-6 * size))
                fail_msg("expected %.9g, found %.9g", sum, (double)found[k]);
        }
    }
}

static void shuffle(struct pen_random *random, struct pen_contribution *given,
                    uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)pen_random_below(random, i);
        struct pen_contribution kept = given[i - 1];
        given[i - 1] = given[k];
        given[k] = kept;
    }
}

static void the_order_of_arrival_does_not_matter(void **state)
{
    (void)state;
    struct pen_random random = {3};
    for (int trial = 0; trial < TRIALS; trial++) {
        struct pen_contribution given[MOST];
        double weights[MOST];
        float expected[COUNT], found[COUNT];
        uint32_t count = 1 + (uint32_t)pen_random_below(&random, MOST);
        draw_values(&random);
        draw_weights(&random, weights);
        list(given, count, weights);
        pen_merge(given, count, COUNT, expected);
        list(given, count, weights);
        shuffle(&random, given, count);
        pen_merge(given, count, COUNT, found);
        assert_memory_equal(expected, found, sizeof found);
    }
}

/* Whatever the values of those are that are left out: NaN, or none at all. */
static void leaving_out_is_the_mean_over_the_others(void **state)
{
    (void)state;
    struct pen_random random = {4};
    for (uint32_t left_out = 0; left_out < MOST; left_out++) {
        struct pen_contribution given[MOST];
        uint32_t others[MOST], num_others = 0;
        double weights[MOST];
        float expected[COUNT], found[COUNT];
        draw_values(&random);
        for (uint32_t i = 0; i < MOST; i++) {
            weights[i] = i == left_out ? 0 : 512;
            if (i != left_out)
                others[num_others++] = i;
        }
        list(given, MOST, weights);
        given[left_out].values = NULL;
        pen_merge(given, MOST, COUNT, found);
        plain_mean(others, num_others, expected);
        assert_memory_equal(expected, found, sizeof found);
    }
}

/* ---- between members ---- */

struct member {
    pthread_t handle;
    struct pen_group *peers;
    double weight;
    const struct pen_compressor *compressor; /* NULL: the plain mean */
    float vector[COUNT];
};

static void *run_member(void *argument)
{
    struct member *it = argument;
    struct pen_compression setting = {.peers = it->peers, .count = COUNT};
    struct pen_average *average;
    if (pen_average_create(&setting, it->compressor, 0, &average, NULL) !=
        PEN_OK)
        abort();
    if (it->compressor != NULL)
        pen_merging_weigh(average, it->weight);
    memcpy(it->vector, values[it->peers->self], sizeof it->vector);
    pen_average_start(average, 1, it->vector);
    pen_average_wait(average);
    pen_average_free(average);
    return NULL;
}

/* All of them have out[] then. Returns the bytes that all sent. */
static uint64_t merge_together(uint32_t count, const double *weights,
                               const struct pen_compressor *compressor,
                               float *out)
{
    static struct member members[MOST];
    struct thread_world *world = thread_world_create(count);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (struct member){.peers = thread_world_group(world, i),
                                     .weight = weights[i],
                                     .compressor = compressor};
        assert_int_equal(
            pthread_create(&members[i].handle, NULL, run_member, &members[i]),
            0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(members[i].handle, NULL);
        sent += members[i].peers->num_bytes;
        assert_memory_equal(members[0].vector, members[i].vector,
                            sizeof members[i].vector);
    }
    memcpy(out, members[0].vector, sizeof members[0].vector);
    thread_world_free(world);
    return sent;
}

static void members_that_count_alike_have_the_plain_mean(void **state)
{
    (void)state;
    struct pen_random random = {5};
    for (uint32_t count = 1; count <= MOST; count++) {
        double weights[MOST];
        float expected[COUNT], found[COUNT];
        struct pen_sync_case of = {.num_replicas = count, .num_weights = COUNT};
        struct pen_mean_cost cost;
        for (uint32_t i = 0; i < count; i++)
            weights[i] = 300;
        draw_values(&random);
        (void)merge_together(count, weights, NULL, expected);
        uint64_t sent = merge_together(count, weights, &pen_merging, found);
        assert_memory_equal(expected, found, sizeof found);
        pen_average_cost(&pen_merging, &of, &cost);
        assert_int_equal(llround(cost.bytes * count), sent);
    }
}

static void a_record_merged_again_has_the_same_bits(void **state)
{
    (void)state;
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("property/sync_merge", seeds);
    for (size_t i = 0; i < num_seeds; i++) {
        struct pen_random random = {seeds[i]};
        for (int trial = 0; trial < TRIALS / 4; trial++) {
            struct pen_contribution record[MOST];
            double weights[MOST];
            float expected[COUNT], found[COUNT];
            uint32_t count = 2 + (uint32_t)pen_random_below(&random, MOST - 1);
            draw_values(&random);
            draw_weights(&random, weights);
            for (uint32_t k = 1; k < count; k++)
                weights[k] *= (double)pen_random_below(&random, 2);
            (void)merge_together(count, weights, &pen_merging, found);
            list(record, count, weights);
            shuffle(&random, record, count);
            pen_merge(record, count, COUNT, expected);
            assert_memory_equal(expected, found, sizeof found);
        }
    }
}

static void without_contributors_it_is_zero(void **state)
{
    (void)state;
    const double weights[MOST] = {0};
    float found[COUNT];
    (void)merge_together(3, weights, &pen_merging, found);
    for (int k = 0; k < COUNT; k++)
        assert_true(found[k] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_weights_are_the_plain_mean),
        cmocka_unit_test(weights_are_those_of_the_definition),
        cmocka_unit_test(the_order_of_arrival_does_not_matter),
        cmocka_unit_test(leaving_out_is_the_mean_over_the_others),
        cmocka_unit_test(members_that_count_alike_have_the_plain_mean),
        cmocka_unit_test(a_record_merged_again_has_the_same_bits),
        cmocka_unit_test(without_contributors_it_is_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
