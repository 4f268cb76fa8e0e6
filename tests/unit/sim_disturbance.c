/*
 * What a user types about disturbances is read strictly, and what they do to
 * an operation depends on seed, rank and number alone.
 */
#include "support/support.h"

#include "sim/disturbance.h"
#include "sim/platform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef pen_status add_function(struct pen_disturbances *to, const char *text,
                                struct pen_text *why);

static struct pen_disturbances *create(void)
{
    struct pen_disturbances *all = calloc(1, sizeof *all);
    assert_non_null(all);
    return all;
}

static void expect_added(add_function *add, struct pen_disturbances *to,
                         const char *text)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (add(to, text, &why) != PEN_OK)
        fail_msg("'%s' is refused: %s", text, pen_text_string(&why));
    pen_text_release(&why);
}

/* The words name the text and show an example that is accepted. */
static void expect_refusal(add_function *add, const char *text)
{
    struct pen_disturbances *all = create();
    struct pen_disturbances *before = create();
    struct pen_text why = PEN_TEXT_EMPTY;
    if (add(all, text, &why) != PEN_INVALID)
        fail_msg("'%s' is accepted", text);
    assert_memory_equal(all, before, sizeof *all);
    const char *words = pen_text_string(&why);
    const char *example = strstr(words, ", as in ");
    if (example == NULL || strstr(words, text) == NULL)
        fail_msg("'%s' says neither what nor how", words);
    else
        expect_added(add, all, example + strlen(", as in "));
    pen_text_release(&why);
    free(before);
    free(all);
}

static void all_kinds_are_read(void **state)
{
    (void)state;
    struct pen_disturbances *all = create();
    assert_true(pen_disturbances_are_none(all));
    expect_added(pen_disturbances_add_slow_rank, all, "17=2.0");
    expect_added(pen_disturbances_add_slow_rank, all, "0=1e1");
    assert_false(pen_disturbances_are_none(all));
    assert_int_equal(2, all->num_slow_ranks);
    assert_int_equal(17, all->slow_ranks[0].rank);
    assert_true(all->slow_ranks[0].factor == 2);
    assert_true(all->slow_ranks[1].factor == 10);
    expect_added(pen_disturbances_add_slow_link, all, "rank-17.network=4");
    assert_string_equal("rank-17.network", all->slow_links[0].name);
    assert_true(all->slow_links[0].factor == 4);
    expect_added(pen_disturbances_add_failure, all, "rank-3@0.25");
    expect_added(pen_disturbances_add_failure, all, "rank-3.node@250 ms");
    assert_string_equal("rank-3", all->failures[0].name);
    assert_true(all->failures[0].at_sec == 0.25);
    assert_true(all->failures[1].at_sec == 0.25);
    expect_added(pen_disturbances_add_background, all, "1-9:1MB");
    assert_int_equal(1, all->background[0].from);
    assert_int_equal(9, all->background[0].to);
    assert_true(all->background[0].bytes == 1e6);
    free(all);
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static const char *const ranks[] = {
        "",          "17",         "17=",           "=2",     "-1=2",
        "+1=2",      "017=2",      "17=-2",         "17=0",   "17=nan",
        "17=inf",    "17=2x",      "17=2 s",        "17 =2",  " 17=2",
        "17=2=3",    "1e1=2",      "17=0x2",        "17=1e7", "17=.5",
        "17=0.0001", "rank-17=2",  "17=2,5",        "1.5=2",  "17= 2",
        "17=2 ",     "99999999=2", "999999999999=2"};
    static const char *const links[] = {
        "",
        "=4",
        "rank-1",
        "rank-1=",
        "rank 1=2",
        "a=b",
        "rank-1=0",
        "rank-1=-1",
        "rank-1=2 GB/s",
        "\t=2",
        "rank-1.network=1e9",
        "0123456789012345678901234567890123456789012345678901234567890123=2"};
    static const char *const failures[] = {
        "",         "rank-3",      "@1",          "rank-3@",    "rank-3@-1",
        "rank-3@x", "rank-3@1e10", "rank-3@1 MB", "rank-3@nan", "rank-3 @1"};
    static const char *const traffic[] = {"",
                                          "1-9",
                                          "1:1MB",
                                          "1-9:",
                                          "1-9:0",
                                          "1-9:-1",
                                          "1-1:1MB",
                                          "1-9:1 s",
                                          "-9:1MB",
                                          "1-:1MB",
                                          "1--9:1MB",
                                          "1-9:1e16",
                                          "1-9:0.5",
                                          "01-9:1",
                                          "1-9 :1MB",
                                          "rank-1-9:1MB",
                                          "1-9:1MB,2-3:1MB"};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        expect_refusal(pen_disturbances_add_slow_rank, ranks[i]);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        expect_refusal(pen_disturbances_add_slow_link, links[i]);
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        expect_refusal(pen_disturbances_add_failure, failures[i]);
    for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++)
        expect_refusal(pen_disturbances_add_background, traffic[i]);
}

static void there_is_an_end_to_each_list(void **state)
{
    (void)state;
    static const struct {
        add_function *add;
        const char *text;
    } kinds[] = {{pen_disturbances_add_slow_rank, "1=2"},
                 {pen_disturbances_add_slow_link, "a=2"},
                 {pen_disturbances_add_failure, "a@2"},
                 {pen_disturbances_add_background, "1-2:3"}};
    struct pen_disturbances *all = create();
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (uint32_t i = 0; i < PEN_DISTURBANCES_MAX; i++)
            expect_added(kinds[kind].add, all, kinds[kind].text);
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_INVALID,
                         kinds[kind].add(all, kinds[kind].text, &why));
        assert_non_null(strstr(pen_text_string(&why), "more than 256"));
        pen_text_release(&why);
    }
    free(all);
}

static void slow_ranks_are_slow(void **state)
{
    (void)state;
    struct pen_disturbances *all = create();
    expect_added(pen_disturbances_add_slow_rank, all, "3=2");
    expect_added(pen_disturbances_add_slow_rank, all, "3=1.5");
    assert_true(pen_disturbances_factor(all, 3, 7) == 3);
    assert_true(pen_disturbances_factor(all, 4, 7) == 1);
    free(all);
}

/* 40,000 samples: the deviation of the mean is 1/200 of that of one. */
static void jitter_has_the_mean_and_deviation_asked_for(void **state)
{
    (void)state;
    struct pen_disturbances *all = create();
    all->jitter = 0.1;
    all->seed = 42;
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (uint32_t rank = 0; rank < 200; rank++) {
        for (uint64_t number = 0; number < 200; number++) {
            double factor = pen_disturbances_factor(all, rank, number);
            assert_true(factor >= 0.7 - 1e-9 && factor <= 1.3 + 1e-9);
            assert_true(factor == pen_disturbances_factor(all, rank, number));
            sum += factor;
            squares += factor * factor;
            count++;
        }
    }
    double mean = sum / count;
    double deviation = sqrt(squares / count - mean * mean);
    if (fabs(mean - 1) > 4 * 0.1 / 200)
        fail_msg("mean %g, expected 1", mean);
    /* Cut at three deviations a normal number has 0.9973 of variance. */
    if (fabs(deviation - 0.1) > 0.002)
        fail_msg("deviation %g, expected 0.1", deviation);
    free(all);
}

static void neighbours_are_not_alike(void **state)
{
    (void)state;
    struct pen_disturbances *all = create();
    all->jitter = 0.1;
    double product = 0;
    for (uint32_t i = 0; i < 10000; i++)
        product += (pen_disturbances_factor(all, i, 5) - 1) *
                   (pen_disturbances_factor(all, i + 1, 5) - 1);
    if (fabs(product / 10000 / 0.01) > 0.05)
        fail_msg("correlation %g", product / 10000 / 0.01);
    double first = pen_disturbances_factor(all, 1, 2);
    assert_true(first != pen_disturbances_factor(all, 2, 1));
    all->seed = 1;
    assert_true(first != pen_disturbances_factor(all, 1, 2));
    free(all);
}

static void an_operation_takes_some_time_always(void **state)
{
    (void)state;
    struct pen_disturbances *all = create();
    all->jitter = 10;
    double least = 1;
    for (uint64_t i = 0; i < 1000; i++)
        least = fmin(least, pen_disturbances_factor(all, 0, i));
    assert_true(least == 0.05);
    free(all);
}

/* ---- networks, which are words too ---- */

static void expect_network(const char *text, enum pen_sim_topology_kind kind,
                           uint32_t num_numbers, uint64_t leaves)
{
    struct pen_sim_topology found = {.num_numbers = 99};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_sim_topology_read(text, &found, &why) != PEN_OK)
        fail_msg("'%s' is refused: %s", text, pen_text_string(&why));
    assert_int_equal(kind, found.kind);
    assert_int_equal(num_numbers, found.num_numbers);
    assert_int_equal(leaves, pen_sim_topology_num_leaves(&found));
    pen_text_release(&why);
}

static void networks_are_read(void **state)
{
    (void)state;
    expect_network("levels", PEN_SIM_TOPOLOGY_LEVELS, 0, 1);
    expect_network("torus:8x8x8", PEN_SIM_TOPOLOGY_TORUS, 3, 512);
    expect_network("torus:7", PEN_SIM_TOPOLOGY_TORUS, 1, 7);
    expect_network("fat-tree:2;8,16;1,8;1,1", PEN_SIM_TOPOLOGY_FAT_TREE, 7,
                   128);
    expect_network("fat-tree:1;9;2;1", PEN_SIM_TOPOLOGY_FAT_TREE, 4, 9);
    expect_network("dragonfly:4,2;6,2;8,1;2", PEN_SIM_TOPOLOGY_DRAGONFLY, 7,
                   384);
}

static void other_networks_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "ring",
        "level",
        "levels:",
        "levels:1",
        "torus",
        "torus:",
        "torus:8x",
        "torus:8xx8",
        "torus:x8",
        "torus:8,8",
        "torus:0x8",
        "torus:08",
        "torus:-8",
        "torus:8x8 ",
        "torus:1000x1001",
        "torus:9999999",
        "torus:99999999999999999999",
        "torus:1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
        "fat-tree:2;8,16;1,8;1",
        "fat-tree:2;8,16;1,8;1,1,1",
        "fat-tree:2;8,16;1,8;1,1;",
        "fat-tree:2;8;16,1;8,1,1",
        "fat-tree:6;1,1,1,1,1,1;1,1,1,1,1,1;1,1,1,1,1,1",
        "fat-tree:1000000;1",
        "dragonfly:4,2;6,2;8,1",
        "dragonfly:4,2;6,2;8,1;2,1",
        "dragonfly:4;2,6;2,8;1,2",
        "dragonfly:9,2;2,2;4,1;2",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pen_sim_topology found = {.num_numbers = 99};
        struct pen_text why = PEN_TEXT_EMPTY;
        if (pen_sim_topology_read(wrong[i], &found, &why) != PEN_INVALID)
            fail_msg("'%s' is accepted", wrong[i]);
        assert_int_equal(99, found.num_numbers);
        assert_non_null(strstr(pen_text_string(&why), wrong[i]));
        pen_text_release(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_are_read),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(there_is_an_end_to_each_list),
        cmocka_unit_test(slow_ranks_are_slow),
        cmocka_unit_test(jitter_has_the_mean_and_deviation_asked_for),
        cmocka_unit_test(neighbours_are_not_alike),
        cmocka_unit_test(an_operation_takes_some_time_always),
        cmocka_unit_test(networks_are_read),
        cmocka_unit_test(other_networks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
