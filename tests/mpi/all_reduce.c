/*
 * Sums in whatever order is fast: right on all ranks whatever their number and
 * that of the elements, in halves, several at once, with no byte too many. Runs
 * under mpirun with at least two ranks.
 */
#include "group/sum.h"
#include "runtime/transport_group.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 100003, MOST_AT_ONCE = 4, GUARD = 8 };

static struct pen_transport *transport;
static uint32_t num_ranks;
static uint32_t own;
static struct pen_group *group; /* the last one first: members are no ranks */

static struct pen_sum *make_sum(uint32_t lane)
{
    struct pen_sum *it;
    const struct pen_sum_options options = {
        .group = group, .channel = lane, .route = PEN_SUM_FAST, .most = MOST};
    assert_int_equal(pen_sum_create(&options, &it), PEN_OK);
    return it;
}

/* Small, so that all sums are exact; positive, so that none is right early. */
static float term(uint32_t rank, size_t i, uint32_t lane)
{
    return (float)((rank + 1) * (i % 97 + 1) + lane);
}

static float sum_at(size_t i, uint32_t lane)
{
    float sum = 0;
    for (uint32_t rank = 0; rank < num_ranks; rank++)
        sum += term(rank, i, lane);
    return sum;
}

static void fill(float *values, size_t count, uint32_t lane)
{
    for (size_t i = 0; i < count; i++)
        values[i] = term(own, i, lane);
    for (size_t i = count; i < count + GUARD; i++)
        values[i] = -1;
}

static size_t num_wrong(const float *values, size_t count, uint32_t lane)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += values[i] != sum_at(i, lane);
    for (size_t i = count; i < count + GUARD; i++)
        wrong += values[i] != -1;
    return wrong;
}

static void go(struct pen_sum *it, enum pen_sum_way way, float *values,
               size_t count)
{
    const struct pen_sum_job job = {
        .way = way, .values = values, .count = count};
    pen_sum_begin(it, &job);
    while (pen_sum_poll(it) == PEN_BUSY)
        ;
    assert_int_equal(pen_sum_poll(it), PEN_OK);
}

/* Fewer elements than ranks, as many, and more that are no multiple. */
enum { NUM_COUNTS = 8 };

static size_t count_of(int number)
{
    const size_t counts[NUM_COUNTS] = {
        1, 2, num_ranks - 1, num_ranks, num_ranks + 1, 1000, 0, MOST};
    return counts[number];
}

static void add_over_ranks(double *values, size_t count)
{
    struct pen_request request = {0};
    pen_transport_sum(transport, values, count, &request);
    assert_int_equal(pen_transport_wait(transport, &request), PEN_OK);
}

/* ---- claims ---- */

static void all_ranks_get_exact_sums(void **state)
{
    struct pen_sum *it = make_sum(0);
    float *values = calloc(MOST + GUARD, sizeof *values);
    (void)state;
    assert_non_null(values);
    for (int i = 0; i < NUM_COUNTS; i++) {
        fill(values, count_of(i), 0);
        go(it, PEN_SUM_BOTH, values, count_of(i));
        assert_int_equal(num_wrong(values, count_of(i), 0), 0);
    }
    free(values);
    pen_sum_free(it);
}

/* The first and the number of those that have their sums already. */
static void find_part(const float *values, size_t count, size_t *first,
                      size_t *length)
{
    size_t i = 0;
    while (i < count && values[i] != sum_at(i, 0))
        i++;
    *first = i;
    while (i < count && values[i] == sum_at(i, 0))
        i++;
    *length = i - *first;
    for (; i < count; i++)
        assert_true(values[i] != sum_at(i, 0));
}

/* Everything else is lost in between. */
static void halves_meet(struct pen_sum *it, float *values, size_t count)
{
    size_t first, length;
    double *owners = calloc(count + 1, sizeof *owners);
    assert_non_null(owners);
    fill(values, count, 0);
    go(it, PEN_SUM_IN, values, count);
    find_part(values, count, &first, &length);
    assert_in_range(length, count / num_ranks,
                    (count + num_ranks - 1) / num_ranks);
    for (size_t i = 0; i < count; i++) {
        bool is_own = i >= first && i < first + length;
        owners[i] = is_own ? 1 : 0;
        values[i] = is_own ? values[i] : -3;
    }
    add_over_ranks(owners, count);
    for (size_t i = 0; i < count; i++)
        assert_true(owners[i] == 1);
    go(it, PEN_SUM_OUT, values, count);
    assert_int_equal(num_wrong(values, count, 0), 0);
    free(owners);
}

static void every_member_has_a_part_between_the_halves(void **state)
{
    struct pen_sum *it = make_sum(0);
    float *values = calloc(MOST + GUARD, sizeof *values);
    (void)state;
    assert_non_null(values);
    for (int i = 0; i < NUM_COUNTS; i++)
        halves_meet(it, values, count_of(i));
    free(values);
    pen_sum_free(it);
}

/* Ranks look after them in different orders. */
static void several_at_once_do_not_meet(void **state)
{
    struct pen_sum *its[MOST_AT_ONCE];
    float *values[MOST_AT_ONCE];
    bool is_done[MOST_AT_ONCE] = {false};
    uint32_t left = MOST_AT_ONCE;
    (void)state;
    for (uint32_t i = 0; i < MOST_AT_ONCE; i++) {
        its[i] = make_sum(i);
        values[i] = calloc(MOST + GUARD, sizeof *values[i]);
        assert_non_null(values[i]);
    }
    for (uint32_t i = 0; i < MOST_AT_ONCE; i++) {
        uint32_t lane = (i + own) % MOST_AT_ONCE;
        fill(values[lane], MOST - lane, lane);
        const struct pen_sum_job job = {
            .way = PEN_SUM_BOTH, .values = values[lane], .count = MOST - lane};
        pen_sum_begin(its[lane], &job);
    }
    for (uint32_t i = own; left > 0; i++) {
        uint32_t lane = i % MOST_AT_ONCE;
        if (!is_done[lane] && pen_sum_poll(its[lane]) == PEN_OK) {
            is_done[lane] = true;
            left--;
        }
    }
    for (uint32_t i = 0; i < MOST_AT_ONCE; i++) {
        assert_int_equal(num_wrong(values[i], MOST - i, i), 0);
        free(values[i]);
        pen_sum_free(its[i]);
    }
}

/* Elements that this rank sends of so many. */
static double sent_of(struct pen_sum *it, float *values, size_t count)
{
    uint64_t before = pen_transport_sent(transport, PEN_TAG_GRADIENT);
    fill(values, count, 0);
    go(it, PEN_SUM_BOTH, values, count);
    return (double)(pen_transport_sent(transport, PEN_TAG_GRADIENT) - before) /
           sizeof *values;
}

/* Each the same where parts are equal, all together in any case. */
static void no_byte_is_sent_in_vain(void **state)
{
    struct pen_sum *it = make_sum(0);
    float *values = calloc(MOST + GUARD, sizeof *values);
    double share = 2 * (num_ranks - 1.0);
    (void)state;
    assert_non_null(values);
    assert_true(sent_of(it, values, (size_t)num_ranks * 1000) == share * 1000);
    for (int i = 0; i < NUM_COUNTS; i++) {
        double sent = sent_of(it, values, count_of(i));
        add_over_ranks(&sent, 1);
        assert_true(sent == share * (double)count_of(i));
    }
    free(values);
    pen_sum_free(it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_exact_sums),
        cmocka_unit_test(every_member_has_a_part_between_the_halves),
        cmocka_unit_test(several_at_once_do_not_meet),
        cmocka_unit_test(no_byte_is_sent_in_vain),
    };
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_launch launch = pen_launch_read_own();
    uint32_t ranks[64];
    if (pen_transport_open(&launch, &transport, &why) != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        return 1;
    }
    num_ranks = pen_transport_size(transport);
    own = pen_transport_rank(transport);
    for (uint32_t i = 0; i < num_ranks; i++)
        ranks[i] = num_ranks - 1 - i;
    const struct pen_transport_group_options options = {
        .transport = transport, .first = {PEN_TAG_GRADIENT, 0}, .num_kinds = 1};
    assert_int_equal(pen_transport_group_create(&options, ranks, num_ranks,
                                                num_ranks - 1 - own, &group),
                     PEN_OK);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (failures > 0)
        pen_transport_abort(transport, 1); /* others may wait for ever */
    pen_transport_group_free(group);
    pen_transport_close(transport);
    return 0;
}
