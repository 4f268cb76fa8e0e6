/*
 * Sums over groups: all routes in the order of the tree have the bits of plain
 * loops on all members, whatever their number and whoever comes first; halves,
 * rows that are zero, subgroups, a lost member, and a wait that ends in time.
 */
#include "base/clock.h"
#include "base/random.h"
#include "group/subgroup.h"
#include "group/sum.h"
#include "group/tree.h"
#include "support/support.h"
#include "support/thread_group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MEMBERS = 19, MOST = 1500 };

/* One sum of all members, which are looked after by one thread in any order. */
struct trial {
    struct pen_random random;
    struct thread_world *world;
    uint32_t size;
    struct pen_group *groups[MOST_MEMBERS];
    struct pen_sum *sums[MOST_MEMBERS];
    void *values[MOST_MEMBERS];
    void *expected;
    size_t element;
    void *(*nodes)[8]; /* of members with several leaves, or NULL */
};

static void *room(size_t count, size_t element)
{
    void *made = calloc(count + 1, element);
    assert_non_null(made);
    return made;
}

static void open_trial(struct trial *it, uint64_t seed, uint32_t size,
                       struct pen_sum_options options)
{
    memset(it, 0, sizeof *it);
    it->random.state = seed;
    it->size = size;
    it->world = thread_world_create(size);
    it->element = options.is_double ? sizeof(double) : sizeof(float);
    it->expected = room(MOST, it->element);
    for (uint32_t k = 0; k < size; k++) {
        it->groups[k] = options.group = thread_world_group(it->world, k);
        assert_int_equal(pen_sum_create(&options, &it->sums[k]), PEN_OK);
        it->values[k] = room(MOST, it->element);
    }
}

static void close_trial(struct trial *it)
{
    for (uint32_t k = 0; k < it->size; k++) {
        pen_sum_free(it->sums[k]);
        free(it->values[k]);
    }
    free(it->expected);
    thread_world_free(it->world);
}

/* Of all magnitudes, so that another order has other bits. */
static void fill(struct trial *it, size_t count)
{
    for (uint32_t k = 0; k < it->size; k++)
        for (size_t i = 0; i < count; i++) {
            double value = (pen_random_unit(&it->random) - 0.5) *
                           (double)(1u << pen_random_below(&it->random, 24));
            if (it->element == sizeof(double))
                ((double *)it->values[k])[i] = value;
            else
                ((float *)it->values[k])[i] = (float)value;
        }
}

/* What layout.h has always promised, in plain loops. */
static void expect(struct trial *it, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double doubles[MOST_MEMBERS];
        float floats[MOST_MEMBERS];
        for (uint32_t k = 0; k < it->size; k++) {
            doubles[k] = it->element == sizeof(double)
                             ? ((double *)it->values[k])[i]
                             : 0;
            floats[k] =
                it->element == sizeof(float) ? ((float *)it->values[k])[i] : 0;
        }
        for (uint32_t step = 1; step < it->size; step *= 2)
            for (uint32_t k = 0; k + step < it->size; k += 2 * step) {
                doubles[k] += doubles[k + step];
                floats[k] += floats[k + step];
            }
        if (it->element == sizeof(double))
            ((double *)it->expected)[i] = doubles[0];
        else
            ((float *)it->expected)[i] = floats[0];
    }
}

/* Members begin and look in any order until all of them are done. */
static void go(struct trial *it, struct pen_sum_job job)
{
    bool has_begun[MOST_MEMBERS] = {false}, is_done[MOST_MEMBERS] = {false};
    uint32_t left = it->size;
    while (left > 0) {
        uint32_t k = pen_random_below(&it->random, it->size);
        job.values = it->values[k];
        job.nodes = it->nodes == NULL ? NULL : it->nodes[k];
        if (!has_begun[k])
            pen_sum_begin(it->sums[k], &job);
        has_begun[k] = true;
        if (!is_done[k] && pen_sum_poll(it->sums[k]) == PEN_OK) {
            is_done[k] = true;
            left--;
        }
    }
    for (uint32_t k = 0; k < it->size; k++)
        while (!pen_sum_is_quiet(it->sums[k]))
            for (uint32_t i = 0; i < it->size; i++)
                assert_int_equal(pen_sum_poll(it->sums[i]), PEN_OK);
}

static void all_are_equal(const struct trial *it, size_t count)
{
    for (uint32_t k = 0; k < it->size; k++)
        if (memcmp(it->values[k], it->expected, count * it->element) != 0)
            fail_msg("member %u of %u has other bits, of %zu numbers", k,
                     it->size, count);
}

/* ---- claims ---- */

static void the_tree_walks_in_its_order(void **state)
{
    (void)state;
    for (uint32_t size = 0; size < 70; size++) {
        struct pen_tree at = {.size = size};
        for (uint32_t step = 1; step < size; step *= 2)
            for (uint32_t k = 0; k + step < size; k += 2 * step) {
                assert_true(pen_tree_next(&at));
                assert_int_equal(at.to, k);
                assert_int_equal(at.from, k + step);
            }
        assert_false(pen_tree_next(&at));
    }
}

static void every_ordered_route_has_the_bits_of_the_tree(void **state)
{
    enum { TRIALS = 300 };
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pen_random random = {seed};
        uint32_t size = 1 + pen_random_below(&random, MOST_MEMBERS);
        struct pen_sum_options options = {
            .channel = 3,
            .route = (enum pen_sum_route)(seed % PEN_SUM_FAST),
            .is_double = pen_random_below(&random, 2) == 0,
            .most = MOST};
        struct trial it;
        open_trial(&it, seed, size, options);
        for (int round = 0; round < 3; round++) {
            struct pen_sum_job job = {
                .way = PEN_SUM_BOTH,
                .count = pen_random_below(&random, round == 0 ? 9 : MOST),
                .owner = pen_random_below(&random, size)};
            fill(&it, job.count);
            expect(&it, job.count);
            go(&it, job);
            all_are_equal(&it, job.count);
        }
        close_trial(&it);
    }
}

/* Leaves of all members, and what a member has of them: its nodes. */
struct leaves {
    uint32_t counts[MOST_MEMBERS];
    uint32_t firsts[MOST_MEMBERS];
    uint32_t total;
    float *values[MOST_MEMBERS * 8]; /* per leaf */
    void *nodes[MOST_MEMBERS][8];
};

static void make_leaves(struct pen_random *random, uint32_t size,
                        struct leaves *out)
{
    out->total = 0;
    for (uint32_t k = 0; k < size; k++) {
        out->counts[k] = 1 + pen_random_below(random, 7);
        out->firsts[k] = out->total;
        out->total += out->counts[k];
    }
    for (uint32_t i = 0; i < out->total; i++) {
        out->values[i] = room(MOST, sizeof(float));
        for (size_t n = 0; n < MOST; n++)
            out->values[i][n] =
                (float)((pen_random_unit(random) - 0.5) *
                        (double)(1u << pen_random_below(random, 24)));
    }
}

static void add_tree(float **values, uint32_t size, size_t count)
{
    for (struct pen_tree at = {.size = size}; pen_tree_next(&at);)
        pen_add_floats(values[at.to], values[at.from], count);
}

/* Before the nodes are added up, which takes the leaves. */
static void expect_leaves(struct trial *it, const struct leaves *leaves,
                          size_t count)
{
    float *copies[MOST_MEMBERS * 8];
    for (uint32_t i = 0; i < leaves->total; i++) {
        copies[i] = room(MOST, sizeof(float));
        memcpy(copies[i], leaves->values[i], count * sizeof(float));
    }
    add_tree(copies, leaves->total, count);
    memcpy(it->expected, copies[0], count * sizeof(float));
    for (uint32_t i = 0; i < leaves->total; i++)
        free(copies[i]);
}

static void make_nodes(struct trial *it, struct leaves *leaves, size_t count)
{
    for (uint32_t k = 0; k < it->size; k++) {
        uint32_t first = leaves->firsts[k], end = first + leaves->counts[k];
        uint32_t number = 0;
        while (first < end) {
            uint32_t size = pen_tree_node(first, end);
            add_tree(leaves->values + first, size, count);
            leaves->nodes[k][number++] = leaves->values[first];
            first += size;
        }
        assert_int_equal(number, pen_tree_count_nodes(leaves->firsts[k], end));
        memcpy(it->values[k], leaves->nodes[k][number - 1],
               count * sizeof(float));
    }
}

static void members_with_several_leaves_have_the_bits_of_all(void **state)
{
    enum { TRIALS = 200 };
    (void)state;
    for (uint64_t seed = 1; seed <= TRIALS; seed++) {
        struct pen_random random = {seed};
        struct leaves leaves;
        uint32_t size = 2 + pen_random_below(&random, MOST_MEMBERS - 1);
        struct pen_sum_options options = {
            .route = PEN_SUM_OWNER, .leaves = leaves.counts, .most = MOST};
        struct pen_sum_job job = {.way = PEN_SUM_BOTH,
                                  .count = pen_random_below(&random, MOST),
                                  .owner = pen_random_below(&random, size)};
        struct trial it;
        make_leaves(&random, size, &leaves);
        open_trial(&it, seed, size, options);
        expect_leaves(&it, &leaves, job.count);
        make_nodes(&it, &leaves, job.count);
        it.nodes = leaves.nodes;
        go(&it, job);
        all_are_equal(&it, job.count);
        close_trial(&it);
        for (uint32_t i = 0; i < leaves.total; i++)
            free(leaves.values[i]);
    }
}

/* Shares of more than half a megabyte. */
static void long_shares_take_turns(void **state)
{
    enum { SIZE = 3, LONG = SIZE * 140000 + 1 };
    struct trial it;
    struct pen_sum_options options = {.most = LONG};
    (void)state;
    open_trial(&it, 7, SIZE, options);
    free(it.expected);
    it.expected = room(LONG, sizeof(float));
    for (uint32_t k = 0; k < SIZE; k++) {
        free(it.values[k]);
        it.values[k] = room(LONG, sizeof(float));
    }
    fill(&it, LONG);
    expect(&it, LONG);
    go(&it, (struct pen_sum_job){.way = PEN_SUM_BOTH, .count = LONG});
    all_are_equal(&it, LONG);
    close_trial(&it);
}

/* Whole numbers, which have one sum in any order. */
static void fast_sums_are_right(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= MOST_MEMBERS; size++) {
        struct trial it;
        struct pen_sum_options options = {.route = PEN_SUM_FAST, .most = MOST};
        open_trial(&it, size, size, options);
        for (uint32_t k = 0; k < size; k++)
            for (size_t i = 0; i < MOST; i++)
                ((float *)it.values[k])[i] = (float)((k + 1) * (i % 97));
        expect(&it, MOST);
        go(&it, (struct pen_sum_job){.way = PEN_SUM_BOTH, .count = MOST});
        all_are_equal(&it, MOST);
        close_trial(&it);
    }
}

static void the_owner_has_the_sum_between_the_halves(void **state)
{
    (void)state;
    for (uint32_t size = 2; size < 10; size++) {
        uint32_t owner = size * 2 / 3;
        struct trial it;
        struct pen_sum_options options = {.route = PEN_SUM_OWNER, .most = MOST};
        struct pen_sum_job job = {
            .way = PEN_SUM_IN, .count = MOST, .owner = owner};
        open_trial(&it, size, size, options);
        fill(&it, MOST);
        expect(&it, MOST);
        go(&it, job);
        assert_memory_equal(it.values[owner], it.expected,
                            MOST * sizeof(float));
        for (uint32_t k = 0; k < size; k++)
            if (k != owner)
                memset(it.values[k], 7, MOST * sizeof(float));
        job.way = PEN_SUM_OUT;
        job.further_channel = 1;
        go(&it, job);
        all_are_equal(&it, MOST);
        close_trial(&it);
    }
}

static void rows_of_zeros_stay_and_bits_do_not_change(void **state)
{
    enum { WIDTH = 12, ROWS = MOST / WIDTH, COUNT = ROWS * WIDTH };
    (void)state;
    for (uint32_t size = 2; size < 8; size++) {
        struct trial it;
        uint64_t sent = 0;
        struct pen_sum_options options = {
            .route = PEN_SUM_OWNER, .is_sparse = true, .most = MOST};
        open_trial(&it, size, size, options);
        fill(&it, COUNT);
        for (uint32_t k = 0; k < size; k++)
            for (size_t row = 0; row < ROWS; row++)
                if (row % 11 != 0)
                    memset((float *)it.values[k] + row * WIDTH, 0,
                           WIDTH * sizeof(float));
        expect(&it, COUNT);
        go(&it, (struct pen_sum_job){.way = PEN_SUM_BOTH,
                                     .count = COUNT,
                                     .owner = size / 2,
                                     .width = WIDTH});
        all_are_equal(&it, COUNT);
        for (uint32_t k = 0; k < size; k++)
            sent += it.groups[k]->num_bytes;
        assert_true(sent < 2 * (size - 1) * COUNT * sizeof(float) / 5);
        close_trial(&it);
    }
}

/* Every third member from the second on. */
static void members_of_a_subgroup_sum_among_themselves(void **state)
{
    enum { SIZE = 11, SOME = 4 };
    struct thread_world *world = thread_world_create(SIZE);
    struct pen_subgroup some[SOME];
    struct pen_sum *sums[SOME];
    float values[SOME], expected = 0;
    bool are_done = false;
    (void)state;
    for (uint32_t k = 0; k < SOME; k++) {
        pen_subgroup_init(&some[k], thread_world_group(world, 1 + 3 * k), 1, 3,
                          SOME);
        assert_int_equal(some[k].group.self, k);
        const struct pen_sum_options options = {.group = &some[k].group,
                                                .most = 1};
        assert_int_equal(pen_sum_create(&options, &sums[k]), PEN_OK);
        values[k] = (float)(k + 1);
        expected += values[k];
        const struct pen_sum_job job = {
            .way = PEN_SUM_BOTH, .values = &values[k], .count = 1};
        pen_sum_begin(sums[k], &job);
    }
    while (!are_done) {
        are_done = true;
        for (uint32_t k = 0; k < SOME; k++)
            are_done = pen_sum_poll(sums[k]) == PEN_OK && are_done;
    }
    for (uint32_t k = 0; k < SOME; k++) {
        assert_true(values[k] == expected);
        pen_sum_free(sums[k]);
    }
    thread_world_lose(world, 7);
    struct pen_group_request none = {0};
    assert_int_equal(pen_group_test(&some[0].group, &none), PEN_LOST);
    assert_int_equal(some[0].group.lost, 2);
    assert_int_equal(some[0].all->lost, 7);
    thread_world_free(world);
}

/* ---- threads ---- */

struct member {
    struct pen_sum *sum;
    struct pen_sum_job job;
    pen_status status;
    pthread_t thread;
};

static void *wait_for_sum(void *context)
{
    struct member *it = context;
    pen_sum_begin(it->sum, &it->job);
    it->status = pen_sum_wait(it->sum);
    return NULL;
}

/* The last one never comes; on every route. */
static void a_lost_member_ends_the_waits_of_all(void **state)
{
    enum { SIZE = 5 };
    (void)state;
    for (int route = 0; route <= PEN_SUM_FAST; route++) {
        struct trial it;
        struct member members[SIZE - 1];
        struct pen_sum_options options = {.route = (enum pen_sum_route)route,
                                          .most = MOST};
        open_trial(&it, 5, SIZE, options);
        for (uint32_t k = 0; k + 1 < SIZE; k++) {
            members[k] = (struct member){.sum = it.sums[k],
                                         .job = {.way = PEN_SUM_BOTH,
                                                 .values = it.values[k],
                                                 .count = MOST}};
            assert_int_equal(pthread_create(&members[k].thread, NULL,
                                            wait_for_sum, &members[k]),
                             0);
        }
        thread_world_lose(it.world, SIZE - 1);
        for (uint32_t k = 0; k + 1 < SIZE; k++) {
            pthread_join(members[k].thread, NULL);
            assert_int_equal(members[k].status, PEN_LOST);
            assert_int_equal(pen_sum_poll(members[k].sum), PEN_LOST);
            assert_int_equal(it.groups[k]->lost, SIZE - 1);
            pen_sum_begin(members[k].sum, &members[k].job); /* does nothing */
            assert_int_equal(pen_sum_wait(members[k].sum), PEN_LOST);
        }
        close_trial(&it);
    }
}

static void members_that_wait_get_the_sum(void **state)
{
    enum { SIZE = 6 };
    (void)state;
    for (int route = 0; route < PEN_SUM_FAST; route++) {
        struct trial it;
        struct member members[SIZE];
        struct pen_sum_options options = {.route = (enum pen_sum_route)route,
                                          .most = MOST};
        open_trial(&it, 6, SIZE, options);
        fill(&it, MOST);
        expect(&it, MOST);
        for (uint32_t k = 0; k < SIZE; k++) {
            members[k] = (struct member){.sum = it.sums[k],
                                         .job = {.way = PEN_SUM_BOTH,
                                                 .values = it.values[k],
                                                 .count = MOST}};
            assert_int_equal(pthread_create(&members[k].thread, NULL,
                                            wait_for_sum, &members[k]),
                             0);
        }
        for (uint32_t k = 0; k < SIZE; k++) {
            pthread_join(members[k].thread, NULL);
            assert_int_equal(members[k].status, PEN_OK);
        }
        all_are_equal(&it, MOST);
        close_trial(&it);
    }
}

static bool is_never_done(void *context)
{
    (void)context;
    return false;
}

static void a_wait_ends_at_its_deadline(void **state)
{
    struct thread_world *world = thread_world_create(2);
    int64_t end_ns = pen_clock_ns() + 3000000;
    (void)state;
    assert_int_equal(pen_group_wait_until(thread_world_group(world, 0),
                                          is_never_done, NULL, end_ns),
                     PEN_BUSY);
    assert_true(pen_clock_ns() >= end_ns);
    assert_int_equal(pen_group_status(thread_world_group(world, 0)), PEN_OK);
    thread_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_walks_in_its_order),
        cmocka_unit_test(every_ordered_route_has_the_bits_of_the_tree),
        cmocka_unit_test(members_with_several_leaves_have_the_bits_of_all),
        cmocka_unit_test(long_shares_take_turns),
        cmocka_unit_test(fast_sums_are_right),
        cmocka_unit_test(the_owner_has_the_sum_between_the_halves),
        cmocka_unit_test(rows_of_zeros_stay_and_bits_do_not_change),
        cmocka_unit_test(members_of_a_subgroup_sum_among_themselves),
        cmocka_unit_test(a_lost_member_ends_the_waits_of_all),
        cmocka_unit_test(members_that_wait_get_the_sum),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
