/*
 * Messages between ranks: whole whatever their length, in order within a tag,
 * up to the last tag that was promised, counted; sums exact. Runs under mpirun
 * with at least two ranks.
 */
#include "runtime/transport.h"
#include "support/support.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the ranks, the first sends and the last receives. */
static struct pen_transport *transport;
static uint32_t last;

static bool is_first(void)
{
    return pen_transport_rank(transport) == 0;
}

static bool is_last(void)
{
    return pen_transport_rank(transport) == last;
}

static void complete(struct pen_request *request)
{
    while (pen_transport_test(transport, request) == PEN_BUSY)
        ;
    assert_false(pen_transport_has_lost(transport));
}

static void there_are_several_ranks(void **state)
{
    (void)state;
    assert_true(last >= 1);
    assert_true(pen_transport_rank(transport) <= last);
}

/* Short ones that travel at once, long ones that wait for the receiver. */
static size_t length_of(uint32_t message)
{
    static const size_t words[] = {1, 100000, 3, 700, 20000};
    return words[message % 5] * sizeof(uint32_t);
}

static void messages_of_a_tag_arrive_in_order(void **state)
{
    enum { MESSAGES = 40, MOST_WORDS = 100000 };
    static uint32_t words[MESSAGES][MOST_WORDS];
    struct pen_request requests[MESSAGES] = {0};
    const struct pen_tag tag = {PEN_TAG_ACT, 3};
    uint64_t before = pen_transport_sent(transport, PEN_TAG_ACT), bytes = 0;
    (void)state;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        bytes += is_first() ? length_of(i) : 0;
        words[i][length_of(i) / sizeof(uint32_t) - 1] = is_first() ? i + 1 : 0;
        if (is_first())
            pen_transport_send(transport, last, tag, words[i], length_of(i),
                               &requests[i]);
        else if (is_last())
            pen_transport_receive(transport, 0, tag, words[i], sizeof words[i],
                                  &requests[i]);
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        complete(&requests[i]);
        if (is_last())
            assert_int_equal(words[i][length_of(i) / sizeof(uint32_t) - 1],
                             i + 1);
    }
    assert_int_equal(pen_transport_sent(transport, PEN_TAG_ACT) - before,
                     bytes);
}

/* What was sent first is received last. */
static void tags_are_apart(void **state)
{
    struct pen_request requests[PEN_TAG_KINDS] = {0};
    int values[PEN_TAG_KINDS];
    (void)state;
    for (int i = 0; i < PEN_TAG_KINDS; i++) {
        int kind = is_first() ? i : PEN_TAG_KINDS - 1 - i;
        struct pen_tag tag = {(enum pen_tag_kind)kind, 5};
        values[kind] = is_first() ? 10 * kind : -1;
        if (is_first())
            pen_transport_send(transport, last, tag, &values[kind],
                               sizeof values[kind], &requests[kind]);
        else if (is_last())
            pen_transport_receive(transport, 0, tag, &values[kind],
                                  sizeof values[kind], &requests[kind]);
        if (is_last())
            complete(&requests[kind]);
        if (is_last())
            assert_int_equal(values[kind], 10 * kind);
    }
    for (int i = 0; i < PEN_TAG_KINDS; i++)
        complete(&requests[i]);
}

/* The most numbers that tags can have, found by halving. */
static uint32_t most_numbers(void)
{
    uint32_t good = 1, bad = UINT32_MAX;
    while (bad - good > 1) {
        uint32_t middle = good + (bad - good) / 2;
        if (pen_transport_check_tags(transport, middle, NULL) == PEN_OK)
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static void the_last_promised_tag_works(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_request request = {0};
    uint32_t most = most_numbers();
    uint32_t value = is_first() ? most : 0;
    struct pen_tag tag = {PEN_TAG_KINDS - 1, most - 1};
    (void)state;
    assert_int_equal(pen_transport_check_tags(transport, 3000, NULL), PEN_OK);
    assert_int_equal(pen_transport_check_tags(transport, most + 1, &why),
                     PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why), "this MPI has tags up to"));
    pen_text_release(&why);
    if (is_first())
        pen_transport_send(transport, last, tag, &value, sizeof value,
                           &request);
    else if (is_last())
        pen_transport_receive(transport, 0, tag, &value, sizeof value,
                              &request);
    complete(&request);
    if (is_last())
        assert_int_equal(value, most);
}

/* Whatever the order of additions, for all but one are 0. */
static void sums_of_one_value_and_zeros_are_exact(void **state)
{
    enum { MOST = 64 };
    double values[MOST] = {0};
    struct pen_request request = {0};
    (void)state;
    assert_true(last < MOST);
    values[pen_transport_rank(transport)] =
        1.0 / (3 + pen_transport_rank(transport));
    pen_transport_sum(transport, values, MOST, &request);
    complete(&request);
    for (uint32_t i = 0; i < MOST; i++)
        assert_true(values[i] == (i <= last ? 1.0 / (3 + i) : 0));
}

static void all_get_what_the_first_rank_has(void **state)
{
    int values[] = {is_first() ? 7 : 0, is_first() ? 9 : 0};
    (void)state;
    assert_int_equal(pen_transport_meet(transport), PEN_OK);
    assert_int_equal(pen_transport_share(transport, values, sizeof values),
                     PEN_OK);
    assert_int_equal(values[0], 7);
    assert_int_equal(values[1], 9);
}

/* ---- more bytes than an int counts ---- */

/* Every word depends on its place. */
static uint64_t word_at(size_t i)
{
    return (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* The first rank knows, for both it and the last need the memory. */
static bool has_memory(size_t bytes)
{
    double available =
        (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    bool is_enough = available > 2.5 * (double)bytes;
    return pen_transport_share(transport, &is_enough, sizeof is_enough) ==
               PEN_OK &&
           is_enough;
}

static void a_message_longer_than_an_int_arrives_whole(void **state)
{
    const size_t count = ((size_t)1 << 28) + 12345;
    const size_t bytes = count * sizeof(uint64_t) + 3;
    struct pen_request request = {0};
    const struct pen_tag tag = {PEN_TAG_VALUE, 1};
    (void)state;
    assert_true(bytes > INT_MAX);
    if (getenv("PEN_LONG") == NULL || !has_memory(bytes)) {
        fprintf(stderr, "PEN_LONG is not set or memory short; skipped\n");
        skip();
    }
    if (!is_first() && !is_last())
        return;
    uint64_t *words = calloc(bytes, 1);
    unsigned char *end = (unsigned char *)(words + count);
    assert_non_null(words);
    if (is_first()) {
        for (size_t i = 0; i < count; i++)
            words[i] = word_at(i);
        end[2] = 77;
        pen_transport_send(transport, last, tag, words, bytes, &request);
    } else {
        pen_transport_receive(transport, 0, tag, words, bytes, &request);
    }
    complete(&request);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += words[i] != word_at(i);
    assert_int_equal(wrong, 0);
    assert_int_equal(end[2], 77);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_several_ranks),
        cmocka_unit_test(messages_of_a_tag_arrive_in_order),
        cmocka_unit_test(tags_are_apart),
        cmocka_unit_test(the_last_promised_tag_works),
        cmocka_unit_test(sums_of_one_value_and_zeros_are_exact),
        cmocka_unit_test(all_get_what_the_first_rank_has),
        cmocka_unit_test(a_message_longer_than_an_int_arrives_whole),
    };
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_launch launch = pen_launch_read_own();
    if (pen_transport_open(&launch, &transport, &why) != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        return 1;
    }
    last = pen_transport_size(transport) - 1;
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (failures > 0)
        pen_transport_abort(transport, 1); /* others may wait for ever */
    pen_transport_close(transport);
    return 0;
}
